"""JSON-RPC to another node: batches, a deadline, a limit on what it may answer.

Nothing here tries again: whether and when to is decided once, by the node's health (``upstreams.py``).
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import aiohttp
import orjson

from fastnode.errors import UpstreamFault, UpstreamRejection, UpstreamUnavailable
from fastnode.outgoing.network import NetworkThread

__all__ = ["METHOD_NOT_FOUND", "ClientLimits", "Reply", "RpcCall", "RpcClient"]

#: Method and parameters.
RpcCall: TypeAlias = tuple[str, Sequence[Any]]

METHOD_NOT_FOUND: Final = -32601
VERSION_PREFIX: Final = "x-aztec-"

_MIB: Final = 1 << 20
_READ_BYTES: Final = 256 * 1024
_ERROR_TEXT_MAX: Final = 2000
_QUOTED_BYTES: Final = 40
_QUOTED_TEXT_MAX: Final = 80
#: Statuses by which a server says: not now.
_BUSY: Final = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """``request_time_s`` covers a whole request, from connecting to the last byte of the answer."""

    request_time_s: float = 15.0
    connect_time_s: float = 5.0
    response_bytes_max: int = 64 * _MIB


@dataclass(frozen=True, slots=True)
class Reply:
    """Answers in the order of the calls: a result, None for nothing found, or an UpstreamRejection."""

    answers: list[Any]
    byte_count: int
    #: What the other node says of its network: headers of VERSION_PREFIX, their names in lower case.
    headers: Mapping[str, str] = field(default_factory=dict)

    def results(self) -> list[Any]:
        """The answers; the first rejection among them is raised."""
        for answer in self.answers:
            if isinstance(answer, UpstreamRejection):
                raise answer
        return self.answers


class _Response(NamedTuple):
    status: int
    retry_after_s: float | None
    body: bytes
    version_headers: dict[str, str]


class RpcClient:
    """Asks one URL, with ``headers`` beside the usual ones.  Usable from any thread but the network's own."""

    def __init__(
        self,
        url: str,
        network: NetworkThread,
        limits: ClientLimits | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._url = url
        self._address = _address_of(url)
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._network = network
        self._limits = limits or ClientLimits()

    def ask(self, calls: Sequence[RpcCall]) -> Reply:
        """One request with all the calls; blocks until it is answered.

        UpstreamUnavailable: try later; UpstreamFault: the answer makes no sense; UpstreamRejection: the request
        as a whole was refused.
        """
        status, retry_after, body, headers = self._network.run(self._post(_encode(calls)))
        if status in _BUSY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise UpstreamUnavailable(f"HTTP status {status}", retry_after_s=retry_after)
        # Any other status may come with an answer: the reference node's errors have status 400.
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict | list):
            what = "its answer is not JSON" if status == HTTPStatus.OK else f"HTTP status {status}"
            quoted = repr(body[: _QUOTED_BYTES + len(self._address)])
            raise UpstreamFault(f"{what}: {_anonymous(quoted, self._address)[:_QUOTED_TEXT_MAX]}")
        return Reply(_in_order(answer, calls, self._address), len(body), headers)

    async def _post(self, body: bytes) -> _Response:
        limits = self._limits
        try:
            async with asyncio.timeout(limits.request_time_s):
                return await self._exchange(body)
        except TimeoutError:
            raise UpstreamUnavailable(f"no complete answer within {limits.request_time_s:g} s") from None
        except aiohttp.ClientError as error:
            raise UpstreamUnavailable(_describe(error)) from error
        except OSError as error:
            raise UpstreamUnavailable(os.strerror(error.errno) if error.errno else type(error).__name__) from error

    async def _exchange(self, body: bytes) -> _Response:
        limits = self._limits
        async with self._network.session.post(
            self._url,
            data=body,
            headers=self._headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=limits.connect_time_s),
        ) as response:
            chunks = bytearray()
            async for chunk in response.content.iter_chunked(_READ_BYTES):
                chunks += chunk
                if len(chunks) > limits.response_bytes_max:
                    raise UpstreamFault(f"its answer exceeds {limits.response_bytes_max} bytes")
            retry_after = _retry_after(response.headers.get("Retry-After"))
            return _Response(response.status, retry_after, bytes(chunks), _version_headers(response.headers))


def _version_headers(headers: Mapping[str, str]) -> dict[str, str]:
    named = ((name.lower(), value) for name, value in headers.items())
    return {name: value for name, value in named if name.startswith(VERSION_PREFIX)}


def _address_of(url: str) -> str:
    """Host of a URL; empty if there is none."""
    return urlsplit(url).hostname or ""


def _anonymous(text: str, address: str) -> str:
    """Without the address: the text may be seen by clients."""
    return re.sub(re.escape(address) + r"(:[0-9]+)?", "(its address)", text, flags=re.IGNORECASE) if address else text


def _encode(calls: Sequence[RpcCall]) -> bytes:
    requests = [
        {"jsonrpc": "2.0", "id": index, "method": method, "params": parameters}
        for index, (method, parameters) in enumerate(calls)
    ]
    return orjson.dumps(requests[0] if len(requests) == 1 else requests)


def _in_order(answer: dict[str, Any] | list[Any], calls: Sequence[RpcCall], address: str) -> list[Any]:
    if isinstance(answer, dict):
        if "error" in answer and len(calls) > 1:
            raise _rejection(answer["error"], address)
        answer = [answer]
    by_id: dict[Any, dict[str, Any]] = {}
    for entry in answer:
        if not isinstance(entry, dict) or not isinstance(entry.get("id"), int):
            raise UpstreamFault("its answer is no JSON-RPC answer")
        by_id[entry["id"]] = entry
    answers: list[Any] = []
    for index, (method, _) in enumerate(calls):
        if index not in by_id:
            raise UpstreamFault(f"it left {method} without an answer")
        entry = by_id[index]
        answers.append(_rejection(entry["error"], address) if "error" in entry else entry.get("result"))
    return answers


def _rejection(error: Any, address: str) -> UpstreamRejection:
    if not isinstance(error, dict) or not isinstance(error.get("code"), int):
        raise UpstreamFault("its answer is no JSON-RPC answer")
    message = _anonymous(str(error.get("message", ""))[:_ERROR_TEXT_MAX], address)
    return UpstreamRejection(error["code"], message, error.get("data"))


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait, from seconds or from a date."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _describe(error: aiohttp.ClientError) -> str:
    """Without the address: the text may be seen by clients."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "cannot connect" + (f": {os.strerror(error.errno)}" if error.errno else "")
    return f"the connection broke ({type(error).__name__})"
