"""Feeding the chain from its sources, in a thread of its own.

Ingestion verifies, hashes and writes; the event loop goes on answering from the newest published
view meanwhile.  The thread can be stopped between two blocks and always leaves whole ones.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from fastnode.archiver.ingest import Ingestor
from fastnode.chain_data import ChainData
from fastnode.errors import DatabaseFull, DatabaseUnreadable
from fastnode.log import log_facts
from fastnode.sources.chain_import import ImportProgress, import_chain_file
from fastnode.sources.sync_control import StopRequested, SyncControl

__all__ = ["IngestionThread"]

logger = logging.getLogger("fastnode.app")

#: Pause between two looks at a full disk.
_ROOM_INTERVAL_S = 2.0

#: Seconds between two lines that say how far long work is.
_PROGRESS_INTERVAL_S = 5.0


class Runs(Protocol):
    """Brings new blocks until the control stops it."""

    def run(self) -> None: ...


class IngestionThread:
    """Brings the state up to the chain, then loads a chain file, then follows upstreams.

    ``start`` it once, ``stop`` it at any time; in between ``control`` pauses and resumes it.

    All callbacks are called in the thread: ``on_begun`` first of all, ``on_caught_up`` when state and chain are at the
    same block, ``on_done`` after a complete import, ``on_failure`` with the error that ended the thread.
    """

    def __init__(
        self,
        data: ChainData,
        ingestor: Ingestor,
        chain_file: Path | None,
        control: SyncControl,
        follower: Runs | None = None,
        *,
        on_begun: Callable[[], None] = lambda: None,
        on_caught_up: Callable[[], None],
        on_done: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._data = data
        self._ingestor = ingestor
        self._chain_file = chain_file
        self._control = control
        self._follower = follower
        self._on_begun = on_begun
        self._on_caught_up = on_caught_up
        self._on_done = on_done
        self._on_failure = on_failure
        self._next_line_at = 0.0
        #: The newest block when the disk was found full last.
        self._full_at: int | None = None
        self._ended_by: str | None = None
        self._thread = threading.Thread(target=self._run, name="fastnode-ingestion")

    def start(self) -> None:
        self._next_line_at = time.monotonic() + _PROGRESS_INTERVAL_S
        self._thread.start()

    def stop(self) -> None:
        """Ask for the end and wait for it: at most as long as one checkpoint takes."""
        self._control.stop()
        if self._thread.ident is not None:
            self._thread.join()

    def faults(self) -> dict[str, str | None]:
        """A node whose chain is fed by nobody any more is not a good one to ask."""
        return {"ingestion": self._ended_by}

    def _run(self) -> None:
        try:
            self._on_begun()
            self._data.state.load_nodes(self._control.pass_point)
            self._data.state.remember_newest_blocks(self._control.pass_point)
            while not self._is_done_before_the_disk_is_full():
                self._control.sleep(_ROOM_INTERVAL_S)
        except StopRequested:
            logger.info("ingestion stopped", extra=log_facts(tip=self._ingestor.view.tip_number))
        except DatabaseUnreadable as error:
            # Reads of everything else that is stored go on; /readyz says what the database says.
            logger.error("ingestion has ended", extra=log_facts(reason=str(error)))
            self._ended_by = f"ingestion has ended: {error}"
        except BaseException as error:  # noqa: BLE001 - handed to the node, which ends with it
            self._ended_by = f"ingestion has ended: {type(error).__name__}"
            self._on_failure(error)
        finally:
            self._control.leave()

    def _is_done_before_the_disk_is_full(self) -> bool:
        """False: there is no room; what was begun is taken up again by the next attempt.  Reads go on meanwhile."""
        try:
            self._work()
        except DatabaseFull as error:
            tip = self._ingestor.view.tip_number
            if tip != self._full_at:  # one line until a block found room: lines take room too
                logger.error("ingestion waits for room on the disk", extra=log_facts(reason=str(error)))
            self._full_at = tip
            return False
        return True

    def _work(self) -> None:
        self._ingestor.catch_up(self._on_catching_up)
        self._on_caught_up()
        self._data.indexes.load_filter(self._ingestor.view, self._data.tag_filter_file)
        if self._chain_file is not None:
            self._load(self._chain_file)
        if self._follower is not None:
            # New blocks come one at a time; a follower that is far behind says less.
            self._ingestor.block_log_level = logging.INFO
            self._follower.run()

    def _load(self, file: Path) -> None:
        started = time.monotonic()
        summary = import_chain_file(self._ingestor, file, progress=self._on_import)
        seconds = round(time.monotonic() - started, 3)
        extra = log_facts(blocks=summary.blocks, new=summary.new_blocks, tip=summary.tip, seconds=seconds)
        self._on_done()
        logger.info("chain file loaded", extra=extra)

    # ---- between blocks ------------------------------------------------------------------------

    def _on_catching_up(self, done: int, total: int) -> None:
        self._pass("bringing the state up to the chain", blocks=done, of=total)

    def _on_import(self, progress: ImportProgress) -> None:
        percent = 100 * progress.bytes_read // max(1, progress.bytes_total)
        self._pass("loading", tip=progress.block_number, percent=percent)

    def _pass(self, message: str, **facts: int) -> None:
        """Stop here if asked to; log the progress of long work from time to time."""
        self._control.pass_point()
        now = time.monotonic()
        if now >= self._next_line_at:
            self._next_line_at = now + _PROGRESS_INTERVAL_S
            logger.info(message, extra=log_facts(**facts))
