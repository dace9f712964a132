"""Feeding the chain from its source, in a thread of its own.

Ingestion verifies, hashes and writes; the event loop goes on answering from the newest published
view meanwhile.  The thread can be stopped between two records and always leaves whole blocks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fastnode.archiver.chain_import import ImportProgress, import_chain_file
from fastnode.archiver.ingest import Ingestor
from fastnode.observability.logs import fields

__all__ = ["IngestionThread"]

logger = logging.getLogger(__name__)

#: Seconds between two lines that say how far a long import is.
_PROGRESS_INTERVAL_S = 10.0


class _StopRequestedError(Exception):
    """Ends an import between two records."""


class IngestionThread:
    """Imports a chain file once.  ``start`` it once, ``stop`` it as often as you like.

    ``on_done`` is called in the thread after a complete import, ``on_failure`` with the error that ended it.
    """

    def __init__(
        self,
        ingestor: Ingestor,
        chain_file: Path,
        *,
        on_done: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._ingestor = ingestor
        self._chain_file = chain_file
        self._on_done = on_done
        self._on_failure = on_failure
        self._stop_requested = threading.Event()
        self._next_line_at = 0.0
        self._thread = threading.Thread(target=self._run, name="fastnode-ingestion")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask for the end and wait for it: at most as long as one record takes."""
        self._stop_requested.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        started = time.monotonic()
        self._next_line_at = started + _PROGRESS_INTERVAL_S
        try:
            summary = import_chain_file(self._ingestor, self._chain_file, progress=self._on_progress)
            seconds = round(time.monotonic() - started, 3)
            facts = fields(blocks=summary.blocks, new=summary.new_blocks, tip=summary.tip, seconds=seconds)
            logger.info("chain file loaded", extra=facts)
            self._on_done()
        except _StopRequestedError:
            logger.info("import stopped", extra=fields(tip=self._ingestor.view.tip_number))
        except BaseException as error:  # noqa: BLE001 - handed to the node, which ends with it
            self._on_failure(error)

    def _on_progress(self, progress: ImportProgress) -> None:
        if self._stop_requested.is_set():
            raise _StopRequestedError
        now = time.monotonic()
        if now >= self._next_line_at:
            self._next_line_at = now + _PROGRESS_INTERVAL_S
            percent = 100 * progress.bytes_read // max(1, progress.bytes_total)
            logger.info("importing", extra=fields(tip=progress.block_number, percent=percent))
