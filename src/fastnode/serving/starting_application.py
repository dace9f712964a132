"""Answers of a port while its node starts: the probes, and to everything else why it cannot answer yet.

GET /livez            200
GET /readyz, /status  503 with what the start waits for
everything else       503 with a JSON-RPC error and Retry-After
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final

from fastnode.errors import ServerError
from fastnode.http.allowance import Allowance
from fastnode.http.health import PROBE_PATHS, Health, answer_probe
from fastnode.http.messages import Refusal, Request, Response, header_fields
from fastnode.jsonrpc.json_text import error_text

__all__ = ["StartingApplication"]

_COMMON: Final = header_fields(("Vary", "Accept-Encoding, Origin"), ("Access-Control-Allow-Origin", "*"))
_JSON: Final = _COMMON + header_fields(("Content-Type", "application/json; charset=utf-8"))
_TEXT: Final = _COMMON + header_fields(("Content-Type", "text/plain; charset=utf-8"))
_RETRY: Final = header_fields(("Retry-After", "1"))


class StartingApplication:
    """``reason`` says what the start waits for; ``path_prefix`` is a path under which the probes are found too.

    ``headers`` are in every answer.
    """

    guard = None

    def __init__(
        self,
        reason: Callable[[], str],
        path_prefix: str = "",
        headers: Callable[[], Sequence[tuple[str, str]]] = lambda: (),
    ) -> None:
        self._headers = headers
        self._reason = reason
        self._prefix = path_prefix.encode("ascii")

    def on_request(self, request: Request, allowance: Allowance) -> Response:
        path = b"/" + request.target.partition(b"?")[0].removeprefix(self._prefix).strip(b"/")
        if path in PROBE_PATHS and request.method in (b"GET", b"HEAD"):
            return self._on_probe(path, request.headers)
        message = f"The node is starting: it waits for {self._reason()}"
        answer = error_text(ServerError.code, message, {"code": "STARTING"})
        return Response(HTTPStatus.SERVICE_UNAVAILABLE, _JSON + _RETRY + header_fields(*self._headers()), answer)

    def on_refusal(self, refusal: Refusal) -> Response:
        return Response(refusal.status, _TEXT, f"{refusal.status.phrase}: {refusal.reason}".encode())

    def _on_probe(self, path: bytes, headers: dict[bytes, bytes]) -> Response:
        reason = f"the node is starting: it waits for {self._reason()}"
        as_json = b"application/json" in headers.get(b"accept", b"").lower()
        health = Health(components={"start": reason}, not_ready=reason)
        status, answer = answer_probe(path, health, as_json=as_json)
        return Response(status, (_JSON if as_json else _TEXT) + header_fields(*self._headers()), answer)
