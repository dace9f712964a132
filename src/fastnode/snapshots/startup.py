"""Choice whether a start begins with a snapshot, and with which.

    full             never
    snapshot         if the data directory has no block yet
    force-snapshot   also if a snapshot is at least 3600 L1 blocks, half a day, ahead of what is stored

Of all locations the newest snapshot is tried first, and the next one if something is wrong with it: those of leaves
before those with history, if both are wanted and L1 or a followed node is there to confirm the leaves, and before all
one that a start before this one has begun to fetch.  With none left the node starts with what it has: a snapshot saves
time, it is not needed.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from fastnode.errors import SnapshotError
from fastnode.log import log_facts
from fastnode.snapshots.index import Network, Snapshot
from fastnode.snapshots.leaf_index import LeafSnapshot
from fastnode.snapshots.leaf_restore import find_leaf_snapshots, is_begun, restore_leaves
from fastnode.snapshots.location import Location
from fastnode.snapshots.patience import Check
from fastnode.snapshots.restore import Confirm, choose_network, find_snapshots, restore_snapshot
from fastnode.snapshots.stored_chain import StoredChain, stored_chain
from fastnode.storage.data_directory import DataDirectory
from fastnode.storage.replacement import finish_replacement, remove_sample

__all__ = ["start_from_snapshot"]

logger = logging.getLogger(__name__)

FULL: Final = "full"
LEAVES: Final = "leaves"
HISTORY: Final = "history"
FORCE: Final = "force-snapshot"

#: A stored chain is only given up for a snapshot that is so many L1 blocks ahead.
L1_BLOCKS_AHEAD_MIN: Final = 3600

#: Time for which a node that has a chain waits for who confirms leaves; one without has nothing to serve meanwhile.
_PATIENCE_WITH_CHAIN_S: Final = 600.0

_PROGRESS_INTERVAL_S: Final = 10.0

#: Snapshots of one location that are tried before it is given up.
_TRIED_PER_LOCATION: Final = 3


#: The locations of a network beside those that are named; SnapshotError when they cannot be found.
FindLocations = Callable[[Network, Check], Sequence[Location]]


class _Candidate(NamedTuple):
    location: Location
    network: Network
    snapshot: Snapshot | LeafSnapshot


def start_from_snapshot(
    mode: str,
    urls: Sequence[str],
    directory: Path | None,
    *,
    learn_network: Callable[[], Network | None],
    confirm: Confirm | None = None,
    form: str = HISTORY,
    confirm_leaves: Confirm | None = None,
    others_of_leaves: FindLocations | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> bool:
    """Restore a snapshot into ``directory`` if ``mode`` wants one; whether that was done.

    ``learn_network`` tells which network is wanted while nothing is stored, None if any will do.  ``confirm`` raises
    SnapshotError for a snapshot that L1 or an upstream contradicts.  ``form``: ``leaves``, if ``confirm_leaves`` can
    say that somebody has their chain, or ``history``.  ``others_of_leaves`` finds locations of such beside ``urls``.
    ``is_stopped`` is asked now and then; once it says yes, what was there stays.  DataDirectoryError when the directory
    cannot be used.
    """
    if mode == FULL or not (urls or others_of_leaves):
        return False
    if directory is None:
        logger.warning("no snapshot is looked for: that needs a --data-directory")
        return False
    with DataDirectory.open(directory, create=True):
        finish_replacement(directory, keeps_part=True)
        remove_sample(directory)
        stored = stored_chain(directory)
        has_blocks = stored is not None and stored.block_number > 0
        if has_blocks and mode != FORCE:
            return False
        wanted = learn_network() if stored is None else stored.network
        check, takes_leaves = partial(_go_on_unless, is_stopped), _takes_leaves(form, confirm_leaves)
        candidates = _candidates(urls, wanted, check, takes_leaves=takes_leaves)
        if takes_leaves and others_of_leaves is not None and wanted is not None:
            candidates += _candidates_elsewhere(others_of_leaves, wanted, check)
            candidates.sort(key=_worth, reverse=True)
        candidates.sort(key=lambda item: _is_begun(directory, item), reverse=True)
        if has_blocks:
            offered, candidates = candidates, [each for each in candidates if _is_far_ahead(each.snapshot, stored)]
            if offered and not candidates:
                logger.info("no snapshot is far enough ahead of the stored chain")
                return False
        for candidate in candidates:
            patience_s = _PATIENCE_WITH_CHAIN_S if has_blocks else math.inf
            if _restored(directory, candidate, confirm, confirm_leaves, is_stopped, patience_s):
                return True
            if is_stopped():
                return False
    if not is_stopped() and (urls or candidates):
        logger.warning("no snapshot can be used")
    return False


def _takes_leaves(form: str, confirm: Confirm | None) -> bool:
    if form != LEAVES:
        return False
    if confirm is None:
        logger.warning(
            "snapshots of leaves are left alone: neither L1 (--l1-rpc-urls) nor a followed node (--upstream-url) is "
            "there to confirm them"
        )
    return confirm is not None


def _is_begun(directory: Path, candidate: _Candidate) -> bool:
    snapshot = candidate.snapshot
    return isinstance(snapshot, LeafSnapshot) and is_begun(directory, candidate.network, snapshot)


def _is_far_ahead(snapshot: Snapshot | LeafSnapshot, stored: StoredChain | None) -> bool:
    return stored is None or snapshot.l1_block_number - stored.l1_block_number >= L1_BLOCKS_AHEAD_MIN


def _go_on_unless(is_stopped: Callable[[], bool]) -> None:
    if is_stopped():
        raise SnapshotError("the node stops")


def _candidates(urls: Sequence[str], wanted: Network | None, check: Check, *, takes_leaves: bool) -> list[_Candidate]:
    """Snapshots that the locations offer: those of leaves first, newest first."""
    found: list[_Candidate] = []
    for url in urls:
        try:
            location = Location.to_read(url, check)
            network = wanted or choose_network(location)
            offered: list[Snapshot | LeafSnapshot] = [*find_snapshots(location, network)[:_TRIED_PER_LOCATION]]
            if takes_leaves:
                offered += find_leaf_snapshots(location, network)[:_TRIED_PER_LOCATION]
        except SnapshotError as error:
            logger.warning("a location of snapshots cannot be used", extra=log_facts(reason=str(error)))
            continue
        found += [_Candidate(location, network, snapshot) for snapshot in offered]
    return sorted(found, key=_worth, reverse=True)


def _candidates_elsewhere(find: FindLocations, network: Network, check: Check) -> list[_Candidate]:
    """Snapshots of leaves at the locations that are found; in no order."""
    found: list[_Candidate] = []
    try:
        locations = find(network, check)
    except SnapshotError as error:
        logger.warning("locations of snapshots are not found", extra=log_facts(reason=str(error)))
        return []
    for location in locations:
        try:
            offered = find_leaf_snapshots(location, network)[:_TRIED_PER_LOCATION]
        except SnapshotError as error:
            logger.warning("a location of snapshots cannot be used", extra=log_facts(reason=str(error)))
            continue
        found += [_Candidate(location, network, snapshot) for snapshot in offered]
    return found


def _worth(candidate: _Candidate) -> tuple[bool, int]:
    """Worth of a candidate: the highest is tried first."""
    return isinstance(candidate.snapshot, LeafSnapshot), candidate.snapshot.l1_block_number


def _restored(
    directory: Path,
    candidate: _Candidate,
    confirm: Confirm | None,
    confirm_leaves: Confirm | None,
    is_stopped: Callable[[], bool],
    patience_s: float,
) -> bool:
    location, network, snapshot = candidate
    form = LEAVES if isinstance(snapshot, LeafSnapshot) else HISTORY
    extra = log_facts(form=form, location=location.text, block=snapshot.l2_block_number, bytes=snapshot.bytes)
    logger.info("starting from a snapshot", extra=extra)
    try:
        if isinstance(snapshot, LeafSnapshot):
            assert confirm_leaves is not None
            restore_leaves(
                directory,
                location,
                network,
                snapshot,
                confirm=confirm_leaves,
                on_progress=_Progress(is_stopped),
                patience_s=patience_s,
            )
            return True
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
