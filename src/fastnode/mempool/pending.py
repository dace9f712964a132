"""Indexes over the pending transactions of the pool: by priority, by nullifier, by payer, and what was not handed on.

They are in memory only.  Changes are made under the lock of the pool; reads take none, and look at one entry or at a
copy that is made in one step.
"""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator, Mapping

from fastnode.mempool.entries import PoolEntry

__all__ = ["PendingIndex"]


class PendingIndex:
    """Hashes and nullifiers are 32 bytes.  ``entries`` has the transactions of the pool by hash, pending or not."""

    def __init__(self, entries: Mapping[bytes, PoolEntry]) -> None:
        #: Told of the hash of each transaction that is pending from now on, under the lock of the pool.
        self.on_added: Callable[[bytes], None] = lambda _hash: None
        self._entries = entries
        self._order: list[tuple[int, bytes]] = []  # ranks, ascending
        self._owner_of_nullifier: dict[bytes, bytes] = {}
        self._txs_of_payer: dict[bytes, set[bytes]] = {}
        self._limits_of_payer: dict[bytes, int] = {}
        self._unforwarded: dict[bytes, float] = {}  # oldest first

    # ---- reading -----------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return len(self._order)

    @property
    def nullifier_count(self) -> int:
        return len(self._owner_of_nullifier)

    @property
    def lowest(self) -> PoolEntry:
        """The transaction of the lowest priority; IndexError without one."""
        return self._entries[self._order[0][1]]

    def entries(self) -> list[PoolEntry]:
        """By rising priority."""
        return [self._entries[tx_hash] for _, tx_hash in self._order]

    def hashes(self, *, limit: int | None = None, after: PoolEntry | None = None) -> list[bytes]:
        """By falling priority; ``after`` that is not pending gives none."""
        order = tuple(self._order)
        end = len(order)
        if after is not None:
            end = bisect_left(order, after.rank)
            if end == len(order) or order[end][1] != after.hash:
                return []
        start = 0 if limit is None else max(0, end - limit)
        return [tx_hash for _, tx_hash in reversed(order[start:end])]

    def owner_of(self, nullifier: bytes) -> PoolEntry | None:
        """The transaction that emits a nullifier."""
        owner = self._owner_of_nullifier.get(nullifier)
        return None if owner is None else self._entries[owner]

    def conflicts_of(self, entry: PoolEntry) -> Iterator[PoolEntry]:
        """Transactions that emit a nullifier which ``entry`` emits, too."""
        owners = (self._owner_of_nullifier.get(nullifier) for nullifier in entry.nullifiers)
        return (self._entries[owner] for owner in dict.fromkeys(owners) if owner is not None)

    def of_payer(self, payer: bytes) -> list[PoolEntry]:
        return [self._entries[tx_hash] for tx_hash in self._txs_of_payer.get(payer, ())]

    def fee_limits_of(self, payer: bytes) -> int:
        """The most that all transactions of the payer can cost it together, whatever they claim."""
        return self._limits_of_payer.get(payer, 0)

    def payers(self) -> Collection[bytes]:
        return self._txs_of_payer.keys()

    @property
    def has_unforwarded(self) -> bool:
        return bool(self._unforwarded)

    def unforwarded_hashes(self) -> list[bytes]:
        """Transactions that no other node has taken yet, in the order in which they came."""
        return list(self._unforwarded)

    def unforwarded_since(self, tx_hash: bytes) -> float | None:
        """Since when no other node has taken it, on the clock of time.monotonic; None if one has."""
        return self._unforwarded.get(tx_hash)

    # ---- changing ----------------------------------------------------------------------------

    def add(self, entry: PoolEntry) -> None:
        insort(self._order, entry.rank)
        if not entry.forwarded:
            self._unforwarded[entry.hash] = time.monotonic()
        self._txs_of_payer.setdefault(entry.fee_payer, set()).add(entry.hash)
        self._limits_of_payer[entry.fee_payer] = self.fee_limits_of(entry.fee_payer) + entry.fee_limit
        for nullifier in entry.nullifiers:
            self._owner_of_nullifier[nullifier] = entry.hash
        self.on_added(entry.hash)

    def remove(self, entry: PoolEntry) -> None:
        """One that was added."""
        del self._order[bisect_left(self._order, entry.rank)]
        self._unforwarded.pop(entry.hash, None)
        others = self._txs_of_payer[entry.fee_payer]
        others.discard(entry.hash)
        self._limits_of_payer[entry.fee_payer] -= entry.fee_limit
        if not others:
            del self._txs_of_payer[entry.fee_payer]
            del self._limits_of_payer[entry.fee_payer]
        for nullifier in entry.nullifiers:
            del self._owner_of_nullifier[nullifier]

    def note_forwarded(self, tx_hash: bytes) -> None:
        """Another node has taken it."""
        self._unforwarded.pop(tx_hash, None)
