"""Putting restored databases in the place of the old ones, so that a crash at any instant leaves either whole.

    <data directory>/
      snapshot-XXXXXX/   a copy that is being uploaded
      check-1234/        copies that are being checked
      restore.part/      what is being downloaded and checked
      restore.ready/     checked, and on disk: from here on it counts

The step between the last two is one rename.  Everything after it can be done again: the process that opens the
directory next finishes it before anything else.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fastnode.files import sync_path
from fastnode.log import log_facts

__all__ = [
    "CHECK_PREFIX",
    "COPY_PREFIX",
    "PART_FOLDER",
    "finish_replacement",
    "remove_sample",
    "replace_databases",
    "sync_tree",
]

logger = logging.getLogger(__name__)

COPY_PREFIX: Final = "snapshot-"
CHECK_PREFIX: Final = "check-"
PART_FOLDER: Final = "restore.part"
_READY_FOLDER: Final = "restore.ready"

#: Files by which earlier versions told that the chain of a directory is the sample.
_SAMPLE_MARKS: Final = ("sample-chain", "sample-chain.unfinished")
#: Files that belong to the chain that was there before: transactions that wait, offenses of its validators, the filter
#: of log tags, the marks of the sample chain.
_OF_THE_OLD_CHAIN: Final = ("p2p", "offenses", "tag_filter", *_SAMPLE_MARKS)
_CHAIN: Final = ("archiver", "world_state")


def replace_databases(directory: Path, names: tuple[str, ...]) -> None:
    """Make the folders ``names`` of ``restore.part`` those of the locked data directory.

    The old ones are removed, and with them what belongs to their chain.  OSError when the disk refuses: then the
    old databases are untouched, or the next :func:`finish_replacement` goes on from here.
    """
    part = directory / PART_FOLDER
    for entry in list(part.iterdir()):
        if entry.name not in names:
            _remove(entry)
    sync_tree(part)
    part.rename(directory / _READY_FOLDER)
    sync_path(directory)
    _move_in(directory)


def finish_replacement(directory: Path, *, keeps_part: bool = False) -> None:
    """Finish or remove what a crash left of a restore or a copy.  The data directory must be locked.

    ``keeps_part``: what was fetched until then stays, for one who goes on from there.
    """
    if (directory / _READY_FOLDER).is_dir():
        logger.warning("finishing to restore a snapshot", extra=log_facts(path=directory))
        _move_in(directory)
    for entry in list(directory.iterdir()):
        is_copy = entry.name.startswith((COPY_PREFIX, CHECK_PREFIX)) and entry.is_dir()
        if is_copy or (entry.name == PART_FOLDER and not keeps_part):
            _remove(entry)


def remove_sample(directory: Path) -> None:
    """Remove the sample chain where an earlier version has left it.  The data directory must be locked."""
    if not any((directory / mark).exists() for mark in _SAMPLE_MARKS):
        return
    logger.warning("removing the sample chain from the data directory", extra=log_facts(path=directory))
    for name in (*_CHAIN, *_OF_THE_OLD_CHAIN):  # the marks last
        _remove(directory / name)
    sync_path(directory)


def _move_in(directory: Path) -> None:
    ready = directory / _READY_FOLDER
    for name in _OF_THE_OLD_CHAIN:
        _remove(directory / name)
    for new in sorted(ready.iterdir()):
        _remove(directory / new.name)
        new.rename(directory / new.name)
        sync_path(directory)
    ready.rmdir()
    sync_path(directory)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# ---- durability --------------------------------------------------------------------------------------


def sync_tree(path: Path) -> None:
    """Wait until every file and folder below ``path`` is on disk."""
    for file in _walk(path):
        sync_path(file)
    sync_path(path)


def _walk(path: Path) -> Iterator[Path]:
    for entry in path.iterdir():
        if entry.is_dir():
            yield from _walk(entry)
        yield entry
