"""Limits that hold over all workers: memory that all of them see.

Budgets of clients, a table of rows in sets of eight; a client's set follows from its name::

    key u64, 0: free | when u64 in nanoseconds (CLOCK_MONOTONIC) | tokens f64 | 8 bytes unused

A row is read and written while its set is locked (fcntl), and the system unlocks what a process that dies has locked.
A client without a row takes the one of its set that was not asked for the longest time, whose client begins anew.

Connections, a region for each worker, which it alone writes, empties when it begins, and others only read::

    all of its connections u64 | rows in sets of eight: key of the address u64, 0: free | connections u64
"""

from __future__ import annotations

import fcntl
import mmap
import struct
import tempfile
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

from fastnode.http.client_connections import ConnectionCounts
from fastnode.jsonrpc.rate_limit_rules import Rate
from fastnode.jsonrpc.rate_limits import Bucket

__all__ = ["SharedBuckets", "SharedConnectionCounts", "SharedConnections"]

_SET_ROWS: Final = 8
_BUDGET_SETS: Final = 8192
_BUDGET: Final = struct.Struct("=QQd8x")
_ADDRESS_SETS: Final = 1024
_ADDRESS: Final = struct.Struct("=QQ")
_TOTAL: Final = struct.Struct("=Q8x")
_NS: Final = 1e9


def _key_of(name: bytes) -> int:
    """Never 0, which means that there is none."""
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big") | 1


class SharedBuckets:
    """Made before the processes that use it are forked.  In each process one thread uses it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _BUDGET_SETS * _SET_ROWS * _BUDGET.size)
        # Open as long as the processes live, and found by no other process.
        self._lock, path = tempfile.mkstemp(prefix="fastnode-budgets-")
        Path(path).unlink()

    def bucket(self, name: str, rate: Rate, now: float) -> Bucket:
        """Bucket of the client with this name and rate, in whichever worker."""
        return _SharedBucket(self, f"{name} {rate.per_second} {rate.burst}".encode(), rate, now)

    def change(self, key: int, rate: Bucket, cost: float, now: float, *, is_forced: bool) -> tuple[float, float]:
        """(0.0, tokens left), or (seconds until the cost is there, tokens) with nothing taken."""
        first = key // 2 % _BUDGET_SETS * _SET_ROWS
        fcntl.lockf(self._lock, fcntl.LOCK_EX, _SET_ROWS, first)
        try:
            at, when_ns, tokens = self._find(key, first, rate.burst)
            now_ns = max(int(now * _NS), when_ns)
            tokens = min(rate.burst, tokens + (now_ns - when_ns) / _NS * rate.per_second)
            wait_s = 0.0 if is_forced or tokens >= cost else (cost - tokens) / rate.per_second
            if not wait_s:
                tokens -= cost
            _BUDGET.pack_into(self._memory, at, key, now_ns, tokens)
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN, _SET_ROWS, first)
        return wait_s, tokens

    def _find(self, key: int, first: int, burst: float) -> tuple[int, int, float]:
        """Offset of the client's row, when it was written, and its tokens; one that is new is full."""
        rows = range(first * _BUDGET.size, (first + _SET_ROWS) * _BUDGET.size, _BUDGET.size)
        oldest, oldest_ns = rows[0], None
        for at in rows:
            found, when_ns, tokens = _BUDGET.unpack_from(self._memory, at)
            if found == key:
                return at, when_ns, tokens
            if oldest_ns is None or when_ns < oldest_ns:
                oldest, oldest_ns = at, when_ns
        return oldest, 0, burst


class _SharedBucket(Bucket):
    """One client's budget, in shared memory."""

    __slots__ = ("_key", "_now", "_table")

    def __init__(self, table: SharedBuckets, name: bytes, rate: Rate, now: float) -> None:
        super().__init__(rate, now)
        self._table = table
        self._key = _key_of(name)
        self._now = now

    def take(self, cost: float, now: float) -> float:
        self._now = now
        wait_s, self.tokens = self._table.change(self._key, self, cost, now, is_forced=False)
        return wait_s

    def give(self, cost: float) -> None:
        _, self.tokens = self._table.change(self._key, self, -cost, self._now, is_forced=True)


class SharedConnections:
    """Made before the processes that use it are forked."""

    def __init__(self, workers: int) -> None:
        self._region_bytes = _TOTAL.size + _ADDRESS_SETS * _SET_ROWS * _ADDRESS.size
        self._workers = workers
        self._memory = mmap.mmap(-1, workers * self._region_bytes)

    def counts(self, number: int, connections_max: int) -> SharedConnectionCounts:
        """For worker ``number`` from 1 on, whose region is emptied; ``connections_max`` of one address, 0: any."""
        start = (number - 1) * self._region_bytes
        self._memory[start : start + self._region_bytes] = bytes(self._region_bytes)
        return SharedConnectionCounts(self, number - 1, connections_max)

    def total(self, place: int) -> int:
        found: int = _TOTAL.unpack_from(self._memory, place * self._region_bytes)[0]
        return found

    def set_total(self, place: int, count: int) -> None:
        _TOTAL.pack_into(self._memory, place * self._region_bytes, count)

    @property
    def places(self) -> range:
        return range(self._workers)

    def count_of(self, place: int, key: int) -> int:
        """Connections of an address to the worker at ``place``."""
        for at in self._rows(place, key):
            found, count = _ADDRESS.unpack_from(self._memory, at)
            if found == key:
                return int(count)
        return 0

    def set_count(self, place: int, key: int, count: int) -> None:
        """An address that finds no row is not counted."""
        free = None
        for at in self._rows(place, key):
            found, _ = _ADDRESS.unpack_from(self._memory, at)
            if found == key:
                _ADDRESS.pack_into(self._memory, at, key if count else 0, count)
                return
            if not found and free is None:
                free = at
        if free is not None and count:
            _ADDRESS.pack_into(self._memory, free, key, count)

    def _rows(self, place: int, key: int) -> Iterator[int]:
        start = place * self._region_bytes + _TOTAL.size
        first = key // 2 % _ADDRESS_SETS * _SET_ROWS
        return iter(range(start + first * _ADDRESS.size, start + (first + _SET_ROWS) * _ADDRESS.size, _ADDRESS.size))


class SharedConnectionCounts(ConnectionCounts):
    """As in one process, over the connections of all workers.

    Two workers that take a connection at the same moment may both take the last one.
    """

    def __init__(self, shared: SharedConnections, place: int, connections_max: int) -> None:
        super().__init__(connections_max)
        self._shared = shared
        self._place = place
        self._total = 0

    @property
    def elsewhere(self) -> int:
        return sum(self._shared.total(place) for place in self._shared.places if place != self._place)

    def enter(self, network: bytes | None) -> bool:
        if network is not None:
            own = self._counts.get(network, 0)
            if self._connections_max:
                key = _key_of(network)
                others = sum(self._shared.count_of(place, key) for place in self._shared.places if place != self._place)
                if others + own >= self._connections_max:
                    return False
                self._shared.set_count(self._place, key, own + 1)
            self._counts[network] = own + 1
        self._total += 1
        self._shared.set_total(self._place, self._total)
        return True

    def leave(self, network: bytes | None) -> None:
        super().leave(network)
        if network is not None and self._connections_max:
            self._shared.set_count(self._place, _key_of(network), self._counts.get(network, 0))
        self._total -= 1
        self._shared.set_total(self._place, self._total)
