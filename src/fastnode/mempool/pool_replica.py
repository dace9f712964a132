"""The pool as another process of the node sees it: it follows the writes of the one that decides.

The process that decides has the pool (pool.py).  What it has written is read here from a copy of its database and from
the batches that follow; a newcomer goes there, and is durable when the answer comes.  Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol, final

from fastnode.errors import DatabaseUnreadable
from fastnode.mempool.clock import SlotClock
from fastnode.mempool.departures import DepartedTxs
from fastnode.mempool.entries import PoolEntry, TxState
from fastnode.mempool.handover import untaken_reason
from fastnode.mempool.pending import PendingIndex
from fastnode.mempool.pool import Added, Origin, PoolOptions, TxPool
from fastnode.mempool.store import (
    POOL_DIRECTORY,
    Change,
    DepartedRow,
    PoolStore,
    hash_of_departed_key,
    hash_of_entry_key,
    is_json_key,
)
from fastnode.protocol.releases import Release
from fastnode.protocol.tx import Tx
from fastnode.storage.database import SMALL_MEMORY, SharedDatabase

__all__ = ["Contents", "CopiedPoolStore", "DecidingPool", "FollowedPool", "OtherHandover"]


#: A reference to contents, and what is as short; longer ones go into the database.
REMEMBERED_BYTES_MAX: Final = 2 << 10


class DecidingPool(Protocol):
    """The process that decides.  Refused with its reasons, and when it is away."""

    def insert(self, entry: PoolEntry, tx_json: bytes) -> Added:
        """Put it in, and hand it on; the answer is durable."""

    def consider(self, entry: PoolEntry) -> Added:
        """Answer that :meth:`insert` would give now."""

    def ask(self, tx_json: bytes) -> None:
        """Return once another node has taken it."""


class Contents(Protocol):
    """Places of contents that the writes only refer to; their own value when they do not."""

    def note(self, value: bytes | None) -> None:
        """A value that has come.  OSError when what it refers to cannot be opened."""

    def read(self, value: bytes | None) -> bytes | None:
        """Content that a value refers to; None when that has left the pool.  DatabaseUnreadable."""


class CopiedPoolStore(PoolStore):
    """The copy ``<directory>/p2p``, which repeats the writes of another process.  DataDirectoryError."""

    def __init__(self, directory: Path, contents: Contents) -> None:
        super().__init__(SharedDatabase.open(directory / POOL_DIRECTORY, create=False, memory=SMALL_MEMORY))
        self._contents = contents

    def repeat(self, changes: Sequence[Change]) -> None:
        """Into the database, before it is read.  OSError when what the changes refer to cannot be opened."""
        for key, value in changes:
            if is_json_key(key):
                self._contents.note(value)
        self.database.repeat(changes)

    def remember(self, changes: Sequence[Change]) -> None:
        """For :meth:`tx_json` only: the pool that reads it has the records, and a new copy begins with all of it.
        OSError as in :meth:`repeat`.
        """
        for key, value in changes:
            if not is_json_key(key):
                continue
            self._contents.note(value)
            if value is not None and len(value) > REMEMBERED_BYTES_MAX:
                self.database.repeat([(key, value)])
                self._overlay.pop(key, None)
            elif value is None and self.database.get(key) is None:
                self._overlay.pop(key, None)  # it came after the copy was made
            else:
                self._overlay[key] = value

    def tx_json(self, tx_hash: bytes) -> bytes | None:
        return self._contents.read(super().tx_json(tx_hash))


class FollowedPool(TxPool):
    """Reads as those of the pool.  One thread repeats, any thread reads."""

    def __init__(
        self,
        store: CopiedPoolStore,
        clock: SlotClock,
        release: Release,
        deciding: DecidingPool,
        options: PoolOptions | None = None,
    ) -> None:
        self._deciding = deciding
        super().__init__(store, None, clock, release, options)
        self._store: CopiedPoolStore = store

    @property
    def clock(self) -> SlotClock:
        return self._clock

    def _load(self) -> None:
        self._take(self._store)

    def _take(self, store: CopiedPoolStore) -> None:
        entries = {entry.hash: entry for entry in store.entries()}
        pending = PendingIndex(entries)
        for entry in sorted(entries.values(), key=lambda entry: entry.arrival):
            if entry.state is TxState.PENDING:
                pending.add(entry)
        pending.on_added = self._pending.on_added
        departed = DepartedTxs(store.departed_rows())
        self._store, self._entries, self._pending, self._departed = store, entries, pending, departed

    def begin_anew(self, store: CopiedPoolStore) -> CopiedPoolStore:
        """Go on with another copy; the one from before, to be closed once no reader is in it any more."""
        before = self._store
        self._take(store)
        return before

    def repeat(self, changes: Iterable[Change]) -> None:
        """Writes of the deciding process, in its order."""
        changes = list(changes)
        self._store.remember(changes)
        for key, record in changes:
            tx_hash = hash_of_entry_key(key)
            if tx_hash is not None:
                self._replace(tx_hash, None if record is None else PoolEntry.decode(tx_hash, record))
                continue
            tx_hash = hash_of_departed_key(key)
            if tx_hash is not None and record is not None:
                self._departed.repeat(DepartedRow.decode(tx_hash, record))
            elif tx_hash is not None:
                self._departed.forget(tx_hash)

    def _replace(self, tx_hash: bytes, entry: PoolEntry | None) -> None:
        before = self._entries.get(tx_hash)
        if before is not None and before.state is TxState.PENDING:
            self._pending.remove(before)
        if entry is None:
            self._entries.pop(tx_hash, None)
            return
        self._entries[tx_hash] = entry
        if entry.state is TxState.PENDING:
            self._pending.add(entry)

    def tx_json(self, tx_hash: bytes) -> bytes | None:
        return self._read(super().tx_json, tx_hash)

    def known_tx_json(self, tx_hash: bytes) -> bytes | None:
        return self._read(super().known_tx_json, tx_hash)

    def _read(self, read: Callable[[bytes], bytes | None], tx_hash: bytes) -> bytes | None:
        """Once more where another copy has come meanwhile."""
        store = self._store
        try:
            return read(tx_hash)
        except DatabaseUnreadable:
            if store is self._store:
                raise
            return read(tx_hash)

    # ---- newcomers -----------------------------------------------------------------------------

    def insert(self, entry: PoolEntry, tx_json: bytes, *, origin: Origin = Origin.CLIENT) -> Added:
        if self.is_waiting(entry.hash):
            return Added.KNOWN
        return self._deciding.insert(entry, tx_json)

    def consider(self, tx: Tx, *, origin: Origin = Origin.CLIENT) -> Added:
        return self._deciding.consider(PoolEntry.of(tx, self.release))


@final
class OtherHandover:
    """The ``Handover`` of a process that follows: the deciding one asks other nodes, and hands on what its pool has."""

    def __init__(self, pool: FollowedPool, deciding: DecidingPool) -> None:
        self._pool = pool
        self._deciding = deciding

    @property
    def trouble(self) -> str | None:
        """None: the deciding process tells."""
        return None

    @property
    def has_waiting(self) -> bool:
        """False: what waits is the deciding process's."""
        return False

    def waiting_reason(self, tx_hash: bytes) -> str | None:
        return untaken_reason(self._pool, tx_hash)

    def offer(self, tx_hash: bytes, tx_json: bytes) -> None:
        """It has been offered already."""

    def ask(self, tx_json: bytes) -> None:
        self._deciding.ask(tx_json)

    def flush(self) -> None:
        """Nothing waits here."""
