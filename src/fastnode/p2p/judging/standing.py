"""The application's score of peers: points for what they did wrong, nine tenths of them left after a minute.

    below -50      goodbye low_score at the next check
    below -100     goodbye banned

A score belongs to a peer id, in memory only, as in the reference.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from fastnode.p2p.judging.goodbye import Goodbye

__all__ = ["Penalty", "Standing"]

_DECAY_S: Final = 60.0
_DECAY: Final = 0.9
_LOW: Final = -50.0
_BANNED: Final = -100.0
#: Peers with points; those with the fewest are forgotten first.
_PEERS_MAX: Final = 10_000


class Penalty(Enum):
    """H: may happen to anyone; M: should not; L: is an attack, or broken."""

    HIGH_TOLERANCE = 0
    MID_TOLERANCE = 1
    LOW_TOLERANCE = 2


class Standing:
    """``points``: what H, M and L cost (P2P_PEER_PENALTY_VALUES)."""

    def __init__(self, points: tuple[int, int, int] = (2, 10, 50)) -> None:
        low, mid, high = sorted(points)
        self._points = {Penalty.HIGH_TOLERANCE: low, Penalty.MID_TOLERANCE: mid, Penalty.LOW_TOLERANCE: high}
        self._scores: dict[str, tuple[float, float]] = {}  # score, and when it was worked out

    def penalize(self, peer: str, penalty: Penalty, now: float) -> float:
        """The score from now on."""
        score, since = self._scores.get(peer, (0.0, now))
        score, _ = _aged(score, since, now)
        score -= self._points[penalty]
        self._scores[peer] = (score, now)
        if len(self._scores) > _PEERS_MAX:
            del self._scores[max(self._scores, key=lambda other: self._scores[other][0])]
        return score

    def score(self, peer: str) -> float:
        """As of the last :meth:`decay`."""
        found = self._scores.get(peer)
        return 0.0 if found is None else found[0]

    def decay(self, now: float) -> None:
        """To be called at each check of peers."""
        for peer, (score, since) in list(self._scores.items()):
            aged = _aged(score, since, now)
            if aged[0] > -0.01:
                del self._scores[peer]
            else:
                self._scores[peer] = aged

    def verdict(self, peer: str) -> Goodbye | None:
        """Reason for which a peer has to go; None if it may stay."""
        score = self.score(peer)
        if score < _BANNED:
            return Goodbye.BANNED
        return Goodbye.LOW_SCORE if score < _LOW else None


def _aged(score: float, since: float, now: float) -> tuple[float, float]:
    periods = int((now - since) // _DECAY_S)
    return (score * _DECAY**periods, since + periods * _DECAY_S) if periods > 0 else (score, since)
