"""Copies of the primary's databases that a worker has: one that is answered from, one that comes, and replaced ones.

    NONE ── a copy comes ──► COMING ── its first view ──► SHOWN ── another one comes ──► REPLACING
     ▲                         │                          ▲  ▲                              │
     └── the primary goes ─────┘                          │  └── the primary goes ──────────┤
                                                          └── its first view ───────────────┘

A copy that is replaced stays open until its last reader has gone, and its folder until then too.
"""

from __future__ import annotations

import enum
import logging
import shutil
import threading
import time
from pathlib import Path
from typing import Final

from fastnode.archiver.store import ArchiverStore
from fastnode.log import log_facts
from fastnode.mempool.pool_replica import CopiedPoolStore
from fastnode.storage.database import DatabaseMemory, SharedDatabase
from fastnode.workers.contents import ContentsReader
from fastnode.world_state.replica import WorldStateReplica

__all__ = ["CONTENTS_DIRECTORY", "Copies", "CopiesState", "Copy", "ReplicaOptions"]

logger = logging.getLogger("fastnode.workers")

#: Beside the copies.
CONTENTS_DIRECTORY: Final = "contents"
_MIB: Final = 1 << 20
#: A copy is written to by one block at a time: small tables merge soon, and a large buffer would be memory for nothing.
MEMORY: Final = DatabaseMemory(block_cache_bytes=16 * _MIB, write_buffer_bytes=4 * _MIB)
#: Readers of a copy that was replaced have at least so long.
_RETIRED_S: Final = 5.0
#: Below this a copy is not worth replacing.  A small database is merged as a whole now and then, and all of the copy
#: is its own then; replacing it each time would hold up the primary's writes for little.
GROWTH_BYTES_MIN: Final = 256 * _MIB


class ReplicaOptions:
    """``growth_percent``: what the copy's own files may have, compared with all, before it is replaced."""

    def __init__(self, *, cache_mb: int, tag_filter_mb: int, growth_percent: int) -> None:
        self.cache_mb = cache_mb
        self.tag_filter_mb = tag_filter_mb
        self.growth_percent = growth_percent


class Copy:
    """The three databases of one copy."""

    def __init__(self, path: Path, options: ReplicaOptions) -> None:
        self.path = path
        self.store = ArchiverStore.open(path, create=False, memory=MEMORY)
        try:
            self.state = WorldStateReplica(
                path,
                self.store.chain.release.trees,
                cache_mb=options.cache_mb,
                write_buffer_bytes=MEMORY.write_buffer_bytes,
            )
            try:
                self.contents = ContentsReader(path.parent / CONTENTS_DIRECTORY)
                self.pool = CopiedPoolStore(path, self.contents)
            except BaseException:
                self.state.close()
                raise
        except BaseException:
            self.store.close()
            raise
        self.retired_at: float | None = None

    @property
    def databases(self) -> tuple[SharedDatabase, ...]:
        return self.store.database, self.state.database, self.pool.database

    def close(self) -> None:
        """Each database closes with its last reader."""
        self.store.close()
        self.state.close()
        self.pool.database.release()
        self.contents.close()

    def sizes(self) -> tuple[int, int]:
        """Bytes of files that only this copy has, and of all of them."""
        own = total = 0
        for database in self.databases:
            for file in database.path.iterdir():
                try:
                    found = file.stat()
                except OSError:  # a compaction has removed it
                    continue
                total += found.st_size
                own += found.st_size if found.st_nlink == 1 else 0
        return own, total


class CopiesState(enum.Enum):
    """State of the copies of a worker, see above."""

    NONE = "there is nothing to answer from"
    COMING = "the first copy has no view yet"
    SHOWN = "answers come from a copy"
    REPLACING = "answers come from a copy, and the next one has no view yet"


class Copies:
    """The thread of the link opens, changes and drops; any other one may tidy."""

    def __init__(self, options: ReplicaOptions) -> None:
        self._options = options
        #: The copy that is answered from.
        self.current: Copy | None = None
        self._next: Copy | None = None
        self._retired: list[Copy] = []
        #: Path of the copy that is to be replaced.
        self._given_up: Path | None = None
        #: Held while a copy changes its part.
        self._lock = threading.Lock()
        self.opened_count = 0

    def invariant(self) -> None:
        """AssertionError unless each copy has one part, and the replaced ones are those that wait for their readers."""
        with self._lock:
            here = [copy for copy in (self.current, self._next, *self._retired) if copy is not None]
            assert len(here) == len({id(copy) for copy in here}) == len({copy.path for copy in here})
            assert all(copy.retired_at is None for copy in (self.current, self._next) if copy is not None)
            assert self.opened_count >= len(here)

    @property
    def state(self) -> CopiesState:
        if self.current is None:
            return CopiesState.NONE if self._next is None else CopiesState.COMING
        return CopiesState.SHOWN if self._next is None else CopiesState.REPLACING

    @property
    def newest(self) -> Copy | None:
        """The copy that what the primary sends belongs to."""
        return self._next or self.current

    @property
    def is_coming(self) -> bool:
        """True while the newest copy has no view yet."""
        return self._next is not None

    def open_next(self, path: Path) -> None:
        """A copy has come.  Takes the place of one that had no view yet."""
        self.drop_next()
        begun = time.monotonic()
        coming = Copy(path, self._options)
        with self._lock:
            self._next = coming
            self.opened_count += 1
        ms = round(1000 * (time.monotonic() - begun), 1)
        logger.info("copy opened", extra=log_facts(path=path, ms=ms))

    def change(self) -> None:
        """Answer from the copy that has come; the one before is retired."""
        with self._lock:
            before, self.current, self._next = self.current, self._next, None
            assert self.current is not None
            if before is not None:
                before.retired_at = time.monotonic()
                self._retired.append(before)
        if before is not None:
            logger.info("copy replaced", extra=log_facts(path=self.current.path))

    def drop_next(self) -> None:
        """Give up a copy without a view: the batches that lead to one do not come any more."""
        with self._lock:
            dropped, self._next = self._next, None
        if dropped is not None:
            dropped.close()
            shutil.rmtree(dropped.path, ignore_errors=True)

    def sizes(self) -> tuple[int, int]:
        """Bytes of files that only the copy of this worker has, and of all its files."""
        copy = self.current
        return (0, 0) if copy is None else copy.sizes()

    def has_grown_apart(self, sizes: tuple[int, int] | None = None) -> bool:
        """True if the copy is to be replaced by a new one.  Said once of each: the next one may take a while to come,
        and to ask for it again would have it begin anew.  ``sizes`` where they are known.
        """
        copy = self.current
        if copy is None or copy.path == self._given_up:
            return False
        own, total = sizes or copy.sizes()
        if own <= max(GROWTH_BYTES_MIN, total * self._options.growth_percent // 100):
            return False
        self._given_up = copy.path
        return True

    def tidy(self, *, has_primary: bool) -> None:
        """Close replaced copies, and remove those that no reader is in any more.  Not on an event loop."""
        now = time.monotonic()
        copy = self.current
        if copy is not None and has_primary and self._next is None:
            copy.contents.tidy()
        with self._lock:
            for copy in list(self._retired):
                if copy.retired_at is not None and now - copy.retired_at > _RETIRED_S:
                    copy.retired_at = None
                    copy.close()
                if copy.retired_at is None and all(database.closed for database in copy.databases):
                    self._retired.remove(copy)
                    shutil.rmtree(copy.path, ignore_errors=True)

    def remove_strangers(self) -> None:
        """Remove copies that a worker of this number has left behind, such as one that was killed.

        In the thread of the link, when a copy has come: the primary makes no other one for this worker now.
        """
        copy = self.current
        assert copy is not None
        with self._lock:
            mine = {copy.path, *(retired.path for retired in self._retired)}
        number = copy.path.name.partition("-")[0]
        for path in copy.path.parent.glob(f"{number}-*"):
            if path not in mine:
                shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Remove all of them."""
        self.drop_next()
        with self._lock:
            copy, self.current = self.current, None
            left, self._retired = self._retired, []
        for each in [*left, *([] if copy is None else [copy])]:
            if each.retired_at is not None or each is copy:
                each.close()
            shutil.rmtree(each.path, ignore_errors=True)
