"""The server's side of a WebSocket (RFC 6455): its handshake, its frames, its end.  wsproto reads and checks frames.

No extension is agreed on, so nothing is ever inflated.  A message is bounded while it arrives, in bytes and fragments,
and so are frames in a time, of all kinds.  What is received has its turn among the requests of all connections.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

from fastnode.http.messages import Response, header_fields, tokens_of
from fastnode.kernels import clock
from fastnode.serving.recipients import Recipient

if TYPE_CHECKING:
    from fastnode.http.messages import BeginStream, Request
    from fastnode.http.meters import Traffic
    from fastnode.http.turns import Turns
    from fastnode.kernels import loop_time

__all__ = ["CloseReason", "WebSocket", "frame_of", "handshake", "ping_frame"]

_ACCEPT: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES: Final = 16
VERSION: Final = "13"
#: A message of a client, whole, and in how many frames it may come.
MESSAGE_BYTES_MAX: Final = 16 * 1024
FRAGMENTS_MAX: Final = 64
#: Frames of all kinds that a client may send at once, and in a second after that.
FRAMES_AT_ONCE: Final = 500
FRAMES_PER_S: Final = 20.0
#: Bytes that are read at a time.
READ_BYTES: Final = 4096
#: Time of a client to take what was written before the connection was closed.
CLOSE_S: Final = 5.0
#: Bytes that it may send meanwhile.
DROPPED_BYTES_MAX: Final = 1 << 20
_TWO_BYTES: Final = 126
_EIGHT_BYTES: Final = 127
_REASON_BYTES_MAX: Final = 123


def frame_of(text: bytes) -> bytes:
    """A whole message of text as the server sends it."""
    size = len(text)
    if size < _TWO_BYTES:
        return bytes((0x81, size)) + text
    if size < 1 << 16:
        return bytes((0x81, _TWO_BYTES)) + size.to_bytes(2, "big") + text
    return bytes((0x81, _EIGHT_BYTES)) + size.to_bytes(8, "big") + text


ping_frame: Final = b"\x89\x00"


def _problem_of(request: Request) -> bytes | None:
    """Why a request may not change the protocol (RFC 9110, section 7.8; RFC 6455, section 4.2.1)."""
    options = tokens_of(request.headers, b"connection")
    if request.is_http_1_0:
        return b"WebSocket: the handshake must be HTTP/1.1"
    if b"upgrade" not in options:
        return b"WebSocket: the handshake must have the header Connection: Upgrade; does a proxy remove it?"
    if b"close" in options or not request.keep_alive:
        return b"WebSocket: the handshake must not have Connection: close"
    if request.body or b"transfer-encoding" in request.headers:
        return b"WebSocket: the handshake must not have a body"
    return None


def handshake(request: Request, common: bytes, begin: BeginStream) -> Response:
    """The answer to a request that asks for a WebSocket; ``common`` are the header lines of every answer."""
    headers = request.headers
    text_fields = common + header_fields(("Content-Type", "text/plain; charset=utf-8"))
    problem = _problem_of(request)
    if problem is not None:
        return Response(HTTPStatus.BAD_REQUEST, text_fields, problem)
    if headers.get(b"sec-websocket-version", b"").strip() != VERSION.encode():
        fields = text_fields + header_fields(("Sec-WebSocket-Version", VERSION))
        return Response(HTTPStatus.UPGRADE_REQUIRED, fields, b"WebSocket: only version 13 is spoken here")
    key = headers.get(b"sec-websocket-key", b"").strip()
    try:
        is_key = len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except binascii.Error:
        is_key = False
    if not is_key:
        reason = b"WebSocket: Sec-WebSocket-Key must be 16 bytes in base64"
        return Response(HTTPStatus.BAD_REQUEST, text_fields, reason)
    accept = base64.b64encode(hashlib.sha1(key + _ACCEPT, usedforsecurity=False).digest()).decode()
    fields = header_fields(("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept))
    return Response(HTTPStatus.SWITCHING_PROTOCOLS, common + fields, None, begin)


class _Refused(Exception):  # noqa: N818 - control flow out of the reading of frames
    """The connection is to be closed with this code and reason."""

    def __init__(self, code: CloseReason, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class WebSocket(Recipient):
    """One connection; :meth:`on_message` has each text.  ``share`` is its share of the loop."""

    __slots__ = (
        "_allowed",
        "_allowed_at",
        "_dropped_bytes",
        "_fragments",
        "_message",
        "_message_bytes",
        "_share",
        "_turns",
        "_waiting",
        "has_answered",
        "is_closed",
        "protocol",
    )

    #: One buffer for all connections: what is in it is read before anything else is.
    _BUFFER: Final = bytearray(READ_BYTES)

    def __init__(
        self,
        transport: asyncio.Transport,
        before: asyncio.BaseProtocol,
        traffic: Traffic,
        turns: Turns,
        share: loop_time.Share,
    ) -> None:
        self.protocol = Connection(ConnectionType.SERVER)
        #: Nothing is said any more; what was written is still being taken.
        self.is_closed = False
        #: It has sent something since this was set to False.
        self.has_answered = True
        self._turns = turns
        self._share = share
        self._message: list[str] = []
        self._message_bytes = 0
        self._fragments = 0
        self._allowed = float(FRAMES_AT_ONCE)
        self._allowed_at = time.monotonic()
        self._waiting = b""
        self._dropped_bytes = 0
        super().__init__(transport, before, traffic)

    # ---- for the owner -------------------------------------------------------------------------

    def on_message(self, text: str) -> None:
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        return not self.is_closed and super().is_open

    def close(self, code: int, reason: str) -> None:
        """Say why, and end the connection when that has been taken, or after CLOSE_S."""
        if self.is_closed or self.is_gone:
            return
        self.is_closed = True
        if self.transport.is_closing():
            return
        if self.protocol.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            said = reason.encode()[:_REASON_BYTES_MAX].decode(errors="ignore")
            frame = bytes(self.protocol.send(CloseConnection(code, said or None)))
            self.written_bytes += len(frame)
            self.traffic.sent_bytes += len(frame)
            self.transport.write(frame)
        # Not at once: what the client has sent meanwhile would make the system drop what is on its way to it.
        self.transport.write_eof()
        asyncio.get_running_loop().call_later(CLOSE_S, self._cut_off)

    def _cut_off(self) -> None:
        if not self.is_gone:
            self.transport.abort()

    # ---- what comes ----------------------------------------------------------------------------

    def get_buffer(self, _sizehint: int) -> bytearray:
        return self._BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        self.receive(bytes(self._BUFFER[:nbytes]))

    def receive(self, data: bytes) -> None:
        """Read frames now, or in this connection's turn."""
        self.traffic.received_bytes += len(data)
        self.has_answered = True
        if self.is_closed:
            self._dropped_bytes += len(data)
            if self._dropped_bytes > DROPPED_BYTES_MAX:
                self.transport.abort()
            return
        if self._turns.time.is_crowded or self._waiting:
            self.transport.pause_reading()
            self._waiting += data
            self._turns.wait(self._share, self._on_turn)
        else:
            self._take(data)

    def _on_turn(self) -> None:
        data, self._waiting = self._waiting, b""
        if self.is_open:
            self._take(data)
        if not self.is_gone and not self.transport.is_closing():
            self.transport.resume_reading()

    def _take(self, data: bytes) -> None:
        started = clock.now_ns()
        try:
            self.protocol.receive_data(data)
            for event in self.protocol.events():
                self._count_frame(event)
                self._on_event(event)
                if self.is_closed:
                    break
        except _Refused as refused:
            self.close(refused.code, refused.reason)
        finally:
            self._turns.time.charge(self._share, clock.now_ns() - started)

    def _count_frame(self, event: Any) -> None:
        if not getattr(event, "frame_finished", True):
            return
        now = time.monotonic()
        self._allowed = min(FRAMES_AT_ONCE, self._allowed + FRAMES_PER_S * (now - self._allowed_at)) - 1
        self._allowed_at = now
        if self._allowed < 0:
            reason = f"too many frames; {FRAMES_AT_ONCE} may come at once, and {FRAMES_PER_S:g} in a second"
            raise _Refused(CloseReason.POLICY_VIOLATION, reason)

    def _on_event(self, event: Any) -> None:
        if isinstance(event, TextMessage):
            self._on_text(event)
        elif isinstance(event, Ping):
            self.write(bytes(self.protocol.send(Pong(event.payload))))
        elif isinstance(event, BytesMessage):
            raise _Refused(CloseReason.UNSUPPORTED_DATA, "messages are text, in JSON")
        elif isinstance(event, CloseConnection):
            # A fault that the library finds comes as this, too, in a connection that is open.
            is_fault = self.protocol.state is ConnectionState.OPEN
            self.close(event.code if is_fault else CloseReason.NORMAL_CLOSURE, event.reason or "" if is_fault else "")

    def _on_text(self, event: TextMessage) -> None:
        self._message.append(event.data)
        self._message_bytes += len(event.data.encode())
        self._fragments += event.frame_finished
        if self._message_bytes > MESSAGE_BYTES_MAX:
            raise _Refused(CloseReason.MESSAGE_TOO_BIG, f"a message has {MESSAGE_BYTES_MAX} bytes at most")
        if self._fragments > FRAGMENTS_MAX:
            raise _Refused(CloseReason.POLICY_VIOLATION, f"a message comes in {FRAGMENTS_MAX} frames at most")
        if event.message_finished:
            text = "".join(self._message)
            self._message, self._message_bytes, self._fragments = [], 0, 0
            self.on_message(text)

    def eof_received(self) -> bool:
        """A client that sends no more cannot end the connection as it should."""
        return False
