"""Messages that gossip remembers: those seen, those that wait for their verdict, and the newest ones."""

from __future__ import annotations

from collections import deque
from dataclasses import field
from enum import Enum
from typing import Final

from fastnode.p2p.gossip.topics import Topic
from fastnode.records import dataclass

__all__ = ["KeptMessages", "MessageCache", "Pending", "PendingMessages", "Seen", "SeenMessages", "Verdict"]

#: Messages that wait for their verdict; what comes beyond is not taken, and may come again.
_PENDING_MAX: Final = 1000
_PENDING_BYTES_MAX: Final = 64 << 20
_PENDING_OF_PEER_MAX: Final = 200
#: Bytes of one peer; a single message may be larger.
_PENDING_BYTES_OF_PEER_MAX: Final = 8 << 20

#: Bytes of messages that are kept for peers that ask for them.
_CACHE_BYTES_MAX: Final = 64 << 20
#: Times that one peer gets one message that it asks for (gossipsub 1.1).
_RETRANSMISSIONS_MAX: Final = 3


#: Number and bytes of messages that are kept for peers that come.
_KEPT_MAX: Final = 128
_KEPT_BYTES_MAX: Final = 32 << 20


class Verdict(Enum):
    """Verdict on a message: forwarded; neither forwarded nor held against anyone; held against who sent it."""

    ACCEPT = "accept"
    IGNORE = "ignore"
    REJECT = "reject"


@dataclass(slots=True)
class Seen:
    """A message that has come or was sent.  ``verdict`` is None while it is looked at."""

    topic: str
    at: float
    verdict: Verdict | None = None
    judged_at: float = 0.0
    #: Peers that have sent it too.
    peers: set[str] = field(default_factory=set)


class SeenMessages:
    """For ``ttl_s``, at most ``count_max``: the oldest are forgotten first."""

    def __init__(self, ttl_s: float, count_max: int) -> None:
        self._ttl_s, self._count_max = ttl_s, count_max
        self._messages: dict[bytes, Seen] = {}

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._messages

    def get(self, message_id: bytes) -> Seen | None:
        return self._messages.get(message_id)

    def add(self, message_id: bytes, topic: str, now: float) -> Seen:
        seen = self._messages[message_id] = Seen(topic, now)
        if len(self._messages) > self._count_max:
            del self._messages[next(iter(self._messages))]
        return seen

    def forget(self, message_id: bytes) -> None:
        """It may come again, as if it never had."""
        self._messages.pop(message_id, None)

    def forget_old(self, now: float) -> None:
        for message_id, seen in list(self._messages.items()):
            if now - seen.at <= self._ttl_s:
                return  # in the order in which they came
            del self._messages[message_id]


@dataclass(frozen=True, slots=True)
class Pending:
    """``size``: bytes that are kept for it, as it came and uncompressed."""

    topic: Topic
    sent: bytes
    peer: str
    size: int


class PendingMessages:
    """By their ids, as many as there is room for: in all, and of one peer."""

    def __init__(self) -> None:
        self._messages: dict[bytes, Pending] = {}
        #: Messages and bytes of each peer.
        self._of_peer: dict[str, tuple[int, int]] = {}
        self.held_bytes = 0

    def add(self, message_id: bytes, pending: Pending) -> bool:
        """True if there was room for it."""
        count, held = self._of_peer.get(pending.peer, (0, 0))
        if (
            len(self._messages) >= _PENDING_MAX
            or count >= _PENDING_OF_PEER_MAX
            or self.held_bytes + pending.size > _PENDING_BYTES_MAX
            or (count and held + pending.size > _PENDING_BYTES_OF_PEER_MAX)
        ):
            return False
        self._messages[message_id] = pending
        self._of_peer[pending.peer] = (count + 1, held + pending.size)
        self.held_bytes += pending.size
        return True

    def pop(self, message_id: bytes) -> Pending | None:
        pending = self._messages.pop(message_id, None)
        if pending is not None:
            self.held_bytes -= pending.size
            count, held = self._of_peer.pop(pending.peer)
            if count > 1:
                self._of_peer[pending.peer] = (count - 1, held - pending.size)
        return pending


class MessageCache:
    """The messages of the newest heartbeats, as they are sent."""

    def __init__(self, windows: int, gossiped: int) -> None:
        self._windows: deque[list[bytes]] = deque(([] for _ in range(windows)), maxlen=windows)
        self._gossiped = gossiped
        self._messages: dict[bytes, tuple[str, bytes]] = {}
        self._sent: dict[bytes, dict[str, int]] = {}
        self.held_bytes = 0

    def put(self, message_id: bytes, topic: str, sent: bytes) -> None:
        """Kept unless there is no room; then it is not offered to peers."""
        if message_id in self._messages or self.held_bytes + len(sent) > _CACHE_BYTES_MAX:
            return
        self._messages[message_id] = (topic, sent)
        self._windows[-1].append(message_id)
        self.held_bytes += len(sent)

    def get_for(self, peer: str, message_id: bytes) -> tuple[str, bytes] | None:
        """Topic and content; None if it is gone, or the peer has had it often enough."""
        found = self._messages.get(message_id)
        if found is None:
            return None
        counts = self._sent.setdefault(message_id, {})
        counts[peer] = counts.get(peer, 0) + 1
        return found if counts[peer] <= _RETRANSMISSIONS_MAX else None

    def gossiped_ids(self, topic: str) -> list[bytes]:
        """Ids of messages of a topic in the newest windows, newest window first."""
        newest = list(self._windows)[-self._gossiped :]
        return [
            message_id for window in reversed(newest) for message_id in window if self._messages[message_id][0] == topic
        ]

    def shift(self) -> None:
        """A heartbeat: the oldest window goes."""
        for message_id in self._windows.popleft():
            _, sent = self._messages.pop(message_id)
            self._sent.pop(message_id, None)
            self.held_bytes -= len(sent)
        self._windows.append([])


@dataclass(slots=True)
class _Kept:
    topic: str
    sent: bytes
    until: float
    #: Peers that have it.
    peers: set[str]


class KeptMessages:
    """Messages of this node for peers that come, or come back, while they are of use."""

    def __init__(self) -> None:
        self._messages: deque[_Kept] = deque()
        self.held_bytes = 0

    def put(self, topic: str, sent: bytes, until: float, peers: set[str]) -> None:
        """``peers`` have it.  The oldest make room."""
        self._messages.append(_Kept(topic, sent, until, peers))
        self.held_bytes += len(sent)
        while len(self._messages) > _KEPT_MAX or self.held_bytes > _KEPT_BYTES_MAX:
            self.held_bytes -= len(self._messages.popleft().sent)

    def take_for(self, peer: str, topic: str, now: float) -> list[bytes]:
        """Messages that a peer lacks of a topic, in which it takes part from now on; it has them then."""
        found = [kept for kept in self._messages if kept.topic == topic and now < kept.until and peer not in kept.peers]
        for kept in found:
            kept.peers.add(peer)
        return [kept.sent for kept in found]

    def forget_peer(self, peer: str) -> None:
        """Take note that a peer is gone, perhaps with what was on its way to it."""
        for kept in self._messages:
            kept.peers.discard(peer)

    def forget_old(self, now: float) -> None:
        while self._messages and self._messages[0].until <= now:
            self.held_bytes -= len(self._messages.popleft().sent)
