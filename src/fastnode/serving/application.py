"""The application behind a connection: paths, verbs, content types, codings, CORS; JSON-RPC goes to the engine.

    POST /          JSON-RPC: 200 with the answer (or the configured status for an error), 204 for nothing to say
    GET  /status    OK or what is wrong; HEAD too.  Likewise /livez and /readyz, see http/health.py
    GET  /events   what happens, as it happens (serving/event_streams.py), on a port that tells it; over WebSocket for
                   a client that asks to upgrade (serving/push.py)
    GET  /openrpc.json   what rpc.discover answers, or 304 for an ETag that still holds; HEAD too
    OPTIONS         CORS preflight 204; a plain question 200 with Allow
    GET  elsewhere  pages, on a port that has some
    others          405 with Allow on a known path, 404 elsewhere

A guard, if there is one, is asked before all this.

A fault of HTTP has an HTTP status; what concerns the body (413, 415, 400 for damaged gzip) also
carries a JSON-RPC error, because the client's code that reads it expects one.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from hashlib import blake2b
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol, get_args

from fastnode import interpreter, trace
from fastnode.api.discovery import DISCOVER, DOCUMENT_PATH
from fastnode.errors import InvalidRequest, NodeBusy, ParseError, RateLimited
from fastnode.http.allowance import Allowance
from fastnode.http.compressed_responses import CompressedResponses
from fastnode.http.content_coding import BodyTooLarge, Coding, Inflation, choose_coding, is_known_coding
from fastnode.http.fair_threads import run_off_loop
from fastnode.http.guard import RequestGuard
from fastnode.http.health import PROBE_PATHS, Health, answer_probe
from fastnode.http.messages import Refusal, Request, Response, header_fields, length_of, tokens_of
from fastnode.http.meters import LIMITS_BY_STATUS
from fastnode.jsonrpc.engine import Engine
from fastnode.jsonrpc.json_text import Reply, error_text
from fastnode.jsonrpc.methods import Context
from fastnode.jsonrpc.rate_limits import Client, refusal_delay
from fastnode.kernels import packed
from fastnode.serving.event_streams import EVENTS_PATH, EventStreams

if TYPE_CHECKING:
    from fastnode.serving.push import Push

__all__ = ["OwnPages", "Pages", "RpcApplication", "is_websocket", "path_of"]

#: Words for people with a browser or a wrong path, after those that the network's other nodes say.
_ONLY_CALLS: Final = b": calls of JSON-RPC are POST; GET /status says how the node is, the admin port has a page"
_KNOWN_PATHS: Final = b": calls of JSON-RPC are POST /; GET has /status, /livez, /readyz and /openrpc.json"

#: A smaller answer fits in one packet.
COMPRESSED_BYTES_MIN: Final = 1024
#: A larger answer is compressed in a thread: it takes longer than 0.4 ms.
COMPRESSED_ON_LOOP_BYTES_MAX: Final = 256 * 1024
#: A longer plain answer is sent in parts: to copy it would take long, and twice the memory.
JOINED_BYTES_MAX: Final = 256 * 1024
#: A larger body is inflated in a thread.
INFLATED_ON_LOOP_BYTES_MAX: Final = 32 * 1024
#: When a client that was refused for want of memory may try again.
BUSY_RETRY_S: Final = 1

_JSON_TYPE: Final = re.compile(
    rb"application/(?:json|[\w.+-]+\+json|csp-report)[ \t]*(?:;.*)?", re.IGNORECASE | re.DOTALL
)
_ABSOLUTE_TARGET: Final = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)
#: Header names that may be sent back to a browser that asks whether it may send them.
_HEADER_NAMES: Final = re.compile(rb"[\w!#$%&'*+.^`|~-]+(?:[ \t]*,[ \t]*[\w!#$%&'*+.^`|~-]+)*", re.ASCII)
#: Answer to a browser unless there is a list of origins.
ANY_ORIGIN: Final = header_fields(("Access-Control-Allow-Origin", "*"))
#: Seconds in which a browser need not ask again before it sends a call; Chromium keeps answers no longer.
PREFLIGHT_KEPT_S: Final = 7200
#: Pages may read all headers, such as Retry-After and those about the network: requests come without credentials.
EXPOSED: Final = header_fields(("Access-Control-Expose-Headers", "*"))
#: Said where a notification is refused.
_OVER_BUDGET: Final = error_text(RateLimited.code, "Rate limit exceeded")
#: Statuses of requests whose body could not be read or understood.
_STATUSES_WITH_RPC_ERROR: Final = frozenset({HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE})
_RETRY: Final = header_fields(("Retry-After", str(BUSY_RETRY_S)))


class Pages(Protocol):
    """Pages for people, on a port that has some."""

    def on_get(
        self, path: bytes, target: bytes, headers: Mapping[bytes, bytes]
    ) -> Response | Coroutine[Any, Any, Response] | None:
        """The answer to GET and HEAD; None for a path that has no such answer.  Must not raise."""


class OwnPages(Protocol):
    """Tells pages of the operator from those of other sites."""

    def is_foreign(self, headers: Mapping[bytes, bytes]) -> bool:
        """True if a page of another site has sent a request."""


class RpcApplication:
    """Answers the complete requests of all connections of one server.

    Everybody is admitted unless there is a :attr:`guard`.
    ``headers`` are added to every response; ``error_status`` is the HTTP status of a body that is one
    JSON-RPC error; under ``path_prefix``, a path without a slash at its end, everything is found a second time.
    ``executor`` compresses large answers (default: the event loop's); ``health`` says how the node
    is, for the probes.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        headers: Sequence[tuple[str, str]] = (),
        error_status: int = HTTPStatus.OK,
        executor: Executor | None = None,
        health: Callable[[], Health] = Health,
        path_prefix: str = "",
    ) -> None:
        #: Called when the headers or the guard are replaced.
        self.on_change: Callable[[], None] = lambda: None
        self._guard: RequestGuard | None = None
        self._own_pages: OwnPages | None = None
        #: Pages that GET finds beside the probes.
        self.pages: Pages | None = None
        #: Streams of clients that hear events; None: no client can.
        self.events: EventStreams | None = None
        #: The same over WebSocket.
        self.push: Push | None = None
        #: Receiver of calls that are measured one by one; None: nobody.
        self._spans: trace.Spans | None = None
        self._path_prefix = path_prefix.encode("ascii")
        self._engine = engine
        #: Compresses answers.
        self.coded = CompressedResponses()
        self._health = health
        self._executor = executor
        self._error_status = HTTPStatus(error_status)
        self.set_headers(headers)

    def set_headers(self, headers: Sequence[tuple[str, str]]) -> None:
        """Replace the headers of every response, from the next one on."""
        common = header_fields(("Vary", "Accept-Encoding, Origin")) + ANY_ORIGIN + EXPOSED + header_fields(*headers)
        json_fields = common + header_fields(("Content-Type", "application/json; charset=utf-8"))
        text_fields = common + header_fields(("Content-Type", "text/plain; charset=utf-8"))
        self._common_fields = common
        self._json_fields = json_fields
        self._text_fields = text_fields
        self._coded_fields: dict[Coding, bytes] = {
            coding: json_fields + header_fields(("Content-Encoding", coding)) for coding in get_args(Coding)
        }
        allowed = ("Access-Control-Allow-Methods", "GET,HEAD,POST")
        self._preflight_fields = common + header_fields(allowed, ("Access-Control-Max-Age", str(PREFLIGHT_KEPT_S)))
        self.on_change()

    @property
    def guard(self) -> RequestGuard | None:
        return self._guard

    @guard.setter
    def guard(self, guard: RequestGuard | None) -> None:
        self._guard = guard
        self.on_change()

    @property
    def own_pages(self) -> OwnPages | None:
        """Pages that may call the methods that are for these; None: those of all sites."""
        return self._own_pages

    @own_pages.setter
    def own_pages(self, own_pages: OwnPages | None) -> None:
        self._own_pages = own_pages
        self.on_change()

    @property
    def spans(self) -> trace.Spans | None:
        return self._spans

    @spans.setter
    def spans(self, spans: trace.Spans | None) -> None:
        self._spans = spans
        self.on_change()

    # ---- the connection's side ---------------------------------------------------------------

    def on_request(
        self, request: Request, allowance: Allowance, client: Client | None = None
    ) -> Response | Coroutine[Any, Any, Response]:
        """``client`` is charged for the calls of the body."""
        method, target, headers, body = request.method, request.target, request.headers, request.body
        if self._guard is not None and not self._guard.admits(method, target, headers):
            return self._guard.refusal
        # Fast path: a POST to the root can only be a call.
        if method == b"POST" and target == b"/":
            return self.on_call(headers, body, client, allowance)
        path = self._without_prefix(path_of(target))
        if self.pages is not None and method in (b"GET", b"HEAD"):
            page = self.pages.on_get(path, target, headers)
            if page is not None:
                return page
        if path == b"/":
            if method == b"POST":
                return self.on_call(headers, body, client, allowance)
            return self._on_other_verb(method, headers, "POST" if self.pages is None else "GET, HEAD, POST")
        if path in PROBE_PATHS:
            if method in (b"GET", b"HEAD"):
                return self._on_probe(path, headers)
            return self._on_other_verb(method, headers, "HEAD, GET")
        if path == EVENTS_PATH and self.events is not None:
            if method == b"GET":
                return self._on_events(self.events, request, client, allowance)
            return self._on_other_verb(method, headers, "GET")
        if path == DOCUMENT_PATH and self._engine.table.get(DISCOVER) is not None:
            if method in (b"GET", b"HEAD"):
                return self._on_document(headers, client, allowance)
            return self._on_other_verb(method, headers, "HEAD, GET")
        return self._text(HTTPStatus.NOT_FOUND, _KNOWN_PATHS)

    def _without_prefix(self, path: bytes) -> bytes:
        prefix = self._path_prefix
        if prefix and (path == prefix or path.startswith(prefix + b"/")):
            return b"/" + path[len(prefix) :].strip(b"/")
        return path

    def on_refusal(self, refusal: Refusal) -> Response:
        status, reason = refusal.status, refusal.reason
        self._count_refusal(status)
        if status in _STATUSES_WITH_RPC_ERROR:
            return self._rpc_error(status, reason)
        fields = self._text_fields
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            fields += _RETRY
        return Response(status, fields, f"{status.phrase}: {reason}".encode())

    # ---- verbs -------------------------------------------------------------------------------

    def _on_other_verb(self, method: bytes, headers: dict[bytes, bytes], allowed: str) -> Response:
        allow = header_fields(("Allow", allowed))
        if method != b"OPTIONS":
            return self._text(HTTPStatus.METHOD_NOT_ALLOWED, _ONLY_CALLS if "POST" in allowed else b"", allow)
        if b"origin" not in headers or b"access-control-request-method" not in headers:
            return Response(HTTPStatus.OK, self._text_fields + allow, b"")
        fields = self._preflight_fields
        wanted = headers.get(b"access-control-request-headers", b"")
        if _HEADER_NAMES.fullmatch(wanted) is not None:
            fields += header_fields(("Access-Control-Allow-Headers", wanted.decode("ascii")))
        return Response(HTTPStatus.NO_CONTENT, fields, None)

    def _on_probe(self, path: bytes, headers: dict[bytes, bytes]) -> Response:
        as_json = b"application/json" in headers.get(b"accept", b"").lower()
        status, body = answer_probe(path, self._health(), as_json=as_json)
        return Response(status, self._json_fields if as_json else self._text_fields, body)

    def _on_events(
        self,
        events: EventStreams,
        request: Request,
        client: Client | None,
        allowance: Allowance,
    ) -> Response | Coroutine[Any, Any, Response]:
        """It costs ``client`` what anything costs that is no call."""
        refusal = None if client is None else client.refusal_of(None)
        if isinstance(refusal, RateLimited):
            return self._refuse_later(None, refusal.wait_s, client)
        try:
            if self.push is not None and is_websocket(request.headers):
                return self.push.open(request, allowance, self._common_fields, client) or events.refuse(
                    self._common_fields
                )
            return events.open(request.target, request.headers, allowance, self._common_fields)
        except NodeBusy as error:
            return self._refuse_busy(error)

    async def _on_document(self, headers: dict[bytes, bytes], client: Client | None, allowance: Allowance) -> Response:
        """The document as ``client`` may see it, without the frame of a call; it costs what the call costs.

        It may be kept by the client, which is told with 304 that it is still the same.
        """
        refusal = None if client is None else client.refusal_of(DISCOVER)
        if isinstance(refusal, RateLimited):
            return await self._refuse_later(None, refusal.wait_s, client)
        if refusal is not None:
            return self._text(HTTPStatus.NOT_FOUND)
        table = self._engine.table
        method = table.get(DISCOVER)
        assert method is not None
        context = Context(None, table.method_set, self._engine.limits.response_bytes_max, client, allowance)

        def read() -> tuple[bytes, str]:
            made = method.run(context, [])
            assert made is not None
            # Weak: the codings of one document have it in common.
            return made, f'W/"{blake2b(made, digest_size=12).hexdigest()}"'

        body, tag = await run_off_loop(self._engine.busy_executor, allowance, read)
        kept = header_fields(("ETag", tag), ("Cache-Control", "private, no-cache"))
        if tag.removeprefix("W/").encode() in headers.get(b"if-none-match", b""):
            return Response(HTTPStatus.NOT_MODIFIED, self._common_fields + kept, None)
        response = self._respond(Reply([body]), headers.get(b"accept-encoding"), allowance)
        if not isinstance(response, Response):
            response = await response
        return response._replace(fields=response.fields + kept)

    def _count_refusal(self, status: HTTPStatus) -> None:
        limit = LIMITS_BY_STATUS.get(status)
        if limit is not None:
            self.count_rejected(limit)

    def count_rejected(self, limit: str) -> None:
        """Count a request that a limit refuses."""
        self._engine.traffic.rejected[limit] += 1

    def _text(self, status: HTTPStatus, hint: bytes = b"", fields: bytes = b"") -> Response:
        return Response(status, self._text_fields + fields, status.phrase.encode() + hint)

    # ---- JSON-RPC ----------------------------------------------------------------------------

    def on_call(
        self, headers: dict[bytes, bytes], body: bytes, client: Client | None, allowance: Allowance
    ) -> Response | Coroutine[Any, Any, Response]:
        """The answer to a POST of calls."""
        if self._spans is not None or not trace.NAMES.isdisjoint(headers):
            return self._on_named_call(headers, body, client, allowance)
        return self._read_call(headers, body, client, allowance)

    async def _on_named_call(
        self, headers: dict[bytes, bytes], body: bytes, client: Client | None, allowance: Allowance
    ) -> Response:
        """In its trace, which ends up in the log and at other nodes."""
        named = trace.read(headers)
        span = None if self._spans is None else self._spans.begin(named, body)
        with trace.entered(named if span is None else span.trace):
            status = int(HTTPStatus.INTERNAL_SERVER_ERROR)
            try:
                response = self._read_call(headers, body, client, allowance)
                if not isinstance(response, Response):
                    response = await response
                status = int(response.status)
            finally:
                if span is not None:
                    span.end(status)
        return response

    def _read_call(
        self, headers: dict[bytes, bytes], body: bytes, client: Client | None, allowance: Allowance
    ) -> Response | Coroutine[Any, Any, Response]:
        coding_header = headers.get(b"content-encoding")
        if coding_header is None or (coding := coding_header.strip().lower()) in (b"", b"identity"):
            return self._answer(headers, body, client, allowance)
        if not is_known_coding(name := coding.decode("latin-1")):
            return self._rpc_error(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "only the content codings gzip and deflate are understood"
            )
        inflation = Inflation(body, name, bytes_max=self._engine.limits.body_bytes_max)
        # Fast path: inflating a small body takes less time than handing it to a thread.
        try:
            if not inflation.go_on(INFLATED_ON_LOOP_BYTES_MAX):
                return self._inflate_in_thread(inflation, headers, client, allowance)
        except (BodyTooLarge, ValueError) as error:
            return self._refuse_inflation(error)
        return self._answer(headers, inflation.content, client, allowance)

    async def _inflate_in_thread(
        self, inflation: Inflation, headers: dict[bytes, bytes], client: Client | None, allowance: Allowance
    ) -> Response:
        def inflate() -> None:
            with interpreter.BUSY.left():
                inflation.go_on(inflation.bytes_max + 1)

        try:
            allowance.take_for_waiting()
            allowance.take(inflation.bytes_max)
            await run_off_loop(self._engine.busy_executor, allowance, inflate)
        except NodeBusy as error:
            return self._refuse_busy(error)
        except (BodyTooLarge, ValueError) as error:
            return self._refuse_inflation(error)
        answer = self._answer(headers, inflation.content, client, allowance)
        return answer if isinstance(answer, Response) else await answer

    def _refuse_inflation(self, error: Exception) -> Response:
        if not isinstance(error, BodyTooLarge):
            return self._rpc_error(HTTPStatus.BAD_REQUEST, str(error))
        self._count_refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return self._rpc_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error))

    def _refuse_busy(self, error: NodeBusy, body: list[bytes] | None = None) -> Response:
        """503 for want of memory.  ``body`` has the error of each call; None: no call was read, or none has an id."""
        self.count_rejected("memory")
        text = error_text(error.code, error.message, error.data) if body is None else b"".join(body)
        return Response(HTTPStatus.SERVICE_UNAVAILABLE, self._json_fields + _RETRY, text)

    def _answer(
        self, headers: dict[bytes, bytes], body: bytes, client: Client | None, allowance: Allowance
    ) -> Response | Coroutine[Any, Any, Response]:
        """The answer to a body in the plain."""
        is_json_type = _JSON_TYPE.fullmatch(headers.get(b"content-type", b"")) is not None
        accepted = headers.get(b"accept-encoding")
        is_foreign = self._own_pages is not None and self._own_pages.is_foreign(headers)
        reply = self._engine.handle(body, client, allowance, is_foreign=is_foreign)
        if not isinstance(reply, Reply):
            return self._respond_later(reply, accepted, allowance, client)
        if not is_json_type and reply.error_code == ParseError.code:
            return Response(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, self._json_fields, reply.text)
        return self._respond(reply, accepted, allowance, client)

    def respond(
        self,
        reply: Reply | Coroutine[Any, Any, Reply],
        accepted: bytes | None,
        allowance: Allowance,
        client: Client | None = None,
    ) -> Response | Coroutine[Any, Any, Response]:
        """The response to ``client``, which has called in JSON; ``accepted`` is its Accept-Encoding."""
        if isinstance(reply, Reply):
            return self._respond(reply, accepted, allowance, client)
        return self._respond_later(reply, accepted, allowance, client)

    @property
    def json_fields(self) -> bytes:
        """The header lines of a plain answer in JSON."""
        return self._json_fields

    @property
    def text_fields(self) -> bytes:
        """The header lines of an answer in words."""
        return self._text_fields

    @property
    def gzip_fields(self) -> bytes:
        """The header lines of an answer in JSON that is sent in gzip."""
        return self._coded_fields["gzip"]

    async def _respond_later(
        self, pending: Coroutine[Any, Any, Reply], accepted: bytes | None, allowance: Allowance, client: Client | None
    ) -> Response:
        response = self._respond(await pending, accepted, allowance, client)
        return response if isinstance(response, Response) else await response

    def _respond(
        self, reply: Reply, accepted: bytes | None, allowance: Allowance, client: Client | None = None
    ) -> Response | Coroutine[Any, Any, Response]:
        body = reply.body
        if reply.busy is not None:
            return self._refuse_busy(reply.busy, body)
        if reply.retry_after_s is not None:
            return self._refuse_later(body, reply.retry_after_s, client)
        if body is None:
            return Response(HTTPStatus.NO_CONTENT, self._common_fields, None)
        status = HTTPStatus.OK if reply.error_code is None else self._error_status
        length = length_of(body)
        coding = None if accepted is None or length <= COMPRESSED_BYTES_MIN else choose_coding(accepted)
        if coding is None:
            return Response(status, self._json_fields, b"".join(body) if length <= JOINED_BYTES_MAX else body)
        if length > COMPRESSED_ON_LOOP_BYTES_MAX:
            return self._compress_in_thread(status, coding, body, allowance)
        return Response(status, self._coded_fields[coding], self.coded.encode(body, coding))

    async def _refuse_later(self, body: list[bytes] | None, retry_after_s: float, client: Client | None) -> Response:
        """429 for a client that has no budget for anything that it asked for, with the budget."""
        await asyncio.sleep(refusal_delay())
        fields = header_fields(("Retry-After", str(max(1, math.ceil(retry_after_s)))))
        if client is not None:
            fields += header_fields(*client.budget_fields())
        return Response(HTTPStatus.TOO_MANY_REQUESTS, self._json_fields + fields, body or _OVER_BUDGET)

    async def _compress_in_thread(
        self, status: HTTPStatus, coding: Coding, pieces: list[bytes], allowance: Allowance
    ) -> Response:
        made: list[tuple[bytes, packed.Packed]] = []

        def compress() -> bytes:
            # Not outside of the busy place: two threads that compress would leave the loop no processor.
            return self.coded.encode(pieces, coding, made)

        try:
            allowance.take_for_waiting()
            allowance.take(length_of(pieces))
        except NodeBusy as error:
            return self._refuse_busy(error)
        body = await run_off_loop(self._engine.busy_executor, allowance, compress)
        for result, compressed in made:
            self.coded.keep(result, compressed)
        return Response(status, self._coded_fields[coding], body)

    def _rpc_error(self, status: HTTPStatus, reason: str) -> Response:
        return Response(status, self._json_fields, error_text(InvalidRequest.code, f"Invalid request: {reason}"))


def is_websocket(headers: Mapping[bytes, bytes]) -> bool:
    """True if a request asks for a WebSocket, in whatever form."""
    return b"upgrade" in headers and b"websocket" in tokens_of(headers, b"upgrade")


def path_of(target: bytes) -> bytes:
    """The path that a request target means: no query, no host, slashes that say nothing removed."""
    if not target.startswith(b"/"):
        target = _ABSOLUTE_TARGET.sub(b"", target, count=1)
    path = target.partition(b"?")[0]
    return b"/" + path.strip(b"/")
