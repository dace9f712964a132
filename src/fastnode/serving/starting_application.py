"""Answers of a port while its node starts: the probes, and to everything else why it cannot answer yet.

GET /livez            200
GET /readyz, /status  503 with what the start waits for
POST                  503 with an error for each call, in the envelope that its result will have; 204 for notifications
GET of a page         503 with a page for browsers, on a port that has one
everything else       503 with a JSON-RPC error

Each 503 has Retry-After.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastnode.errors import ServerError
from fastnode.http.allowance import Allowance
from fastnode.http.health import PROBE_PATHS, Health, answer_probe
from fastnode.http.limits import Limits
from fastnode.http.messages import Refusal, Request, Response, header_fields
from fastnode.jsonrpc.engine import Engine
from fastnode.jsonrpc.json_text import error_text, error_value
from fastnode.jsonrpc.methods import Context, MethodTable
from fastnode.kernels import calls
from fastnode.serving.application import Pages, RpcApplication

__all__ = ["StartingApplication"]

_COMMON: Final = header_fields(("Vary", "Accept-Encoding, Origin"), ("Access-Control-Allow-Origin", "*"))
_JSON: Final = _COMMON + header_fields(("Content-Type", "application/json; charset=utf-8"))
_TEXT: Final = _COMMON + header_fields(("Content-Type", "text/plain; charset=utf-8"))
_RETRY: Final = header_fields(("Retry-After", "1"))


class StartingApplication:
    """``reason`` says what the start waits for; ``path_prefix`` is a path under which the probes are found too.

    ``headers`` are in every answer.  ``pages`` answer browsers.
    """

    guard = None

    def __init__(
        self,
        reason: Callable[[], str],
        path_prefix: str = "",
        headers: Callable[[], Sequence[tuple[str, str]]] = lambda: (),
        limits: Limits | None = None,
        pages: Pages | None = None,
    ) -> None:
        self._pages = pages
        self._headers = headers
        self._reason = reason
        self._prefix = path_prefix.encode("ascii")
        self._rpc = RpcApplication(_StartingEngine(self._error, limits))

    def on_request(self, request: Request, allowance: Allowance) -> Response | Coroutine[Any, Any, Response]:
        path = b"/" + request.target.partition(b"?")[0].removeprefix(self._prefix).strip(b"/")
        if path in PROBE_PATHS and request.method in (b"GET", b"HEAD"):
            return self._on_probe(path, request.headers)
        if self._pages is not None and request.method in (b"GET", b"HEAD"):
            page = self._pages.on_get(path, request.target, request.headers)
            if isinstance(page, Response):
                return page._replace(fields=page.fields + header_fields(*self._headers()))
        if request.method == b"POST":
            # Any path: it may have an API key, whose file is not read yet.
            response = self._rpc.on_call(request.headers, request.body, None, allowance)
            return self._starting(response) if isinstance(response, Response) else self._starting_later(response)
        error = self._error()
        answer = error_text(error.code, error.message, error.data)
        return Response(HTTPStatus.SERVICE_UNAVAILABLE, _JSON + _RETRY + header_fields(*self._headers()), answer)

    def on_refusal(self, refusal: Refusal) -> Response:
        return self._rpc.on_refusal(refusal)

    def _error(self) -> ServerError:
        return ServerError(f"The node is starting: it waits for {self._reason()}", data={"code": "STARTING"})

    def _starting(self, response: Response) -> Response:
        """An answer to calls, with the status of a node that starts; faults of HTTP keep theirs."""
        fields = response.fields + header_fields(*self._headers())
        if response.status is HTTPStatus.OK:
            return response._replace(status=HTTPStatus.SERVICE_UNAVAILABLE, fields=fields + _RETRY)
        return response._replace(fields=fields)

    async def _starting_later(self, response: Coroutine[Any, Any, Response]) -> Response:
        return self._starting(await response)

    def _on_probe(self, path: bytes, headers: dict[bytes, bytes]) -> Response:
        reason = f"the node is starting: it waits for {self._reason()}"
        as_json = b"application/json" in headers.get(b"accept", b"").lower()
        health = Health(components={"start": reason}, not_ready=reason)
        status, answer = answer_probe(path, health, as_json=as_json)
        return Response(status, (_JSON if as_json else _TEXT) + header_fields(*self._headers()), answer)


class _StartingEngine(Engine):
    """Rejects each call with one error: there are no methods yet."""

    def __init__(self, error: Callable[[], ServerError], limits: Limits | None) -> None:
        super().__init__(MethodTable(()), lambda: None, limits=limits)
        self._error = error

    def _call(self, asked: calls.Calls, index: int, outcomes: calls.Outcomes, context: Context) -> None:
        name, flaw, _ = asked[index]
        error = flaw if name is None else self._error()
        outcomes.set_error(index, error, error_value(error))
