"""The fast path of a connection: what nearly all clients send, answered without taking it apart.

A connection that is at rest hands what it receives to the kernel ``simple_request``.  It finds the whole simple
requests, answers those whose result is kept, and stops at the first one that it does not answer:

    simple, result not kept     its method is called here, without reading head and envelope again
    anything else               the rest of the bytes goes to the strict path (rpc/http.py) as it came

Both paths give the same answers, count and time the same, and hold the same limits: tests/rpc/test_fast_path.py
compares them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import orjson

from fastnode.kernels import simple_request
from fastnode.rpc import http
from fastnode.rpc.application import COMPRESSED_BYTES_MIN, RpcApplication
from fastnode.rpc.engine import Engine, Reply
from fastnode.rpc.http import CORKED_BYTES_MAX, ConnectionOwner, HttpConnection
from fastnode.rpc.http_messages import Request, Response, ResponseWriter
from fastnode.rpc.http_reader import ReadState
from fastnode.rpc.view import View

__all__ = ["FastConnection", "FastPath"]

_IDLE: Final = ReadState.IDLE
#: Stands for a simple request where its answer is rendered.
_SIMPLE: Final = Request(b"POST", b"/", {}, b"", is_http_1_0=False, keep_alive=True)


class FastPath:
    """What the connections of a server share."""

    def __init__(self, engine: Engine, application: RpcApplication, writer: ResponseWriter) -> None:
        limits = engine.limits
        self.requests = simple_request.SimpleRequests(
            head_bytes_max=limits.head_bytes_max,
            headers_max=limits.headers_max,
            body_bytes_max=limits.body_bytes_max,
            depth_max=limits.json_depth_max,
            batch_calls_max=limits.batch_calls_max,
            response_bytes_max=limits.response_bytes_max,
            coded_bytes_min=COMPRESSED_BYTES_MIN,
        )
        self._engine = engine
        self.application = application
        self.writer = writer
        self._kept_names = frozenset(method.name for method in engine.table if method.is_kept)
        self._results: dict[str, bytes] = {}
        #: The chain that the kept results are of.  Not the view: whoever holds a view keeps its database open.
        self._tips: bytes | None = None
        self._meters: object = self  # nothing has been set yet
        self._fields = b""
        self._keeping = b""

    def renew(self) -> View | None:
        """Bring everything up to date before a burst, and say which view it is answered from."""
        engine = self._engine
        view = engine.view_source()
        # Each view of a chain has made its own bytes of the tips.
        tips = None if view is None else view.chain.tips_json
        if tips is not self._tips or engine.meters is not self._meters:
            self._tips, self._meters = tips, engine.meters
            self._results = {}
            meters = engine.meters
            if meters is None:
                self.requests.set_results(self._results, None, None)
            else:
                self.requests.set_results(self._results, meters.calls.finish, meters.add_batch)
        fields, keeping = self.application.json_fields, self.writer.keeping
        if fields is not self._fields or keeping is not self._keeping:
            self._fields, self._keeping = fields, keeping
            self.requests.set_head(b"HTTP/1.1 200 OK\r\n" + fields + b"Content-Length: ", b"\r\n" + keeping)
        return view

    def answer_call(self, view: View | None) -> Response | Coroutine[Any, Any, Response] | None:
        """The answer to the simple request that the kernel stopped at; None if its params are not JSON."""
        requests = self.requests
        method, text, id_text, accepted = requests.method, requests.params, requests.id_text, requests.accepted
        assert method is not None
        try:
            params: list[Any] = [] if text is None else orjson.loads(text)
        except orjson.JSONDecodeError:
            return None
        reply = self._engine.answer_call(method, params, id_text, view)
        if not params and method in self._kept_names and isinstance(reply, Reply):
            self._keep(method, reply, id_text)
        return self.application.respond(reply, accepted)

    def _keep(self, method: str, reply: Reply, id_text: bytes) -> None:
        head = b'{"jsonrpc":"2.0","id":%b,"result":' % id_text
        if reply.error_code is None and reply.body is not None and reply.body.startswith(head):
            self._results[method] = reply.body[len(head) : -1]


class FastConnection(HttpConnection):
    """A connection with the fast path in front."""

    __slots__ = ("_fast", "_idle_s", "_is_resting")

    def __init__(self, owner: ConnectionOwner, loop: asyncio.AbstractEventLoop, fast: FastPath) -> None:
        super().__init__(owner, loop)
        self._fast = fast
        self._idle_s = self._limits.idle_time_s + http.IDLE_SLACK_S
        #: Known to be at rest: the last thing that happened was a burst answered by the kernel alone.
        self._is_resting = False

    def data_received(self, data: bytes) -> None:
        fast = self._fast
        if not (self._is_resting or self._is_at_rest()) or fast.application.guard is not None:
            self._is_resting = False
            super().data_received(data)
            return
        view = fast.renew()
        requests = fast.requests
        answers = requests.answer(data, 0, CORKED_BYTES_MAX)
        # Fast path. If: the burst is answered to its end.  Then: write, and wait for the next one.
        if requests.position == len(data) and answers is not None:
            self._write_all(data, answers, requests.count)
            return
        self._is_resting = False
        answered = self._answer_simple(data, answers, view)
        if answered < len(data):
            super().data_received(data[answered:] if answered else data)
            return
        self._uncork()
        if self._is_write_paused or self._slots:
            self._settle()
        else:
            self._set_deadline()

    def _write_all(self, data: bytes, answers: bytes, count: int) -> None:
        transport, traffic, reader = self._transport, self._traffic, self._reader
        assert transport is not None
        size = len(answers)
        traffic.received_bytes += len(data)
        traffic.sent_bytes += size
        self._unsent_bytes += size
        reader.begun_count = begun = reader.begun_count + count
        self._is_resting = True
        transport.write(answers)
        if self._is_resting:  # still: it has taken the answers
            self._timed = (_IDLE, begun)
            self.deadline = self._loop.time() + self._idle_s
        else:
            self._settle()

    # ---- what ends the rest ----------------------------------------------------------------

    def eof_received(self) -> bool:
        self._is_resting = False
        return super().eof_received()

    def on_deadline(self) -> None:
        self._is_resting = False
        super().on_deadline()

    def drain(self) -> None:
        self._is_resting = False
        super().drain()

    def abort(self) -> None:
        self._is_resting = False
        super().abort()

    def pause_writing(self) -> None:
        self._is_resting = False
        super().pause_writing()

    # ---- request by request ----------------------------------------------------------------

    def _is_at_rest(self) -> bool:
        """Whether nothing is under way and nothing keeps the connection from going on for ever."""
        return not (
            self._slots
            or self._is_write_paused
            or self._reader.state is not ReadState.IDLE
            or self._reader.arrived
            or self._is_lingering
            or self._is_closing
            or self._is_draining
            or self._has_ended
            or self._transport is None
        )

    def _answer_simple(self, data: bytes, answers: bytes | None, view: View | None) -> int:
        """Answer simple requests from the start of ``data`` on; how many bytes they are.

        ``answers`` are those that the kernel has given already.
        """
        fast, reader = self._fast, self._reader
        requests = fast.requests
        position = 0
        while True:
            if answers is not None:
                self._corked.append(answers)
                self._corked_bytes += len(answers)
                reader.begun_count += requests.count
                position = requests.position
            elif requests.method is None:
                break
            if requests.method is not None and self._corked_bytes <= CORKED_BYTES_MAX:
                end = requests.end
                response = fast.answer_call(view)
                if response is None:
                    break
                reader.begun_count += 1
                position = end
                if not isinstance(response, Response):
                    self._enter(_SIMPLE, response)
                    break  # the others wait in the order of the strict path
                chunks = fast.writer.render(response, keep_alive=True, omit_body=False)
                self._corked += chunks
                self._corked_bytes += sum(map(len, chunks))
            if self._corked_bytes > CORKED_BYTES_MAX:
                self._uncork()
                if self._is_write_paused:
                    break
            if position == len(data):
                break
            answers = requests.answer(data, position, CORKED_BYTES_MAX - self._corked_bytes)
        self._traffic.received_bytes += position
        return position
