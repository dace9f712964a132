"""A consistent copy of a LevelDB that another part of this process has open.

    CURRENT           names the manifest; written when a database is opened, never later
    MANIFEST-000004   which tables make up the database; grows by a record when that changes
    000005.ldb        a table: written once, then only ever deleted       -> hard link
    000006.log        what is not in a table yet: grows with each write   -> copy

The node must not write meanwhile, but LevelDB may: a compaction adds tables, appends to the manifest and deletes the
tables that it replaced.  So the manifest is read before and after.  If it did not grow, all tables that it names were
there in between; if it did, the copy begins again.

Links to tables that the manifest does not name are removed before anyone opens the copy.  They may be half written, and
the copy, which does not know of them, would give their numbers to tables of its own: it would write over the very file
that the source is writing.

A hard link takes microseconds and no space, so the pause is short however large the database is.  Where the file system
has no hard links, tables are copied.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from pathlib import Path
from typing import Final

import plyvel

from fastnode.errors import DatabaseError
from fastnode.storage.database import reason_of
from fastnode.storage.database_files import DATABASE_FILE, LOG_SUFFIX, TABLE_SUFFIXES
from fastnode.storage.leveldb_manifest import live_tables

__all__ = ["copy_leveldb", "settle_copy"]


#: A compaction that gets in the way lasts seconds at most.
_ATTEMPTS_MAX: Final = 200
_RETRY_PAUSE_S: Final = 0.05

#: Errors of a file system that cannot link the one file to the other place.
_NO_LINKS: Final = {errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}


def copy_leveldb(source: Path, target: Path) -> None:
    """Copy the open database ``source`` to the new folder ``target``; the node must not write to it meanwhile.

    The result still holds what LevelDB would tidy up at an open; :func:`settle_copy` does that.  DatabaseError
    when the database is damaged or changes all the time; OSError when the disk refuses.
    """
    for _ in range(_ATTEMPTS_MAX):
        target.mkdir()
        try:
            if _try_to_copy(source, target):
                return
        except FileNotFoundError:
            pass  # deleted by a compaction since the folder was listed
        shutil.rmtree(target)
        time.sleep(_RETRY_PAUSE_S)
    raise DatabaseError(f"the database {source} cannot be copied: its files change all the time")


def _try_to_copy(source: Path, target: Path) -> bool:
    """False if the database changed meanwhile."""
    current = (source / "CURRENT").read_bytes()
    manifest_name = current.decode("ascii").strip()
    manifest = (source / manifest_name).read_bytes()
    for file in list(source.iterdir()):
        if file.suffix in TABLE_SUFFIXES:
            _link_or_copy(file, target / file.name)
        elif file.suffix == LOG_SUFFIX:
            shutil.copyfile(file, target / file.name)
    if (source / manifest_name).read_bytes() != manifest:
        return False
    _keep_live_tables(source, target, manifest)
    (target / manifest_name).write_bytes(manifest)
    (target / "CURRENT").write_bytes(current)
    return True


def _keep_live_tables(source: Path, target: Path, manifest: bytes) -> None:
    try:
        live = {f"{number:06d}" for number in live_tables(manifest)}
    except ValueError as error:
        raise DatabaseError(f"the database {source} is damaged: {error} in its manifest") from None
    copied = {file.stem: file for file in target.iterdir() if file.suffix in TABLE_SUFFIXES}
    for name in copied.keys() - live:
        copied[name].unlink()
    missing = live - copied.keys()
    if missing:
        raise DatabaseError(f"the database {source} is damaged: table {min(missing)} is missing")


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(source, target)


def settle_copy(path: Path) -> None:
    """Open the copy once: LevelDB reads its log, and removes what does not belong to it.

    Afterwards the folder holds the files of :data:`DATABASE_FILE` only, and they are on disk.
    """
    try:
        plyvel.DB(str(path), create_if_missing=False).close()
    except (plyvel.Error, OSError) as error:
        raise DatabaseError(f"the copy {path} of a database is damaged: {reason_of(error)}") from error
    for entry in list(path.iterdir()):
        if DATABASE_FILE.fullmatch(entry.name) is None:
            entry.unlink()
