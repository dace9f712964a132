"""Databases beside the chain that can be removed: they know their layout and whose chain they belong to.

Keys and values::

    00 "schema"  u32 version of the layout, big-endian
    00 "chain"   genesis block hash 32

What else is in such a database is drawn where it is written, under keys that begin with other bytes or names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastnode.errors import DataDirectoryError
from fastnode.storage.database import BLOCK_CACHE_BYTES, SharedDatabase

__all__ = ["open_side_database"]

_KEY_SCHEMA: Final = b"\x00schema"
_KEY_CHAIN: Final = b"\x00chain"


def open_side_database(
    path: Path, genesis_hash: bytes, *, version: int, content: str, block_cache_bytes: int = BLOCK_CACHE_BYTES
) -> SharedDatabase:
    """Open or create.  ``content`` names what is in it, as "unmined transactions".

    DataDirectoryError when it is of another chain, of another layout, or something else.
    """
    remedy = f"remove the folder: it only holds {content}"
    database = SharedDatabase.open(path, create=True, block_cache_bytes=block_cache_bytes, remedy=remedy)
    try:
        _check_identity(database, genesis_hash, version, content)
    except BaseException:
        database.release()
        raise
    return database


def _check_identity(database: SharedDatabase, genesis_hash: bytes, version: int, content: str) -> None:
    schema = database.get(_KEY_SCHEMA)
    if schema is None:
        if not database.is_empty():
            raise DataDirectoryError(f"{database.path} is no fastnode database of {content}")
        database.write([(_KEY_SCHEMA, version.to_bytes(4, "big")), (_KEY_CHAIN, genesis_hash)])
        return
    found = int.from_bytes(schema, "big")
    if found != version:
        raise DataDirectoryError(
            f"{database.path} has schema version {found}, this fastnode knows {version}; use the fastnode that wrote "
            f"it, or remove the folder: it only holds {content}"
        )
    if database.get(_KEY_CHAIN) != genesis_hash:
        raise DataDirectoryError(f"{database.path} holds {content} of another chain; use another data directory")
