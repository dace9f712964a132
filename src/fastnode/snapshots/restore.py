"""Getting a snapshot: find it, download it, verify it, and only then let it take the place of what is there.

The SHA-256 of each archive finds every damage.  Against a snapshot that was made with intent, everything is worked out
again that a chain proves by itself: each block and index, and the roots of all five trees at the newest block from
their leaves.  Inner nodes and history of the trees are not: a node that does not trust a location builds them from the
chain, by removing ``world_state``.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from fastnode.errors import SnapshotError
from fastnode.files import system_reason
from fastnode.log import log_facts
from fastnode.snapshots.archive import read_archive
from fastnode.snapshots.contents import Contents, read_contents
from fastnode.snapshots.create import DIRECTORIES
from fastnode.snapshots.index import Network, Snapshot, can_read
from fastnode.snapshots.location import Location
from fastnode.snapshots.verification import verify_apart
from fastnode.storage.database import lacking_bytes
from fastnode.storage.replacement import PART_FOLDER, replace_databases

__all__ = [
    "DOWNLOADING",
    "VERIFYING",
    "Confirm",
    "OnProgress",
    "choose_network",
    "download",
    "find_snapshots",
    "ignore_progress",
    "restore_snapshot",
]

logger = logging.getLogger(__name__)

#: ``on_progress(what, done, total)``
OnProgress = Callable[[str, int, int], None]
#: SnapshotError for what L1 or an upstream contradicts.
Confirm = Callable[[Contents], None]

DOWNLOADING: Final = "downloading"
VERIFYING: Final = "verifying"


def ignore_progress(what: str, done: int, total: int) -> None:
    """Progress is not reported."""


def _believe(contents: Contents) -> None:
    """Only what a chain proves by itself is looked at."""


def choose_network(location: Location) -> Network:
    """The one network that the location has snapshots of; SnapshotError if there are none or several."""
    networks = location.networks()
    if len(networks) == 1:
        return networks[0]
    if not networks:
        raise SnapshotError(f"{location.text} has no snapshots")
    folders = ", ".join(sorted(network.folder for network in networks))
    raise SnapshotError(f"{location.text} has snapshots of several networks, name one: {folders}")


def find_snapshots(location: Location, network: Network) -> list[Snapshot]:
    """The snapshots that this release can use, newest first."""
    return [item for item in location.read_index(network).snapshots if can_read(item.schemas)]


def restore_snapshot(
    directory: Path,
    location: Location,
    network: Network,
    snapshot: Snapshot,
    *,
    confirm: Confirm = _believe,
    on_progress: OnProgress = ignore_progress,
) -> None:
    """Make the snapshot the content of the locked data directory, whose databases must be closed.

    ``confirm`` raises SnapshotError for contents that are right in themselves, but not those of the network.
    SnapshotError, with the old databases untouched, when it cannot be fetched or anything about it is wrong.
    """
    part = directory / PART_FOLDER
    shutil.rmtree(part, ignore_errors=True)
    try:
        download(part, location, network, snapshot, on_progress=on_progress)
        confirm(read_contents(part))
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    replace_databases(directory, tuple(DIRECTORIES.values()))
    extra = log_facts(block=snapshot.l2_block_number, hash=snapshot.l2_block_hash, made=snapshot.time.isoformat())
    logger.info("snapshot restored", extra=extra)


def download(
    target: Path, location: Location, network: Network, snapshot: Snapshot, *, on_progress: OnProgress = ignore_progress
) -> None:
    """Unpack the snapshot into the new folder ``target`` and verify everything in it; SnapshotError if it is wrong."""
    if lacking := lacking_bytes(target.parent, snapshot.bytes):
        raise SnapshotError(f"{(lacking >> 20) + 1} MiB more must be free on the disk of {target.parent}")
    _make(target)
    done = 0
    for key, folder in DIRECTORIES.items():
        name, facts = snapshot.file_name(key), snapshot.files[key]
        chunks = _with_progress(
            location.read_archive(network, name),
            partial(_report, on_progress, done, snapshot.bytes),
        )
        try:
            read_archive(chunks, facts, target / folder)
        except SnapshotError as error:
            raise SnapshotError(f"{location.text}: {name}: {error}") from error
        except OSError as error:
            raise SnapshotError(f"{target} cannot be written: {system_reason(target, error)}") from error
        done += facts.bytes
    try:
        verify_apart(target, network, snapshot, partial(on_progress, VERIFYING), location.check)
    except SnapshotError as error:
        raise SnapshotError(f"{location.text}: the snapshot of block {snapshot.l2_block_number}: {error}") from error


def _make(target: Path) -> None:
    try:
        target.mkdir()
    except OSError as error:
        raise SnapshotError(f"{target} cannot be written: {system_reason(target, error)}") from error


def _report(on_progress: OnProgress, before: int, total: int, count: int) -> None:
    on_progress(DOWNLOADING, before + count, total)


def _with_progress(chunks: Iterator[bytes], on_bytes: Callable[[int], None]) -> Iterator[bytes]:
    count = 0
    for chunk in chunks:
        count += len(chunk)
        yield chunk
        on_bytes(count)
