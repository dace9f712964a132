"""GET requests to blob servers: a deadline, a limit on the answer, an error text without secrets."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import orjson

from fastnode.errors import UpstreamUnavailable
from fastnode.outgoing.network import NetworkThread
from fastnode.sources.blobs.base import BlobSourceError

__all__ = ["HttpGet"]

_MIB: Final = 1 << 20
_READ_BYTES: Final = 256 * 1024
#: Statuses by which a server says: not now.
_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_OK: Final = 200
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class HttpGet:
    """Blocks; usable from any thread but the network's own.  ``answer_bytes_max`` bounds what is kept of an answer."""

    network: NetworkThread
    request_time_s: float = 15.0
    answer_bytes_max: int = 64 * _MIB

    def json(self, url: str, headers: Mapping[str, str], parameters: Mapping[str, str] | None = None) -> Any:
        """The answer; None for 404.  BlobSourceError."""
        try:
            status, body = self.network.run(self._get(url, dict(headers), dict(parameters or {})))
        except UpstreamUnavailable as error:  # the node is stopping
            raise BlobSourceError(str(error), is_passing=True) from error
        if status == _NOT_FOUND:
            return None
        if status != _OK:
            raise BlobSourceError(f"HTTP status {status}", is_passing=status in _BUSY)
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            raise BlobSourceError("its answer is not JSON") from None

    async def _get(self, url: str, headers: dict[str, str], parameters: dict[str, str]) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(self.request_time_s):
                return await self._exchange(url, headers, parameters)
        except TimeoutError:
            text = f"no complete answer within {self.request_time_s:g} s"
            raise BlobSourceError(text, is_passing=True) from None
        except aiohttp.ClientError as error:
            raise BlobSourceError(type(error).__name__, is_passing=True) from error
        except OSError as error:
            text = os.strerror(error.errno) if error.errno else type(error).__name__
            raise BlobSourceError(text, is_passing=True) from error

    async def _exchange(self, url: str, headers: dict[str, str], parameters: dict[str, str]) -> tuple[int, bytes]:
        async with self.network.session.get(
            url, headers=headers, params=parameters, allow_redirects=False, timeout=aiohttp.ClientTimeout(total=None)
        ) as response:
            chunks = bytearray()
            async for chunk in response.content.iter_chunked(_READ_BYTES):
                chunks += chunk
                if len(chunks) > self.answer_bytes_max:
                    raise BlobSourceError(f"its answer exceeds {self.answer_bytes_max} bytes")
            return response.status, bytes(chunks)
