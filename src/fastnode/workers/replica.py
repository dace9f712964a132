"""The data side of a worker: a copy of the databases, the batches that follow it, and the view that they lead to.

A copy that is replaced stays open until its last reader has gone, and its folder until then too.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fastnode.archiver.store import ArchiverStore
from fastnode.interpreter import step_aside
from fastnode.kernels import simple_request
from fastnode.log import log_facts
from fastnode.log_index import layout as log_layout
from fastnode.log_index.known_tags import KnownTags
from fastnode.mempool.clock import SlotClock
from fastnode.mempool.followed import CopiedPoolStore, DecidingPool, FollowedPool
from fastnode.storage.database import DatabaseMemory, SharedDatabase
from fastnode.view import Committed, View
from fastnode.workers.contents import ContentsReader
from fastnode.workers.facts import ChainTime, Facts
from fastnode.workers.frames import CHAIN, STATE, Change, Shown
from fastnode.workers.remote import RemoteNames
from fastnode.world_state.replica import CannotFollowError, WorldStateReplica

__all__ = ["CONTENTS_DIRECTORY", "Replica", "ReplicaOptions"]

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
#: Number of kept delays, each the time until a view became visible.
_DELAYS_KEPT: Final = 4096


class ReplicaOptions:
    """``growth_percent``: what the copy's own files may have, compared with all, before it is replaced."""

    def __init__(self, *, cache_mb: int, tag_filter_mb: int, growth_percent: int) -> None:
        self.cache_mb = cache_mb
        self.tag_filter_mb = tag_filter_mb
        self.growth_percent = growth_percent


class _Copy:
    """The three databases of one copy."""

    def __init__(self, path: Path, options: ReplicaOptions) -> None:
        self.path = path
        self.store = ArchiverStore.open(path, create=False, memory=MEMORY)
        try:
            self.state = WorldStateReplica(
                path,
                self.store.chain.release.separators,
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


class Replica:
    """``published`` holds what a request that comes now is answered from; None before the first view.

    The thread of the link calls; ``on_committed`` is told of each view, ``on_first`` once, when there is one.
    """

    def __init__(self, options: ReplicaOptions, deciding: DecidingPool, *, on_first: Callable[[], None]) -> None:
        self._options = options
        self._deciding = deciding
        self._on_first = on_first
        #: Told when requests are answered from another copy.
        self.on_changed: Callable[[], None] = lambda: None
        self._subscribers: list[Callable[[Committed], None]] = []
        self._on_facts: list[Callable[[Facts], None]] = []
        self._copy: _Copy | None = None
        self._next: _Copy | None = None
        self._retired: list[_Copy] = []
        #: Path of the copy that is to be replaced.
        self._given_up: Path | None = None
        self._tidying = threading.Lock()
        self.published: simple_request.Published[View | None] = simple_request.Published(None)
        self.known_tags = KnownTags(options.tag_filter_mb * _MIB)
        self.function_names = RemoteNames()
        self.pool: FollowedPool | None = None
        self._facts: Facts | None = None
        self._time = ChainTime()
        #: When the primary went; None while it is there.
        self.away_since: float | None = time.monotonic()
        #: Copies that were opened, and seconds from the primary's commit until a view was visible here.
        self.copy_count = 0
        self.delays_s: deque[float] = deque(maxlen=_DELAYS_KEPT)

    @property
    def facts(self) -> Facts:
        """After the first view."""
        assert self._facts is not None
        return self._facts

    @property
    def view(self) -> View | None:
        return self.published.value

    @property
    def path(self) -> Path | None:
        """Path of the copy that is answered from."""
        return None if self._copy is None else self._copy.path

    def now(self) -> float:
        """The time of the chain."""
        return self._time.now()

    def subscribe(self, on_committed: Callable[[Committed], None]) -> None:
        self._subscribers.append(on_committed)

    def watch_facts(self, on_facts: Callable[[Facts], None]) -> None:
        """Tell of each record from now on, and of the newest at once."""
        self._on_facts.append(on_facts)
        on_facts(self.facts)

    # ---- what the link brings ------------------------------------------------------------------

    def on_copy(self, path: Path) -> None:
        self._drop_next()
        begun = time.monotonic()
        self._next = _Copy(path, self._options)
        self.copy_count += 1
        ms = round(1000 * (time.monotonic() - begun), 1)
        logger.info("copy opened", extra=log_facts(path=path, ms=ms))

    def on_batch(self, database: int, changes: list[Change]) -> None:
        copy = self._next or self._copy
        if copy is None:
            raise CannotFollowError("there is no copy to repeat a batch in")
        if database == CHAIN:
            if self._next is None:
                self._learn_tags(changes)
                step_aside()
            copy.store.database.repeat(changes)
        elif database == STATE:
            copy.state.repeat(changes)
        elif self._next is None and self.pool is not None:
            self.pool.repeat(changes)
        else:
            copy.pool.repeat(changes)

    def on_view(self, shown: Shown) -> bool:
        copy = self._next or self._copy
        assert copy is not None
        is_new_copy = copy is self._next
        chain = copy.store.open_view()
        if (chain.tip_number, chain.tips.proposed.hash) != (shown.number, shown.block_hash):
            raise CannotFollowError(f"the copy is at block {chain.tip_number}, the primary shows {shown.number}")
        if is_new_copy:
            self.known_tags.begin_anew()  # before anyone reads what the filter does not know
        step_aside()
        view = View(chain, copy.state.publish() if shown.has_state else None)
        step_aside()
        if is_new_copy:
            self._change_to(copy)
        self.published.publish(view)
        self.delays_s.append((time.monotonic_ns() - shown.at_ns) / 1e9)
        self.away_since = None
        committed = Committed(view)
        for on_committed in self._subscribers:
            on_committed(committed)
        if is_new_copy:
            if self.copy_count == 1:
                self._on_first()
            self.on_changed()
            # Work that only makes the copy faster, beside requests; what the primary sends waits meanwhile.
            self.known_tags.fill(chain)
            copy.state.load_nodes()
            self._remove_strangers(copy)
        return True

    def on_facts(self, facts: Facts) -> None:
        self._facts, self._time = facts, facts.time
        for on_facts in self._on_facts:
            on_facts(facts)

    def on_names(self, signatures: list[str]) -> None:
        for signature in signatures:
            self.function_names.learn(signature)

    def on_away(self) -> None:
        if self.away_since is None:
            self.away_since = time.monotonic()
        self._drop_next()

    def _learn_tags(self, changes: list[Change]) -> None:
        """Before a block can be seen the filter knows its tags."""
        for key, value in changes:
            if value is not None and log_layout.is_count_key(key):
                self.known_tags.add(log_layout.tag_key_of_count(key))

    # ---- copies ----------------------------------------------------------------------------------

    def _change_to(self, copy: _Copy) -> None:
        before, self._copy, self._next = self._copy, copy, None
        if self.pool is None:
            clock = SlotClock.of_chain(copy.store.chain, self.now)
            self.pool = FollowedPool(copy.pool, clock, copy.store.chain.release, self._deciding)
        else:
            self.pool.begin_anew(copy.pool)
        if before is not None:
            before.retired_at = time.monotonic()
            with self._tidying:
                self._retired.append(before)
            logger.info("copy replaced", extra=log_facts(path=copy.path))

    def _drop_next(self) -> None:
        dropped, self._next = self._next, None
        if dropped is not None:
            dropped.close()
            shutil.rmtree(dropped.path, ignore_errors=True)

    def sizes(self) -> tuple[int, int]:
        """Bytes of files that only the copy of this worker has, and of all its files."""
        copy = self._copy
        return (0, 0) if copy is None else copy.sizes()

    def has_grown_apart(self, sizes: tuple[int, int] | None = None) -> bool:
        """True if the copy is to be replaced by a new one.  Said once of each: the next one may take a while to come,
        and to ask for it again would have it begin anew.  ``sizes`` where they are known.
        """
        copy = self._copy
        if copy is None or copy.path == self._given_up:
            return False
        own, total = sizes or copy.sizes()
        if own <= max(GROWTH_BYTES_MIN, total * self._options.growth_percent // 100):
            return False
        self._given_up = copy.path
        return True

    def tidy(self) -> None:
        """Close replaced copies, and remove those that no reader is in any more.  Not on an event loop."""
        now = time.monotonic()
        copy = self._copy
        if copy is not None and self.away_since is None and self._next is None:
            copy.contents.tidy()
        with self._tidying:
            for copy in list(self._retired):
                if copy.retired_at is not None and now - copy.retired_at > _RETIRED_S:
                    copy.retired_at = None
                    copy.close()
                if copy.retired_at is None and all(database.closed for database in copy.databases):
                    self._retired.remove(copy)
                    shutil.rmtree(copy.path, ignore_errors=True)

    def _remove_strangers(self, copy: _Copy) -> None:
        """Remove copies that a worker of this number has left behind, such as one that was killed.

        In the thread of the link, when a copy has come: the primary makes no other one for this worker now.
        """
        mine = {copy.path, *(retired.path for retired in self._retired)}
        number = copy.path.name.partition("-")[0]
        for path in copy.path.parent.glob(f"{number}-*"):
            if path not in mine:
                shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """After the link: give everything up, and remove the copies."""
        self.published.publish(None)
        self._drop_next()
        copy, self._copy = self._copy, None
        for each in [*self._retired, *([] if copy is None else [copy])]:
            if each.retired_at is not None or each is copy:
                each.close()
            shutil.rmtree(each.path, ignore_errors=True)
