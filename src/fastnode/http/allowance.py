"""Shares of the loop, the threads and the memory for a connection and each of its requests, and whether there is room.

MemoryBudget   all requests: bodies being read, answers being made, and answers not yet taken
Party          one connection: its shares of the loop and of the threads
Allowance      one request of it: its slice of the loop, its bytes of the memory budget

What a part needs it takes before it allocates, and gives back when it lets go.  A request that finds too little is
refused, and the client told to come again, while those under way are finished.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fastnode.errors import NodeBusy
from fastnode.http.turns import Turns
from fastnode.kernels import clock, loop_time

__all__ = ["Allowance", "MemoryBudget", "Party", "default_budget"]

#: A slice without a waiter: three years.
ENDLESS_NS: Final = 10**17
#: About what a request takes beside its text while it waits for a thread: its task, its places in queues.
WAITING_BYTES: Final = 4096
MIB: Final = 1 << 20
BUDGET_BYTES_MAX: Final = 1024 * MIB
#: The part of the machine's memory that requests may take by default.
MACHINE_SHARE: Final = 4


class MemoryBudget:
    """``bytes_max`` None: no limit, and the same counting.  Safe for use by several threads.

    Requests of one address together have ``address_bytes_max`` (None: no such limit); one alone may have all.
    """

    def __init__(self, bytes_max: int | None = None, address_bytes_max: int | None = None) -> None:
        self.bytes_max = bytes_max
        self.address_bytes_max = address_bytes_max
        self._used_by_address: dict[bytes, int] = {}
        self.used_bytes = 0
        #: The most that was used since it was set back.
        self.peak_bytes = 0
        #: Requests that found too little.
        self.refused_count = 0
        self._lock = threading.Lock()

    def take(self, count: int, address: bytes | None = None, own_bytes: int = 0) -> None:
        """NodeBusy, and nothing is taken, if that would be too much, for all or for ``address``.  ``own_bytes``: what
        the request has taken already."""
        with self._lock:
            used = self.used_bytes + count
            if self.bytes_max is not None and used > self.bytes_max:
                self.refused_count += 1
                raise NodeBusy(self.bytes_max)
            if address is not None and self.address_bytes_max is not None:
                others = self._used_by_address.get(address, 0) - own_bytes
                if others > 0 and others + own_bytes + count > self.address_bytes_max:
                    self.refused_count += 1
                    raise NodeBusy(self.address_bytes_max, of_address=True)
            self._count(count, address)

    def take_unasked(self, count: int, address: bytes | None = None) -> None:
        """For what has been allocated already; :attr:`excess_bytes` says what has to go."""
        with self._lock:
            self._count(count, address)

    def give_back(self, count: int, address: bytes | None = None) -> None:
        with self._lock:
            self._count(-count, address)
        assert self.used_bytes >= 0, "more was given back than taken"

    def _count(self, count: int, address: bytes | None) -> None:
        self.used_bytes += count
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)
        if address is None or self.address_bytes_max is None:
            return
        used = self._used_by_address.get(address, 0) + count
        if used > 0:
            self._used_by_address[address] = used
        else:
            self._used_by_address.pop(address, None)

    @property
    def excess_bytes(self) -> int:
        """The excess of used over allowed bytes."""
        return 0 if self.bytes_max is None else max(0, self.used_bytes - self.bytes_max)


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
        #: Shares of the threads of each executor, which have clocks of their own (http/fair_threads.py).
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

    __slots__ = ("_is_waiting", "party", "slice_end_ns", "taken_bytes")

    def __init__(self, party: Party, slice_end_ns: int | None = None) -> None:
        """``slice_end_ns``: end of the slice under way, by ``clock.now_ns``; by default one begins now."""
        self.party = party
        self.taken_bytes = 0
        self._is_waiting = False
        if slice_end_ns is None:
            self.begin_slice()
        else:
            self.slice_end_ns = slice_end_ns

    # ---- memory ------------------------------------------------------------------------------

    def take(self, count: int) -> None:
        """Bytes more, until :meth:`give_back`.  NodeBusy if there are too few."""
        if count > 0:
            self.party.budget.take(count, self.party.network, self.taken_bytes)
            self.taken_bytes += count

    def take_for_waiting(self) -> None:
        """Take the memory of a request that is not answered at once, however often it waits.  NodeBusy as above."""
        if not self._is_waiting:
            self.take(WAITING_BYTES)
            self._is_waiting = True

    def release(self, count: int) -> None:
        """Give part of it back, before the request is answered."""
        self.taken_bytes -= count
        self.party.budget.give_back(count, self.party.network)

    def give_back(self) -> None:
        """All of it; may be called more than once."""
        taken, self.taken_bytes = self.taken_bytes, 0
        if taken:
            self.party.budget.give_back(taken, self.party.network)

    # ---- time --------------------------------------------------------------------------------

    @property
    def is_abandoned(self) -> bool:
        return self.party.is_gone

    def is_slice_over(self) -> bool:
        return clock.now_ns() > self.slice_end_ns

    def begin_slice(self) -> None:
        """Now: at its beginning, and after a wait for something else, during which others had their turns."""
        self.slice_end_ns = clock.now_ns() + self.party.turns.time.slice_ns

    async def next_turn(self) -> None:
        """Let others go first, and begin another slice."""
        await self.party.turns.next(self.party.share)
        self.begin_slice()


# ---- how much memory there is -----------------------------------------------------------------


def default_budget() -> int:
    """Bytes: a quarter of the machine's memory, or of what the process may have of it; at most 1 GiB."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(BUDGET_BYTES_MAX, min(machine, _group_limit() or machine) // MACHINE_SHARE)


def _group_limit() -> int | None:
    """The memory limit of the container; None if it may have all."""
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        return int(text) if text.isdigit() else None
    return None
