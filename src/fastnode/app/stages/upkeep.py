"""Upkeep of the disk while the node serves: old history and bodies are dropped, what an older version has stored is
packed, and the room of both given back.

    a step     drops some blocks' history, or what of it follows from the rest, or some blocks' bodies, or packs some
               texts, if blocks are not being written and nobody has paused the node
    when nothing is left to drop or pack, and what was dropped is a fair part of a database:
    a step     merges some tables, with no lock held; reads and new blocks go on beside it
    when nothing of that is left, and the chain is not far behind:
    a step     writes a long log of a database into a table, so that a start after a crash need not replay it

Each step ends within about a second, and is followed by a pause that is longer than it took.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.store import ArchiverStore
from fastnode.errors import DatabaseFull, DatabaseUnreadable, DatabaseUnwritable
from fastnode.log import log_facts
from fastnode.loop import CLOCK, Clock, Loop
from fastnode.sources.sync_control import SyncControl
from fastnode.world_state.state import WorldState

__all__ = ["Upkeep"]

logger = logging.getLogger("fastnode.app")

#: Pause while there is nothing to do, in seconds.
IDLE_S: Final = 30.0
#: Pause after a step, compared with how long it took.
PAUSE_TIMES: Final = 4
#: Longest pause after a step.
PAUSE_S_MAX: Final = 10.0
#: Pause while blocks are written.
BUSY_S: Final = 0.05
#: Pause after a write or a merge that the disk refused.
REFUSED_S: Final = 60.0


class Upkeep:
    """``keep_blocks``: bodies of so many blocks stay, up to the finalized one; 0: all.  ``on_pruned`` is called when
    something was dropped, before its room is given back: it publishes a view without."""

    def __init__(
        self,
        ingestor: Ingestor,
        state: WorldState,
        control: SyncControl,
        *,
        keep_blocks: int = 0,
        on_pruned: Callable[[], None],
        clock: Clock = CLOCK,
    ) -> None:
        self._keep_blocks = keep_blocks
        self._ingestor = ingestor
        self._state = state
        self._control = control
        self._on_pruned = on_pruned
        self._has_pruned = False
        self._is_started = False
        self._loop = Loop(
            "fastnode-upkeep", self._step, what="dropped history is not given back to the disk", clock=clock
        )

    def start(self) -> None:
        """When the state has caught up with the chain; again is as once."""
        if not self._is_started:
            self._is_started = True
            self._loop.start()

    def close(self) -> None:
        """Waits for the step that goes on.  May be called more than once."""
        self._loop.close()

    def troubles(self) -> dict[str, str | None]:
        return {"upkeep": self._loop.trouble}

    def _step(self) -> float:
        begun = self._loop.clock.monotonic()
        try:
            did = self._prune() or self._give_back()
            if did is False:
                did = self._shorten_log()
        except (DatabaseFull, DatabaseUnwritable, DatabaseUnreadable) as error:
            # Its database says so of itself, for the node's health.
            logger.warning("upkeep waits", extra=log_facts(reason=str(error)))
            return REFUSED_S
        if did is None:
            return BUSY_S
        return min(PAUSE_S_MAX, PAUSE_TIMES * (self._loop.clock.monotonic() - begun)) if did else IDLE_S

    def _prune(self) -> bool | None:
        """False if there is nothing to drop; None if that cannot be told now."""
        with self._control.aside() as may_write, self._ingestor.between_blocks() as is_free:
            if not (may_write and is_free):
                return None if may_write else False
            if (
                self._state.prune()
                or self._state.thin()
                or (self._keep_blocks and self._ingestor.prune_bodies(self._keep_blocks))
            ):
                self._has_pruned = True
                return True
            if self._ingestor.pack_texts():
                return True
            if self._has_pruned:
                self._has_pruned = False
                self._on_pruned()  # so that what is told of the node is so without a new block, too
                oldest = {"oldest_block": self._state.view.oldest, "oldest_body": self._ingestor.view.oldest_body}
                logger.info("history dropped", extra=log_facts(**oldest, thin_to_block=self._state.view.thin))
            return False

    def _shorten_log(self) -> bool:
        # Longer logs make larger tables, which save most of the merging while far behind.
        if self._ingestor.is_far_behind:
            return False
        with self._control.aside() as may_write:  # who has paused the node may be copying its files
            databases = (self._state.database, self._ingestor.store.database) if may_write else ()
            return any(database.shorten_log() for database in databases)

    def _give_back(self) -> bool | None:
        for owner in (self._state, self._ingestor.store):
            if owner.giving_back.is_due:
                return self._give_back_of(owner)
        return False

    def _give_back_of(self, owner: WorldState | ArchiverStore) -> bool | None:
        giving_back = owner.giving_back
        if not giving_back.has_begun:
            with self._ingestor.between_blocks() as is_free:
                if not is_free:
                    return None
                self._on_pruned()
        if giving_back.merge_next() is not None:
            return True
        with self._control.aside() as may_write, self._ingestor.between_blocks() as is_free:
            if not (may_write and is_free):
                return None
            owner.end_giving_back()
        return True
