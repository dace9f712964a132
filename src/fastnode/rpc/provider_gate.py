"""Connections whose clients have budgets: who asks is found out before the application is asked.

    request -> client (key, or address) -> application, which charges the client -> answer for the origin that asks

A request without a key that is asked for is refused with 401.  Probes and preflights are nobody's.  Refusals come a
moment late (REFUSAL_DELAY_S), see rpc/provider_limits.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, Final

from fastnode.rpc.application import ANY_ORIGIN, RpcApplication
from fastnode.rpc.http import ConnectionOwner, HttpConnection
from fastnode.rpc.http_messages import Refusal, Request, Response, header_fields
from fastnode.rpc.provider_limits import REFUSAL_DELAY_S, ProviderLimits

__all__ = ["LimitedConnection", "ProviderGate"]

_UNAUTHORIZED: Final = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Unauthorized: invalid or missing API key"}}'
)


class ProviderGate:
    """What the connections of a port share.  ``limits`` may be replaced at any time."""

    def __init__(self, application: RpcApplication, limits: ProviderLimits) -> None:
        self.application = application
        self.limits = limits

    def on_request(self, peer: str, request: Request) -> Response | Coroutine[Any, Any, Response]:
        """The answer to a complete request from the address ``peer``."""
        limits, headers = self.limits, request.headers
        client = None
        if request.method == b"POST":
            client = limits.client_of(peer, headers)
            if client is None:
                return self._refuse(limits.allowed_origin(headers))
        answer = self.application.on_request(request.method, request.target, headers, request.body, client)
        origin = limits.allowed_origin(headers)
        if origin == "*":
            return answer
        return _for_origin(answer, origin) if isinstance(answer, Response) else _for_origin_later(answer, origin)

    async def _refuse(self, origin: str | None) -> Response:
        self.application.count_rejected("key")
        await asyncio.sleep(REFUSAL_DELAY_S)
        return _for_origin(Response(HTTPStatus.UNAUTHORIZED, self.application.json_fields, _UNAUTHORIZED), origin)


def _for_origin(response: Response, origin: str | None) -> Response:
    field = b"" if origin is None else header_fields(("Access-Control-Allow-Origin", origin))
    return response._replace(fields=response.fields.replace(ANY_ORIGIN, field))


async def _for_origin_later(pending: Coroutine[Any, Any, Response], origin: str | None) -> Response:
    return _for_origin(await pending, origin)


class LimitedConnection(HttpConnection):
    """A connection on the strict path whose requests go through a gate."""

    __slots__ = ("_gate", "_peer")

    def __init__(self, owner: ConnectionOwner, loop: asyncio.AbstractEventLoop, gate: ProviderGate) -> None:
        super().__init__(owner, loop)
        self._gate = gate
        self._peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple) and name:
            self._peer = str(name[0])
        super().connection_made(transport)

    def _take(self, item: Request | Refusal) -> None:
        if isinstance(item, Refusal):
            super()._take(item)
        else:
            self._enter(item, self._gate.on_request(self._peer, item))
