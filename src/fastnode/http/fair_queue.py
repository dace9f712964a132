"""Who comes next when many wait: the party that will have used least when it is done.

Fair queueing by virtual finishing times (Demers, Keshav, Shenker 1989), with the clock of the newest start served
(Goyal, Vin, Cheng 1996).  Each party has a clock of what it has used.  What it asks for is stamped with that clock, and
served in the order of the stamp and what a turn of the party needs, as far as its turns until now tell; a party that
rested is set to the stamp that is being served, so that rest is no credit.  One whose turns are short passes all whose
turns are long, however many they are, as long as it uses no more than they do.
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
        self._heap: list[tuple[int, int, int, loop_time.Share, Item]] = []
        self._count = 0  # keeps the order of arrival among equals
        self._now_served = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, share: loop_time.Share, item: Item, expected_ns: int = 0) -> None:
        """``expected_ns`` is charged at once, so that the items of one party do not all have the same stamp."""
        stamp = max(share.used_ns, self._now_served)
        share.used_ns = stamp + expected_ns
        self._count += 1
        heapq.heappush(self._heap, (stamp + share.turn_ns, self._count, stamp, share, item))

    def pop(self) -> tuple[loop_time.Share, Item]:
        """IndexError if there is none."""
        _, _, stamp, share, item = heapq.heappop(self._heap)
        self._now_served = max(self._now_served, stamp)
        return share, item
