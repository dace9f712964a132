"""GET requests to blob servers: JSON or bytes, with errors that do not repeat the URL, which may hold a key."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode, urlsplit

from fastnode.errors import AnswerTooLarge, UpstreamError, UpstreamUnavailable
from fastnode.outgoing.client import decoded
from fastnode.outgoing.network import Answer, ClientLimits, Network
from fastnode.outgoing.provider_limits import ProviderLimits
from fastnode.outgoing.quoting import FORBIDDEN, described, quoted
from fastnode.records import dataclass
from fastnode.sources.blobs.base import BlobAnswerTooLarge, BlobSourceError

__all__ = ["HttpGet", "Parameters"]

#: Statuses of a busy server.
_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_OK: Final = 200
_REDIRECTS: Final = 300
_NOT_FOUND: Final = 404
_TOO_MANY: Final = 429
_BYTES: Final = "application/octet-stream"
#: Names and values of a query; a name may come more than once.
Parameters: TypeAlias = Sequence[tuple[str, str]]


class _Pacing:
    """Limits of each server, learned from what it refuses.  Usable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[str, ProviderLimits] = {}

    def of(self, url: str) -> ProviderLimits:
        with self._lock:
            return self._servers.setdefault(urlsplit(url).netloc, ProviderLimits())


@dataclass(frozen=True, slots=True)
class HttpGet:
    """Blocks; usable from any thread."""

    network: Network
    limits: ClientLimits = field(default_factory=ClientLimits)
    _pacing: _Pacing = field(default_factory=_Pacing)

    def json(self, url: str, headers: Mapping[str, str], parameters: Parameters = ()) -> Any:
        """The answer; None for 404.  BlobSourceError, one of them BlobAnswerTooLarge."""
        answer = self._answer(url, headers, parameters)
        return None if answer is None else self._decoded(answer, url, headers)

    def json_or_bytes(self, url: str, headers: Mapping[str, str], parameters: Parameters) -> Any:
        """As :meth:`json`, but the bytes as they are where the server has them in that form, which it prefers."""
        answer = self._answer(url, {"Accept": f"{_BYTES}, application/json;q=0.9", **headers}, parameters)
        if answer is None:
            return None
        is_bytes = answer.headers.get("content-type", "").partition(";")[0].strip().lower() == _BYTES
        return answer.body if is_bytes else self._decoded(answer, url, headers)

    def _answer(self, url: str, headers: Mapping[str, str], parameters: Parameters) -> Answer | None:
        target = f"{url}?{urlencode(parameters, safe=',')}" if parameters else url
        pacing = self._pacing.of(url)
        pause = pacing.reserve(1)
        try:
            if pause > 0:
                self.network.wait(pause)
            sent_at = time.monotonic()
            # A redirect could carry the key to another server.
            answer = self.network.get(target, self.limits.here, headers, redirects_max=0)
        except AnswerTooLarge as error:
            raise BlobAnswerTooLarge(str(error)) from None
        except UpstreamError as error:
            raise BlobSourceError(str(error), is_passing=isinstance(error, UpstreamUnavailable)) from error
        if _OK <= answer.status < _REDIRECTS:
            return answer
        if answer.status == _NOT_FOUND:
            return None
        if answer.status == _TOO_MANY:
            pacing.refuse_rate(sent_at, 1, answer.retry_after_s)
        document = decoded(answer.body, self.limits.here.memory_bytes_max)
        reason = described(answer.status, document, answer.body, target, headers.values())
        if answer.status in FORBIDDEN:
            reason += " (check the URL and its API key)"
        raise BlobSourceError(reason, is_passing=answer.status in _BUSY, status=answer.status)

    def _decoded(self, answer: Answer, url: str, headers: Mapping[str, str]) -> Any:
        try:
            value = decoded(answer.body, self.limits.here.memory_bytes_max)
        except AnswerTooLarge as error:
            raise BlobAnswerTooLarge(str(error)) from None
        if value is None and answer.body.strip() != b"null":
            raise BlobSourceError(
                f"its answer is not JSON: {quoted(answer.body, url, headers.values()) or 'it is empty'}"
            )
        return value
