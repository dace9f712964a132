"""One TCP connection to a peer: its bytes, its streams, its limits.  Everything runs in the loop of the network.

A stream is read in chunks, as the peer has framed them, and written with back-pressure: by the peer's window, and by
the socket.  What a connection holds is taken from the node's budget; a peer that is too slow, silent, or wrong loses
the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final, cast

from fastnode.errors import PeerFault, PeerUnavailable
from fastnode.kernels import peer_frames
from fastnode.p2p.transport.connection import Connection
from fastnode.p2p.transport.identity import Identity
from fastnode.p2p.transport.limits import Budget, Limits, PeerMemory
from fastnode.p2p.transport.multistream import Selection
from fastnode.p2p.transport.yamux import Ended, Event, Opened, Received, Reset, RoomMade
from fastnode.records import dataclass

__all__ = ["Link", "LinkEvents", "Stream"]

logger = logging.getLogger(__name__)

_MESSAGES_AT_ONCE: Final = 1000
_VARINT_BYTES_MAX: Final = 10
#: Bytes that may wait for the socket before writing pauses, beside the muxer's windows.
_WRITE_HIGH_BYTES: Final = 256 * 1024
#: For what the socket has not taken yet when a peer is left, such as a goodbye.
_LAST_WORDS_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEvents:
    """Callbacks about a connection, in its loop."""

    ready: Callable[[Link], None]
    stream: Callable[[Link, Stream], None]
    lost: Callable[[Link, str], None]
    #: The peer has opened a stream and given it up.
    given_up: Callable[[Link], None] = lambda link: None


class Stream:
    """One stream.  PeerUnavailable from every method once the peer has given it up or is gone."""

    def __init__(self, link: Link, number: int) -> None:
        self._link = link
        self._number = number
        self._chunks: deque[bytes] = deque()
        self._has_ended = False
        self._failure: str | None = None
        self.is_finished = False
        self._changed = asyncio.Event()

    # ---- told by the link --------------------------------------------------------------------

    def _receive(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._changed.set()

    def _end(self) -> None:
        self._has_ended = True
        self._changed.set()

    @property
    def has_ended(self) -> bool:
        """The peer says nothing more on it, and has not given it up."""
        return self._has_ended

    def fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._changed.set()

    def wake(self) -> None:
        self._changed.set()

    def take_unread(self) -> list[bytes]:
        chunks = list(self._chunks)
        self._chunks.clear()
        return chunks

    # ---- used by others ----------------------------------------------------------------------

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def read_chunk(self) -> bytes | None:
        """The next chunk; None when there is none any more."""
        while not self._chunks:
            if self._has_ended:
                return None
            if self._failure is not None:
                raise PeerUnavailable(self._failure)
            await self._wait()
        chunk = self._chunks.popleft()
        self._link.consumed(self._number, len(chunk))
        return chunk

    def push_back(self, chunk: bytes) -> None:
        """Read it again."""
        if chunk:
            self._chunks.appendleft(chunk)
            self._link.unread(self._number, len(chunk))

    async def read_all(self, bytes_max: int) -> bytes:
        """Everything until the end; PeerFault for more than ``bytes_max``."""
        chunks, size = [], 0
        while (chunk := await self.read_chunk()) is not None:
            size += len(chunk)
            if size > bytes_max:
                raise PeerFault(f"an answer has more than {bytes_max} bytes")
            chunks.append(chunk)
        return b"".join(chunks)

    async def write(self, data: bytes) -> None:
        """Returns once all of it is on its way."""
        view = memoryview(data)
        while view:
            if self._failure is not None:
                raise PeerUnavailable(self._failure)
            count = self._link.send(self._number, view)
            view = view[count:]
            if not count:
                await self._wait()

    def finish(self) -> None:
        """Say that nothing more is written."""
        self.is_finished = True
        self._link.finish(self._number)

    def release(self) -> None:
        """It is done with, however far it has come."""
        self._link.forget(self)

    def reset(self) -> None:
        self.fail("the stream was given up here")
        self._link.reset(self._number)

    async def select(self, protocols: list[str], *, is_dialer: bool) -> str:
        """Agree on what the stream is for; PeerFault if that cannot be done."""
        selection = Selection(protocols, is_dialer=is_dialer)
        await self.write(selection.begin())
        while selection.chosen is None:
            chunk = await self.read_chunk()
            if chunk is None:
                raise PeerUnavailable("the stream ended before it was used")
            await self.write(selection.receive(chunk))
        self.push_back(selection.rest)
        return selection.chosen

    async def read_messages(self, length_max: int) -> list[bytes] | None:
        """The next messages that are behind their lengths, at least one; None at the end."""
        buffer = bytearray()
        needed = 1
        while (chunk := await self.read_chunk()) is not None:
            buffer += chunk
            self._link.hold_beside(len(buffer))
            if len(buffer) < needed:
                continue
            try:
                messages, at = peer_frames.delimited_messages(bytes(buffer), 0, length_max, _MESSAGES_AT_ONCE)
                head = None if messages else peer_frames.read_varint(bytes(buffer[:_VARINT_BYTES_MAX]), 0)
            except ValueError as error:
                raise PeerFault(str(error)) from error
            if messages:
                self._link.hold_beside(0)
                self.push_back(bytes(buffer[at:]))
                return messages
            # A long message is looked at again when all of it is there.
            needed = len(buffer) + 1 if head is None else sum(head)
        if buffer:
            raise PeerFault("a message ends in its midst")
        return None


class LinkState(Enum):
    """State of a connection."""

    DIALLED = "there is no socket yet"
    HANDSHAKE = "who the peer is has to be proven"
    READY = "streams come and go"
    CLOSED = "nothing is sent or taken any more"


class Link(asyncio.Protocol):
    """A connection; usable from the loop of the network only.

        DIALLED ── a socket ──► HANDSHAKE ── the peer is who it says, and expected ──► READY
           │                        │                                                    │
           └── close, from any ─────┴──────────────────► CLOSED ◄────────────────────────┘

    Its streams live in READY alone, and it holds memory until it is CLOSED.
    """

    def __init__(
        self,
        identity: Identity,
        limits: Limits,
        budget: Budget,
        events: LinkEvents,
        *,
        is_dialer: bool,
        expected: str | None = None,
    ) -> None:
        """``expected``: the peer that must be at the other end."""
        self._limits = limits
        self._events = events
        self._connection = Connection(identity, limits, is_dialer=is_dialer)
        self._memory = PeerMemory(budget)
        self._expected = expected
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, Stream] = {}
        self._lingering: dict[int, float] = {}  # finished here, and since when
        self._transport: asyncio.Transport | None = None
        self._is_paused_since: float | None = None
        self._beside_bytes = 0
        self._state = LinkState.DIALLED
        self._reason: str | None = None
        self._heard_at = self._pinged_at = self.opened_at = self._loop.time()
        self.is_dialer = is_dialer
        #: None until the handshake is done.
        self.peer_id: str | None = None
        #: Host and port of the peer.
        self.address: tuple[str, int] = ("", 0)
        self.bytes_in = self.bytes_out = 0

    def invariant(self) -> None:
        """AssertionError unless the link has what its state needs, and no more."""
        state = self._state
        assert self._transport is None or state is not LinkState.DIALLED
        assert self._transport is not None or state in (LinkState.DIALLED, LinkState.CLOSED)
        assert not self._streams or state is LinkState.READY
        assert not self._streams.keys() & self._lingering.keys()
        assert (self._reason is not None) == (state is LinkState.CLOSED)
        if state is LinkState.READY:
            assert self._connection.muxer is not None
            assert self.peer_id is not None
            assert self._expected in (None, self.peer_id)
        elif state is LinkState.CLOSED:
            assert self.held_bytes == 0
        else:
            assert self.peer_id is None

    @property
    def is_ready(self) -> bool:
        return self._state is LinkState.READY

    @property
    def _is_closed(self) -> bool:
        return self._state is LinkState.CLOSED

    @property
    def held_bytes(self) -> int:
        return self._memory.held_bytes

    # ---- asyncio -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._is_closed:  # while it was dialled
            self._transport.abort()
            return
        self._state = LinkState.HANDSHAKE
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        # The system does not know any more who it was when a peer is gone already.
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.address = (str(host), int(port))
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._is_closed:
            return
        self._heard_at = self._loop.time()
        self.bytes_in += len(data)
        was_ready = self.is_ready
        try:
            for event in self._connection.receive(data, self._heard_at):
                if not was_ready:
                    was_ready = self._become_ready()
                self._dispatch(event)
                if not self.is_ready:  # what it did has ended it
                    return
            if not was_ready and self._connection.muxer is not None:
                self._become_ready()
            self._flush()
            self._account()
        except PeerFault as error:
            self.close(str(error))

    def _become_ready(self) -> bool:
        self.peer_id = self._connection.peer_id
        if self._expected not in (None, self.peer_id):
            raise PeerFault(f"another peer than {self._expected} is there")
        self._state = LinkState.READY
        self._events.ready(self)
        return True

    def pause_writing(self) -> None:
        self._is_paused_since = self._loop.time()

    def resume_writing(self) -> None:
        self._is_paused_since = None
        for stream in list(self._streams.values()):
            stream.wake()

    def connection_lost(self, error: Exception | None) -> None:
        self.close(self._reason or (str(error) if error else "the peer has closed the connection"))

    # ---- streams -----------------------------------------------------------------------------

    def _dispatch(self, event: Event) -> None:
        if isinstance(event, Opened):
            stream = self._streams[event.stream] = Stream(self, event.stream)
            self._events.stream(self, stream)
            return
        found = self._streams.get(event.stream)
        if found is None:
            if isinstance(event, Received):  # of a stream that is done with here
                self.consumed(event.stream, len(event.chunk))
            return
        if isinstance(event, Received):
            found._receive(event.chunk)
        elif isinstance(event, Ended):
            found._end()
        elif isinstance(event, Reset):
            found.fail("the peer has given the stream up")
            del self._streams[event.stream]
            if event.stream % 2 == (0 if self.is_dialer else 1):
                self._events.given_up(self)
        elif isinstance(event, RoomMade):
            found.wake()

    def open_stream(self) -> Stream:
        """PeerUnavailable when the connection is closing or has too many."""
        muxer = self._connection.muxer
        if muxer is None or self._is_closed or muxer.is_going_away:
            raise PeerUnavailable("the peer is gone")
        try:
            number = muxer.open()
        except PeerFault as error:
            raise PeerUnavailable(str(error)) from error
        stream = self._streams[number] = Stream(self, number)
        self._flush()
        return stream

    def send(self, number: int, data: memoryview) -> int:
        """Bytes of ``data`` that go out now: 0 while the socket or the window is full."""
        muxer = self._connection.muxer
        if muxer is None or self._is_closed or self._is_paused_since is not None:
            return 0
        count = min(muxer.room(number), len(data), self._limits.frame_bytes_sent_max)
        if count:
            muxer.send(number, bytes(data[:count]))
            self._flush()
        return count

    def consumed(self, number: int, count: int) -> None:
        if self._connection.muxer is not None and not self._is_closed:
            self._connection.muxer.consumed(number, count)
            self._flush()
            self._account()

    def unread(self, number: int, count: int) -> None:
        """Undo :meth:`consumed` for bytes that are read again: they count once only."""
        if self._connection.muxer is not None:
            self._connection.muxer.consumed(number, -count)

    def hold_beside(self, count: int) -> None:
        """Bytes of a message that is not complete yet, beside what the muxer holds."""
        self._beside_bytes = count
        self._account()

    def finish(self, number: int) -> None:
        if self._connection.muxer is not None and not self._is_closed:
            self._connection.muxer.finish(number)
            self._flush()

    def reset(self, number: int) -> None:
        self._streams.pop(number, None)
        if self._connection.muxer is not None and not self._is_closed:
            self._connection.muxer.reset(number)
            self._flush()

    def forget(self, stream: Stream) -> None:
        """A stream is done with.  Given up if it was not finished; else the peer has some time to end it too: what
        is given up is lost on its way."""
        number = stream._number
        if self._streams.get(number) is not stream:
            return
        if stream.is_finished:
            del self._streams[number]
            for chunk in stream.take_unread():
                self.consumed(number, len(chunk))
            self._lingering[number] = self._loop.time()
        else:
            self.reset(number)

    def _end_lingering(self, now: float) -> None:
        for number, since in list(self._lingering.items()):
            if now - since <= self._limits.request_time_s:
                return  # in the order in which they were finished
            del self._lingering[number]
            self.reset(number)

    # ---- bytes -------------------------------------------------------------------------------

    def _flush(self) -> None:
        transport = self._transport
        if transport is None or self._is_closed:
            return
        out = self._connection.take_output()
        if out:
            self.bytes_out += len(out)
            transport.write(out)

    def _account(self) -> None:
        if self._is_closed:
            return
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if unsent > self._limits.unsent_bytes_max:
            raise PeerFault("the peer does not read")
        self._memory.hold(self._connection.held_bytes + self._beside_bytes + unsent)

    def tick(self, now: float) -> None:
        """To be called each second: pings, and an end to what takes too long."""
        limits = self._limits
        if not self.is_ready:
            if now - self.opened_at > limits.handshake_time_s:
                self.close("the handshake takes too long")
            return
        self._end_lingering(now)
        if now - self._heard_at > limits.silence_time_s:
            self.close("the peer is silent")
        elif self._is_paused_since is not None and now - self._is_paused_since > limits.write_time_s:
            self.close("the peer does not read")
        elif now - self._pinged_at >= limits.ping_interval_s and self._connection.muxer is not None:
            self._pinged_at = now
            self._connection.muxer.ping(int(now) & 0xFFFFFFFF)
            self._flush()

    def close(self, reason: str, *, at_once: bool = False) -> None:
        """Once; everything that waits for this peer ends.

        ``at_once``: also what the socket has not taken yet, for which there are five seconds otherwise.
        """
        if self._is_closed:
            return
        self._state, self._reason = LinkState.CLOSED, reason
        if self._transport is not None:
            unsent = self._transport.get_write_buffer_size()
            # Bytes that a slow peer has not read are of no use to it: nothing may linger.
            if at_once or unsent > _WRITE_HIGH_BYTES:
                self._transport.abort()
            else:
                self._transport.close()
                if unsent:  # a peer that never reads would have the socket for ever
                    self._loop.call_later(_LAST_WORDS_S, self._transport.abort)
        for stream in list(self._streams.values()):
            stream.fail(reason)
        self._streams.clear()
        self._memory.release()
        self._events.lost(self, reason)
