"""Databases beside the chain that can be removed: they know their layout and whose chain they belong to.

Keys and values::

    00 "schema"  u32 version of the layout, big-endian
    00 "chain"   genesis block hash 32

What else is in such a database is drawn where it is written, under keys that begin with other bytes or names.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fastnode.errors import DataDirectoryError
from fastnode.storage.database import DatabaseMemory, SharedDatabase
from fastnode.storage.migration import Migration, bring_up_to_date, version_after

__all__ = ["open_side_database"]

_KEY_SCHEMA: Final = b"\x00schema"
_KEY_CHAIN: Final = b"\x00chain"


def open_side_database(
    path: Path,
    genesis_hash: bytes,
    *,
    migrations: Sequence[Migration],
    content: str,
    memory: DatabaseMemory | None = None,
) -> SharedDatabase:
    """Open, bring up to date or create.  ``content`` names what is in it, as "unmined transactions".

    DataDirectoryError when it is of another chain, of a newer fastnode, or something else.
    """
    remedy = f"remove the folder: it only holds {content}"
    database = SharedDatabase.open(path, create=True, memory=memory, remedy=remedy)
    try:
        _check_identity(database, genesis_hash, migrations, content)
    except BaseException:
        database.release()
        raise
    return database


def _version_entry(version: int) -> tuple[bytes, bytes]:
    return _KEY_SCHEMA, version.to_bytes(4, "big")


def _check_identity(
    database: SharedDatabase, genesis_hash: bytes, migrations: Sequence[Migration], content: str
) -> None:
    schema = database.get(_KEY_SCHEMA)
    if schema is None:
        if not database.is_empty():
            raise DataDirectoryError(f"{database.path} is no fastnode database of {content}")
        database.write([_version_entry(version_after(migrations)), (_KEY_CHAIN, genesis_hash)])
        return
    if database.get(_KEY_CHAIN) != genesis_hash:
        raise DataDirectoryError(f"{database.path} holds {content} of another chain; use another data directory")
    bring_up_to_date(database, int.from_bytes(schema, "big"), migrations, _version_entry)
