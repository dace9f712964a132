"""Connections whose clients have budgets: the client is identified before the application is asked.

    request -> client (key, or address) -> application, which charges the client -> answer for the origin that asks

On the fast path a head says who asks, once for each head of a connection, and a call is charged right before its
outcome is made (``Payer`` in _ext/wire/payer.pyi), or by the engine.  What is left to the strict path is not charged.
Everything that could be read in two ways, and every list of origins, means the strict path.

A key may be in the path, ``/v1/KEY`` and what follows, if the rules say so: from here on it is not in the target any
more, but among the headers.

A request without a key that is asked for is refused with 401.  Probes and preflights are free.  Refusals come a
moment late (refusal_delay), see jsonrpc/rate_limits.py.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from fastnode.api.discovery import DISCOVER, DOCUMENT_PATH
from fastnode.http.allowance import Allowance
from fastnode.http.guard import RequestGuard
from fastnode.http.messages import Refusal, Request, Response, header_fields
from fastnode.jsonrpc.rate_limits import BYTES_PER_COST, KEY_HEADERS, Client, RateLimits, refusal_delay
from fastnode.kernels import payer, simple_request
from fastnode.serving.api_key import UNAUTHORIZED
from fastnode.serving.application import ANY_ORIGIN, RpcApplication, is_websocket, path_of
from fastnode.serving.event_streams import EVENTS_PATH

__all__ = ["ClientsRequests", "RateLimitGate"]

#: Paths whose GET is charged for, also under a prefix.
_CHARGED_PATHS: Final = (DOCUMENT_PATH, EVENTS_PATH)
#: Methods whose answer depends on who asks, which the kernels do not know.
_CLIENTS_OWN: Final = frozenset({DISCOVER})
#: Headers that say who asks.
_TELLING: Final = (*KEY_HEADERS, b"authorization", b"x-forwarded-for")
_TELLING_LINE: Final = re.compile(
    rb"\n(" + b"|".join(_TELLING) + rb"):[ \t]*([^\r]*)\r",
    re.IGNORECASE,
)
#: A key in a target, and in a request line.
_KEY_IN_TARGET: Final = re.compile(rb"/v1/([^/?#\s]{1,256})(?=[/?#]|$)/?")
_KEY_IN_LINE: Final = re.compile(rb"POST /v1/([^/?#\s]{1,256})/? ")


class RateLimitGate:
    """The gate that the connections of a port share.  ``limits`` may be replaced at any time."""

    def __init__(self, application: RpcApplication, limits: RateLimits, path_prefix: str = "") -> None:
        self.application = application
        self._limits: simple_request.Published[RateLimits] = simple_request.Published(limits)
        self._path_prefix = path_prefix.encode("ascii")

    @property
    def limits(self) -> RateLimits:
        return self._limits.value

    @limits.setter
    def limits(self, limits: RateLimits) -> None:
        self._limits.publish(limits)

    def on_request(
        self, address: str, request: Request, allowance: Allowance
    ) -> Response | Coroutine[Any, Any, Response]:
        """The answer to a complete request from ``address``."""
        limits, headers = self.limits, request.headers
        client = None
        if request.method == b"POST" or path_of(request.target).endswith(_CHARGED_PATHS):
            client = limits.client_of(address, headers)
            if client is None:
                return self._refuse(limits.allowed_origin(headers))
        if b"origin" in headers and is_websocket(headers) and limits.allowed_origin(headers) is None:
            return _forbidden(self.application)  # a browser asks nobody before it opens one, and reads what comes
        answer = self.application.on_request(request, allowance, client)
        origin = limits.allowed_origin(headers)
        if isinstance(answer, Response):
            return _for_origin(answer, origin)
        return _for_origin_later(answer, origin)

    def on_refusal(self, refusal: Refusal) -> Response:
        """The answer to a request that is not read to its end, for the origin that asks as far as that is known."""
        response = self.application.on_refusal(refusal)
        return _for_origin(response, self.limits.allowed_origin({b"origin": refusal.origin}))

    def with_key_of_path(self, request: Request) -> Request:
        """A key in the target becomes a header, and wins over those that there are."""
        if not self.limits.rules.keys_in_path:
            return request
        prefix = self._path_prefix if request.target.startswith(self._path_prefix + b"/v1/") else b""
        found = _KEY_IN_TARGET.match(request.target, len(prefix))
        if found is None:
            return request
        target = prefix + b"/" + request.target[found.end() :]
        return request._replace(target=target, headers=request.headers | {KEY_HEADERS[0]: unquote_to_bytes(found[1])})

    # ---- the fast path -----------------------------------------------------------------------

    def payer_at(self, address: str) -> payer.Payer:
        """The payer for the calls of a connection from ``address``."""
        # A longer body is charged for by the strict path alone.
        return payer.Payer(lambda head: self._identify(address, head), self._limits, _CLIENTS_OWN, BYTES_PER_COST - 1)

    def _identify(self, address: str, head: bytes) -> tuple[Client, bytes] | None:
        """The sender of a request, and its head without a key in the path; None if that is not plain."""
        limits = self.limits
        if limits.rules.origins is not None:
            return None
        in_path = _KEY_IN_LINE.match(head) if limits.rules.keys_in_path else None
        if in_path is not None:
            head = b"POST / " + head[in_path.end() :]
        lower = head.lower()
        if self.application.own_pages is not None and b"\norigin:" in lower:
            return None
        lines = _TELLING_LINE.findall(head)
        headers = {name.lower(): value.strip() for name, value in lines}
        if len(headers) != sum(lower.count(b"\n" + name) for name in _TELLING):  # twice, or written in another way
            return None
        if in_path is not None:
            headers[KEY_HEADERS[0]] = unquote_to_bytes(in_path[1])
        client = limits.client_of(address, headers)
        return None if client is None else (client, head)

    async def _refuse(self, origin: str | None) -> Response:
        self.application.count_rejected("key")
        await asyncio.sleep(refusal_delay())
        return _for_origin(Response(HTTPStatus.UNAUTHORIZED, self.application.json_fields, UNAUTHORIZED), origin)


def _forbidden(application: RpcApplication) -> Response:
    text = b"Forbidden: pages of this origin may not be told of events"
    return _for_origin(Response(HTTPStatus.FORBIDDEN, application.text_fields, text), None)


def _for_origin(response: Response, origin: str | None) -> Response:
    """As it is sent to the origin that asks."""
    if origin == "*":
        return response
    field = b"" if origin is None else header_fields(("Access-Control-Allow-Origin", origin))
    return response._replace(fields=response.fields.replace(ANY_ORIGIN, field))


async def _for_origin_later(pending: Coroutine[Any, Any, Response], origin: str | None) -> Response:
    return _for_origin(await pending, origin)


class ClientsRequests:
    """The application of a connection from ``address``: the one behind the gate."""

    __slots__ = ("_address", "_gate")

    def __init__(self, gate: RateLimitGate, address: str) -> None:
        self._gate = gate
        self._address = address

    @property
    def guard(self) -> RequestGuard | None:
        return self._gate.application.guard

    def on_request(self, request: Request, allowance: Allowance) -> Response | Coroutine[Any, Any, Response]:
        return self._gate.on_request(self._address, self._gate.with_key_of_path(request), allowance)

    def on_refusal(self, refusal: Refusal) -> Response:
        return self._gate.on_refusal(refusal)
