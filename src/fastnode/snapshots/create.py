"""Making a snapshot: copy the databases while writing rests, then upload the copy at leisure."""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

from fastnode.archiver.store import ARCHIVER_DIRECTORY
from fastnode.errors import SnapshotError
from fastnode.log import log_facts
from fastnode.snapshots.archive import ArchiveFacts, ArchiveWriter, archive_size
from fastnode.snapshots.contents import Contents, read_contents
from fastnode.snapshots.index import ARCHIVER_KEY, OUR_SCHEMAS, WORLD_STATE_KEY, Snapshot
from fastnode.snapshots.location import Location
from fastnode.storage.leveldb_copy import copy_leveldb, settle_copy
from fastnode.storage.replacement import COPY_PREFIX
from fastnode.world_state.state import WORLD_STATE_DIRECTORY

__all__ = [
    "DIRECTORIES",
    "OnProgress",
    "copied",
    "create_snapshot",
    "free_timestamp",
    "ignore_progress",
    "told_of_the_disk",
]

logger = logging.getLogger(__name__)

#: Key of each database in an index, and its folder in a data directory.
DIRECTORIES: Final = {ARCHIVER_KEY: ARCHIVER_DIRECTORY, WORLD_STATE_KEY: WORLD_STATE_DIRECTORY}

#: ``on_progress(bytes done, bytes in all)``; what it raises ends the upload.
OnProgress = Callable[[int, int], None]
T = TypeVar("T")


def ignore_progress(done: int, total: int) -> None:
    """Progress is not reported."""


def create_snapshot(
    directory: Path,
    location: Location,
    pause: AbstractContextManager[object],
    *,
    on_progress: OnProgress = ignore_progress,
) -> Snapshot:
    """Copy the databases of the locked data directory within ``pause``, and upload the copy.

    SnapshotError when the location or the disk refuses, or there is nothing to copy.
    """
    names = tuple(DIRECTORIES.values())
    with told_of_the_disk(directory), copied(directory, pause, names, lambda: None) as (copy, _):
        contents = read_contents(copy)
        if contents.state_is_behind:
            raise SnapshotError(
                "the state trees are not at the chain's newest block; they get there when the node runs"
            )
        for name in DIRECTORIES.values():
            settle_copy(copy / name)
        return _upload(copy, contents, location, on_progress)


@contextmanager
def told_of_the_disk(directory: Path) -> Iterator[None]:
    """SnapshotError for what the disk refuses within."""
    try:
        yield
    except OSError as error:
        raise SnapshotError(f"the databases of {directory} cannot be copied: {error.strerror or error}") from error


@contextmanager
def copied(
    directory: Path, pause: AbstractContextManager[object], names: Sequence[str], during: Callable[[], T]
) -> Iterator[tuple[Path, T]]:
    """A folder with a copy of these databases, removed afterwards, and what ``during`` gave in the pause."""
    for name in names:
        if not (directory / name / "CURRENT").is_file():
            raise SnapshotError(f"the data directory {directory} has no database {name}")
    copy = Path(tempfile.mkdtemp(prefix=COPY_PREFIX, dir=directory))
    try:
        with pause:
            begun = time.monotonic()
            found = during()
            for name in names:
                copy_leveldb(directory / name, copy / name)
            seconds = time.monotonic() - begun
        logger.info("databases copied", extra=log_facts(paused_ms=round(1000 * seconds, 1)))
        yield copy, found
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _upload(copy: Path, contents: Contents, location: Location, on_progress: OnProgress) -> Snapshot:
    network = contents.network
    index = location.read_index(network)  # one that cannot be added to is found before hours of uploading
    draft = Snapshot(
        l1_block_number=contents.l1_block_number,
        l2_block_hash=contents.block_hash,
        l2_block_number=contents.block_number,
        timestamp_ms=free_timestamp(index.snapshots, contents.block_hash),
        schemas=OUR_SCHEMAS,
        files={},
        data_urls=dict.fromkeys(DIRECTORIES, ""),
    )
    total = sum(archive_size(copy / name) for name in DIRECTORIES.values())
    location.require_room(total, total)
    done = 0
    files: dict[str, ArchiveFacts] = {}
    for key, name in DIRECTORIES.items():
        writer = ArchiveWriter(copy / name)
        chunks = _with_progress(writer, partial(_report, on_progress, done, total))
        location.write_archive(network, draft.file_name(key), chunks)
        files[key] = writer.facts
        done += writer.bytes_done
    urls = {key: location.url_of(network, draft.file_name(key)) for key in DIRECTORIES}
    snapshot = replace(draft, files=files, data_urls=urls)
    # Last, and read again: an index never names an archive that is not there, nor loses what came meanwhile.
    location.write_index(location.read_index(network).with_snapshot(snapshot))
    return snapshot


class _Dated(Protocol):
    @property
    def timestamp_ms(self) -> int: ...

    @property
    def l2_block_hash(self) -> str: ...


def free_timestamp(snapshots: Iterable[_Dated], block_hash: str) -> int:
    """Now, or the next second in which there is no snapshot of this block: seconds are in the names of the files."""
    timestamp_ms = time.time_ns() // 1_000_000
    taken = {item.timestamp_ms // 1000 for item in snapshots if item.l2_block_hash == block_hash}
    while timestamp_ms // 1000 in taken:
        timestamp_ms += 1000
    return timestamp_ms


def _report(on_progress: OnProgress, before: int, total: int, count: int) -> None:
    on_progress(before + count, total)


def _with_progress(writer: ArchiveWriter, on_bytes: Callable[[int], None]) -> Iterator[bytes]:
    for chunk in writer:
        yield chunk
        on_bytes(writer.bytes_done)
