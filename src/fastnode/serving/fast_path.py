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

import time
from collections.abc import Coroutine
from typing import Any, Final

import orjson

from fastnode.errors import NodeBusy, ParseError
from fastnode.http.allowance import Allowance
from fastnode.http.content_coding import choose_coding
from fastnode.http.messages import Request, Response, ResponseWriter
from fastnode.http.stream import CORKED_BYTES_MAX, HttpStream
from fastnode.jsonrpc import json_text
from fastnode.jsonrpc.engine import READ_ON_LOOP_BYTES_MAX, Engine
from fastnode.jsonrpc.json_text import NAME_LENGTH_MAX, Reply, busy_reply
from fastnode.jsonrpc.methods import Outcome
from fastnode.kernels import cached_responses, calls, simple_request
from fastnode.serving.application import COMPRESSED_BYTES_MIN, RpcApplication
from fastnode.view import View

__all__ = ["FastPath"]

#: Stands for a simple request where its answer is rendered.
_SIMPLE: Final = Request(b"POST", b"/", {}, b"", is_http_1_0=False, keep_alive=True)
#: Longer parameters are measured, and their memory asked for, before they are read.
UNASKED_BYTES_MAX: Final = 1024
#: Memory for kept results of one server.
KEPT_BYTES_MAX: Final = 32 * 1024 * 1024


class FastPath:
    """The fast path that the connections of a server share.

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
            is_fast = method.read is not None and method.shape is not None
            self.results.add_method(
                name,
                keeps=method.is_cached,
                shape=method.shape if is_fast else None,
                handler=method.read if is_fast else None,
                items_max=method.items_max,
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
        self.requests.leaves_origin = self.application.own_pages is not None
        # A guard asks for every header, and spans for every call.
        self.requests.is_open = self.application.guard is None and self.application.spans is None

    def answer(
        self,
        stream: HttpStream,
        data: bytes,
        position: int,
        answers: bytes | list[bytes] | None,
        view: View | None,
        until_ns: int,
    ) -> int:
        """Request by request, see http/connection.py: what the kernel has answered, and what it only describes."""
        requests, reader, begin = self.requests, stream.reader, position
        while True:
            if answers is not None:
                stream.cork([answers] if isinstance(answers, bytes) else answers, requests.size)
                reader.begun_count += requests.count
                position = requests.position
            is_made = requests.body is not None or requests.outcomes is not None  # no handler may run again
            if requests.is_late or (answers is None and requests.method is None and not is_made):
                break
            if is_made or (requests.method is not None and stream.corked_bytes <= CORKED_BYTES_MAX):
                end = requests.end
                allowance = Allowance(stream.party)
                response = self._answer_call(view, allowance)
                if response is None:
                    self._refund()
                    break
                reader.begun_count += 1
                position = end
                stream.enter(_SIMPLE, response, allowance)
                if not isinstance(response, Response):
                    break  # the others wait in the order of the strict path
            elif requests.method is not None:
                self._refund()
            if stream.corked_bytes > CORKED_BYTES_MAX or position == len(data) or time.monotonic_ns() > until_ns:
                break
            answers = requests.answer(data, position, CORKED_BYTES_MAX - stream.corked_bytes, view, until_ns)
        self._engine.traffic.received_bytes += position - begin
        return position

    def _refund(self) -> None:
        """The call that is described is not answered here either."""
        if self.requests.payer is not None:
            self.requests.payer.refund()

    def _answer_call(self, view: View | None, allowance: Allowance) -> Response | Coroutine[Any, Any, Response] | None:
        """The answer to the simple request that the kernel stopped at; None if its params are not JSON.  What
        handlers have said already is gone on with."""
        requests, accepted = self.requests, self.requests.accepted
        known: list[Outcome] = requests.outcomes or []
        if requests.body is not None:
            return self.application.respond(Reply(requests.body), accepted, allowance)
        if requests.batch is not None:
            reply = self._engine.handle(requests.batch, None, allowance, known=(view, known))
            if isinstance(reply, Reply) and reply.error_code == ParseError.code:
                return None
            return self.application.respond(reply, accepted, allowance)
        try:
            asked = self._read_call(known, allowance, view)
        except (orjson.JSONDecodeError, ParseError):
            return None
        except NodeBusy as error:
            return self.application.respond(busy_reply(error), accepted, allowance)
        reply = self._engine.answer(asked, self._engine.context(view, None, allowance), known)
        return self.application.respond(reply, accepted, allowance)

    def _read_call(self, known: list[Outcome], allowance: Allowance, view: View | None) -> calls.Calls:
        requests = self.requests
        method, text = requests.method, requests.params
        assert method is not None
        params = self._read(text, allowance, is_usual=bool(known))
        kept = None if known else self._kept(method, text, params, view)
        if kept is not None:
            known.append((kept, 0))
        return calls.Calls([(method[:NAME_LENGTH_MAX], params, requests.id_text)], is_batch=False)

    def _read(self, text: bytes | None, allowance: Allowance, *, is_usual: bool) -> list[Any]:
        """Parameters.  JSONDecodeError or ParseError for what is left to the strict path; NodeBusy."""
        # Fast path: short bodies cannot inflate to much, nor do such as the kernel has read.
        if text is None or is_usual or len(text) <= UNASKED_BYTES_MAX:
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
