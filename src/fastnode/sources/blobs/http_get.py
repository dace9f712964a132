"""GET requests to blob servers: JSON or bytes, with errors that do not repeat the URL, which may hold a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final
from urllib.parse import urlencode

from fastnode.errors import AnswerTooLarge, UpstreamError, UpstreamUnavailable
from fastnode.outgoing.client import decoded
from fastnode.outgoing.network import Answer, ClientLimits, Network
from fastnode.records import dataclass
from fastnode.sources.blobs.base import BlobAnswerTooLarge, BlobSourceError

__all__ = ["HttpGet"]

#: Statuses of a busy server.
_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_OK: Final = 200
_NOT_FOUND: Final = 404
_BYTES: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class HttpGet:
    """Blocks; usable from any thread."""

    network: Network
    limits: ClientLimits = field(default_factory=ClientLimits)

    def json(self, url: str, headers: Mapping[str, str], parameters: Mapping[str, str] | None = None) -> Any:
        """The answer; None for 404.  BlobSourceError, one of them BlobAnswerTooLarge."""
        answer = self._answer(url, headers, parameters)
        return None if answer is None else self._decoded(answer)

    def json_or_bytes(self, url: str, headers: Mapping[str, str], parameters: Mapping[str, str]) -> Any:
        """As :meth:`json`, but the bytes as they are where the server has them in that form, which it prefers."""
        answer = self._answer(url, {"Accept": f"{_BYTES}, application/json;q=0.9", **headers}, parameters)
        if answer is None:
            return None
        is_bytes = answer.headers.get("content-type", "").partition(";")[0].strip().lower() == _BYTES
        return answer.body if is_bytes else self._decoded(answer)

    def _answer(self, url: str, headers: Mapping[str, str], parameters: Mapping[str, str] | None) -> Answer | None:
        limits = self.limits.here
        target = f"{url}?{urlencode(parameters, safe=',')}" if parameters else url
        try:
            # A redirect could carry the key to another server.
            answer = self.network.get(target, limits, headers, redirects_max=0)
        except AnswerTooLarge as error:
            raise BlobAnswerTooLarge(str(error)) from None
        except UpstreamError as error:
            raise BlobSourceError(str(error), is_passing=isinstance(error, UpstreamUnavailable)) from error
        if answer.status == _NOT_FOUND:
            return None
        if answer.status != _OK:
            raise BlobSourceError(f"HTTP status {answer.status}", is_passing=answer.status in _BUSY)
        return answer

    def _decoded(self, answer: Answer) -> Any:
        try:
            value = decoded(answer.body, self.limits.here.memory_bytes_max)
        except AnswerTooLarge as error:
            raise BlobAnswerTooLarge(str(error)) from None
        if value is None and answer.body.strip() != b"null":
            raise BlobSourceError("its answer is not JSON")
        return value
