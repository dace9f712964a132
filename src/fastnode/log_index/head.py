"""Head of an index: the newest block in it, moved in the same batch as the block's entries.

An index that is not where the chain is (the database was written without it, or by a version with
another layout) must not be extended: what is missing would stay missing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from fastnode.errors import DatabaseError
from fastnode.log_index.layout import LAYOUT_VERSION
from fastnode.protocol.block import L2Block
from fastnode.storage.database import WriteBatch

__all__ = ["IndexHead", "StoredHead"]

_HEAD: Final = struct.Struct(">II32s")


class StoredHead(NamedTuple):
    """``archive_root`` of the newest indexed block tells it from another block of the same number."""

    version: int
    block_number: int
    archive_root: bytes


class IndexHead:
    """The head of the index called ``name``, stored at ``key``."""

    def __init__(self, name: str, key: bytes) -> None:
        self.name = name
        self.key = key

    def read(self, get: Callable[[bytes], bytes | None]) -> StoredHead | None:
        """None: nothing was ever indexed.  What is no head is one of no version, so that the index is built anew."""
        value = get(self.key)
        if value is None:
            return None
        return StoredHead(*_HEAD.unpack(value)) if len(value) == _HEAD.size else StoredHead(0, 0, b"")

    def advance(self, batch: WriteBatch, block: L2Block) -> None:
        """Move to ``block``; DatabaseError unless the index ends just before it."""
        self._require(batch, block.number - 1)
        self._put(batch, block.number, block.archive.root)

    def retreat(self, batch: WriteBatch, block: L2Block) -> None:
        """Move to before ``block``; DatabaseError unless the index ends with it."""
        self._require(batch, block.number)
        self._put(batch, block.number - 1, block.header.last_archive.root)

    def _require(self, batch: WriteBatch, expected: int) -> None:
        stored = self.read(batch.get)
        number = 0 if stored is None else stored.block_number
        if number != expected:
            raise DatabaseError(f"the index of {self.name} ends at block {number}, the chain at block {expected}")

    def _put(self, batch: WriteBatch, number: int, archive_root: bytes) -> None:
        batch.put(self.key, _HEAD.pack(LAYOUT_VERSION, number, archive_root))
