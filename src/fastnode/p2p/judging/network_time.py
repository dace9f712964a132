"""Time on the network, for those who must say whether a proposal is of this slot, and who is late.

Peers go by the clock on the wall, and so does this node where L1 keeps that time.  The time of L1's newest block alone
would be one L1 slot late: a proposal of the slot before would pass, and cost points where it is forwarded to.

A process that did not run for a while, as a machine that was paused, finds messages that were in time when they came:
that is its own fault and not held against peers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["NetworkTime", "Pulse"]

#: The clock on the wall counts if it is no further than this from that of L1.
_DRIFT_MAX_S: Final = 60.0


#: A beat is due each second; one that is later than this says that the process did not run.
_PAUSE_S: Final = 4.0
#: Time that it then takes to work off what has come meanwhile, in seconds.
_RECOVERY_S: Final = 10.0


class Pulse:
    """``beat`` it each second.  Usable from any thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last = monotonic()
        self._recovering_until = 0.0

    def beat(self) -> None:
        now = self._monotonic()
        if now - self._last > _PAUSE_S:
            self._recovering_until = now + _RECOVERY_S
        self._last = now

    @property
    def has_paused(self) -> bool:
        """True if the process was stopped for some time a moment ago."""
        now = self._monotonic()
        return now - self._last > _PAUSE_S or now < self._recovering_until


class NetworkTime:
    """``l1``: the time of L1's newest block.  Usable from any thread."""

    def __init__(
        self,
        l1: Callable[[], float],
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._l1, self._wall, self._monotonic = l1, wall, monotonic
        self._seen = (l1(), monotonic())

    def now(self) -> float:
        newest, instant = self._l1(), self._monotonic()
        if newest != self._seen[0]:
            self._seen = (newest, instant)
        wall = self._wall()
        if abs(wall - newest) <= _DRIFT_MAX_S:
            return wall
        before, since = self._seen
        return before + (instant - since)
