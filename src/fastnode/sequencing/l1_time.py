"""The time by which slots are counted: that of L1.

Where L1 makes its blocks by the clock on the wall, that clock tells the time between two of them.  An L1 that stands
still or is somewhere else in time, such as a development chain whose clock is moved, has only the time of its newest
block.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["L1Time"]

#: Slots of L1 without a block after which the clock on the wall says nothing about L1.
IN_STEP_SLOTS: Final = 4


class L1Time:
    """Seconds since 1970.  ``newest`` gives the time of L1's newest block.  Used by one thread."""

    def __init__(
        self,
        newest: Callable[[], int],
        l1_slot_s: int,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._newest = newest
        self._wall = wall
        self._monotonic = monotonic
        self.l1_slot_s = l1_slot_s
        self._first_seen: tuple[float, float] = (0.0, 0.0)  # build start, when it was seen first

    @property
    def is_in_step(self) -> bool:
        """True if L1 goes by the wall clock."""
        behind = self._wall() - self._newest()
        return -self.l1_slot_s <= behind <= IN_STEP_SLOTS * self.l1_slot_s

    def now(self) -> float:
        newest = float(self._newest())
        return max(newest, self._wall()) if self.is_in_step else newest

    def next_block(self) -> int:
        """The time that the next L1 block can have; what is sent now is in it at the earliest."""
        return int(self.now()) + self.l1_slot_s

    def since(self, build_start: float) -> float:
        """Seconds since a build start, which must be the same until the next one is asked for."""
        if self.is_in_step:
            return max(0.0, self.now() - build_start)
        if self._first_seen[0] != build_start:
            self._first_seen = (build_start, self._monotonic())
        # Time stands still there: what passes is the time of those who build.
        return self._monotonic() - self._first_seen[1]
