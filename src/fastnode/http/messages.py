"""HTTP/1.1 messages: what a request is, and how a response becomes bytes."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from fastnode.http.allowance import Allowance

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "BeginStream",
    "EndStream",
    "Refusal",
    "Request",
    "Response",
    "ResponseWriter",
    "header_fields",
    "length_of",
    "tokens_of",
]

#: Says the last words on a connection, right before it is closed because the server stops.
EndStream = Callable[[], None]
#: Takes over a transport from its protocol, to which it hands on the end of the connection.  The bytes have been
#: received already, behind a request for another protocol.
BeginStream = Callable[["asyncio.Transport", "asyncio.BaseProtocol", bytes], EndStream | None]


def tokens_of(headers: Mapping[bytes, bytes], name: bytes) -> list[bytes]:
    """The words of a header that is a list, in lower case."""
    return [token.strip().lower() for token in headers.get(name, b"").split(b",")]


class Request(NamedTuple):
    """A complete request.  ``headers`` has lower-case names; equal names are joined by ``, ``.

    ``allowance`` has taken the memory of the body; None without a body.
    """

    method: bytes
    target: bytes
    headers: dict[bytes, bytes]
    body: bytes
    is_http_1_0: bool
    keep_alive: bool
    allowance: Allowance | None = None


class Refusal(NamedTuple):
    """A request that will not be read to its end: its answer is the last one on the connection.

    ``origin`` is its Origin, if that was read; else empty.
    """

    status: HTTPStatus
    reason: str
    origin: bytes = b""


class Response(NamedTuple):
    """``fields`` are complete header lines, each with its CRLF; the connection adds its own.

    A ``body`` of None has no Content-Length at all, as 204 demands; a long one may be a list of its parts.
    ``stream`` has the rest of the connection, from where the head has been handed over; there is no ``body`` then.
    """

    status: HTTPStatus
    fields: bytes
    body: bytes | list[bytes] | None
    stream: BeginStream | None = None

    @property
    def length(self) -> int:
        """Bytes of the body."""
        return length_of(self.body)


def length_of(body: bytes | list[bytes] | None) -> int:
    """Bytes of a body in any of its forms."""
    if body is None:
        return 0
    return len(body) if isinstance(body, bytes) else sum(map(len, body))


def header_fields(*pairs: tuple[str, str]) -> bytes:
    """Header lines, ready for :class:`Response`.  Raises ValueError for a line break in a name or value."""
    lines = []
    for name, value in pairs:
        if "\r" in name + value or "\n" in name + value:
            raise ValueError(f"the header {name!r} contains a line break")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("latin-1")


_STATUS_LINES: Final = {status: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode("ascii") for status in HTTPStatus}
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
PROCESSING: Final = b"HTTP/1.1 102 Processing\r\n\r\n"
#: A body above this size is handed to the socket as it is instead of being copied behind its head.
COPIED_BODY_BYTES_MAX: Final = 64 * 1024


@functools.lru_cache(maxsize=2)
def _date(second: int) -> str:
    """Servers of one process, and of one second, say the same."""
    return formatdate(second, usegmt=True)


class ResponseWriter:
    """Renders responses; keeps the header lines that are the same for a second."""

    __slots__ = ("_closing", "_date", "_keep_alive", "keeping", "on_change")

    def __init__(self, idle_time_s: float) -> None:
        #: Called when :attr:`keeping` has changed.
        self.on_change: Callable[[], None] = lambda: None
        self._keep_alive = f"Connection: keep-alive\r\nKeep-Alive: timeout={int(idle_time_s)}\r\n\r\n".encode("ascii")
        self._date = b""
        self.refresh_date()

    def refresh_date(self) -> None:
        """To be called about once a second."""
        self._date = f"Date: {_date(int(time.time()))}\r\n".encode("ascii")
        #: The end of the head of an answer on a connection that is kept.
        self.keeping = self._date + self._keep_alive
        self._closing = self._date + b"Connection: close\r\n\r\n"
        self.on_change()

    def render(self, response: Response, *, keep_alive: bool, omit_body: bool) -> list[bytes]:
        """The response as one or more chunks; ``omit_body`` is for HEAD, whose headers are those of GET."""
        end = self.keeping if keep_alive else self._closing
        status_line = _STATUS_LINES[response.status]
        body = response.body
        if response.status is HTTPStatus.SWITCHING_PROTOCOLS:  # its own fields say what becomes of the connection
            return [b"".join((status_line, response.fields, self._date, b"\r\n"))]
        if body is None:
            return [b"".join((status_line, response.fields, end))]
        length = b"Content-Length: %d\r\n" % length_of(body)
        if omit_body:
            return [b"".join((status_line, response.fields, length, end))]
        if isinstance(body, list):
            return [b"".join((status_line, response.fields, length, end)), *body]
        if len(body) <= COPIED_BODY_BYTES_MAX:
            return [b"".join((status_line, response.fields, length, end, body))]
        return [b"".join((status_line, response.fields, length, end)), body]
