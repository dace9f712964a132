"""A connection from its first byte to its streams, without a socket.

    multistream /noise ─► noise XX ─► multistream /yamux/1.0.0 ─► yamux

Bytes go in with :meth:`Connection.receive`, which says what happened; what is to be written is taken with
:meth:`Connection.take_output`.  Streams belong to the muxer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastnode.errors import PeerFault
from fastnode.kernels import peer_frames
from fastnode.p2p.transport.identity import Identity
from fastnode.p2p.transport.limits import Limits
from fastnode.p2p.transport.multistream import Selection
from fastnode.p2p.transport.noise import Handshake, Session
from fastnode.p2p.transport.yamux import Event, Muxer

__all__ = ["Connection"]

_NOISE: Final = "/noise"
_YAMUX: Final = "/yamux/1.0.0"
#: Messages that are opened before the muxer sees them.
_MESSAGES_AT_ONCE: Final = 16
#: A handshake is never larger.
_HANDSHAKE_BYTES_MAX: Final = 64 * 1024


class Connection:
    """One side of it."""

    def __init__(self, identity: Identity, limits: Limits, *, is_dialer: bool) -> None:
        self._limits = limits
        self._is_dialer = is_dialer
        self._security = Selection([_NOISE], is_dialer=is_dialer)
        self._handshake = Handshake(identity, is_initiator=is_dialer)
        self._session: Session | None = None
        self._muxing: Selection | None = None
        self._buffer = b""  # sealed, and not complete
        self._output = bytearray(self._security.begin())
        self._handshake_bytes = 0
        self._is_secured = False  # both sides have agreed on noise
        #: None until the peer is known.
        self.peer_id: str | None = None
        #: None until streams can be used.
        self.muxer: Muxer | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes held for this connection, as many as the peer makes it hold."""
        held = len(self._buffer) + len(self._output)
        return held if self.muxer is None else held + self.muxer.held_bytes

    def take_output(self) -> bytes:
        """Bytes to write now, taken out of the buffers."""
        if self.muxer is not None and self._session is not None and self.muxer.output:
            self._output += self._session.seal(bytes(self.muxer.output))
            self.muxer.output.clear()
        out = bytes(self._output)
        self._output.clear()
        return out

    def receive(self, data: bytes, now: float) -> Iterator[Event]:
        """Events on the streams; PeerFault ends the connection.  ``now``: of a monotonic clock, in s."""
        if self.muxer is None:
            self._handshake_bytes += len(data)
            if self._handshake_bytes > _HANDSHAKE_BYTES_MAX:
                raise PeerFault("the handshake is too long")
        if not self._is_secured:
            self._output += self._security.receive(data)
            if self._security.chosen is None:
                return
            self._is_secured = True
            data, self._security.rest = self._security.rest, b""
            self._output += self._handshake.begin()
        self._buffer += data
        while True:
            try:
                # One by one until the peer is known: what each means depends on the one before.
                count = _MESSAGES_AT_ONCE if self.muxer is not None else 1
                messages, at = peer_frames.sealed_messages(self._buffer, 0, count)
            except ValueError as error:
                raise PeerFault(f"noise: {error}") from error
            self._buffer = self._buffer[at:]
            if not messages:
                return
            yield from self._take(messages, now)

    def _take(self, messages: list[bytes], now: float) -> Iterator[Event]:
        if self._session is None:
            self._output += self._handshake.receive(messages[0])
            self._session = self._handshake.session
            if self._session is not None:
                self.peer_id = self._session.peer_id
                self._muxing = Selection([_YAMUX], is_dialer=self._is_dialer)
                self._seal(self._muxing.begin())
            return
        plain = b"".join(map(self._session.open, messages))
        if self.muxer is None:
            assert self._muxing is not None
            self._seal(self._muxing.receive(plain))
            if self._muxing.chosen is None:
                return
            self.muxer = Muxer(self._limits, is_dialer=self._is_dialer)
            plain = self._muxing.rest
        yield from self.muxer.receive(plain, now)
        if self.muxer.held_bytes > self._limits.received_bytes_max + self._limits.unsent_bytes_max:
            raise PeerFault("the peer sends more than is read")

    def _seal(self, data: bytes) -> None:
        if data:
            assert self._session is not None
            self._output += self._session.seal(data)
