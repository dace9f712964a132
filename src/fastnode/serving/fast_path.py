"""The fast path of a connection: what nearly all clients send, answered without taking it apart.

What a connection receives goes to a kernel, ``fast_connection``, without Python being asked.  While the connection is
at rest, the kernel ``simple_request`` finds the whole simple requests, answers them, and stops at the first that it
does not answer:

    result kept since the view was published    spliced
    params in the usual form                    read in place, the method's direct handler called, spliced
    simple otherwise                            its method is called here, without reading head and envelope again
    anything else                               the rest of the bytes goes to the strict path as it came

Both paths give the same answers, count and time the same, and hold the same limits: tests/serving/test_fast_path.py
compares them.  Both answer for a slice of the loop's time and then let others have their turn (http/turns.py); a
batch that a slice is too short for goes on behind the results that it has.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import orjson

from fastnode.errors import NodeBusy, ParseError
from fastnode.http import connection as http
from fastnode.http.allowance import Allowance
from fastnode.http.connection import CORKED_BYTES_MAX, ConnectionOwner, HttpConnection, Slot
from fastnode.http.content_coding import choose_coding
from fastnode.http.messages import Request, Response, ResponseWriter
from fastnode.http.reader import ReadState
from fastnode.jsonrpc import json_text
from fastnode.jsonrpc.engine import READ_ON_LOOP_BYTES_MAX, Engine, Reply, busy_reply, splice
from fastnode.kernels import cached_responses, call_meter, fast_connection, simple_request
from fastnode.serving.application import COMPRESSED_BYTES_MIN, RpcApplication
from fastnode.view import View

__all__ = ["FastConnection", "FastPath"]

_IDLE: Final = ReadState.IDLE
#: Stands for a simple request where its answer is rendered.
_SIMPLE: Final = Request(b"POST", b"/", {}, b"", is_http_1_0=False, keep_alive=True)
#: Longer parameters are measured, and their memory asked for, before they are read.
UNASKED_BYTES_MAX: Final = 1024
#: What the results that are kept may take, of one server.
KEPT_BYTES_MAX: Final = 32 * 1024 * 1024


class FastPath:
    """What the connections of a server share.

    What an answer depends on beside the view tells when it changes: the headers, the date, the meters, the guard.
    """

    def __init__(self, engine: Engine, application: RpcApplication, writer: ResponseWriter) -> None:
        limits = engine.limits
        self.results = cached_responses.CachedResponses(
            bytes_max=KEPT_BYTES_MAX,
            result_bytes_max=limits.response_bytes_max,
            find_block=_find_block,
        )
        self.requests = simple_request.SimpleRequests(
            head_bytes_max=limits.head_bytes_max,
            headers_max=limits.headers_max,
            body_bytes_max=limits.body_bytes_max,
            depth_max=limits.json_depth_max,
            batch_calls_max=limits.batch_calls_max,
            response_bytes_max=limits.response_bytes_max,
            coded_bytes_min=COMPRESSED_BYTES_MIN,
            results=self.results,
            source=engine.view_source,
            renew=self._renew,
            choose_coding=choose_coding,
        )
        self._engine = engine
        self.application = application
        self.writer = writer
        #: Stands for the view that the cached responses are of: a reference to the view would keep its database open.
        self._view_key: object = self  # of no view
        for name, method in engine.table.by_wire_name().items():
            usual = method.usual
            self.results.add_method(
                name,
                keeps=method.is_cached,
                shape=None if usual is None else usual.shape,
                handler=None if usual is None else usual.handler_for(engine.table.method_set),
                items_max=0 if usual is None else usual.items_max,
                read=engine.reader_of(method),
            )
        engine.keep = self._keep
        application.coded.find, application.coded.keep = self.results.find_packed, self.results.keep_packed
        engine.on_change = self._renew_meters
        application.on_change = writer.on_change = self._renew_head
        self._renew_meters()
        self._renew_head()

    def _renew(self, view: View | None) -> None:
        """Called before a burst is answered from a view that may be another one than before."""
        key = None if view is None else view.key
        if key is not self._view_key:
            self._view_key = key
            self.results.forget(0 if view is None else view.chain.tip_number)

    def _renew_meters(self) -> None:
        meters = self._engine.meters
        if meters is None:
            self.requests.set_meters(None, None)
        else:
            self.requests.set_meters(meters.calls, meters.add_batch)

    def _renew_head(self) -> None:
        plain, packed = self.application.json_fields, self.application.gzip_fields
        before, length = b"HTTP/1.1 200 OK\r\n", b"Content-Length: "
        self.requests.set_head(before + plain + length, before + packed + length, b"\r\n" + self.writer.keeping)
        # A guard asks for every header, and spans for every call.
        self.requests.is_open = self.application.guard is None and self.application.spans is None

    def answer_call(self, view: View | None, allowance: Allowance) -> Response | Coroutine[Any, Any, Response] | None:
        """The answer to the simple request that the kernel stopped at; None if its params are not JSON."""
        requests = self.requests
        if requests.body is not None:
            return self.application.respond(Reply(requests.body), requests.accepted, allowance)
        method, text, id_text, accepted = requests.method, requests.params, requests.id_text, requests.accepted
        assert method is not None
        try:
            params = self._read(text, allowance)
        except (orjson.JSONDecodeError, ParseError):
            return None
        except NodeBusy as error:
            return self.application.respond(busy_reply(error), accepted, allowance)
        kept = self._kept(method, text, params, view)
        if kept is not None:
            if self._engine.meters is not None:
                self._engine.meters.calls.finish(method, call_meter.now_ns(), None)
            return self.application.respond(splice(id_text, kept or None), accepted, allowance)
        reply = self._engine.answer_call(method, params, id_text, view, allowance)
        return self.application.respond(reply, accepted, allowance)

    def _read(self, text: bytes | None, allowance: Allowance) -> list[Any]:
        """Parameters.  JSONDecodeError or ParseError for what is left to the strict path; NodeBusy."""
        # Fast path: short bodies cannot inflate to much.
        if text is None or len(text) <= UNASKED_BYTES_MAX:
            return [] if text is None else orjson.loads(text)
        if len(text) > READ_ON_LOOP_BYTES_MAX:
            raise ParseError("")
        allowance.take(len(text))
        params: list[Any] = json_text.parse(text, self._engine.limits, allowance.take)
        return params

    def _kept(self, name: str, text: bytes | None, params: list[Any], view: View | None) -> bytes | None:
        """A result that is kept by its params as most clients write them; from then on it is kept by this text too."""
        if text is None or view is None or view.key is not self._view_key:
            return None
        usual = _text_of(params)
        if usual is None or usual == text:
            return None
        found = self.results.result(name, usual, None)
        if found is not None:
            self.results.keep(name, text, found)
        return found

    def _keep(self, name: str, params: list[Any], result: bytes, view_key: object) -> None:
        """Keep a result that the strict path has made, by its params as most clients write them."""
        if view_key is not self._view_key:
            return
        text = _text_of(params)
        if text is not None:
            self.results.keep(name, text, result)


def _text_of(params: list[Any]) -> bytes | None:
    """As most clients write them; None if they do not write such."""
    try:
        return orjson.dumps(params)
    except TypeError:  # an integer above 64 bits, half a character
        return None


def _find_block(view: View, block_hash: bytes) -> int | None:
    return view.chain.block_number_by_hash(block_hash)


class FastConnection(HttpConnection):
    """A connection with the fast path in front: its receiver gets the data, and asks here for what is unusual.

    While the receiver answers everything, nothing of the connection changes; :meth:`catch_up` brings it to where the
    strict path would be.
    """

    __slots__ = ("_fast", "_idle_s", "_receiver", "buffer_updated", "data_received", "get_buffer")

    data_received: Callable[[bytes], None]  # type: ignore[assignment]
    buffer_updated: Callable[[int], None]  # type: ignore[assignment]
    get_buffer: Callable[[int], bytearray]  # type: ignore[assignment]

    def __init__(
        self, owner: ConnectionOwner, loop: asyncio.AbstractEventLoop, network: bytes | None, fast: FastPath
    ) -> None:
        super().__init__(owner, loop, network)
        self._fast = fast
        self._idle_s = self._limits.idle_time_s + http.IDLE_SLACK_S
        self._receiver = fast_connection.Receiver(
            fast.requests,
            self._traffic,
            loop.time,
            CORKED_BYTES_MAX,
            owner.turns.time,
            self.party.share,
            owner.turns.buffer,
            owner.turns.small_buffer,
        )
        self.data_received = self._receiver.receive
        self.get_buffer = self._receiver.get_buffer
        self.buffer_updated = self._receiver.buffer_updated

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._receiver.open(self, transport)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver.close()
        super().connection_lost(exc)

    # ---- the receiver's side ---------------------------------------------------------------

    def receive_unusual(self, data: bytes) -> None:
        """What comes while the connection is not known to be at rest, or while a guard looks at everything."""
        self.wake()
        if self._fast.requests.is_open and self._is_at_rest():
            self._receiver.is_resting = True
            self._receiver.receive(data)
        else:
            super().data_received(data)

    def wait_for_turn(self, data: bytes) -> None:
        """What comes while the loop is crowded."""
        self.wake()
        self._owner.turns.time.add(self.party.share, http.PUTTING_ASIDE_NS)
        self._add_incoming(data)
        self._wait_for_turn()

    def receive_rest(
        self, data: bytes, answers: bytes | list[bytes] | None, view: View | None, started_ns: int
    ) -> None:
        """A burst that is not answered to its end; ``answers`` are those that the kernel has given."""
        self.wake()
        loop_time = self._owner.turns.time
        self._slice_end = started_ns + loop_time.slice_ns
        answered = self._answer_simple(data, answers, view)
        if answered < len(data):
            self._add_incoming(data[answered:] if answered else data)
            if self._is_slice_over():
                self._wait_for_turn()
            else:
                self._go_on()
        else:
            self._uncork()
            self.settle()
        loop_time.charge(self.party.share, time.monotonic_ns() - started_ns)

    def _on_turn(self) -> None:
        self._is_waiting = False
        # Fast path: only new data is there, which may begin with simple requests.
        if self._incoming and self._fast.requests.is_open and self._is_at_rest():
            incoming = [*self._incoming]
            self._drop_incoming()
            # The receiver reads on without a word: what was too much to wait with must not keep the system from asking.
            self._resume_reading()
            self._receiver.is_resting = True
            self.data_received(bytes(incoming[0]) if len(incoming) == 1 else b"".join(incoming))
        else:
            self._receiver.unfinished = None
            self._take_turn()

    def settle(self) -> None:
        """After a write that may not have been taken whole."""
        if self._is_write_paused or self._slots or self._outgoing:
            self._settle()
        else:
            self._set_deadline()

    def _note_turn(self) -> None:
        super()._note_turn()
        self._receiver.has_turn = True

    # ---- what ends the rest ----------------------------------------------------------------

    def wake(self) -> None:
        self._receiver.is_resting = False
        self.catch_up()

    def catch_up(self) -> None:
        """Note what the receiver has answered since the last time."""
        receiver, reader = self._receiver, self._reader
        if receiver.begun == 0:
            return
        reader.begun_count += receiver.begun
        self._unsent_bytes += receiver.unsent_bytes
        receiver.begun = receiver.unsent_bytes = 0
        self._timed = (_IDLE, reader.begun_count)
        self.deadline = receiver.active_at + self._idle_s

    def eof_received(self) -> bool:
        self.wake()
        return super().eof_received()

    def on_deadline(self) -> None:
        self.wake()
        if self.deadline <= self._loop.time():  # nothing came since it was set
            super().on_deadline()

    def drain(self) -> None:
        self.wake()
        super().drain()

    def abort(self) -> None:
        self.wake()
        super().abort()

    def pause_writing(self) -> None:
        self.wake()
        super().pause_writing()

    # ---- request by request ----------------------------------------------------------------

    def _is_at_rest(self) -> bool:
        """Whether nothing is under way and nothing requires the connection to be closed."""
        return not (
            self._slots
            or self._is_write_paused
            or self._outgoing
            or self._is_waiting
            or self._reader.state is not ReadState.IDLE
            or self._reader.arrived
            or self._is_lingering
            or self._is_closing
            or self._is_draining
            or self._has_ended
            or self._transport is None
        )

    def _answer_simple(self, data: bytes, answers: bytes | list[bytes] | None, view: View | None) -> int:
        """Answer simple requests from the start of ``data`` on; how many bytes they are.

        ``answers`` are those that the kernel has given already.
        """
        fast, reader = self._fast, self._reader
        requests = fast.requests
        position = 0
        while True:
            if answers is not None:
                self._corked += [answers] if isinstance(answers, bytes) else answers
                self._corked_bytes += requests.size
                reader.begun_count += requests.count
                position = requests.position
            if requests.is_late:
                self._note_unfinished(data, view)
                break
            if answers is None and requests.method is None and requests.body is None:
                break
            is_described = requests.method is not None
            if requests.body is not None or (is_described and self._corked_bytes <= CORKED_BYTES_MAX):
                end = requests.end
                allowance = Allowance(self.party)
                response = fast.answer_call(view, allowance)
                if response is None:
                    self._refund()
                    break
                reader.begun_count += 1
                position = end
                if not isinstance(response, Response):
                    self._enter(_SIMPLE, response, allowance)
                    break  # the others wait in the order of the strict path
                self._cork(Slot(_SIMPLE, response, allowance))
            elif is_described:
                self._refund()
            if self._corked_bytes > CORKED_BYTES_MAX:
                self._uncork()
                if self._is_write_paused or self._outgoing:
                    break
            if position == len(data) or self._is_slice_over():
                break
            answers = requests.answer(data, position, CORKED_BYTES_MAX - self._corked_bytes, view, self._slice_end)
        self._traffic.received_bytes += position
        return position

    def _refund(self) -> None:
        """The call that is described is not answered here either."""
        if self._receiver.payer is not None:
            self._receiver.payer.refund()

    def _note_unfinished(self, data: bytes, view: View | None) -> None:
        """The results of a batch that the slice was too short for are where it goes on."""
        requests = self._fast.requests
        if requests.unfinished is not None:
            self._receiver.unfinished = (requests.unfinished, view, data[requests.position : requests.end])
