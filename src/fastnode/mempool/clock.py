"""Slots: the next block that a new transaction could be in."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Self

from fastnode.records import dataclass

__all__ = ["SlotClock"]


@dataclass(frozen=True, slots=True)
class SlotClock:
    """Time in seconds since the epoch.  ``now`` is the clock on the wall unless a chain has its own time."""

    genesis_time: int
    slot_duration: int
    l1_slot_duration: int
    now: Callable[[], float] = time.time

    @classmethod
    def of_chain(cls, chain: Any, now: Callable[[], float] = time.time) -> Self:
        """The clock of a chain from its :class:`~fastnode.archiver.queries.ChainInfo`."""
        l1_slot_duration = int(chain.l1_constants.get("ethereumSlotDuration", chain.slot_duration))
        return cls(chain.l1_genesis_time, chain.slot_duration, l1_slot_duration, now)

    def slot(self) -> int:
        """The slot of now."""
        return max(0, int(self.now()) - self.genesis_time) // self.slot_duration

    def next_slot(self) -> int:
        """The slot that a block built from the next L1 block on belongs to."""
        return max(0, int(self.now()) + self.l1_slot_duration - self.genesis_time) // self.slot_duration

    def next_slot_timestamp(self) -> int:
        """Start of :meth:`next_slot`: the timestamp that such a block carries."""
        return self.genesis_time + self.next_slot() * self.slot_duration
