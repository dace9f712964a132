"""The data side of a worker: a copy of the databases, the batches that follow it, and the view that they lead to.

Copies come and go in workers/copies.py.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fastnode.archiver.queries import ChainView
from fastnode.interpreter import step_aside
from fastnode.kernels import simple_request
from fastnode.log_index import layout as log_layout
from fastnode.log_index.known_tags import KnownTags
from fastnode.mempool.clock import SlotClock
from fastnode.mempool.pool_replica import DecidingPool, FollowedPool
from fastnode.view import Committed, View
from fastnode.workers.copies import Copies, Copy, ReplicaOptions
from fastnode.workers.facts import ChainTime, Facts
from fastnode.workers.frames import CHAIN, STATE, Change, Shown
from fastnode.workers.remote import RemoteNames
from fastnode.world_state.replica import CannotFollowError

__all__ = ["Replica"]

logger = logging.getLogger("fastnode.workers")

#: Number of kept delays, each the time until a view became visible.
_DELAYS_KEPT: Final = 4096


class Replica:
    """``published`` holds what a request that comes now is answered from; None before the first view.

    The thread of the link calls; ``on_committed`` is told of each view, ``on_first`` once, when there is one.
    """

    def __init__(self, options: ReplicaOptions, deciding: DecidingPool, *, on_first: Callable[[], None]) -> None:
        self._deciding = deciding
        self._on_first = on_first
        #: Told when requests are answered from another copy.
        self.on_changed: Callable[[], None] = lambda: None
        self._subscribers: list[Callable[[Committed], None]] = []
        self._on_facts: list[Callable[[Facts], None]] = []
        self.copies = Copies(options)
        self.published: simple_request.Published[View | None] = simple_request.Published(None)
        self.known_tags = KnownTags(options.tag_filter_mb << 20)
        self.function_names = RemoteNames()
        self.pool: FollowedPool | None = None
        self._facts: Facts | None = None
        self._time = ChainTime()
        #: When the primary went; None while it is there.
        self.away_since: float | None = time.monotonic()
        #: Work on a new copy that is left for after its first view.
        self._fill: Callable[[], None] | None = None
        #: Seconds from the primary's commit until a view was visible here.
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
        current = self.copies.current
        return None if current is None else current.path

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
        self.copies.open_next(path)

    def on_batch(self, database: int, changes: list[Change]) -> None:
        copy, is_shown = self.copies.newest, not self.copies.is_coming
        if copy is None:
            raise CannotFollowError("there is no copy to repeat a batch in")
        if database == CHAIN:
            if is_shown:
                self._learn_tags(changes)
                step_aside()
            copy.store.database.repeat(changes)
        elif database == STATE:
            copy.state.repeat(changes)
        elif is_shown and self.pool is not None:
            self.pool.repeat(changes)
        else:
            copy.pool.repeat(changes)

    def on_view(self, shown: Shown) -> bool:
        copy, is_new_copy = self.copies.newest, self.copies.is_coming
        assert copy is not None
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
            if self.copies.opened_count == 1:
                self._on_first()
            self.on_changed()
            self._fill = lambda: self._fill_copy(copy, chain)
        return True

    def after_view(self) -> None:
        """Work that only makes a new copy faster, beside requests; what the primary sends waits meanwhile."""
        fill, self._fill = self._fill, None
        if fill is not None:
            fill()

    def _fill_copy(self, copy: Copy, chain: ChainView) -> None:
        self.known_tags.fill(chain)
        copy.state.load_nodes()
        self.copies.remove_strangers()

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
        self.copies.drop_next()

    def _learn_tags(self, changes: list[Change]) -> None:
        """Before a block can be seen the filter knows its tags."""
        for key, value in changes:
            if value is not None and log_layout.is_count_key(key):
                self.known_tags.add(log_layout.tag_key_of_count(key))

    # ---- copies ----------------------------------------------------------------------------------

    def _change_to(self, copy: Copy) -> None:
        self.copies.change()
        if self.pool is None:
            clock = SlotClock.of_chain(copy.store.chain, self.now)
            self.pool = FollowedPool(copy.pool, clock, copy.store.chain.release, self._deciding)
        else:
            self.pool.begin_anew(copy.pool)

    def tidy(self) -> None:
        """Close replaced copies, and remove those that no reader is in any more.  Not on an event loop."""
        self.copies.tidy(has_primary=self.away_since is None)

    def close(self) -> None:
        """After the link: give everything up, and remove the copies."""
        self.published.publish(None)
        self.copies.close()
