"""multistream-select 1.0.0 without a socket: both sides agree on a protocol.

Each message is a line that ends with a line feed, behind its length as a varint.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fastnode.errors import PeerFault
from fastnode.kernels import peer_frames

__all__ = ["Selection"]

_HEADER: Final = "/multistream/1.0.0"
_NOT_AVAILABLE: Final = "na"
_LIST: Final = "ls"
_LINE_BYTES_MAX: Final = 1024
#: Lines of one negotiation.
_LINES_MAX: Final = 20


def _line(text: str) -> bytes:
    data = text.encode() + b"\n"
    return peer_frames.write_varint(len(data)) + data


class Selection:
    """One negotiation.  ``chosen`` is None until it has ended; ``rest`` is what came behind it."""

    def __init__(self, protocols: Collection[str], *, is_dialer: bool) -> None:
        """A dialer asks for one protocol, a listener takes one of several."""
        self._protocols = protocols
        self._is_dialer = is_dialer
        self._has_header = False
        self._lines = 0
        self._buffer = b""
        self.chosen: str | None = None
        self.rest = b""

    def begin(self) -> bytes:
        """First bytes of the dialer: header and wish at once; empty for a listener."""
        return _line(_HEADER) + _line(next(iter(self._protocols))) if self._is_dialer else b""

    def receive(self, data: bytes) -> bytes:
        """Bytes to answer with; PeerFault when nothing can be agreed on."""
        self._buffer += data
        out = b""
        at = 0
        while self.chosen is None:
            try:
                lines, at = peer_frames.delimited_messages(self._buffer, at, _LINE_BYTES_MAX, 1)
            except ValueError as error:
                raise PeerFault(f"multistream: {error}") from error
            if not lines:
                self._buffer = self._buffer[at:]
                return out
            out += self._take(lines[0])
        self.rest, self._buffer = self._buffer[at:], b""
        return out

    def _take(self, line: bytes) -> bytes:
        self._lines += 1
        if not line.endswith(b"\n") or self._lines > _LINES_MAX:
            raise PeerFault("multistream: no line, or too many of them")
        text = line[:-1].decode("utf-8", "replace")
        if not self._has_header:
            if text != _HEADER:
                raise PeerFault("multistream: another version")
            self._has_header = True
            return b"" if self._is_dialer else _line(_HEADER)
        if self._is_dialer:
            if text not in self._protocols:
                raise PeerFault(f"multistream: the peer does not speak {next(iter(self._protocols))}")
            self.chosen = text
            return b""
        if text in self._protocols:
            self.chosen = text
            return _line(text)
        if text == _LIST:
            names = b"".join(_line(name) for name in self._protocols)
            return peer_frames.write_varint(len(names) + 1) + names + b"\n"
        return _line(_NOT_AVAILABLE)
