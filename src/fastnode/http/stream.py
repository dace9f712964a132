"""One HTTP/1.1 connection without its socket: bytes in, requests to the application, answers out in order.

    receive -> incoming -> RequestReader -> arrived requests -> application -> slots -> corked -> take_output

* Answers leave in request order.  An answer that is not ready holds back those behind it in a queue
  of slots; with no such answer there is no queue, no task and no copy.
* What :meth:`HttpStream.advance` answers is collected (pipelined requests are corked) until it is taken.
* While the client does not take its answers, nothing more is answered.
* After a refusal, and after a request that closes the connection, nothing more is read; the rest of what the client
  sends is dropped for a moment, because closing at once would destroy the answer on its way.

The owner of the transport calls :meth:`HttpStream.advance`, writes what :meth:`HttpStream.take_output` gives, and does
what :meth:`HttpStream.settle` says.  Data, answers that are ready, and whether the client takes them come from outside.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

from fastnode.http.allowance import Allowance, Party
from fastnode.http.limits import Limits
from fastnode.http.messages import CONTINUE, BeginStream, Refusal, Request, Response, ResponseWriter
from fastnode.http.meters import Traffic
from fastnode.http.phases import Event, Phase, after
from fastnode.http.protocols import Application
from fastnode.http.reader import ReadState, RequestReader
from fastnode.kernels import clock

__all__ = ["CORKED_BYTES_MAX", "WRITTEN_BYTES", "HttpStream", "Next", "Slot"]

#: Bytes that a client may send after its last answer before it is cut off.
LINGER_BYTES_MAX: Final = 4 * 1024 * 1024
#: Collected answers above this size are written before the next one is made.
CORKED_BYTES_MAX: Final = 128 * 1024
#: Bytes that are handed over at a stretch, so that the copy is short and the rest stays in one place.
WRITTEN_BYTES: Final = 256 * 1024
#: Bytes that are read at a stretch, before their answers: of heads and chunks, which take long, and inside a body.
FEED_BYTES: Final = 2 * 1024
FEED_BODY_BYTES: Final = 64 * 1024


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


#: ``start(slot, answer)``: work on an answer, whose end :meth:`HttpStream.finish` is told.
Start = Callable[[Slot, Coroutine[Any, Any, Response]], None]


class Next(Enum):
    """The next step of a connection: an event to wait for, or something to do with its transport."""

    DATA = "read on"
    CLIENT = "read no more until answers have been taken, or are there"
    TURN = "go on after others"
    STREAM = "hand the transport over"
    LINGER = "end the sending side, and close in a moment"
    CLOSE = "close when what is written has been sent"


class HttpStream:
    """``start`` has answers made that are not ready at once; ``party`` is charged for the memory.

    Its state is a :class:`Phase`, whose transitions are drawn in http/phases.py:

        OPEN        reads, answers, holds back  -->  STREAMING, LINGERING, CLOSING
        STREAMING, LINGERING, CLOSING           -->  nothing is read, no answer is held back or waits to be written
        CLOSED                                  -->  nothing is held at all

    ``is_paused`` is the client's, ``is_draining`` the server's, ``has_ended`` the other side's: they come in any order.
    """

    __slots__ = (
        "_application",
        "_corked",
        "_drained_bytes",
        "_incoming",
        "_limits",
        "_outgoing",
        "_phase",
        "_slots",
        "_start",
        "_traffic",
        "_unfinished",
        "_writer",
        "_writing",
        "begin",
        "corked_bytes",
        "early",
        "has_ended",
        "held_bytes",
        "incoming_bytes",
        "is_draining",
        "is_paused",
        "outgoing_bytes",
        "party",
        "reader",
        "written_bytes",
    )  # fmt: skip

    def __init__(
        self,
        limits: Limits,
        application: Application,
        writer: ResponseWriter,
        traffic: Traffic,
        party: Party,
        start: Start,
    ) -> None:
        self._limits = limits
        self._application = application
        self._writer = writer
        self._traffic = traffic
        self._start: Start | None = start
        self.party = party
        self.reader = RequestReader(limits, application.guard, party)
        # data
        self._incoming: deque[bytes | memoryview] = deque()  # not read yet
        self.incoming_bytes = 0
        self._drained_bytes = 0
        # answers
        self._slots: deque[Slot] = deque()  # from the first answer that is not ready on
        self._unfinished = 0  # slots without an answer
        self.held_bytes = 0  # of the answers in slots
        self._corked: list[bytes] = []
        self.corked_bytes = 0
        self._writing: list[Allowance] = []  # of the answers corked and outgoing
        self._outgoing: deque[memoryview] = deque()  # large answers, not handed over yet
        self.outgoing_bytes = 0
        #: Bytes of all output that has been taken.
        self.written_bytes = 0
        #: Has the rest of the connection once all this is handed over.
        self.begin: BeginStream | None = None
        #: Bytes received behind a request for another protocol, for that protocol.
        self.early = b""
        # state
        self._phase = Phase.OPEN
        self.is_paused = False  # the client does not take its answers
        self.is_draining = False  # the server stops: finish, then close
        self.has_ended = False  # the client sends no more

    @property
    def phase(self) -> Phase:
        return self._phase

    def move(self, event: Event) -> None:
        """Take the transition of an event.  ImpossibleEvent where the phase has none."""
        self._phase = after(self._phase, event)

    def invariant(self) -> None:
        """AssertionError unless counts are what they count, and a phase holds no more than it may."""
        ready = [slot.body_bytes for slot in self._slots if slot.response is not None]
        assert self.incoming_bytes == sum(map(len, self._incoming))
        assert self.held_bytes == sum(ready)
        assert self.corked_bytes == sum(map(len, self._corked))
        assert self.outgoing_bytes == sum(map(len, self._outgoing))
        waiting = len(self._slots) - len(ready)
        assert self._unfinished >= waiting
        if self._phase is Phase.OPEN:
            assert self._unfinished == waiting
        else:
            assert not self._slots
            assert not self._outgoing
            assert not self.reader.arrived
        if self._phase is Phase.CLOSED:
            assert not self._incoming
            assert not self._corked
            assert not self._writing
            assert self._start is None

    # ---- what comes --------------------------------------------------------------------------

    def receive(self, data: bytes | memoryview) -> None:
        """To be read when :meth:`advance` gets there."""
        self._incoming.append(data)
        self.incoming_bytes += len(data)
        self.party.budget.take_unasked(len(data))

    def drop(self, size: int) -> bool:
        """Count data after the last answer; False: the client has sent more than it may."""
        self._traffic.received_bytes += size
        self._drained_bytes += size
        return self._drained_bytes <= LINGER_BYTES_MAX

    def take_incoming(self) -> bytes:
        """Give up the data that has not been read, for somebody else to read."""
        incoming = self._incoming
        data = bytes(incoming[0]) if len(incoming) == 1 else b"".join(incoming)
        self._drop_incoming()
        return data

    def _drop_incoming(self) -> None:
        self._incoming.clear()
        self.party.budget.give_back(self.incoming_bytes)
        self.incoming_bytes = 0

    def refuse(self, status: HTTPStatus, reason: str) -> None:
        """Read no more: the client has taken too long."""
        self.reader.refuse(status, reason)

    def close(self) -> None:
        """The connection has gone: let go of everything."""
        self.move(Event.LOST)
        self._start = None
        self._read_no_more()
        self._corked.clear()
        self.corked_bytes = 0
        self._outgoing.clear()
        self.outgoing_bytes = 0
        self.note_written()

    def _read_no_more(self) -> None:
        """Let go of what has not been read, and of what was asked and is not collected."""
        self.reader.close()
        for slot in self._slots:
            if slot.response is not None and slot.allowance is not None:
                slot.allowance.give_back()
        self._slots.clear()
        self.held_bytes = 0
        self._drop_incoming()

    # ---- requests to answers -----------------------------------------------------------------

    def advance(self, until_ns: int) -> None:
        """Read and answer what can be, a step at least: until enough is collected for one write, or until
        ``clock.now_ns``."""
        if self._phase is not Phase.OPEN:
            return
        self.release()
        reader, arrived = self.reader, self.reader.arrived
        while self.corked_bytes <= CORKED_BYTES_MAX:
            if arrived:
                if not self._may_go_on():
                    break
                self._take(arrived.popleft())
            elif not self._incoming or self._outgoing or reader.held is not None:
                break
            elif reader.state is ReadState.ENDED:
                self._traffic.received_bytes += self.incoming_bytes
                self._drop_incoming()
            else:
                self._feed()
            if clock.now_ns() > until_ns:
                break
        if reader.awaits_continue and not self._slots and not arrived and not self._outgoing:
            self.cork([CONTINUE], len(CONTINUE))
            reader.awaits_continue = False

    def _feed(self) -> None:
        """Read a piece of what has come."""
        piece = self._incoming.popleft()
        is_plain = self.reader.state is ReadState.BODY and not self.reader.is_chunked
        size = FEED_BODY_BYTES if is_plain else FEED_BYTES
        if len(piece) > size:
            piece = memoryview(piece)
            self._incoming.appendleft(piece[size:])
            piece = piece[:size]
        self.incoming_bytes -= len(piece)
        self.party.budget.give_back(len(piece))
        self._traffic.received_bytes += len(piece)
        rest = self.reader.feed(piece)
        if rest:
            self._traffic.received_bytes -= len(rest)
            self._incoming.appendleft(rest)
            self.incoming_bytes += len(rest)
            self.party.budget.take_unasked(len(rest))

    def _may_go_on(self) -> bool:
        """True if the next request may be answered: neither unsent nor held back answers are too many."""
        limits = self._limits
        return (
            not self.is_paused
            and not self._outgoing
            and self._unfinished < limits.pipelined_calls_max
            and self.held_bytes <= limits.write_buffer_bytes_max
            and self.begin is None
        )

    def can_advance(self) -> bool:
        """True if :meth:`advance` has something to go on with."""
        is_readable = self._incoming and self.reader.held is None
        return bool(self.reader.arrived or is_readable) and self._may_go_on()

    def _take(self, item: Request | Refusal) -> None:
        if isinstance(item, Refusal):
            self._place(Slot(None, self._application.on_refusal(item)))
            return
        allowance = item.allowance or Allowance(self.party)
        self.enter(item, self._application.on_request(item, allowance), allowance)

    def enter(self, request: Request, answer: Response | Coroutine[Any, Any, Response], allowance: Allowance) -> None:
        """Put an answer, or the place of one that is not ready, behind those before it."""
        if isinstance(answer, Response):
            self._place(Slot(request, answer, allowance))
            return
        slot = Slot(request, None, allowance)
        self._slots.append(slot)
        self._unfinished += 1
        assert self._start is not None
        self._start(slot, answer)

    def _place(self, slot: Slot) -> None:
        if self._slots:
            self._slots.append(slot)
            self.held_bytes += slot.body_bytes
        else:
            self._cork(slot)

    def finish(self, slot: Slot, response: Response | None) -> None:
        """The answer of a slot is ready; None: it could not be made.  It leaves with :meth:`release`."""
        self._unfinished -= 1
        if response is None:
            origin = b"" if slot.request is None else slot.request.headers.get(b"origin", b"")
            refusal = Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "the request could not be answered", origin)
            response = self._application.on_refusal(refusal)
        slot.response = response
        if self._phase is Phase.OPEN:
            self.held_bytes += slot.body_bytes
        elif slot.allowance is not None:
            slot.allowance.give_back()

    def release(self) -> None:
        """Collect the answers that are ready and wait for none before them; none behind one without an end."""
        slots = self._slots
        while slots and slots[0].response is not None and self.begin is None:
            first = slots.popleft()
            self.held_bytes -= first.body_bytes
            self._cork(first)

    def _cork(self, slot: Slot) -> None:
        """Collect a finished answer for the next write."""
        response = slot.response
        assert response is not None
        request = slot.request
        keep_alive = request is not None and request.keep_alive and not self._closes_after_this()
        if response.stream is not None:
            self.begin, keep_alive = response.stream, False
        elif request is not None and request is self.reader.held:
            self.reader.read_on()
        omit_body = request is not None and request.method == b"HEAD"
        chunks = self._writer.render(response, keep_alive=keep_alive, omit_body=omit_body)
        self.cork(chunks, sum(map(len, chunks)))
        if slot.allowance is not None and slot.allowance.taken_bytes:
            self._writing.append(slot.allowance)

    def cork(self, chunks: list[bytes], size: int) -> None:
        """Collect rendered answers: ``size`` bytes."""
        self._corked += chunks
        self.corked_bytes += size

    def _closes_after_this(self) -> bool:
        """True if the answer about to be rendered is the last one of a server that stops."""
        return self.is_draining and not self._slots and not self.reader.arrived and self.is_between_requests()

    # ---- what is written -----------------------------------------------------------------------

    def has_collected(self) -> bool:
        """True if there is output that has not been taken yet, beside large answers that others wait behind."""
        return bool(self._corked)

    def take_output(self) -> list[bytes] | list[memoryview]:
        """The next output: all that is collected, or of a large answer a part.  When it has been handed
        over, :meth:`note_written` is to be called."""
        corked, size = self._corked, self.corked_bytes
        if corked:
            self._traffic.sent_bytes += size
            self._corked, self.corked_bytes = [], 0
            if size <= WRITTEN_BYTES and not self._outgoing:
                self.written_bytes += size
                return corked
            self._outgoing.extend(map(memoryview, corked))
            self.outgoing_bytes += size
        return [] if self.is_paused or not self._outgoing else self._take_part()

    def _take_part(self) -> list[memoryview]:
        """A part of what is outgoing; the next one when the client has taken it and others had their turn."""
        pieces: list[memoryview] = []
        size = 0
        while self._outgoing and size < WRITTEN_BYTES:
            piece = self._outgoing.popleft()
            if len(piece) > WRITTEN_BYTES - size:
                self._outgoing.appendleft(piece[WRITTEN_BYTES - size :])
                piece = piece[: WRITTEN_BYTES - size]
            pieces.append(piece)
            size += len(piece)
        self.outgoing_bytes -= size
        self.written_bytes += size
        return pieces

    def note_written(self) -> None:
        """Give back the memory of answers that are handed over to their end."""
        if self._writing and not self._outgoing:
            for allowance in self._writing:
                allowance.give_back()
            self._writing.clear()

    # ---- between reads -------------------------------------------------------------------------

    def is_between_requests(self) -> bool:
        return self.reader.state in (ReadState.IDLE, ReadState.ENDED)

    def is_busy(self) -> bool:
        return bool(self._slots or self.reader.arrived or self._corked or self._incoming or self._outgoing)

    def is_at_rest(self) -> bool:
        """True if nothing is under way but data that has not been read, and nothing requires an end."""
        return not (
            self._slots
            or self.is_paused
            or self._outgoing
            or self.reader.state is not ReadState.IDLE
            or self.reader.arrived
            or self.is_draining
            or self.has_ended
            or self._phase is not Phase.OPEN
        )

    def may_interject(self) -> bool:
        """True if an interim answer may be sent to a client that waits for its answer."""
        first = self._slots[0] if self._slots else None
        if first is None or first.request is None or first.request.is_http_1_0:
            return False
        return not (self.is_paused or self._corked or self._outgoing)

    def settle(self) -> Next:
        """After a write: what there is to do, or to wait for."""
        if self.begin is not None and not self._corked and not self._outgoing:
            # Requests behind the one that is answered have no answer.
            if self.reader.held is not None:
                self.early = self.take_incoming()
            self.move(Event.HAND_OVER)
            self._read_no_more()
            return Next.STREAM
        if not self.is_busy():
            has_read_all = self.reader.state is ReadState.ENDED
            if self.has_ended or (self.is_draining and self.is_between_requests()):
                self.move(Event.CLOSE)
                return Next.CLOSE
            if has_read_all:
                self.move(Event.LAST_ANSWER)
                self.is_paused = False
                return Next.LINGER
        if self.can_advance() or (self._outgoing and not self.is_paused):
            return Next.TURN
        return Next.CLIENT if self.reader.arrived or self._incoming or self.is_paused or self._outgoing else Next.DATA
