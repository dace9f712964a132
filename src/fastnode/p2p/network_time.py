"""What time it is on the network, for those who must say whether a proposal is of this slot.

Peers go by the clock on the wall, and so does this node where L1 keeps that time.  The time of L1's newest block alone
would be one L1 slot late: a proposal of the slot before would pass, and cost points where it is forwarded to.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["NetworkTime"]

#: The clock on the wall counts if it is no further than this from that of L1.
_DRIFT_MAX_S: Final = 60.0


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
