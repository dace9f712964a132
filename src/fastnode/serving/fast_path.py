"""The fast path of a connection: what nearly all clients send, answered without taking it apart.

What a connection receives goes to a kernel, ``fast_connection``, without Python being asked.  While the connection is
at rest, the kernel ``simple_request`` finds the whole simple requests, answers them, and stops at the first that it
does not answer:

    results kept, or made by direct handlers    rendered by the kernel
    simple otherwise                            its calls and the outcomes that they have are handed over: the engine
                                                makes those that are pending
    anything else                               the rest of the bytes goes to the strict path as it came

Both paths give the same answers, count and time the same, and hold the same limits: tests/serving/test_fast_path.py
compares them.  Both answer for a slice of the loop's time and then let others have their turn (http/turns.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import orjson

from fastnode.errors import NodeBusy, ParseError
from fastnode.http.allowance import Allowance
from fastnode.http.content_coding import choose_coding
from fastnode.http.messages import Request, Response, ResponseWriter
from fastnode.http.stream import CORKED_BYTES_MAX, HttpStream
from fastnode.jsonrpc import json_text
from fastnode.jsonrpc.engine import Engine
from fastnode.jsonrpc.json_text import busy_reply
from fastnode.kernels import cached_responses, clock, simple_request
from fastnode.serving.application import COMPRESSED_BYTES_MIN, RpcApplication
from fastnode.view import View

__all__ = ["FastPath"]

#: Stands for a simple request where its answer is rendered.
_SIMPLE: Final = Request(b"POST", b"/", {}, b"", is_http_1_0=False, keep_alive=True)
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
            coded_bytes_min=COMPRESSED_BYTES_MIN,
            omits_absent=engine.omits_absent,
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
                handler=cast("Callable[..., bytes | None]", method.read) if is_fast else None,
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
        """Request by request, see http/connection.py: what the kernel has answered, and what it hands over."""
        requests, reader, begin = self.requests, stream.reader, position
        while True:
            if answers is not None:
                stream.cork([answers] if isinstance(answers, bytes) else answers, requests.size)
                reader.begun_count += requests.count
                position = requests.position
            asked, outcomes = requests.calls, requests.outcomes
            if asked is None or outcomes is None:
                break
            requests.calls = requests.outcomes = None
            allowance = Allowance(stream.party, until_ns)
            try:
                if unread := asked.unread_bytes:
                    allowance.take(unread)
                    asked.read(partial(json_text.parse, limits=self._engine.limits, take=allowance.take))
            except ParseError:
                allowance.give_back()
                break
            except NodeBusy as error:
                response = self.application.respond(busy_reply(error, asked), None, allowance)
            else:
                client = None if requests.payer is None else requests.payer.client
                reply = self._engine.go_on(asked, outcomes, view, client, allowance)
                response = self.application.respond(reply, requests.accepted, allowance, client)
            position = requests.end
            reader.begun_count += 1
            stream.enter(_SIMPLE, response, allowance)
            if not isinstance(response, Response):
                break  # the others wait in the order of the strict path
            if stream.corked_bytes > CORKED_BYTES_MAX or position == len(data) or clock.now_ns() > until_ns:
                break
            answers = requests.answer(data, position, CORKED_BYTES_MAX - stream.corked_bytes, view, until_ns)
        self._engine.traffic.received_bytes += position - begin
        return position

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
