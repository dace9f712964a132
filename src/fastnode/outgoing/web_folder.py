"""Files below a URL of a web server: read whole or part by part, never from another server than the one named."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlsplit

from fastnode.errors import UpstreamError, UpstreamFault, UpstreamUnavailable
from fastnode.outgoing.client import BUSY, decoded
from fastnode.outgoing.network import ClientLimits, Network
from fastnode.outgoing.quoting import described

__all__ = ["WebFolder"]

#: Connections for one file, and the time before each but the first.
_TRIES: Final = 6
_PAUSE_S: Final = 1.0
_GONE: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE})


class WebFolder:
    """The files below ``url``, whose query goes with each request.  Usable from any thread.

    Errors of all reads: FileNotFoundError; UpstreamUnavailable: try later; UpstreamFault.
    """

    def __init__(self, url: str, limits: ClientLimits) -> None:
        self._url = urlsplit(url)
        self._limits = limits
        self._network = Network()
        weakref.finalize(self, self._network.close)

    def read(self, path: str, bytes_max: int) -> bytes:
        """A whole file; UpstreamFault for one that is larger."""
        answer = self._network.get(self._url_of(path), replace(self._limits, response_bytes_max=bytes_max))
        if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            raise self._error_of(answer.status, path, answer.body)
        return answer.body

    def stream(self, path: str) -> Iterator[bytes]:
        """Its bytes as the server has them stored, in gzip if they are so; ``request_time_s`` is how long they may stay
        away.

        A connection that breaks is made again, and what is left is asked for.
        """
        done = 0
        for tries_left in reversed(range(_TRIES)):
            try:
                for part in self._stream_from(path, done):
                    done += len(part)
                    yield part
                return
            except UpstreamUnavailable:
                if tries_left == 0:
                    raise
            time.sleep(_PAUSE_S)

    def _stream_from(self, path: str, start: int) -> Iterator[bytes]:
        headers = {"Range": f"bytes={start}-"} if start else {}
        with self._network.streamed(self._url_of(path), self._limits, headers) as (answer, parts):
            if answer.status == HTTPStatus.OK:
                yield from _without(start, parts)
                return
            if not start or answer.status != HTTPStatus.PARTIAL_CONTENT:
                raise self._error_of(answer.status, path, _beginning(parts))
            if not answer.headers.get("content-range", "").startswith(f"bytes {start}-"):
                raise UpstreamFault("it gives another part of the file than was asked for")
            yield from parts

    def _url_of(self, path: str) -> str:
        return self._url._replace(path=f"{self._url.path.rstrip('/')}/{quote(path)}", fragment="").geturl()

    def _error_of(self, status: int, path: str, body: bytes) -> Exception:
        """With what the server says, whatever the status of its answer."""
        if status in _GONE:
            return FileNotFoundError(path)
        text = described(status, decoded(body, self._limits.memory_bytes_max), body, self._url.geturl())
        if status in BUSY or status == HTTPStatus.INTERNAL_SERVER_ERROR:
            return UpstreamUnavailable(text)
        return UpstreamFault(text)


def _beginning(parts: Iterator[bytes]) -> bytes:
    """As much of a refusal as can be read."""
    try:
        return next(parts, b"")
    except UpstreamError:
        return b""


def _without(count: int, parts: Iterator[bytes]) -> Iterator[bytes]:
    """All but the first ``count`` bytes, from a server that knows no ranges."""
    for part in parts:
        kept = part[count:]
        count -= len(part) - len(kept)
        if kept:
            yield kept
