"""Room that removed entries took, given back to the disk.

LevelDB keeps what was removed until it merges the tables that have it, which it does for those that grow: history that
is dropped once stays on the disk for good.  So entries that are removed in bulk are counted, in the database itself,
and once they are a fair part of it the tables are merged, a bounded range at a time.

    counted    in the batch that removes them, under a key of the database's owner
    a range    some tables that follow each other; nothing is lost if the process is killed in it
    the end    the count begins anew; after a kill before that all ranges come again, and those that are merged
               already have nothing above them and cost next to nothing
"""

from __future__ import annotations

import logging
from typing import Final

from fastnode.log import log_facts
from fastnode.storage.database import KEY_BYTES_MAX, SharedDatabase
from fastnode.storage.database_files import manifest_of

__all__ = ["ENTRY_BYTES", "GivingBack"]

logger = logging.getLogger("fastnode.storage")

#: Bytes that a removed entry of unknown size counts for, with the mark that LevelDB puts in its place.
ENTRY_BYTES: Final = 100
#: Nothing is merged for less.
LEFT_BYTES_MIN: Final = 16 << 20
#: Nor for less than this part of all tables: merging everything writes everything once.
LEFT_PART: Final = 4
#: Bytes of tables of a range: merging them takes a second or two.
RANGE_BYTES: Final = 64 << 20
_FIRST_KEY: Final = b"\0"
_LAST_KEY: Final = b"\xff" * KEY_BYTES_MAX


class GivingBack:
    """The count of a database's removed bytes, under ``key``, and the merging.

    One thread counts, the one that writes; one merges.
    """

    def __init__(self, database: SharedDatabase, key: bytes) -> None:
        self._database = database
        self._key = key
        #: Bytes that were removed and may still be on the disk.
        self.left_bytes = int.from_bytes(database.get(key) or b"", "big")
        self._ranges: list[tuple[bytes, bytes]] | None = None
        self._left_at_begin = 0

    def entry(self, removed_bytes: int) -> tuple[bytes, bytes]:
        """The entry for the batch that removes so much; :meth:`count` when it is on the disk."""
        return self._key, (self.left_bytes + removed_bytes).to_bytes(8, "big")

    def count(self, removed_bytes: int) -> None:
        self.left_bytes += removed_bytes

    @property
    def has_begun(self) -> bool:
        """True from the first range until :meth:`end`."""
        return self._ranges is not None

    @property
    def is_due(self) -> bool:
        """True if a range should be merged now."""
        if self._ranges is not None:
            return True
        if self.left_bytes < LEFT_BYTES_MIN:
            return False
        return self.left_bytes * LEFT_PART >= sum(manifest_of(self._database.path).tables.values())

    def merge_next(self) -> tuple[bytes, bytes] | None:
        """Merge the next range.  At the end, None once: :meth:`end` says what is to be written then.

        DatabaseFull without room for it.  In no thread that answers: it takes a second or two.
        """
        if self._ranges is None:
            self._ranges = ranges_of(self._database)
            self._left_at_begin = self.left_bytes
            logger.info("giving room back to the disk", extra=self._facts(ranges=len(self._ranges)))
        if not self._ranges:
            return None
        self._database.require_room(2 * RANGE_BYTES)
        first, last = self._ranges[0]
        self._database.merge(first, last)
        self._ranges.pop(0)
        return first, last

    def end(self) -> tuple[bytes, bytes | None]:
        """The entry to write when all is merged; what was removed meanwhile counts for the next time."""
        self._ranges = None
        self.left_bytes = max(0, self.left_bytes - self._left_at_begin)
        table_bytes = sum(manifest_of(self._database.path).tables.values())
        logger.info("room given back to the disk", extra=self._facts(bytes=table_bytes))
        return self._key, self.left_bytes.to_bytes(8, "big") if self.left_bytes else None

    def _facts(self, **facts: int) -> dict[str, object]:
        return log_facts(database=self._database.path.name, **facts)


def ranges_of(database: SharedDatabase) -> list[tuple[bytes, bytes]]:
    """Ranges of keys that are merged one by one, all keys in all."""
    manifest = manifest_of(database.path)
    borders, begun = [_FIRST_KEY], 0
    for number, (first, _) in sorted(manifest.ranges.items(), key=lambda item: item[1]):
        if begun >= RANGE_BYTES and first > borders[-1]:
            borders.append(first)
            begun = 0
        begun += manifest.tables[number]
    return list(zip(borders, [*borders[1:], _LAST_KEY], strict=True))
