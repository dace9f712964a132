"""GET requests to blob servers: a deadline, a limit on the answer, an error text without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from fastnode.errors import UpstreamFault, UpstreamUnavailable
from fastnode.outgoing.network import ClientLimits, Network
from fastnode.sources.blobs.base import BlobSourceError

__all__ = ["HttpGet"]

_MIB: Final = 1 << 20
#: Statuses by which a server says: not now.
_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_OK: Final = 200
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class HttpGet:
    """Blocks; usable from any thread.  ``answer_bytes_max`` bounds what is kept of an answer."""

    network: Network
    request_time_s: float = 15.0
    answer_bytes_max: int = 64 * _MIB

    def json(self, url: str, headers: Mapping[str, str], parameters: Mapping[str, str] | None = None) -> Any:
        """The answer; None for 404.  BlobSourceError."""
        if parameters:
            url += ("&" if "?" in url else "?") + urlencode(parameters)
        limits = ClientLimits(request_time_s=self.request_time_s, response_bytes_max=self.answer_bytes_max)
        try:
            # The headers may hold keys, which must not go where a redirect leads.
            answer = self.network.get(url, limits, headers, redirects_max=0)
        except UpstreamUnavailable as error:
            raise BlobSourceError(str(error), is_passing=True) from error
        except UpstreamFault as error:
            raise BlobSourceError(str(error)) from error
        if answer.status == _NOT_FOUND:
            return None
        if answer.status != _OK:
            raise BlobSourceError(f"HTTP status {answer.status}", is_passing=answer.status in _BUSY)
        try:
            return orjson.loads(answer.body)
        except orjson.JSONDecodeError:
            raise BlobSourceError("its answer is not JSON") from None
