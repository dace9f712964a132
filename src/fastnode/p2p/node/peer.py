"""A peer that is connected, over one or two connections, and what is waiting to be gossiped to it."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final

from fastnode.errors import PeerFault, PeerUnavailable
from fastnode.p2p.messages.request_forms import StatusMessage
from fastnode.p2p.transport.link import Link, Stream

__all__ = ["GossipWriter", "Peer"]

#: Transactions of one peer that are judged at the same time.
_JUDGED_AT_ONCE: Final = 2

#: Streams that a peer may open and give up at a time, and in a second from then on: what it asks may take too long.
_GIVEN_UP_MAX: Final = 30
_GIVEN_UP_PER_S: Final = 1.0

#: Bytes that wait for one peer: what does not fit is not sent to it, and it can ask others.
_QUEUE_BYTES_MAX: Final = 12 << 20


class GossipWriter:
    """The stream on which this node gossips to a peer."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._queue: deque[bytes] = deque()
        self._has_more = asyncio.Event()
        self.queued_bytes = 0
        self.dropped = 0

    def put(self, rpc: bytes) -> None:
        if self.queued_bytes + len(rpc) > _QUEUE_BYTES_MAX:
            self.dropped += 1
            return
        self._queue.append(rpc)
        self.queued_bytes += len(rpc)
        self._has_more.set()

    async def run(self) -> None:
        """Until the stream ends."""
        with suppress(PeerUnavailable, PeerFault):
            while True:
                await self._has_more.wait()
                self._has_more.clear()
                while self._queue:
                    # Together, so that small ones do not each cost a frame.
                    together = bytearray(self._queue.popleft())
                    while self._queue and len(together) < 16_384:
                        together += self._queue.popleft()
                    await self._stream.write(bytes(together))
                    self.queued_bytes -= len(together)


class Peer:
    """``links``: two when both sides have dialled; the first one is used."""

    def __init__(self, peer_id: str, link: Link, now: float) -> None:
        self.id = peer_id
        #: Host and port.
        self.address = link.address
        self.links = [link]
        self.since = now
        self.is_outbound = link.is_dialer
        self.protocols: frozenset[str] = frozenset()
        self.agent = ""
        self.status: StatusMessage | None = None
        self.writer: GossipWriter | None = None
        #: The peer takes part in gossip; what it sends before waits.
        self.is_known_to_gossip = asyncio.Event()
        self.is_direct = False
        #: For its transactions.
        self.turns = asyncio.Semaphore(_JUDGED_AT_ONCE)
        self._may_give_up, self._gave_up_at = float(_GIVEN_UP_MAX), now
        self._rpcs = 0
        self._rpcs_since = now
        #: It is being said goodbye to.
        self.is_leaving = False
        self.is_protected = False

    def may_give_up(self, now: float) -> bool:
        """True if it may give up another stream, which is counted."""
        allowed = self._may_give_up + (now - self._gave_up_at) * _GIVEN_UP_PER_S
        self._may_give_up, self._gave_up_at = min(allowed, _GIVEN_UP_MAX) - 1, now
        is_allowed = self._may_give_up >= 0
        self._may_give_up = max(0.0, self._may_give_up)
        return is_allowed

    def rpc_wait_s(self, now: float, rpcs_per_s_max: int) -> float:
        """Seconds that the peer's next message of gossip, which is counted, has to wait."""
        if now - self._rpcs_since >= 1:
            self._rpcs, self._rpcs_since = 0, now
        self._rpcs += 1
        # Several streams may wait at once: those beyond the next second's share wait for later ones.
        return (self._rpcs - 1) // rpcs_per_s_max * (self._rpcs_since + 1 - now)

    def uses(self, link: Link) -> bool:
        """True while this connection is the one that is used."""
        return self.links[:1] == [link]

    @property
    def link(self) -> Link:
        """PeerUnavailable once it is gone."""
        if not self.links:
            raise PeerUnavailable("the peer is gone")
        return self.links[0]
