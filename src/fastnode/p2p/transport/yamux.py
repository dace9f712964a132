"""yamux without a socket: streams over one connection, with windows.

Frame: see ``peer_frames.yamux_frames``.  A data frame stays one chunk for the reader, because requests of this network
are told from each other by frames.

    number of a stream    odd for who has dialled, even for the other side
    window                what may be sent unread: 256 KiB at first, more with each window frame
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from fastnode.errors import PeerFault
from fastnode.kernels import peer_frames
from fastnode.p2p.transport.limits import Limits

__all__ = ["Ended", "Event", "Muxer", "Opened", "Received", "Reset", "RoomMade"]

_HEAD: Final = struct.Struct(">BBHII")
_DATA, _WINDOW, _PING, _GO_AWAY = range(4)
_SYN, _ACK, _FIN, _RST = 1, 2, 4, 8
_WINDOW_MAX: Final = (1 << 32) - 1
#: Frames that are looked at between two looks at the clock.
_FRAMES_AT_ONCE: Final = 256


class Opened(NamedTuple):
    """The peer has opened a stream."""

    stream: int


class Received(NamedTuple):
    stream: int
    chunk: bytes


class Ended(NamedTuple):
    """The peer sends no more on a stream."""

    stream: int


class Reset(NamedTuple):
    """The peer has given a stream up."""

    stream: int


class RoomMade(NamedTuple):
    """More may be sent on a stream."""

    stream: int


Event = Opened | Received | Ended | Reset | RoomMade


class _Stream:
    __slots__ = ("has_ended", "is_finished", "receivable", "sendable", "unread", "used")

    def __init__(self, window: int) -> None:
        self.sendable = self.receivable = window
        #: Read, and not given back to the sender's window yet.
        self.used = 0
        #: Received, and not read.
        self.unread = 0
        self.has_ended = False  # by the peer
        self.is_finished = False  # by this node


class Muxer:
    """One side of a connection.  What is to be sent gathers in :attr:`output`."""

    def __init__(self, limits: Limits, *, is_dialer: bool) -> None:
        self._limits = limits
        self._is_dialer = is_dialer
        self._streams: dict[int, _Stream] = {}
        self._next = 1 if is_dialer else 2
        self._inbound = 0
        self._buffer = b""
        self._pings = 0
        self._frames = 0
        #: When the second began in which both are counted.
        self._counted_since = 0.0
        self.output = bytearray()
        #: The peer has said that it opens no more streams and takes none.
        self.is_going_away = False

    @property
    def held_bytes(self) -> int:
        """Bytes that have come and are not read, and bytes to be sent."""
        return len(self._buffer) + len(self.output) + sum(stream.unread for stream in self._streams.values())

    # ---- sending -----------------------------------------------------------------------------

    def open(self) -> int:
        """A new stream; PeerFault when there are too many."""
        if len(self._streams) - self._inbound >= self._limits.outbound_streams_max:
            raise PeerFault("yamux: too many streams are open")
        number = self._next
        self._next += 2
        self._streams[number] = _Stream(self._limits.window_bytes)
        self._put(_WINDOW, _SYN, number, 0)
        return number

    def send(self, number: int, data: bytes) -> int:
        """Bytes of ``data`` that go out now, as one frame; the rest when there is room."""
        stream = self._streams.get(number)
        if stream is None or stream.is_finished:
            raise PeerFault("yamux: the stream is closed")
        count = min(len(data), stream.sendable, self._limits.frame_bytes_sent_max)
        if count:
            stream.sendable -= count
            self._put(_DATA, 0, number, count)
            self.output += data[:count]
        return count

    def room(self, number: int) -> int:
        """Bytes that may be sent now; 0 for a stream that is gone."""
        stream = self._streams.get(number)
        return 0 if stream is None or stream.is_finished else stream.sendable

    def finish(self, number: int) -> None:
        """Send no more on a stream."""
        stream = self._streams.get(number)
        if stream is not None and not stream.is_finished:
            stream.is_finished = True
            self._put(_DATA, _FIN, number, 0)
            self._drop_if_done(number, stream)

    def reset(self, number: int) -> None:
        """Give a stream up; no-op for one that is gone."""
        if number in self._streams:
            self._put(_WINDOW, _RST, number, 0)
            self._drop(number)

    def consumed(self, number: int, count: int) -> None:
        """The reader has taken so many bytes: the peer may send more."""
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.unread -= count
        stream.used += count
        if stream.used >= self._limits.window_bytes // 2 and not stream.has_ended:
            self._put(_WINDOW, 0, number, stream.used)
            stream.receivable += stream.used
            stream.used = 0
        self._drop_if_done(number, stream)

    def ping(self, number: int) -> None:
        self._put(_PING, _SYN, 0, number)

    def _put(self, kind: int, flags: int, stream: int, number: int) -> None:
        self.output += _HEAD.pack(0, kind, flags, stream, number)

    # ---- receiving ---------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> Iterator[Event]:
        """Stream events; PeerFault for what makes no sense or is too much.  ``now``: of a monotonic clock, in s."""
        self._buffer += data
        while True:
            try:
                frames, at = peer_frames.yamux_frames(self._buffer, 0, self._limits.frame_bytes_max, _FRAMES_AT_ONCE)
            except ValueError as error:
                raise PeerFault(f"yamux: {error}") from error
            self._buffer = self._buffer[at:]
            self._count(len(frames), now)
            for kind, flags, stream, number, payload in frames:
                yield from self._take(kind, flags, stream, number, payload)
            if len(frames) < _FRAMES_AT_ONCE:
                return

    def _count(self, frames: int, now: float) -> None:
        """PeerFault for more frames in a second than anybody needs: each costs the same, however little it carries."""
        if now - self._counted_since >= 1:
            self._frames = self._pings = 0
            self._counted_since = now
        self._frames += frames
        if self._frames > self._limits.frames_per_s_max:
            raise PeerFault("yamux: too many frames")

    def _take(self, kind: int, flags: int, number: int, value: int, payload: bytes) -> Iterator[Event]:
        if kind == _PING:
            self._answer_ping(flags, value)
            return
        if kind == _GO_AWAY:
            self.is_going_away = True
            return
        if flags & _SYN:
            yield self._accept(number)
        stream = self._streams.get(number)
        if stream is None:  # it was given up here meanwhile
            return
        if kind == _WINDOW and value:
            if stream.sendable + value > _WINDOW_MAX:
                raise PeerFault("yamux: a window is larger than can be")
            stream.sendable += value
            yield RoomMade(number)
        if payload:
            yield self._receive_data(stream, number, payload)
        if flags & _RST:
            self._drop(number)
            yield Reset(number)
        elif flags & _FIN and not stream.has_ended:
            stream.has_ended = True
            yield Ended(number)
            self._drop_if_done(number, stream)

    def _accept(self, number: int) -> Opened:
        if number in self._streams or number == 0 or number % 2 == (1 if self._is_dialer else 0):
            raise PeerFault("yamux: a stream has the number of another one")
        if self._inbound >= self._limits.inbound_streams_max:
            raise PeerFault("yamux: too many streams are open")
        self._inbound += 1
        self._streams[number] = _Stream(self._limits.window_bytes)
        self._put(_WINDOW, _ACK, number, 0)
        return Opened(number)

    def _receive_data(self, stream: _Stream, number: int, payload: bytes) -> Received:
        if stream.has_ended or len(payload) > stream.receivable:
            raise PeerFault("yamux: more was sent than the window allows")
        stream.receivable -= len(payload)
        stream.unread += len(payload)
        return Received(number, payload)

    def _answer_ping(self, flags: int, number: int) -> None:
        if not flags & _SYN:
            return
        self._pings += 1
        if self._pings > self._limits.pings_per_s_max:
            raise PeerFault("yamux: too many pings")
        self._put(_PING, _ACK, 0, number)

    def _drop_if_done(self, number: int, stream: _Stream) -> None:
        if stream.has_ended and stream.is_finished and not stream.unread:
            self._drop(number)

    def _drop(self, number: int) -> None:
        if self._streams.pop(number, None) is not None and self._is_from_peer(number):
            self._inbound -= 1

    def _is_from_peer(self, number: int) -> bool:
        return number % 2 == (0 if self._is_dialer else 1)
