"""Choice of peers to dial, and when: static ones for ever, discovered ones a few times.

The reference lets five connections a second in from one address: this node dials four.  Where another node than the
expected one answers at an address that the operator named, or where a peer was before, whoever is there is taken the
next time: a node that was started again without its key is a node like any other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import Final

from fastnode.p2p.node.options import StaticPeer
from fastnode.records import dataclass

__all__ = ["Candidate", "DialPlan", "Pace"]

_DIALS_PER_S: Final = 4
#: Between attempts at a static peer, or one of an address that is trusted: twice as long each time.
_FIRST_PAUSE_S: Final = 2.0
_LAST_PAUSE_S: Final = 60.0
#: The same while peers are few: a validator whose only peer starts again must not miss slots for a pause of its own.
_LAST_PAUSE_ALONE_S: Final = 4.0
#: Peers below which there are few.
_FEW: Final = 4
#: Limits for discovered peers.
_ATTEMPTS_MAX: Final = 3
_PAUSE_S: Final = 300.0
_CANDIDATES_MAX: Final = 100
_CANDIDATE_KEPT_S: Final = 300.0
_TRUSTED_KEPT_S: Final = 3600.0
#: Addresses of which is remembered when they were last dialled, or heard of.
_ADDRESSES_MAX: Final = 4096


@dataclass(slots=True)
class Candidate:
    peer: StaticPeer
    is_static: bool
    found_at: float
    #: Id of the peer that was there last.
    seen: str | None = None
    #: The operator named the address, or a peer was there.
    is_trusted: bool = False
    #: Another node than the expected one has answered there.
    takes_any: bool = False
    failures: int = 0
    failed_at: float = 0.0
    next_at: float = 0.0
    is_dialling: bool = False

    @property
    def expected(self) -> str | None:
        """Peer id that must be there; None: any."""
        return None if self.takes_any else self.peer.peer_id

    def due_at(self, *, is_needed: bool) -> float:
        """When it is dialled next.  ``is_needed``: peers are few."""
        soon = self.is_trusted and is_needed
        return min(self.next_at, self.failed_at + _LAST_PAUSE_ALONE_S) if soon else self.next_at


class Pace:
    """At most ``per_s`` events a second for each address."""

    def __init__(self, per_s: int) -> None:
        self._per_s = per_s
        self._times: dict[str, deque[float]] = {}

    def take(self, address: str, now: float) -> bool:
        """True if there may be an event now, which is then counted."""
        times = self._times.get(address)
        if times is None:
            if len(self._times) >= _ADDRESSES_MAX:
                self._times = {key: kept for key, kept in self._times.items() if now - kept[-1] < 1}
            if len(self._times) >= _ADDRESSES_MAX:
                return False
            times = self._times[address] = deque(maxlen=self._per_s)
        if len(times) == self._per_s and now - times[0] < 1:
            return False
        times.append(now)
        return True


class DialPlan:
    """Times are of one monotonic clock, in s."""

    def __init__(self, static: Iterable[StaticPeer]) -> None:
        self._candidates = {(peer.host, peer.port): Candidate(peer, True, 0.0, is_trusted=True) for peer in static}
        self._pace = Pace(_DIALS_PER_S)

    def discovered(self, peer: StaticPeer, now: float, *, is_trusted: bool = False) -> None:
        """A peer that may be dialled while there is room.

        ``is_trusted``: the operator named its address, or it was a peer: if another one is there, that one will do.
        """
        key = (peer.host, peer.port)
        found = self._candidates.get(key)
        if found is not None:
            found.found_at = now
            found.is_trusted |= is_trusted
            return
        others = [key for key, other in self._candidates.items() if not other.is_static]
        if len(others) >= _CANDIDATES_MAX:
            del self._candidates[others[0]]
        self._candidates[key] = Candidate(peer, False, now, is_trusted=is_trusted)

    def due(self, connected: Collection[str], now: float, *, has_room: bool) -> list[Candidate]:
        """Candidates to dial now.  ``connected``: peer ids; discovered peers only while there is room."""
        for key, other in list(self._candidates.items()):
            kept_s = _TRUSTED_KEPT_S if other.is_trusted else _CANDIDATE_KEPT_S
            if not other.is_static and now - other.found_at > kept_s and not other.is_dialling:
                del self._candidates[key]
        found = []
        for candidate in self._candidates.values():
            is_wanted = candidate.is_static or has_room
            if candidate.is_dialling or not is_wanted or now < candidate.due_at(is_needed=len(connected) < _FEW):
                continue
            if (candidate.seen or candidate.peer.peer_id) in connected or not self._pace.take(candidate.peer.host, now):
                continue
            candidate.is_dialling = True
            found.append(candidate)
        return found

    def connected(self, candidate: Candidate, peer_id: str) -> None:
        """From now on it is known who is there."""
        candidate.is_dialling = False
        candidate.failures = 0
        candidate.seen = peer_id

    def mistaken(self, candidate: Candidate, now: float) -> None:
        """Another node than the expected one is there."""
        if not candidate.is_trusted:
            self.failed(candidate, now)
            return
        candidate.is_dialling = False
        candidate.takes_any = True
        candidate.seen = None
        candidate.next_at = now

    def failed(self, candidate: Candidate, now: float) -> None:
        candidate.is_dialling = False
        candidate.failures += 1
        candidate.failed_at = now
        if candidate.is_trusted:
            pause = min(_LAST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(candidate.failures - 1, 10))
        else:
            pause = 1.0 if candidate.failures % _ATTEMPTS_MAX else _PAUSE_S
        candidate.next_at = now + pause
