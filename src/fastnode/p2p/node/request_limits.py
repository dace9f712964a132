"""Limits on requests of a peer, and of all together: a number in a second for each kind (facts, section 4)."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final

__all__ = ["Request", "RequestLimits", "RequestPace", "Status"]


class Request(Enum):
    PING = "ping"
    STATUS = "status"
    GOODBYE = "goodbye"
    TX = "tx"
    BLOCK = "block"
    BLOCK_TXS = "block_txs"
    AUTH = "auth"

    @property
    def protocol(self) -> str:
        return f"/aztec/req/{self.value}/1.0.0"


class Status(Enum):
    """The first byte of an answer; data follows ``SUCCESS`` only."""

    SUCCESS = 0
    RATE_LIMIT_EXCEEDED = 1
    BADLY_FORMED_REQUEST = 2
    INTERNAL_ERROR = 3
    NOT_FOUND = 4
    FAILURE = 126
    UNKNOWN = 127

    @classmethod
    def read(cls, frame: bytes) -> Status:
        """Status in the first frame; what is none is ``UNKNOWN``."""
        if len(frame) != 1:
            return cls.UNKNOWN
        return next((status for status in cls if status.value == frame[0]), cls.UNKNOWN)


#: A window as this node keeps to it: a peer's may have begun a little later than it looks from here.
_WINDOW_S: Final = 1.2
#: Requests of one peer, and of all, in a second.
_PER_S: Final = {
    Request.PING: (5, 10),
    Request.STATUS: (5, 10),
    Request.GOODBYE: (5, 10),
    Request.AUTH: (5, 10),
    Request.TX: (10, 200),
    Request.BLOCK_TXS: (10, 200),
    Request.BLOCK: (2, 5),
}


class RequestLimits:
    """Counts in windows of a second that begin with the first request in them."""

    def __init__(self) -> None:
        self._of_peer: dict[tuple[Request, str], tuple[float, int]] = {}
        self._of_all: dict[Request, tuple[float, int]] = {}

    def take(self, request: Request, peer: str, now: float) -> tuple[bool, bool]:
        """Two flags: the request may be answered; it is this peer that has asked too often."""
        of_peer, of_all = _PER_S[request]
        since, count = _window(self._of_peer.get((request, peer)), now)
        if count >= of_peer:
            return False, True
        self._of_peer[request, peer] = (since, count + 1)
        since, count = _window(self._of_all.get(request), now)
        if count >= of_all:
            return False, False
        self._of_all[request] = (since, count + 1)
        return True, False

    def forget(self, peer: str) -> None:
        for request in Request:
            self._of_peer.pop((request, peer), None)


class RequestPace:
    """When this node may ask a peer, within the limit that the peer has for it."""

    def __init__(self) -> None:
        self._asked: dict[tuple[Request, str], deque[float]] = {}

    def reserve(self, request: Request, peer: str, now: float) -> float:
        """Seconds to wait before asking."""
        of_peer, _ = _PER_S[request]
        asked = self._asked.setdefault((request, peer), deque(maxlen=of_peer))
        at = max(now, asked[0] + _WINDOW_S) if len(asked) == of_peer else now
        asked.append(at)
        return at - now

    def forget(self, peer: str) -> None:
        for request in Request:
            self._asked.pop((request, peer), None)


def _window(found: tuple[float, int] | None, now: float) -> tuple[float, int]:
    return (now, 0) if found is None or now - found[0] >= 1 else found
