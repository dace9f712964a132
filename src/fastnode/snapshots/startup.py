"""Choice whether a start begins with a snapshot, and with which.

    full             never
    snapshot         if the data directory has no block yet
    force-snapshot   also if a snapshot is at least 3600 L1 blocks, half a day, ahead of what is stored

Of all locations the newest snapshot is tried first, and the next one if something is wrong with it.  With none left the
node starts with what it has: a snapshot saves time, it is not needed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from fastnode.errors import SnapshotError
from fastnode.log import log_facts
from fastnode.snapshots.index import Network, Snapshot
from fastnode.snapshots.location import Location
from fastnode.snapshots.patience import Check
from fastnode.snapshots.restore import Confirm, choose_network, find_snapshots, restore_snapshot
from fastnode.snapshots.stored import StoredChain, stored_chain
from fastnode.storage.data_directory import DataDirectory
from fastnode.storage.replacement import finish_replacement, remove_sample

__all__ = ["start_from_snapshot"]

logger = logging.getLogger(__name__)

FULL: Final = "full"
FORCE: Final = "force-snapshot"

#: A stored chain is only given up for a snapshot that is so many L1 blocks ahead.
L1_BLOCKS_AHEAD_MIN: Final = 3600

_PROGRESS_INTERVAL_S: Final = 10.0

#: Snapshots of one location that are tried before it is given up.
_TRIED_PER_LOCATION: Final = 3


def start_from_snapshot(
    mode: str,
    urls: Sequence[str],
    directory: Path | None,
    *,
    learn_network: Callable[[], Network | None],
    confirm: Confirm | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> bool:
    """Restore a snapshot into ``directory`` if ``mode`` wants one; whether that was done.

    ``learn_network`` tells which network is wanted while nothing is stored, None if any will do.  ``confirm`` raises
    SnapshotError for a snapshot that L1 or an upstream contradicts.  ``is_stopped`` is asked now and then; once it says
    yes, what was there stays.  DataDirectoryError when the directory cannot be used.
    """
    if mode == FULL or not urls:
        return False
    if directory is None:
        logger.warning("no snapshot is looked for: that needs a --data-directory")
        return False
    with DataDirectory.open(directory, create=True):
        finish_replacement(directory)
        remove_sample(directory)
        stored = stored_chain(directory)
        has_blocks = stored is not None and stored.block_number > 0
        if has_blocks and mode != FORCE:
            return False
        wanted = learn_network() if stored is None else stored.network
        check = partial(_go_on_unless, is_stopped)
        for location, network, snapshot in _candidates(urls, wanted, check):
            if has_blocks and not _is_far_ahead(snapshot, stored):
                logger.info("no snapshot is far enough ahead of the stored chain")
                return False
            if _restored(directory, location, network, snapshot, confirm, is_stopped):
                return True
            if is_stopped():
                return False
    if not is_stopped():
        logger.warning("no snapshot can be used")
    return False


def _is_far_ahead(snapshot: Snapshot, stored: StoredChain | None) -> bool:
    return stored is None or snapshot.l1_block_number - stored.l1_block_number >= L1_BLOCKS_AHEAD_MIN


def _go_on_unless(is_stopped: Callable[[], bool]) -> None:
    if is_stopped():
        raise SnapshotError("the node stops")


def _candidates(urls: Sequence[str], wanted: Network | None, check: Check) -> list[tuple[Location, Network, Snapshot]]:
    """Snapshots that the locations offer, newest first."""
    found = []
    for url in urls:
        try:
            location = Location.to_read(url, check)
            network = wanted or choose_network(location)
            offered = find_snapshots(location, network)[:_TRIED_PER_LOCATION]
        except SnapshotError as error:
            logger.warning("a location of snapshots cannot be used", extra=log_facts(reason=str(error)))
            continue
        found += [(location, network, snapshot) for snapshot in offered]
    return sorted(found, key=lambda item: item[2].l1_block_number, reverse=True)


def _restored(
    directory: Path,
    location: Location,
    network: Network,
    snapshot: Snapshot,
    confirm: Confirm | None,
    is_stopped: Callable[[], bool],
) -> bool:
    extra = log_facts(location=location.text, block=snapshot.l2_block_number, bytes=snapshot.bytes)
    logger.info("starting from a snapshot", extra=extra)
    try:
        known = {} if confirm is None else {"confirm": confirm}
        restore_snapshot(directory, location, network, snapshot, on_progress=_Progress(is_stopped), **known)
    except SnapshotError as error:
        logger.warning("a snapshot cannot be used", extra=log_facts(reason=str(error)))
        return False
    return True


class _Progress:
    """A line in the log now and then; SnapshotError when the node stops."""

    def __init__(self, is_stopped: Callable[[], bool]) -> None:
        self._is_stopped = is_stopped
        self._next_line_at = time.monotonic() + _PROGRESS_INTERVAL_S

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._is_stopped():
            raise SnapshotError("the node stops")
        now = time.monotonic()
        if now >= self._next_line_at:
            self._next_line_at = now + _PROGRESS_INTERVAL_S
            logger.info(f"{what} a snapshot", extra=log_facts(done=done, of=total, percent=100 * done // max(1, total)))
