"""What a connection and each of its requests may use of the loop, the threads and the memory, and whether it is there.

Party       one connection: its shares of the loop and of the threads
Allowance   one request of it: its slice of the loop, its bytes of the memory budget
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from fastnode.http.memory_budget import MemoryBudget
from fastnode.http.turns import Turns
from fastnode.kernels import loop_time

__all__ = ["Allowance", "Party"]

#: A slice without a waiter: three years.
ENDLESS_NS: Final = 10**17
#: About what a request takes beside its text while it waits for a thread: its task, its places in queues.
WAITING_BYTES: Final = 4096


class Party:
    """One connection; by default one that is alone.  ``network`` is what its address counts as; None if it has none."""

    __slots__ = ("_at_end", "budget", "is_gone", "network", "share", "thread_shares", "turns")

    def __init__(
        self, turns: Turns | None = None, budget: MemoryBudget | None = None, network: bytes | None = None
    ) -> None:
        self.turns = turns or Turns(slice_ns=ENDLESS_NS, round_ns=ENDLESS_NS)
        self.budget = budget or MemoryBudget()
        self.network = network
        self.share = loop_time.Share()
        #: Of the threads of each executor, which have clocks of their own (http/fair_threads.py).
        self.thread_shares: dict[object, loop_time.Share] = {}
        #: Its client is gone; may be read by any thread.
        self.is_gone = False
        self._at_end: set[Callable[[], None]] = set()

    def leave(self) -> None:
        """The connection has gone: what is done for it may stop."""
        self.is_gone = True
        for stop in tuple(self._at_end):
            stop()
        self._at_end.clear()

    def call_at_end(self, stop: Callable[[], None]) -> None:
        """``stop`` is called when the connection goes, from the loop's thread; at once if it has gone."""
        self._at_end.add(stop)
        if self.is_gone:
            stop()

    def forget_end(self, stop: Callable[[], None]) -> None:
        self._at_end.discard(stop)


class Allowance:
    """One request.  Bytes may be taken by the thread that works for it; turns are the loop's."""

    __slots__ = ("_is_waiting", "_slice_end", "party", "taken_bytes")

    def __init__(self, party: Party) -> None:
        self.party = party
        self.taken_bytes = 0
        self._is_waiting = False
        self._slice_end = party.turns.slice_end()

    # ---- memory ------------------------------------------------------------------------------

    def take(self, count: int) -> None:
        """Bytes more, until :meth:`give_back`.  NodeBusy if there are too few."""
        if count > 0:
            self.party.budget.take(count)
            self.taken_bytes += count

    def take_for_waiting(self) -> None:
        """What a request needs that is not answered at once, however often it waits.  NodeBusy as above."""
        if not self._is_waiting:
            self.take(WAITING_BYTES)
            self._is_waiting = True

    def give_back(self) -> None:
        """All of it; may be called more than once."""
        taken, self.taken_bytes = self.taken_bytes, 0
        if taken:
            self.party.budget.give_back(taken)

    # ---- time --------------------------------------------------------------------------------

    @property
    def is_abandoned(self) -> bool:
        return self.party.is_gone

    def is_slice_over(self) -> bool:
        return time.monotonic_ns() > self._slice_end

    def begin_slice(self) -> None:
        """After a wait for something else, during which others had their turns."""
        self._slice_end = self.party.turns.slice_end()

    async def next_turn(self) -> None:
        """Let others go first, and begin another slice."""
        await self.party.turns.next(self.party.share)
        self.begin_slice()
