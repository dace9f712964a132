"""The transport of one HTTP connection: what is read goes to its stream, and what that has answered is written.

    transport -> receiver (kernel) -> at rest: scanner -> whole answers -> transport
                                   -> otherwise: HttpStream (http/stream.py) -> transport

* A scanner, if there is one, answers what nearly all clients send while the connection is at rest: the receiver asks it
  without Python, and what it does not answer goes to the stream as it came.
* Everything that one read brings is answered with one write.
* A connection goes on for a slice of the loop's time; then others have their turn (http/turns.py).  That holds for
  reading, for answering, and for handing over a large answer.
* Back-pressure: while the client does not take its answers, nothing more is read.
* A client that is silent for too long, or takes its answers too slowly, is told so or cut off.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final, cast

from fastnode.http.allowance import Party
from fastnode.http.messages import PROCESSING, EndStream, Response
from fastnode.http.patience import Patience
from fastnode.http.phases import Event, Phase
from fastnode.http.protocols import Application, ConnectionOwner, Scanner
from fastnode.http.reader import ReadState
from fastnode.http.socket_queues import read_now, unread_bytes, unsent_bytes
from fastnode.http.stream import CORKED_BYTES_MAX, HttpStream, Next, Slot
from fastnode.http.turns import BUFFER_BYTES, SMALL_BUFFER_BYTES, TAKEN_NS_PER_BYTE
from fastnode.kernels import clock, fast_connection, payer

__all__ = ["HttpConnection"]

logger = logging.getLogger("fastnode.rpc")

#: An answer that takes longer than this is not worked on for a client that has closed the connection.
ABSENT_AFTER_S: Final = 0.005
#: With as much as this that is not read yet, the system is asked for no more.  So the loop takes over what a thousand
#: uploads bring in turns, as it reads it.
INCOMING_BYTES_MAX: Final = SMALL_BUFFER_BYTES
#: Rough cost of putting aside data that comes while others have their turn, and of letting a connection go.
PUTTING_ASIDE_NS: Final = 10_000
CLOSING_NS: Final = 30_000


class HttpConnection(asyncio.BufferedProtocol):
    """Lives from ``connection_made`` to ``connection_lost``.

    The owner calls :meth:`on_deadline` when the deadline of ``patience`` has passed.  ``payer`` pays for what the
    scanner answers.
    """

    __slots__ = (
        "_asking", "_end_stream", "_is_behind", "_is_waiting", "_loop", "_owner", "_receiver", "_scanner",
        "_seen_begun", "_transport", "_unsent_taken", "buffer_updated", "data_received", "get_buffer", "network",
        "patience", "stream",
    )  # fmt: skip

    data_received: Callable[[bytes], None]
    buffer_updated: Callable[[int], None]  # type: ignore[assignment]
    get_buffer: Callable[[int], bytearray]  # type: ignore[assignment]

    def __init__(
        self,
        owner: ConnectionOwner,
        loop: asyncio.AbstractEventLoop,
        network: bytes | None,
        *,
        application: Application | None = None,
        scanner: Scanner | None = None,
        payer: payer.Payer | None = None,
    ) -> None:
        """``network`` is what the client's address counts as; None if it has none.  ``application``: by default the
        owner's."""
        self._owner = owner
        self._loop = loop
        turns = owner.turns
        self.network = network
        party = Party(turns, owner.budget, network)
        #: All that is known without the transport.
        self.stream = HttpStream(
            owner.limits, application or owner.application, owner.writer, owner.traffic, party, self._start
        )
        self._scanner = scanner
        self._receiver = fast_connection.Receiver(
            None if scanner is None else scanner.requests,
            owner.traffic,
            CORKED_BYTES_MAX,
            turns.time,
            party.share,
            *turns.buffers,
        )
        self._receiver.payer = payer
        self.data_received = self._receiver.receive
        self.get_buffer = self._receiver.get_buffer
        self.buffer_updated = self._receiver.buffer_updated
        self._transport: asyncio.Transport | None = None
        self._is_waiting = False  # for its turn
        self._is_behind = False  # the owner has been told that it holds answers
        self._asking: asyncio.TimerHandle | None = None  # whether the client is there
        self._end_stream: EndStream | None = None
        self._unsent_taken = 0  # from the memory budget, for what the client does not take
        self._seen_begun = 0  # of what the receiver has answered
        #: Deadlines for the client.
        self.patience = Patience(owner.limits)

    # ---- transport -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport and do not inherit from it.
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        connection_socket = transport.get_extra_info("socket")
        self._receiver.open(self, transport, -1 if connection_socket is None else connection_socket.fileno())
        transport.set_write_buffer_limits(high=self._owner.limits.write_buffer_bytes_max)
        self._owner.turns.groups.join(self.stream.party.share, self.network)
        if connection_socket is not None and connection_socket.family in (socket.AF_INET, socket.AF_INET6):
            connection_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._set_deadline()
        self._owner.register(self)  # last: it may end the connection, or move it to another server

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver.close()
        self._owner.forget(self)
        self._add_use(CLOSING_NS)
        self._transport = self._end_stream = None
        self.stream.party.leave()
        self.stream.close()
        self._note_unsent(0)
        if self._asking is not None:
            self._asking.cancel()  # or this connection, and the memory around it, would stay until it is due

    def receive(self, data: bytes) -> None:
        """Take data that the receiver does not answer: the connection is not known to be at rest, or others wait."""
        self._wake()
        stream = self.stream
        if stream.phase is Phase.LINGERING:
            self._drop(len(data))
            return
        is_crowded = self._owner.turns.time.is_crowded
        if not is_crowded and self._may_scan():
            self._receiver.is_resting = True
            self._receiver.receive(data)
            return
        stream.receive(data)
        if self._is_waiting or is_crowded:
            self._add_use(PUTTING_ASIDE_NS)
            self._wait_for_turn()
        else:
            self._take_turn()

    def receive_rest(self, data: bytes, answers: bytes | list[bytes] | None, view: Any, started_ns: int) -> None:
        """A burst that is not answered to its end; ``answers`` are those that the receiver's kernel has given."""
        self._wake()
        scanner, stream, loop_time = self._scanner, self.stream, self._owner.turns.time
        assert scanner is not None
        requests, until_ns = scanner.requests, started_ns + loop_time.slice_ns
        position = scanner.answer(stream, data, 0, answers, view, until_ns)
        while stream.corked_bytes > CORKED_BYTES_MAX:
            self._write()
            if position == len(data) or not stream.is_at_rest() or clock.now_ns() > until_ns:
                break
            answers = requests.answer(data, position, CORKED_BYTES_MAX - stream.corked_bytes, view, until_ns)
            position = scanner.answer(stream, data, position, answers, view, until_ns)
        if position < len(data):
            stream.receive(data[position:] if position else data)
        if position and clock.now_ns() > until_ns:  # the rest may be the scanner's too
            self._uncork()
            self.settle()
        else:
            self._go_on(until_ns)
        loop_time.charge(stream.party.share, clock.now_ns() - started_ns)

    def _may_scan(self) -> bool:
        """True if the receiver may answer the next data."""
        return (
            self._scanner is not None
            and self._scanner.requests.is_open
            and not self._is_waiting
            and self._transport is not None
            and self.stream.is_at_rest()
        )

    def _wake(self) -> None:
        """The receiver answers nothing until it is known again that the connection is at rest."""
        receiver = self._receiver
        receiver.wake()
        if receiver.begun != self._seen_begun:
            self._seen_begun = receiver.begun
            at = self._loop.time() - self._owner.turns.elapsed_s(receiver.active_ns)
            self.patience.note_answered(self._begun_count(), at)

    def _drop(self, size: int) -> None:
        """Drop data after the last answer; after much of it, take more in this connection's turn."""
        if not self.stream.drop(size):
            self.abort()
        elif size >= INCOMING_BYTES_MAX:
            self._add_use(size * TAKEN_NS_PER_BYTE)
            self._pause_reading()
            if not self._is_waiting:
                self._is_waiting = True
                self._owner.turns.wait(self.stream.party.share, self._on_turn)

    def _add_use(self, elapsed_ns: int) -> None:
        self._owner.turns.time.add(self.stream.party.share, elapsed_ns)

    def _is_full(self) -> bool:
        """True if so much waits to be read, here or everywhere, that the system is asked for no more."""
        return self.stream.incoming_bytes >= INCOMING_BYTES_MAX or self._owner.budget.excess_bytes > 0

    def _pause_reading(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        """To be called in the connection's turn: what is read next belongs to it, as if no other waited, and is
        charged now."""
        transport = self._transport
        if transport is not None and not transport.is_reading() and not transport.is_closing():
            self._receiver.has_turn = True
            self._add_use(BUFFER_BYTES * TAKEN_NS_PER_BYTE)
            transport.resume_reading()

    def _read_on(self) -> bytes:
        """In the connection's turn: what the system has beyond what waited."""
        if self._transport is None or self._transport.is_reading():
            return b""
        more = read_now(self._transport, BUFFER_BYTES)
        self._add_use(len(more) * TAKEN_NS_PER_BYTE)
        self._transport.resume_reading()
        return more

    def eof_received(self) -> bool:
        """The client sends no more; True keeps the connection for the answers it still waits for."""
        self._wake()
        stream = self.stream
        stream.has_ended = True
        if stream.phase is Phase.LINGERING or not stream.is_busy():
            return False
        self._pump()
        self._asking = self._loop.call_later(ABSENT_AFTER_S, self._ask_whether_present, ABSENT_AFTER_S)
        return True

    def _ask_whether_present(self, waited_s: float) -> None:
        """A client that has only ended its side looks like one that has closed the connection, until something is sent
        to it: an interim answer.  Where the client does not read, the next write fails, and nothing more is done."""
        if self._transport is not None and self.stream.may_interject():
            self._transport.write(PROCESSING)
            self._asking = self._loop.call_later(waited_s, self._ask_whether_present, 2 * waited_s)

    def pause_writing(self) -> None:
        self._wake()
        self.stream.is_paused = True
        if self._transport is not None:
            self._note_unsent(self._transport.get_write_buffer_size())
        self._note_unread()

    def resume_writing(self) -> None:
        self.stream.is_paused = False
        self._note_unsent(0)
        self._note_read()
        self._pump()

    # ---- answers ---------------------------------------------------------------------------

    def _start(self, slot: Slot, answer: Coroutine[Any, Any, Response]) -> None:
        task = self._loop.create_task(answer)
        self._owner.keep_task(task)
        task.add_done_callback(lambda done: self._on_answer(slot, done))

    def _on_answer(self, slot: Slot, task: asyncio.Task[Response]) -> None:
        response = None
        if not task.cancelled():
            error = task.exception()
            if error is None:
                response = task.result()
            else:
                logger.error("answering a request failed", exc_info=error)  # its target may have a key in it
        self.stream.finish(slot, response)
        if self._transport is None:
            return
        if self.stream.held_bytes > self._owner.limits.write_buffer_bytes_max:
            self._note_unread()
        if self._owner.turns.time.is_crowded:
            self._wait_for_turn()
        else:
            self._pump()

    def _pump(self) -> None:
        """Go on if there is anything to go on with, now or when it is this connection's turn."""
        stream = self.stream
        if self._is_waiting:
            stream.release()
            self._uncork()
        elif self._owner.turns.time.is_crowded and (stream.can_advance() or stream.outgoing_bytes):
            self._wait_for_turn()
        else:
            self._take_turn()

    def _wait_for_turn(self) -> None:
        self._uncork()
        if self._is_full():
            self._pause_reading()
        if not self._is_waiting:
            self._is_waiting = True
            self.patience.end()  # the server's turn
            self._owner.turns.wait(self.stream.party.share, self._on_turn)

    def _on_turn(self) -> None:
        self._is_waiting = False
        if self.stream.phase is Phase.LINGERING:
            self._resume_reading()
        # Fast path: only new data is there, which may begin with what the scanner answers.
        elif self.stream.incoming_bytes and self._may_scan():
            data = self.stream.take_incoming()
            data += self._read_on()  # a request may have been cut where it was too much to wait with
            self._receiver.is_resting = True
            self._receiver.receive(data)
        else:
            self._take_turn()

    def _take_turn(self) -> None:
        """Go on for a slice."""
        started = clock.now_ns()
        loop_time = self._owner.turns.time
        self._go_on(started + loop_time.slice_ns)
        loop_time.charge(self.stream.party.share, clock.now_ns() - started)

    def _go_on(self, until_ns: int) -> None:
        """Read and answer what can be answered, a step at least, and write it."""
        stream = self.stream
        if stream.phase is not Phase.OPEN:
            return
        if stream.outgoing_bytes:
            self._write()
        stream.advance(until_ns)
        while stream.has_collected():
            self._write()
            if not stream.can_advance() or clock.now_ns() > until_ns:
                break
            stream.advance(until_ns)
        self.settle()

    def _uncork(self) -> None:
        if self.stream.has_collected():
            self._write()

    def _write(self) -> None:
        transport, stream = self._transport, self.stream
        if transport is None:
            return
        pieces = stream.take_output()
        if len(pieces) == 1:
            transport.write(pieces[0])
        elif pieces:
            transport.writelines(pieces)
        stream.note_written()

    # ---- what the client does not take -------------------------------------------------------

    def _note_unread(self) -> None:
        self._is_behind = True
        self._owner.note_unread(self)

    def _note_read(self) -> None:
        stream = self.stream
        is_held = stream.held_bytes > self._owner.limits.write_buffer_bytes_max
        if self._is_behind and not (stream.is_paused or stream.outgoing_bytes or is_held):
            self._is_behind = False
            self._owner.note_read(self)

    def _note_unsent(self, size: int) -> None:
        """Charge the memory budget for what the client has not taken."""
        more = size - self._unsent_taken
        self._unsent_taken = size
        if more > 0:
            self._owner.budget.take_unasked(more, self.network)
        elif more < 0:
            self._owner.budget.give_back(-more, self.network)

    @property
    def unread_bytes(self) -> int:
        """Bytes of answers that this connection holds; what the system has taken over does not count."""
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return waiting + self.stream.held_bytes + self.stream.outgoing_bytes

    # ---- between reads ---------------------------------------------------------------------

    def settle(self) -> None:
        """After a write: close, linger, or wait for more."""
        transport, stream = self._transport, self.stream
        if transport is None or stream.phase is not Phase.OPEN:
            return
        if stream.held_bytes > self._owner.limits.write_buffer_bytes_max:
            self._note_unread()
        elif self._is_behind:
            self._note_read()
        step = stream.settle()
        if step is Next.DATA:
            self._resume_reading()
            self._set_deadline()
        elif step is Next.CLIENT:
            self._pause_reading()
            self._set_deadline()
        elif step is Next.TURN:
            self._wait_for_turn()
        elif step is Next.STREAM:
            self._begin_stream(transport)
        elif step is Next.LINGER:
            self._resume_reading()
            if transport.can_write_eof():
                transport.write_eof()
            self._watch_writing()
            self.patience.linger(self._loop.time())
        else:
            self._end(transport)

    def _begin_stream(self, transport: asyncio.Transport) -> None:
        """Hand the transport over; only its end is heard here."""
        begin, self.stream.begin = self.stream.begin, None
        assert begin is not None
        self._resume_reading()
        self.patience.end()
        early, self.stream.early = self.stream.early, b""
        self._end_stream = begin(transport, self, early)
        if self.stream.is_draining:
            self._close()

    def _close(self) -> None:
        """Close when written data has been sent."""
        assert self._transport is not None
        if self._end_stream is not None:
            self._end_stream()
        self.stream.move(Event.CLOSE)
        self._end(self._transport)

    def _end(self, transport: asyncio.Transport) -> None:
        transport.close()
        self._watch_writing()

    def drain(self) -> None:
        """The server stops: answer what has begun to arrive, then close."""
        self._wake()
        stream = self.stream
        stream.is_draining = True
        if self._transport is None or stream.phase is Phase.CLOSING:
            return
        has_begun = stream.is_busy() or not stream.is_between_requests() or unread_bytes(self._transport) > 0
        if stream.phase is Phase.LINGERING or not has_begun:
            self._close()

    def give_up(self) -> asyncio.Transport | None:
        """End this connection without its transport, which is returned for another one; None if anything is under way.

        A request that lies in the system comes to the other one.
        """
        self._wake()
        transport, stream = self._transport, self.stream
        if transport is None or transport.is_closing() or transport.get_write_buffer_size():
            return None
        if self._is_waiting or stream.is_busy() or not stream.is_at_rest():
            return None
        self.connection_lost(None)
        return transport

    def abort(self) -> None:
        """Cut the connection off."""
        self._wake()
        if self._transport is not None:
            self._transport.abort()

    # ---- time ------------------------------------------------------------------------------

    def _begun_count(self) -> int:
        """Requests whose first byte has come."""
        return self.stream.reader.begun_count + self._receiver.begun

    def _set_deadline(self) -> None:
        stream, patience = self.stream, self.patience
        if stream.is_paused:
            if not patience.is_for_taking():
                self._watch_writing()
        elif stream.is_busy():
            patience.end()  # the server's turn
        else:
            patience.wait_for_data(stream.reader.state, self._begun_count(), self._loop.time)

    def on_deadline(self) -> None:
        """Called by the owner's sweep when the deadline of ``patience`` has passed."""
        self._wake()
        transport, stream, now = self._transport, self.stream, self._loop.time()
        if transport is None or self.patience.deadline > now:  # something came since it was set
            return
        state, is_lingering = stream.reader.state, stream.phase is Phase.LINGERING
        if is_lingering and unsent_bytes(transport) == 0:
            self.abort()  # it has its answer and a moment to go
        elif is_lingering or stream.phase is Phase.CLOSING or stream.is_paused:
            if not self.patience.is_taking(now, unsent_bytes(transport), self._written_bytes()):
                self.abort()
            elif is_lingering:
                self.patience.linger(now)
        elif state is ReadState.IDLE:
            if unread_bytes(transport) == 0:
                self._close()
            # Otherwise a request lies in the system already: the loop was held up, not the client.
        else:
            what = "headers" if state is ReadState.HEAD else "body"
            stream.refuse(HTTPStatus.REQUEST_TIMEOUT, f"the request's {what} took too long")
            self._pump()

    def _written_bytes(self) -> int:
        return self.stream.written_bytes + self._receiver.written_bytes

    def _watch_writing(self) -> None:
        assert self._transport is not None
        self.patience.wait_for_taking(self._loop.time(), unsent_bytes(self._transport), self._written_bytes())
