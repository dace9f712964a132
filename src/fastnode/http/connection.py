"""One HTTP connection: bytes in, requests to the application, answers out in order.

    data_received -> incoming -> RequestReader -> arrived requests -> application -> slots -> corked -> outgoing

* Answers leave in request order.  An answer that is not ready holds back those behind it in a queue
  of slots; with no such answer there is no queue, no task and no copy.
* Everything that one read brings is answered with one write (pipelined requests are corked).
* A connection goes on for a slice of the loop's time; then others have their turn (http/turns.py).  That holds for
  reading, for answering, and for handing over a large answer.
* Back-pressure: while the client does not take its answers, nothing more is read or answered.
* A refused client gets the reason and then a lingering close: the rest of what it sends is read
  and dropped for a moment, because closing at once would destroy the answer on its way.

:class:`HttpConnection` is the strict path.  A faster ``data_received`` can stand in front of it and
pass on what it does not know.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import deque
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, Final, Protocol, cast

from fastnode.http.allowance import Allowance, Party
from fastnode.http.guard import RequestGuard
from fastnode.http.limits import Limits
from fastnode.http.memory_budget import MemoryBudget
from fastnode.http.messages import CONTINUE, PROCESSING, BeginStream, Refusal, Request, Response, ResponseWriter
from fastnode.http.meters import Traffic
from fastnode.http.reader import ReadState, RequestReader
from fastnode.http.socket_queues import unread_bytes, unsent_bytes
from fastnode.http.turns import BUFFER_BYTES, SMALL_BUFFER_BYTES, TAKEN_BYTES_PER_NS, Turns

__all__ = ["Application", "ConnectionOwner", "HttpConnection", "Slot"]

logger = logging.getLogger("fastnode.rpc")

#: A client that takes its answers more slowly than this in the time to write is cut off.
PROGRESS_BYTES_MIN: Final = 64 * 1024
#: How long a client may go on sending after its last answer before it is cut off, and how much.
LINGER_S: Final = 2.0
LINGER_BYTES_MAX: Final = 4 * 1024 * 1024
#: Connections are kept a little longer than announced, so that a client that reuses one at the last
#: moment never meets a closing socket.
IDLE_SLACK_S: Final = 2.0
#: An answer that takes longer than this is not worked on for a client that has closed the connection.
ABSENT_AFTER_S: Final = 0.02
#: Collected answers above this size are written before the next one is made.
CORKED_BYTES_MAX: Final = 128 * 1024
#: What is read at a stretch, before the answers to it: of heads and chunks, which take long, and inside a body.
FEED_BYTES: Final = 2 * 1024
FEED_BODY_BYTES: Final = 64 * 1024
#: With as much as this that is not read yet, the system is asked for no more.  So the loop takes over what a thousand
#: uploads bring in turns, as it reads it.
INCOMING_BYTES_MAX: Final = SMALL_BUFFER_BYTES
#: What it takes, about, to put aside what comes while others have their turn, and to let a connection go.
PUTTING_ASIDE_NS: Final = 10_000
CLOSING_NS: Final = 30_000
#: What is handed over at a stretch, so that the copy is short and the rest stays in one place.
WRITTEN_BYTES: Final = 256 * 1024

_NEVER: Final = float("inf")
#: Stands for the writing where else stands what is read.
_WRITING: Final = (ReadState.ENDED, -1)


class Application(Protocol):
    """What stands behind a connection."""

    @property
    def guard(self) -> RequestGuard | None:
        """Who is admitted at all; None: everybody."""

    def on_request(
        self, method: bytes, target: bytes, headers: dict[bytes, bytes], body: bytes, *, allowance: Allowance
    ) -> Response | Coroutine[Any, Any, Response]:
        """The answer to a complete request, at once or later, made within its ``allowance``.  Must not raise."""

    def on_refusal(self, status: HTTPStatus, reason: str) -> Response:
        """The answer to a request that is not read to its end."""


class ConnectionOwner(Protocol):
    """What a connection needs of its server."""

    @property
    def limits(self) -> Limits: ...

    @property
    def application(self) -> Application: ...

    @property
    def writer(self) -> ResponseWriter: ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def budget(self) -> MemoryBudget: ...

    def register(self, connection: HttpConnection) -> None:
        """A connection has been opened."""

    def forget(self, connection: HttpConnection) -> None:
        """A connection has gone."""

    def note_unread(self, connection: HttpConnection) -> None:
        """A connection holds more than the high-water mark.  May cut off this one or others."""

    def note_read(self, connection: HttpConnection) -> None:
        """The client has caught up."""

    def keep_task(self, task: asyncio.Task[Any]) -> None:
        """Hold a reference to a running task until it is done, even if its connection goes."""


class Slot:
    """The place of one answer in the order of a connection."""

    __slots__ = ("allowance", "request", "response")

    def __init__(self, request: Request | None, response: Response | None, allowance: Allowance | None = None) -> None:
        self.request = request  # None: the answer to a refusal
        self.response = response  # None: not ready
        self.allowance = allowance  # what the request and its answer need, until the answer is handed over

    @property
    def body_bytes(self) -> int:
        return 0 if self.response is None else self.response.length


class HttpConnection(asyncio.BufferedProtocol):
    """The strict path.  Lives from ``connection_made`` to ``connection_lost``.

    The owner calls :meth:`on_deadline` when ``deadline`` has passed.
    """

    __slots__ = (
        "_buffer",
        "_corked",
        "_corked_bytes",
        "_drained_bytes",
        "_has_ended",
        "_has_turn",
        "_held_bytes",
        "_incoming",
        "_incoming_bytes",
        "_is_closing",
        "_is_draining",
        "_is_lingering",
        "_is_streaming",
        "_is_waiting",
        "_is_write_paused",
        "_limits",
        "_loop",
        "_outgoing",
        "_outgoing_bytes",
        "_owner",
        "_reader",
        "_slice_end",
        "_slots",
        "_stream",
        "_timed",
        "_traffic",
        "_transport",
        "_unfinished",
        "_unsent_bytes",
        "_unsent_taken",
        "_write_deadline",
        "_writing",
        "deadline",
        "network",
        "party",
    )

    def __init__(self, owner: ConnectionOwner, loop: asyncio.AbstractEventLoop, network: bytes | None) -> None:
        """``network`` is what the client's address counts as; None if it has none."""
        self._owner = owner
        self._loop = loop
        self._limits = owner.limits
        self._traffic = owner.traffic
        #: Its shares of the loop, the threads and the memory.
        self.party = Party(owner.turns, owner.budget, network)
        self._reader = RequestReader(owner.limits, owner.application.guard, self.party)
        # data
        self._incoming: deque[bytes | memoryview] = deque()  # not read yet
        self._incoming_bytes = 0
        self._is_waiting = False  # for its turn
        self._has_turn = False  # what is read next, it is read in its turn
        self._buffer = owner.turns.buffer
        self._slice_end = 0
        #: What ``deadline`` was set for, so that trickling bytes does not extend it.
        self._timed: tuple[ReadState, int] | None = None
        self._transport: asyncio.Transport | None = None
        # answers
        self._slots: deque[Slot] = deque()  # from the first answer that is not ready on
        self._unfinished = 0  # slots without an answer
        self._held_bytes = 0  # of the answers in slots
        self._corked: list[bytes] = []
        self._corked_bytes = 0
        self._writing: list[Allowance] = []  # of the answers corked and outgoing
        self._outgoing: deque[memoryview] = deque()  # large answers, not handed over yet
        self._outgoing_bytes = 0
        self._unsent_taken = 0  # from the memory budget, for what the client does not take
        self._stream: BeginStream | None = None  # has the rest of the connection once all this is handed over
        # state
        self._is_streaming = False  # it has
        self._is_write_paused = False
        self._is_draining = False  # the server stops: finish, then close
        self._is_lingering = False  # the last answer is out: drop what comes
        self._is_closing = False  # what is written is still being sent, nothing else happens
        self._has_ended = False  # the client sends no more
        self._drained_bytes = 0
        # time
        self._unsent_bytes = 0  # when the writing was looked at last
        self._write_deadline = _NEVER  # when it will be looked at next
        #: Loop time at which :meth:`on_deadline` is due.
        self.deadline = _NEVER
        #: What the client's address counts as; None if it has none.
        self.network = network

    # ---- transport -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport and do not inherit from it.
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes_max)
        self._owner.turns.groups.join(self.party.share, self.network)
        self._owner.register(self)
        connection_socket = transport.get_extra_info("socket")
        if connection_socket is not None and connection_socket.family in (socket.AF_INET, socket.AF_INET6):
            connection_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.forget(self)
        self._owner.turns.time.add(self.party.share, CLOSING_NS)
        self._transport = None
        self.party.leave()
        self._reader.close()
        for slot in self._slots:
            if slot.response is not None and slot.allowance is not None:
                slot.allowance.give_back()
        self._slots.clear()
        self._held_bytes = 0
        self._drop_incoming()
        self._corked.clear()
        self._outgoing.clear()
        self._outgoing_bytes = 0
        self._finish_writing()
        self._note_unsent(0)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Where the next data goes: into little while others wait, unless this connection has its turn."""
        turns = self._owner.turns
        self._buffer = turns.small_buffer if turns.time.is_crowded and not self._has_turn else turns.buffer
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._has_turn = False
        self.data_received(bytes(memoryview(self._buffer)[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """What has been read, in a piece of its own."""
        if self._is_lingering:
            self._traffic.received_bytes += len(data)
            self._drained_bytes += len(data)
            if self._drained_bytes > LINGER_BYTES_MAX:
                self._abort()
            elif len(data) >= INCOMING_BYTES_MAX:
                self._linger_in_turn(len(data))
            return
        self._add_incoming(data)
        if self._is_waiting:
            self._owner.turns.time.add(self.party.share, PUTTING_ASIDE_NS)
            if self._is_full():
                self._pause_reading()
            return
        self._pump()

    def _linger_in_turn(self, size: int) -> None:
        """Drop more when it is this connection's turn."""
        turns = self._owner.turns
        turns.time.add(self.party.share, size // TAKEN_BYTES_PER_NS)
        self._pause_reading()
        if not self._is_waiting:
            self._is_waiting = True
            turns.wait(self.party.share, self._resume_lingering)

    def _resume_lingering(self) -> None:
        self._is_waiting = False
        if self._transport is not None and not self._transport.is_closing():
            self._resume_reading()

    def _add_incoming(self, data: bytes | memoryview) -> None:
        self._incoming.append(data)
        self._incoming_bytes += len(data)
        self._owner.budget.take_unasked(len(data))

    def _drop_incoming(self) -> None:
        self._incoming.clear()
        self._owner.budget.give_back(self._incoming_bytes)
        self._incoming_bytes = 0

    def _is_full(self) -> bool:
        """Whether so much waits to be read, here or everywhere, that the system is asked for no more."""
        return self._incoming_bytes >= INCOMING_BYTES_MAX or self._owner.budget.excess_bytes > 0

    def _pause_reading(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        """To be called in the connection's turn: it may read as much as when nobody waits."""
        if self._transport is not None and not self._transport.is_reading():
            self._note_turn()
            self._transport.resume_reading()

    def _note_turn(self) -> None:
        """What is read next belongs to this turn, and is charged now."""
        self._has_turn = True
        self._owner.turns.time.add(self.party.share, BUFFER_BYTES // TAKEN_BYTES_PER_NS)

    def eof_received(self) -> bool:
        """The client sends no more; True keeps the connection for the answers it still waits for."""
        self._has_ended = True
        if self._is_lingering or not self._is_busy():
            return False
        self._pump()
        if self._slots:
            self._loop.call_later(ABSENT_AFTER_S, self._ask_whether_present, ABSENT_AFTER_S)
        return True

    def _ask_whether_present(self, waited_s: float) -> None:
        """A client that has only ended its side looks like one that has closed the connection, until something is sent
        to it: an interim answer.  Where the client does not read, the next write fails, and nothing more is done."""
        first = self._slots[0] if self._slots else None
        if self._transport is None or first is None or first.request is None or self._is_write_paused:
            return
        if not first.request.is_http_1_0 and not self._corked and not self._outgoing:
            self._transport.write(PROCESSING)
            self._loop.call_later(waited_s, self._ask_whether_present, 2 * waited_s)

    def pause_writing(self) -> None:
        self._is_write_paused = True
        if self._transport is not None:
            self._note_unsent(self._transport.get_write_buffer_size())
        self._owner.note_unread(self)

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._note_unsent(0)
        if not self._outgoing:
            self._owner.note_read(self)
        self._pump()

    def _note_unsent(self, size: int) -> None:
        """Charge the memory budget for what the client has not taken."""
        more = size - self._unsent_taken
        self._unsent_taken = size
        if more > 0:
            self._owner.budget.take_unasked(more)
        elif more < 0:
            self._owner.budget.give_back(-more)

    @property
    def unread_bytes(self) -> int:
        """Bytes of answers that this connection holds; what the system has taken over does not count."""
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return waiting + self._held_bytes + self._outgoing_bytes

    # ---- requests to answers ---------------------------------------------------------------

    def _pump(self) -> None:
        """Go on if there is anything to go on with, now or when it is this connection's turn."""
        if self._is_waiting:
            self._uncork()
        elif self._owner.turns.time.is_crowded and (self._incoming or self._reader.arrived or self._outgoing):
            self._wait_for_turn()
        else:
            self._take_turn()

    def _wait_for_turn(self) -> None:
        self._uncork()
        if not self._is_waiting:
            self._is_waiting = True
            self.deadline = _NEVER  # the server's turn
            self._timed = None
            if self._is_full():
                self._pause_reading()
            self._owner.turns.wait(self.party.share, self._on_turn)

    def _on_turn(self) -> None:
        self._is_waiting = False
        self._take_turn()

    def _take_turn(self) -> None:
        """Go on for a slice."""
        started = time.monotonic_ns()
        loop_time = self._owner.turns.time
        self._slice_end = started + loop_time.slice_ns
        self._go_on()
        loop_time.charge(self.party.share, time.monotonic_ns() - started)

    def _is_slice_over(self) -> bool:
        return time.monotonic_ns() > self._slice_end

    def _go_on(self) -> None:
        """Read and answer what can be answered, write it, and decide what the connection waits for."""
        if self._transport is None or self._is_lingering or self._is_closing or self._is_streaming:
            return
        self._release_answers()
        if self._outgoing:
            self._hand_over()
        reader = self._reader
        while self._answer_arrived() and self._incoming and not self._outgoing:
            if self._is_slice_over():
                break
            if reader.state is ReadState.ENDED:
                self._traffic.received_bytes += self._incoming_bytes
                self._drop_incoming()
                break
            self._feed()
        if reader.awaits_continue and not self._slots and not reader.arrived and not self._outgoing:
            self._corked.append(CONTINUE)
            reader.awaits_continue = False
        self._uncork()
        self._settle()

    def _answer_arrived(self) -> bool:
        """Answer the requests that are there; whether all of them have been taken."""
        arrived = self._reader.arrived
        while arrived and self._may_go_on():
            self._take(arrived.popleft())
            if self._corked_bytes > CORKED_BYTES_MAX:
                self._uncork()
            if arrived and self._is_slice_over():
                break
        return not arrived

    def _feed(self) -> None:
        """Read a piece of what has come."""
        piece = self._incoming.popleft()
        is_plain = self._reader.state is ReadState.BODY and not self._reader.is_chunked
        size = FEED_BODY_BYTES if is_plain else FEED_BYTES
        if len(piece) > size:
            piece = memoryview(piece)
            self._incoming.appendleft(piece[size:])
            piece = piece[:size]
        self._incoming_bytes -= len(piece)
        self._owner.budget.give_back(len(piece))
        self._traffic.received_bytes += len(piece)
        self._reader.feed(piece)

    def _may_go_on(self) -> bool:
        """Whether the next request may be answered: neither unsent nor held back answers are too many."""
        limits = self._limits
        return (
            not self._is_write_paused
            and not self._outgoing
            and self._unfinished < limits.pipelined_calls_max
            and self._held_bytes <= limits.write_buffer_bytes_max
            and self._stream is None
        )

    def _take(self, item: Request | Refusal) -> None:
        if isinstance(item, Refusal):
            self._place(Slot(None, self._refuse(item)))
            return
        allowance = item.allowance or Allowance(self.party)
        answer = self._owner.application.on_request(
            item.method, item.target, item.headers, item.body, allowance=allowance
        )
        self._enter(item, answer, allowance)

    def _refuse(self, refusal: Refusal) -> Response:
        return self._owner.application.on_refusal(refusal.status, refusal.reason)

    def _enter(self, request: Request, answer: Response | Coroutine[Any, Any, Response], allowance: Allowance) -> None:
        """Put an answer, or the place of one that is not ready, behind those before it."""
        if isinstance(answer, Response):
            self._place(Slot(request, answer, allowance))
            return
        slot = Slot(request, None, allowance)
        self._slots.append(slot)
        self._unfinished += 1
        task = self._loop.create_task(answer)
        self._owner.keep_task(task)
        task.add_done_callback(lambda done: self._on_answer(slot, done))

    def _place(self, slot: Slot) -> None:
        if self._slots:
            self._slots.append(slot)
            self._hold(slot)
        else:
            self._cork(slot)

    def _hold(self, slot: Slot) -> None:
        """Count an answer that has to wait for one before it."""
        self._held_bytes += slot.body_bytes
        if self._held_bytes > self._limits.write_buffer_bytes_max:
            self._owner.note_unread(self)

    def _on_answer(self, slot: Slot, task: asyncio.Task[Response]) -> None:
        self._unfinished -= 1
        if task.cancelled() or (error := task.exception()) is not None:
            if not task.cancelled():
                logger.error("answering %s failed", slot.request and slot.request.target, exc_info=error)
            origin = b"" if slot.request is None else slot.request.headers.get(b"origin", b"")
            reason = "the request could not be answered"
            slot.response = self._refuse(Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, reason, origin))
        else:
            slot.response = task.result()
        if self._transport is None:
            if slot.allowance is not None:
                slot.allowance.give_back()
            return
        self._hold(slot)
        if self._owner.turns.time.is_crowded:
            self._wait_for_turn()
            return
        self._release_answers()
        self._pump()

    def _release_answers(self) -> None:
        """Collect the answers that are ready and wait for none before them."""
        if not self._slots:
            return
        while self._slots and self._slots[0].response is not None:
            first = self._slots.popleft()
            self._held_bytes -= first.body_bytes
            self._cork(first)
        if not self._slots and not self._is_write_paused:
            self._owner.note_read(self)

    def _cork(self, slot: Slot) -> None:
        """Collect a finished answer for the next write."""
        response = slot.response
        assert response is not None
        request = slot.request
        keep_alive = request is not None and request.keep_alive and not self._closes_after_this()
        if response.stream is not None:
            self._stream, keep_alive = response.stream, False
        omit_body = request is not None and request.method == b"HEAD"
        chunks = self._owner.writer.render(response, keep_alive=keep_alive, omit_body=omit_body)
        self._corked += chunks
        self._corked_bytes += sum(map(len, chunks))
        if slot.allowance is not None and slot.allowance.taken_bytes:
            self._writing.append(slot.allowance)

    def _closes_after_this(self) -> bool:
        """Whether the answer about to be rendered is the last one of a server that stops."""
        return self._is_draining and not self._slots and not self._reader.arrived and self._is_between_requests()

    def _uncork(self) -> None:
        """Hand over what is corked: all of it, or of a large answer a part."""
        if not self._corked or self._transport is None:
            return
        size = self._corked_bytes
        self._traffic.sent_bytes += size
        corked, self._corked, self._corked_bytes = self._corked, [], 0
        if size > WRITTEN_BYTES or self._outgoing:
            self._outgoing.extend(map(memoryview, corked))
            self._outgoing_bytes += size
            self._hand_over()
            return
        self._unsent_bytes += size
        if len(corked) == 1:
            self._transport.write(corked[0])
        else:
            self._transport.writelines(corked)
        self._finish_writing()

    def _hand_over(self) -> None:
        """Hand over a part of what is outgoing; the next one when the client has taken it and others had their turn."""
        assert self._transport is not None
        if self._is_write_paused or not self._outgoing:
            return
        pieces: list[memoryview] = []
        size = 0
        while self._outgoing and size < WRITTEN_BYTES:
            piece = self._outgoing.popleft()
            if len(piece) > WRITTEN_BYTES - size:
                self._outgoing.appendleft(piece[WRITTEN_BYTES - size :])
                piece = piece[: WRITTEN_BYTES - size]
            pieces.append(piece)
            size += len(piece)
        self._outgoing_bytes -= size
        self._unsent_bytes += size
        self._transport.writelines(pieces)
        if not self._outgoing:
            self._finish_writing()
            if not self._is_write_paused:
                self._owner.note_read(self)

    def _finish_writing(self) -> None:
        """What the answers handed over have needed is given back."""
        for allowance in self._writing:
            allowance.give_back()
        self._writing.clear()

    # ---- between reads ---------------------------------------------------------------------

    def _is_between_requests(self) -> bool:
        return self._reader.state in (ReadState.IDLE, ReadState.ENDED)

    def _is_busy(self) -> bool:
        return bool(self._slots or self._reader.arrived or self._corked or self._incoming or self._outgoing)

    def _settle(self) -> None:
        """After a write: close, linger, or wait for more."""
        transport = self._transport
        if transport is None:
            return
        if self._stream is not None and not self._corked and not self._outgoing:
            self._begin_stream(self._stream, transport)
            return
        if not self._is_busy():
            if self._reader.state is ReadState.ENDED:
                self._linger()
                return
            if self._has_ended or (self._is_draining and self._is_between_requests()):
                self._close()
                return
        has_more = bool(self._reader.arrived or self._incoming)
        if (self._may_go_on() and has_more) or (self._outgoing and not self._is_write_paused):
            self._wait_for_turn()
            return
        if has_more or self._is_write_paused or self._outgoing:
            self._pause_reading()
        else:
            self._resume_reading()
        self._set_deadline()

    def _begin_stream(self, begin: BeginStream, transport: asyncio.Transport) -> None:
        """What is left here is to know of the end; requests behind the one that is answered are not read."""
        self._stream, self._is_streaming = None, True
        self._reader.close()
        self._drop_incoming()
        self._resume_reading()
        self.deadline = _NEVER
        begin(transport, self)
        if self._is_draining:
            self._close()

    def _linger(self) -> None:
        transport = self._transport
        assert transport is not None
        if self._has_ended or self._is_draining:
            self._close()
            return
        self._is_lingering = True
        self._is_write_paused = False
        self._resume_reading()
        if transport.can_write_eof():
            transport.write_eof()
        self._watch_writing()
        self.deadline = self._loop.time() + LINGER_S

    def _close(self) -> None:
        """Close when what is written has been sent."""
        assert self._transport is not None
        self._is_closing = True
        self._transport.close()
        self._watch_writing()

    # ---- time ------------------------------------------------------------------------------

    def _set_deadline(self) -> None:
        limits = self._limits
        state = self._reader.state
        if self._is_write_paused:
            if self._timed is not _WRITING:
                self._timed = _WRITING
                self._watch_writing()
            return
        if self._is_busy():
            self.deadline = _NEVER  # the server's turn
            self._timed = None
            return
        awaited = (state, self._reader.begun_count)
        if awaited == self._timed:
            return
        self._timed = awaited
        if state is ReadState.IDLE:
            seconds = limits.idle_time_s + IDLE_SLACK_S
        elif state is ReadState.HEAD:
            seconds = limits.head_time_s
        elif state is ReadState.BODY:
            seconds = limits.body_time_s
        else:
            seconds = 0.0
        self.deadline = self._loop.time() + seconds

    def on_deadline(self) -> None:
        """Called by the owner's sweep when ``deadline`` has passed."""
        transport = self._transport
        if transport is None:
            return
        if self._is_lingering and unsent_bytes(transport) == 0:
            self._abort()  # it has its answer and a moment to go
        elif self._is_lingering or self._is_closing or self._is_write_paused:
            self._check_writing()
        elif self._reader.state is ReadState.IDLE:
            if unread_bytes(transport) == 0:
                self._close()
            # Otherwise a request lies in the system already: the loop was held up, not the client.
        else:
            what = "headers" if self._reader.state is ReadState.HEAD else "body"
            self._reader.refuse(HTTPStatus.REQUEST_TIMEOUT, f"the request's {what} took too long")
            self._pump()

    def _watch_writing(self) -> None:
        """Begin a period in which the client has to take something."""
        assert self._transport is not None
        self._unsent_bytes = unsent_bytes(self._transport)
        self._write_deadline = self.deadline = self._loop.time() + self._limits.write_time_s

    def _check_writing(self) -> None:
        """Cut off a client that has hardly taken anything since the period began."""
        assert self._transport is not None
        if self._loop.time() >= self._write_deadline:
            taken = self._unsent_bytes - unsent_bytes(self._transport)
            if taken < PROGRESS_BYTES_MIN:
                self._abort()
                return
            self._watch_writing()
        if self._is_lingering:
            self.deadline = self._loop.time() + LINGER_S

    def drain(self) -> None:
        """The server stops: answer what has begun to arrive, then close."""
        self._is_draining = True
        if self._transport is None:
            return
        if self._is_closing:
            return
        if self._is_lingering or (not self._is_busy() and self._is_between_requests()):
            self._close()

    def abort(self) -> None:
        """Cut the connection off."""
        self._abort()

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
