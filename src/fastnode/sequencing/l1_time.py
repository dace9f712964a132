"""The time by which slots are counted: that of L1.

Where L1 makes its blocks by the clock on the wall, that clock tells the time between two of them.  An L1 that is ahead
of it, such as a development chain whose clock is moved, has only the time of its newest block; so has one that is
behind, where its newest block may be as old as it is.  Elsewhere one that is behind lags: others go by the wall.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fastnode.sources.l1.service import L1Reader

__all__ = ["L1Time"]

#: Slots of L1 without a block after which it stands still, or lags.
IN_STEP_SLOTS: Final = 4


class L1Time:
    """Seconds since 1970.  ``newest`` gives the time of L1's newest block, which is no sign of a lag if L1
    ``may_stand_still``.  Used by one thread."""

    def __init__(
        self,
        newest: Callable[[], int],
        l1_slot_s: int,
        *,
        may_stand_still: bool = False,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._newest = newest
        self._wall = wall
        self._monotonic = monotonic
        self._may_stand_still = may_stand_still
        self.l1_slot_s = l1_slot_s
        self._first_seen: tuple[float, float] = (0.0, 0.0)  # build start, when it was seen first

    @classmethod
    def of(cls, reader: L1Reader) -> L1Time:
        """The time of the L1 that is read."""
        return cls(
            lambda: reader.newest_timestamp, reader.slot_duration, may_stand_still=reader.newest_block_may_be_old
        )

    @property
    def is_in_step(self) -> bool:
        """True if L1 goes by the wall clock."""
        return self._behind >= -self.l1_slot_s and not (self._may_stand_still and self.is_late)

    @property
    def is_late(self) -> bool:
        """True if L1's newest block is so old that some are missing."""
        return self._behind > IN_STEP_SLOTS * self.l1_slot_s

    @property
    def _behind(self) -> float:
        return self._wall() - self._newest()

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
