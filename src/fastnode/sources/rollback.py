"""Control of ingestion by an operator: pause it, resume it, take the chain back.

The rules of going back are those of the reference node: the target is the last block of a checkpoint, below
the newest block, and not below the finalized one unless that is forced.  Forced below it, the world state and the
pool are cleared, and the state is rebuilt from the stored blocks.  In every case ingestion goes on afterwards,
unless the caller asked for it to rest.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.queries import ChainView
from fastnode.errors import DatabaseError, Refused
from fastnode.log import log_facts
from fastnode.sources.sync_control import SyncControl, SyncState

__all__ = ["COPYING", "ROLLING_BACK", "SyncOperator"]

logger = logging.getLogger(__name__)

#: The thread that ingests rests between two records; a checkpoint of full blocks takes seconds.
PAUSE_TIME_S: Final = 60.0
#: Seconds between two lines that say how far the state is.
PROGRESS_INTERVAL_S: Final = 5.0

# Tasks that need ingestion to rest, and how each is told to other callers meanwhile.
ROLLING_BACK: Final = "rollback"
COPYING: Final = "snapshot"
_RUNNING: Final = {
    ROLLING_BACK: ("A rollback is running", "ROLLBACK_RUNNING"),
    COPYING: ("The databases are being copied for a snapshot", "SNAPSHOT_RUNNING"),
}


class SyncOperator:
    """Called from worker threads, by the admin methods.  Every refusal is a Refused.

    ``clear_pool`` removes all pending transactions.  ``on_rolled_back`` is called after each rollback, before ingestion
    resumes, and after one that failed on the way.
    """

    def __init__(
        self,
        control: SyncControl,
        ingestor: Ingestor,
        clear_pool: Callable[[], None] = lambda: None,
        on_rolled_back: Callable[[], None] = lambda: None,
    ) -> None:
        self._control = control
        self._ingestor = ingestor
        self._clear_pool = clear_pool
        self._on_rolled_back = on_rolled_back
        #: Waits until other processes answer from what is stored now.
        self.wait_until_seen: Callable[[], None] = lambda: None
        self._next_line_at = 0.0

    def pause(self) -> None:
        """Returns when nothing is being ingested any more and every process shows it; again and again if one likes."""
        self._pause()
        self.wait_until_seen()

    def resume(self) -> None:
        """Returns when every process shows that ingestion goes on."""
        self._resume()
        self.wait_until_seen()

    def _pause(self) -> None:
        if not self._control.pause(PAUSE_TIME_S):
            raise Refused(
                f"Ingestion did not come to rest within {PAUSE_TIME_S:g} s; it pauses as soon as it can",
                data={"code": "STILL_PAUSING"},
            )
        logger.info("sync paused", extra=log_facts(tip=self._ingestor.view.tip_number))

    def _resume(self) -> None:
        if self._control.resume():
            logger.info("sync resumed", extra=log_facts(tip=self._ingestor.view.tip_number))
        else:
            logger.warning("resumeSync: the sync is running already")

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Nothing is ingested, and nothing taken back, within; afterwards all is as it was."""
        with self._control.one_operation(COPYING) as running:
            _require_nothing_running(running)
            was_paused = self._control.is_paused
            try:
                self._pause()
                if self._control.state is SyncState.STOPPING:
                    raise Refused("The node is stopping")
                yield
            finally:
                if not was_paused and self._control.is_paused:
                    self._resume()

    def roll_back_to(self, target: int, *, force: bool = False, resume: bool = True) -> None:
        """Undo every block above ``target``; a followed chain is then fetched again from there.

        Returns when every process answers from the shorter chain.  One that is refused leaves ingestion as it was.
        """
        with self._control.one_operation(ROLLING_BACK) as running:
            _require_nothing_running(running)
            _check_target(self._ingestor.view, target, force=force)
            was_paused = self._control.is_paused
            try:
                self._pause()
                # Again while ingestion is paused: it may have moved.
                _check_target(self._ingestor.view, target, force=force)
                try:
                    if target < self._ingestor.view.tips.finalized.block.number:
                        self._clear_and_rebuild(target)
                    else:
                        self._undo(target)
                finally:
                    self._on_rolled_back()
            except BaseException:
                if not was_paused and self._control.is_paused:
                    self._resume()
                raise
            if resume and self._control.is_paused:
                self._resume()
            self.wait_until_seen()

    def _clear_and_rebuild(self, target: int) -> None:
        before = self._ingestor.view.tip_number
        logger.warning("forced rollback: the world state and the pool are cleared", extra=log_facts(target=target))
        self._next_line_at = time.monotonic() + PROGRESS_INTERVAL_S
        try:
            self._ingestor.rebuild_above(target, self._on_rebuilt)
        except DatabaseError as error:
            raise Refused(str(error), data={"code": "ROLLBACK_IMPOSSIBLE"}) from error
        self._clear_pool()
        logger.warning("rolled back", extra=log_facts(before=before, tip=target))

    def _on_rebuilt(self, done: int, total: int) -> None:
        if self._control.state is SyncState.STOPPING:
            raise Refused("The node is stopping; its next start builds the rest of the state")
        if time.monotonic() >= self._next_line_at:
            self._next_line_at = time.monotonic() + PROGRESS_INTERVAL_S
            logger.info("rebuilding the state", extra=log_facts(blocks=done, of=total))

    def _undo(self, target: int) -> None:
        before = self._ingestor.view.tip_number
        try:
            self._ingestor.undo_above(target)
        except DatabaseError as error:
            raise Refused(str(error), data={"code": "ROLLBACK_IMPOSSIBLE"}) from error
        logger.warning("rolled back", extra=log_facts(before=before, tip=target))


def _require_nothing_running(running: str | None) -> None:
    """One at a time: a second one would resume ingestion while the first still needs it paused."""
    if running is not None:
        message, code = _RUNNING[running]
        raise Refused(f"{message}; try again when it is done", data={"code": code})


def _refuse(message: str) -> Refused:
    return Refused(message, data={"code": "ROLLBACK_REFUSED"})


def _check_target(view: ChainView, target: int, *, force: bool) -> None:
    finalized = view.tips.finalized.block.number
    if target < finalized and not force:
        raise _refuse(f"Cannot rollback to block {target} as it is before finalized {finalized}")
    if target >= view.tip_number:
        raise _refuse(f"Target L2 block {target} must be less than current L2 block {view.tip_number}")
    info = view.block_info(target)
    checkpoint = None if info is None else view.checkpoint(info.checkpoint_number)
    if checkpoint is None:
        raise _refuse(f"Target L2 block {target} not found")
    if target != checkpoint.last_block:
        raise _refuse(
            f"Target L2 block {target} is not at a checkpoint boundary. Checkpoint {checkpoint.number} spans blocks "
            f"{checkpoint.start_block} to {checkpoint.last_block}. Use block {checkpoint.last_block} to roll back to "
            f"this checkpoint, or block {checkpoint.start_block - 1} to roll back to the previous one."
        )
