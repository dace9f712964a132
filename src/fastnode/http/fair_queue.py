"""Who comes next when many wait: the party that has used least.

Start-time fair queueing (Goyal, Vin, Cheng 1996).  Each party has a clock of what it has used.  What it asks for is
stamped with that clock, and the lowest stamp is served first; a party that rested is set to the stamp that is being
served, so that rest is no credit.  One that asks for little passes all that ask for much, however many they are.
"""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

from fastnode.kernels import loop_time

__all__ = ["FairQueue"]

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """Not safe for use by several threads at a time."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, loop_time.Share, Item]] = []
        self._count = 0  # keeps the order of arrival among equal stamps
        self._now_served = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, share: loop_time.Share, item: Item, expected_ns: int = 0) -> None:
        """``expected_ns`` is charged at once, so that the items of one party do not all have the same stamp."""
        stamp = max(share.used_ns, self._now_served)
        share.used_ns = stamp + expected_ns
        self._count += 1
        heapq.heappush(self._heap, (stamp, self._count, share, item))

    def pop(self) -> tuple[loop_time.Share, Item]:
        """IndexError if there is none."""
        stamp, _, share, item = heapq.heappop(self._heap)
        self._now_served = stamp
        return share, item
