"""Connections whose clients have budgets: the client is identified before the application is asked.

    request -> client (key, or address) -> application, which charges the client -> answer for the origin that asks

A single call of the usual form is charged from its bytes and goes on to the fast path.  If that leaves it to the strict
path, the charge is taken back there and made again, like every other.  Everything that could be read in two ways, and
every list of origins, means the strict path.

A request without a key that is asked for is refused with 401.  Probes and preflights are free.  Refusals come a
moment late (refusal_delay), see jsonrpc/rate_limits.py.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, Final

from fastnode.api.discovery import DISCOVER, DOCUMENT_PATH
from fastnode.http.allowance import Allowance
from fastnode.http.connection import ConnectionOwner, HttpConnection
from fastnode.http.listener import Arrival
from fastnode.http.messages import Refusal, Request, Response, header_fields
from fastnode.http.reader import ReadState
from fastnode.jsonrpc.rate_limits import Client, RateLimits, refusal_delay
from fastnode.serving.application import ANY_ORIGIN, RpcApplication, path_of
from fastnode.serving.event_streams import EVENTS_PATH
from fastnode.serving.fast_path import FastConnection, FastPath

__all__ = ["LimitedConnection", "RateLimitGate"]

_UNAUTHORIZED: Final = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Unauthorized: invalid or missing API key"}}'
)

#: A longer burst is left to the strict path.
_USUAL_BYTES_MAX: Final = 4096
_LENGTH: Final = re.compile(rb"\ncontent-length: ?([0-9]{1,9})\r")
_METHOD: Final = re.compile(rb'"method"(?:[ \t]*:[ \t]*"([\w.]+)")?')
#: Methods whose answer depends on who asks, which the fast path does not know.
_CLIENTS_OWN: Final = frozenset({DISCOVER.encode()})
#: Where GET is charged for, also under a prefix.
_CHARGED_PATHS: Final = (DOCUMENT_PATH, EVENTS_PATH)
#: Headers that say who asks, in a head that is lower-case.
_TELLING: Final = (b"\nx-api-key", b"\nauthorization", b"\nx-forwarded-for")
_TELLING_LINE: Final = re.compile(rb"\n(x-api-key|authorization|x-forwarded-for):[ \t]*([^\r]*)\r", re.IGNORECASE)


class RateLimitGate:
    """What the connections of a port share.  ``limits`` may be replaced at any time."""

    def __init__(self, application: RpcApplication, limits: RateLimits) -> None:
        self.application = application
        self.limits = limits

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
        answer = self.application.on_request(
            request.method, request.target, headers, request.body, client, allowance=allowance
        )
        origin = limits.allowed_origin(headers)
        if origin == "*":
            return answer
        return _for_origin(answer, origin) if isinstance(answer, Response) else _for_origin_later(answer, origin)

    def on_refusal(self, refusal: Refusal) -> Response:
        """The answer to a request that is not read to its end, for the origin that asks as far as that is known."""
        response = self.application.on_refusal(refusal.status, refusal.reason)
        return _for_origin(response, self.limits.allowed_origin({b"origin": refusal.origin}))

    # ---- the fast path -----------------------------------------------------------------------

    def prepay(self, address: str, data: bytes) -> tuple[Client, float] | None:
        """Charge ``data`` if it is one call of the usual form, by a client that may make it; who paid, and what."""
        if len(data) > _USUAL_BYTES_MAX or self.limits.rules.origins is not None:
            return None
        end = data.find(b"\r\n\r\n")
        head = data[: end + 2].lower()
        length = _LENGTH.search(head)
        if length is None or end + 4 + int(length[1]) != len(data):  # not one whole request
            return None
        methods = _METHOD.findall(data)
        if len(methods) != 1 or not methods[0] or methods[0] in _CLIENTS_OWN:
            return None
        client = self._client_of(address, data, head)
        if client is None:
            return None
        cost = client.prepay(methods[0].decode("ascii"))
        return None if cost is None else (client, cost)

    def _client_of(self, address: str, data: bytes, head: bytes) -> Client | None:
        """Who sent a request, whose ``head`` is in lower case; None if that is not plain."""
        key, authorization, forwarded = _TELLING
        if key not in head and authorization not in head and forwarded not in head:
            return self.limits.client_of(address, {})
        lines = _TELLING_LINE.findall(data, 0, len(head))
        headers = {name.lower(): value.strip() for name, value in lines}
        if len(headers) != sum(head.count(name) for name in _TELLING):  # twice, or written in another way
            return None
        return self.limits.client_of(address, headers)

    async def _refuse(self, origin: str | None) -> Response:
        self.application.count_rejected("key")
        await asyncio.sleep(refusal_delay())
        return _for_origin(Response(HTTPStatus.UNAUTHORIZED, self.application.json_fields, _UNAUTHORIZED), origin)


def _for_origin(response: Response, origin: str | None) -> Response:
    field = b"" if origin is None else header_fields(("Access-Control-Allow-Origin", origin))
    return response._replace(fields=response.fields.replace(ANY_ORIGIN, field))


async def _for_origin_later(pending: Coroutine[Any, Any, Response], origin: str | None) -> Response:
    return _for_origin(await pending, origin)


class LimitedConnection(FastConnection):
    """A connection whose requests go through a gate."""

    __slots__ = ("_address", "_gate", "_prepaid")

    def __init__(
        self,
        owner: ConnectionOwner,
        loop: asyncio.AbstractEventLoop,
        arrival: Arrival,
        fast: FastPath,
        gate: RateLimitGate,
    ) -> None:
        super().__init__(owner, loop, arrival.network, fast)
        self._gate = gate
        self._address = arrival.peer
        #: Who has paid for the burst that is being received, and what.
        self._prepaid: tuple[Client, float] | None = None
        self.data_received = self._receive
        self.get_buffer = self._lend_buffer
        self.buffer_updated = self._receive_from_buffer

    def _lend_buffer(self, _size_hint: int) -> bytearray:
        self._buffer = self._receiver.get_buffer(_size_hint)
        return self._buffer

    def _receive_from_buffer(self, count: int) -> None:
        self._receiver.has_turn = False
        self._receive(bytes(memoryview(self._buffer)[:count]))

    def _receive(self, data: bytes) -> None:
        if self._owner.turns.time.is_crowded and not self._is_waiting:
            self.wait_for_turn(data)
            return
        if self._receiver.is_resting or self._is_at_rest():
            self._prepaid = self._gate.prepay(self._address, data)
            if self._prepaid is not None:
                self._receiver.receive(data)
                if self._reader.state is not ReadState.IDLE:  # it is not whole yet
                    self._refund()
                self._prepaid = None
                return
        self.wake()
        HttpConnection.data_received(self, data)

    def _refund(self) -> None:
        if self._prepaid is not None:
            client, cost = self._prepaid
            client.refund(cost)
            self._prepaid = None

    def _refuse(self, refusal: Refusal) -> Response:
        return self._gate.on_refusal(refusal)

    def _take(self, item: Request | Refusal) -> None:
        self._refund()
        if isinstance(item, Refusal):
            super()._take(item)
        else:
            allowance = item.allowance or Allowance(self.party)
            self._enter(item, self._gate.on_request(self._address, item, allowance), allowance)
