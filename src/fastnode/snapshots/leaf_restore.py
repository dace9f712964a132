"""Getting a snapshot of leaves: parts are fetched and checked one by one, the trees are made of them, and the roots
compared with the chain's.

    restore.part/
      leaves.json    the snapshot that is being fetched
      coming         the part that is being fetched
      parts/         leaves: the parts that are there whole
      archiver/      files of the chain database, likewise
      world_state/   the trees that are being made: world_state/rebuild.py

After a crash the same snapshot goes on from there; each part is hashed again before it counts.
"""

from __future__ import annotations

import hashlib
import logging
import math
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import orjson

from fastnode.archiver.store import ARCHIVER_DIRECTORY
from fastnode.errors import SnapshotError, SnapshotUnconfirmed
from fastnode.files import sync_path, system_reason
from fastnode.log import log_facts
from fastnode.snapshots.archive import CHUNK_BYTES, ArchiveFacts
from fastnode.snapshots.contents import Contents, read_contents
from fastnode.snapshots.create import DIRECTORIES
from fastnode.snapshots.index import Network
from fastnode.snapshots.leaf_index import LeafSnapshot, PartList, part_name
from fastnode.snapshots.location import Location
from fastnode.snapshots.restore import DOWNLOADING, VERIFYING, Confirm, OnProgress, ignore_progress
from fastnode.snapshots.verification import verify_leaves_apart
from fastnode.storage.database import lacking_bytes
from fastnode.storage.replacement import PART_FOLDER, replace_databases

__all__ = ["download_leaves", "find_leaf_snapshots", "is_begun", "restore_leaves", "unconfirmed"]

logger = logging.getLogger(__name__)

_MARK: Final = "leaves.json"
#: Bytes of a state for each byte of its leaves, with the file in which hashes are sorted.
_STATE_BYTES: Final = 10
#: Pauses between two questions to those who are silent, in seconds; a node that stops is noticed within.
_FIRST_PAUSE_S: Final = 2.0
_LONGEST_PAUSE_S: Final = 60.0
_HEARING_INTERVAL_S: Final = 0.2


def unconfirmed(contents: Contents) -> None:
    """The word of an operator who believes whoever made the snapshot."""
    logger.warning(
        "nobody has confirmed this snapshot: its trees follow from its leaves, and nothing says that its chain is the "
        "network's",
        extra=log_facts(block=contents.oldest_block_number, hash=contents.oldest_block_hash),
    )


def find_leaf_snapshots(location: Location, network: Network) -> list[LeafSnapshot]:
    """The snapshots of leaves that this release can use, newest first."""
    return [item for item in location.read_leaf_index(network).snapshots if item.is_usable]


def is_begun(directory: Path, network: Network, snapshot: LeafSnapshot) -> bool:
    """True if a part of this snapshot is there already."""
    return _is_begun(directory / PART_FOLDER, network, snapshot)


def _is_begun(part: Path, network: Network, snapshot: LeafSnapshot) -> bool:
    try:
        return (part / _MARK).read_bytes() == _mark_of(network, snapshot)
    except OSError:
        return False


def restore_leaves(
    directory: Path,
    location: Location,
    network: Network,
    snapshot: LeafSnapshot,
    *,
    confirm: Confirm,
    on_progress: OnProgress = ignore_progress,
    patience_s: float = math.inf,
) -> None:
    """Make the chain of the snapshot, and the trees of its leaves, the content of the locked data directory, whose
    databases must be closed.

    ``confirm`` raises SnapshotError for contents that L1, or a followed node, does not have: without that anybody's
    leaves would do.  While it raises SnapshotUnconfirmed it is asked again, for ``patience_s``.  SnapshotError, with
    the old databases untouched; what was fetched is kept if it may be right.
    """
    part = directory / PART_FOLDER
    parts = _fetched(part, location, network, snapshot, on_progress)
    try:
        verify_leaves_apart(part, network, snapshot, parts, partial(on_progress, VERIFYING), location.check)
        contents = read_contents(part)
        if contents.checkpoint_number == 0:
            raise SnapshotError("its chain has no checkpoint, so nothing can confirm it")
        _confirm_in_time(confirm, contents, patience_s, location.check)
    except SnapshotError as error:
        location.check()  # a node that stops goes on with it the next time
        shutil.rmtree(part, ignore_errors=True)
        raise SnapshotError(
            f"{location.text}: the snapshot of leaves of block {snapshot.state_block_number}: {error}"
        ) from error
    replace_databases(directory, tuple(DIRECTORIES.values()))
    extra = log_facts(
        block=snapshot.l2_block_number, oldest=snapshot.state_block_number, made=snapshot.time.isoformat()
    )
    logger.info("snapshot of leaves restored", extra=extra)


def _confirm_in_time(confirm: Confirm, contents: Contents, patience_s: float, check: Callable[[], None]) -> None:
    """Repeat ``confirm`` until L1 or a followed node answers: a download takes longer than most outages last.

    ``check`` raises when the node stops.
    """
    pause_s, give_up_at = _FIRST_PAUSE_S, time.monotonic() + patience_s
    while True:
        try:
            confirm(contents)
            return
        except SnapshotUnconfirmed as error:
            if time.monotonic() >= give_up_at:
                raise
            shown = log_facts(reason=str(error), again_in_s=pause_s)
            logger.warning("snapshot not confirmed yet: the download is kept", extra=shown)
        ends_at = time.monotonic() + pause_s
        while time.monotonic() < ends_at:
            check()
            time.sleep(min(_HEARING_INTERVAL_S, pause_s))
        pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)


def download_leaves(
    target: Path, location: Location, network: Network, snapshot: LeafSnapshot, *, on_progress: OnProgress
) -> None:
    """Fetch the snapshot to the folder ``target``, check its chain, make its trees; SnapshotError if it is wrong."""
    parts = _fetched(target, location, network, snapshot, on_progress)
    verify_leaves_apart(target, network, snapshot, parts, partial(on_progress, VERIFYING), location.check)


def _fetched(
    part: Path, location: Location, network: Network, snapshot: LeafSnapshot, on_progress: OnProgress
) -> PartList:
    try:
        return _fetch(part, location, network, snapshot, on_progress)
    except OSError as error:
        raise SnapshotError(f"{part} cannot be written: {system_reason(part, error)}") from error


def _mark_of(network: Network, snapshot: LeafSnapshot) -> bytes:
    return orjson.dumps(snapshot.to_json(network))


def _fetch(
    part: Path, location: Location, network: Network, snapshot: LeafSnapshot, on_progress: OnProgress
) -> PartList:
    """Have every part of the snapshot below ``part``; the list of them."""
    if not _is_begun(part, network, snapshot):
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        (part / "mark").write_bytes(_mark_of(network, snapshot))
        (part / "mark").rename(part / _MARK)
    parts = _list_of(location, network, snapshot)
    chain, leaves = part / ARCHIVER_DIRECTORY, part / "parts"
    for folder in (chain, leaves):
        folder.mkdir(exist_ok=True)
    wanted = {leaves / facts.sha256: facts for each in parts.leaves for facts in each}
    wanted |= {chain / name: facts for name, facts in parts.files.items()}
    for file in (*chain.iterdir(), *leaves.iterdir()):
        if file not in wanted:
            file.unlink()
    missing = {file: facts for file, facts in wanted.items() if not _is_whole(file, facts, location.check)}
    needed = sum(facts.bytes for facts in missing.values()) + _STATE_BYTES * parts.leaf_bytes
    if lacking := lacking_bytes(part, needed):
        raise SnapshotError(f"{(lacking >> 20) + 1} MiB more must be free on the disk of {part.parent}")
    done = parts.size - sum(facts.bytes for facts in missing.values())
    if len(missing) < len(wanted):
        logger.info("going on with a snapshot", extra=log_facts(bytes_there=done, of=parts.size))
    for file, facts in missing.items():
        on_progress(DOWNLOADING, done, parts.size)
        _fetch_part(file, location, network, facts)
        done += facts.bytes
    return parts


def _list_of(location: Location, network: Network, snapshot: LeafSnapshot) -> PartList:
    name = snapshot.list_name
    text = location.read_file(network, name, snapshot.parts.bytes, name)
    if text is None:
        raise SnapshotError(f"{location.text} lacks the file {name}")
    if hashlib.sha256(text).hexdigest() != snapshot.parts.sha256:
        raise SnapshotError(f"{location.text}: {name}: its SHA-256 is not the one that the index says")
    try:
        parts = PartList.from_bytes(text)
        if parts.size != snapshot.bytes:
            raise SnapshotError(f"its parts have {parts.size} bytes, the index says {snapshot.bytes}")
    except SnapshotError as error:
        raise SnapshotError(f"{location.text}: {name}: {error}") from error
    return parts


def _is_whole(file: Path, facts: ArchiveFacts, check: Callable[[], None]) -> bool:
    try:
        if file.stat().st_size != facts.bytes:
            return False
    except FileNotFoundError:
        return False
    digest = hashlib.sha256()
    for chunk in _chunks(file):
        check()
        digest.update(chunk)
    return digest.hexdigest() == facts.sha256


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as content:
        yield from iter(partial(content.read, CHUNK_BYTES), b"")


def _fetch_part(file: Path, location: Location, network: Network, facts: ArchiveFacts) -> None:
    """Write a part; it has its name once it is on disk, whole and right."""
    name, coming = part_name(facts), file.parent.parent / "coming"
    digest, left = hashlib.sha256(), facts.bytes
    with coming.open("wb") as written:
        for chunk in location.read_archive(network, name):
            left -= len(chunk)
            if left < 0:
                raise SnapshotError(f"{location.text}: {name}: it is longer than the {facts.bytes} bytes of its list")
            digest.update(chunk)
            written.write(chunk)
    if left:
        raise SnapshotError(f"{location.text}: {name}: it has {facts.bytes - left} bytes, its list says {facts.bytes}")
    if digest.hexdigest() != facts.sha256:
        raise SnapshotError(f"{location.text}: {name}: its SHA-256 is another one")
    sync_path(coming)
    coming.rename(file)
    sync_path(file.parent)
