"""Versions of a database's layout, and how a database gets from one to the next.

The room that owns a database numbers its layouts from 1 and has one function per step: ``MIGRATIONS[0]`` makes version
2 of version 1, and so on.  A database of an older version is brought up to date when it is opened, before anything
else reads it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from fastnode.errors import DataDirectoryError
from fastnode.log import log_facts
from fastnode.storage.database import SharedDatabase

__all__ = ["Batch", "Migration", "bring_up_to_date", "version_after"]

logger = logging.getLogger(__name__)

#: Keys and their new values; None deletes.
Batch: TypeAlias = Sequence[tuple[bytes, bytes | None]]
#: Yields what to write, a batch at a time.  After a crash it starts over on what its first batches have left, so it
#: must find that already done, or yield one batch only.
Migration: TypeAlias = Callable[[SharedDatabase], Iterable[Batch]]


def version_after(migrations: Sequence[Migration]) -> int:
    """The newest version, which this fastnode reads and writes."""
    return 1 + len(migrations)


def bring_up_to_date(
    database: SharedDatabase, found: int, migrations: Sequence[Migration], record: Callable[[int], tuple[bytes, bytes]]
) -> None:
    """Make the newest version of a database of version ``found``; ``record`` gives the entry that names a version.

    The last batch of a step and the new version are one write: a crash leaves the old version or the new one.
    DataDirectoryError when a newer fastnode wrote the database; DatabaseFull when there is no room, and the next start
    goes on.
    """
    newest = version_after(migrations)
    if found > newest:
        raise DataDirectoryError(
            f"the database {database.path} has schema {found}, newer than this fastnode's {newest}; use a newer "
            f"fastnode or another data directory"
        )
    if found < 1:
        raise DataDirectoryError(f"the database {database.path} has schema {found}, which no fastnode wrote")
    for version in range(found, newest):
        pending: Batch = ()
        for batch in migrations[version - 1](database):
            if pending:
                database.write(pending)
            pending = batch
        database.write([*pending, record(version + 1)])
        logger.info("database migrated", extra=log_facts(database=database.path, schema=version + 1))
