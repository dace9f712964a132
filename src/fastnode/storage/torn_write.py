"""The part of a change that a power cut has left at the end of a database's manifest.

Some file systems give a file its new length before all of its new pages are on the disk: those that are missing are
zeros, which LevelDB takes for damage.

A manifest is changed before LevelDB removes what it no longer needs.  So its last change is cut off if all is there
that the changes before it name: whether it was done or not, nothing is lost.

The first manifest of a database is named by CURRENT before it is on the disk.  It is the same in all of them, and what
was written since is in the logs: so it is written again.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from fastnode.files import sync_path
from fastnode.log import log_facts
from fastnode.storage.database_files import FIRST_MANIFEST, fault_of_parts, named_manifest
from fastnode.storage.leveldb_log import begins_record, end_of_whole_records, short_record
from fastnode.storage.leveldb_manifest import read_manifest
from fastnode.storage.seal import SEAL_FILE

__all__ = ["cut_torn_change", "finish_creation"]

logger = logging.getLogger(__name__)


def cut_torn_change(path: Path) -> None:
    """Cut what is left of the last change off the manifest of the closed database ``path``, if it is not whole.

    Nothing is cut of a database that was closed, which no power cut can have torn.  OSError.
    """
    try:
        name = named_manifest(path)
        if name is None:
            return
        manifest = path / name
        content = manifest.read_bytes()
    except FileNotFoundError:
        return
    end = end_of_whole_records(content)
    if not end or begins_record(content, end + 1) or (path / SEAL_FILE).exists():
        return
    try:
        before = read_manifest(content[:end])
    except ValueError:
        return
    # A manifest is the one that counts only once it names a log.
    if before.log_number and fault_of_parts(path, before) is None:
        _cut(manifest, content, end)


def finish_creation(path: Path) -> None:
    """Write the first manifest of the closed database ``path`` again, where the end of it is missing.  OSError."""
    manifest = path / FIRST_MANIFEST
    try:
        if named_manifest(path) != FIRST_MANIFEST:
            return
        content = manifest.read_bytes()
    except FileNotFoundError:
        return
    kept = content.rstrip(b"\0")
    if len(content) > len(_FIRST_CONTENT) or content == _FIRST_CONTENT or not _FIRST_CONTENT.startswith(kept):
        return
    manifest.write_bytes(_FIRST_CONTENT)
    sync_path(manifest)
    logger.warning("a database whose creation was cut short is finished", extra=log_facts(file=manifest))


#: Comparator, log 0, next file 2, last change 0.
_FIRST_CONTENT: Final = short_record(b"\1\x1aleveldb.BytewiseComparator\2\0\3\2\4\0")


def _cut(file: Path, content: bytes, end: int) -> None:
    os.truncate(file, end)
    sync_path(file)
    logger.warning(
        "the end of a write that was not done is cut off", extra=log_facts(file=file, bytes=len(content) - end)
    )
