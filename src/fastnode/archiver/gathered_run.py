"""Final blocks on their way into the databases together: checked one by one, applied to the trees and written as one.

Nothing of them is in a database yet, and nobody but the ingestion and its source sees them.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final, NamedTuple

from fastnode.archiver import layout
from fastnode.archiver.entries import Entries
from fastnode.archiver.queries import ChainView
from fastnode.archiver.records import BlockInfo, StoredTips
from fastnode.archiver.store import ArchiverStore
from fastnode.protocol.block import L2Block
from fastnode.storage.database import SharedDatabase

__all__ = ["GatheredBlock", "GatheredRun", "RunSize"]

#: A run is complete with so many blocks, leaves of the indexed trees, bytes that wait for the disk, or seconds since it
#: was begun, at the end of the next checkpoint.  Larger ones save little more, and what a source that is slow has given
#: is shown and kept meanwhile.
BLOCKS_MAX: Final = 1024
LEAVES_MAX: Final = 16_384
BYTES_MAX: Final = 32 << 20
SECONDS_MAX: Final = 10.0

#: A key and its value.
Entry = tuple[bytes, bytes]


class GatheredBlock(NamedTuple):
    """A checked block, with what the ingestion was given for it."""

    block: L2Block
    info: BlockInfo
    messages: Sequence[bytes]
    record: Entries
    checkpointed: int | None
    #: The newest block before the checkpoint that it came with; that block again if it came alone.
    return_to: int


class RunSize:
    """Size of a run that grows by a block at a time."""

    def __init__(self) -> None:
        self._blocks = 0
        self._leaves = 0
        #: Bytes that its blocks take.
        self.byte_count = 0

    def add(self, block: L2Block) -> None:
        self._blocks += 1
        for effect in block.body.tx_effects:
            self._leaves += len(effect.nullifiers) + len(effect.public_data_writes)

    @property
    def is_reached(self) -> bool:
        """True if the run is to have no more blocks."""
        return self._blocks >= BLOCKS_MAX or self._leaves >= LEAVES_MAX or self.byte_count >= BYTES_MAX


class GatheredRun:
    """``batch`` is what its blocks write to the chain database, those of the indexes too."""

    def __init__(self, store: ArchiverStore) -> None:
        self._store = store
        self.batch = store.write_batch()
        self.blocks: deque[GatheredBlock] = deque()
        self._slots: list[Entry] = []  # of checkpoints, which come in their order
        self._size = RunSize()
        self._due_at = time.monotonic() + SECONDS_MAX

    def add(self, gathered: GatheredBlock, entries: Entries) -> None:
        self.blocks.append(gathered)
        self._size.add(gathered.block)
        for key, value in entries.items():
            self.batch.put(key, value)
            if key.startswith(layout.CHECKPOINT_BY_SLOT):
                self._slots.append((key, value))

    def put_tips(self, tips: StoredTips) -> None:
        self.batch.put(layout.KEY_TIPS, tips.encode())

    @property
    def is_complete(self) -> bool:
        self._size.byte_count = self.batch.byte_count
        return self._size.is_reached or time.monotonic() >= self._due_at

    def open_view(self) -> ChainView:
        """The chain as it will be when this is written; of what is scanned, only slots know of these blocks."""
        return ChainView(_Ahead(self._store.database, self.batch.changes, self._slots), self._store.chain)

    def commit(self) -> None:
        """Write all blocks in one synced batch.  Their checkpoints become final with it: that is why they are here, and
        what the trees cannot return below."""
        tips = StoredTips.decode(self.batch.get(layout.KEY_TIPS) or b"")
        final = max(tips.finalized, tips.checkpointed)
        self.put_tips(tips._replace(finalized=final, proven=max(tips.proven, final)))
        self.batch.commit()


class _Ahead:
    """A database with changes that it does not have yet."""

    def __init__(self, database: SharedDatabase, changes: Mapping[bytes, bytes | None], slots: Sequence[Entry]) -> None:
        self._database = database
        self._changes = changes
        self._slots = slots

    def acquire(self) -> _Ahead:
        self._database.acquire()
        return self

    def release(self) -> None:
        self._database.release()

    def snapshot(self) -> _SnapshotAhead:
        return _SnapshotAhead(self._database, self._changes, self._slots)


class _SnapshotAhead:
    def __init__(self, database: SharedDatabase, changes: Mapping[bytes, bytes | None], slots: Sequence[Entry]) -> None:
        self._database = database
        self._snapshot = snapshot = database.snapshot()
        self._changes = changes
        self._slots = slots
        self.close = snapshot.close

    def get(self, key: bytes) -> bytes | None:
        if key not in self._changes:
            return self._snapshot.get(key)
        stored = self._changes[key]
        return None if stored is None else self._database.unpacked(key, stored)

    @contextmanager
    def iterator(self, *, start: bytes, stop: bytes | None, include_key: bool = True) -> Iterator[Iterator[Any]]:
        first = bisect_left(self._slots, (start, b""))
        last = len(self._slots) if stop is None else bisect_left(self._slots, (stop, b""))
        ahead = self._slots[first:last]
        with self._snapshot.iterator(start=start, stop=stop, include_key=include_key) as stored:
            yield chain(stored, ahead if include_key else (value for _, value in ahead))
