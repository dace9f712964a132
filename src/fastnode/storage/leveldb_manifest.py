"""Tables that make up a LevelDB, by its manifest.

    manifest   blocks of 32 kB, each a row of fragments; fewer than 7 bytes at the end of a block are filling
    fragment   u32 checksum   u16 length   u8 kind: 1 whole, 2 first, 3 middle, 4 last        then its bytes
    record     the fragments from a first to a last one: a change of the database, as fields of a tag and values

        1 comparator       text                      5 next compaction    level, key
        2 log              number                    6 table removed      level, number
        3 next file        number                    7 table added        level, number, size, first key, last key
        4 last sequence    number                    9 log before         number

Numbers and levels are varints, least significant seven bits first; texts and keys have their length before them.
Checksums are not looked at: LevelDB does when it opens the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final

from fastnode.records import dataclass

__all__ = ["Manifest", "live_tables", "read_manifest"]

_BLOCK_BYTES: Final = 32 * 1024
_HEADER_BYTES: Final = 7

_WHOLE: Final = 1
_FIRST: Final = 2
_MIDDLE: Final = 3
_LAST: Final = 4

_LOG: Final = 2
_SEQUENCE: Final = 4
_COMPACTION: Final = 5
_REMOVED: Final = 6
_ADDED: Final = 7
#: Tags of fields that hold a text, and of those that hold a number.
_TEXTS: Final = {1}
_NUMBERS: Final = {3, 9}

#: Bytes that LevelDB appends to each key: a number of the change, and its kind.
_SUFFIX_BYTES: Final = 8

#: A table as level and number.
_Place = tuple[int, int]


@dataclass(slots=True)
class Manifest:
    """Parts of a database."""

    #: Bytes of each table, by its number.
    tables: dict[int, int] = field(default_factory=dict)
    #: First and last key of each table, by its number.
    ranges: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    #: The oldest log that holds something that is in no table; 0 before there is any.
    log_number: int = 0
    #: Number of the newest change that the tables may have; logs continue at the next one at the latest.
    last_sequence: int = 0


def live_tables(manifest: bytes) -> set[int]:
    """Numbers of the tables of :func:`read_manifest`."""
    return set(read_manifest(manifest).tables)


def read_manifest(manifest: bytes) -> Manifest:
    """A record whose end is not written yet does not count.  ValueError for what is no manifest, and for one that
    has a table twice: LevelDB would read it twice."""
    tables: dict[_Place, _Table] = {}
    live: set[int] = set()
    found = Manifest()
    for record in _records(manifest):
        change = _read_change(_Fields(record))
        for place in change.removed:
            if tables.pop(place, None) is not None:
                live.discard(place[1])
        for table in change.added:
            place = table.place
            if place[1] in live:
                raise ValueError(f"table {place[1]} twice")
            live.add(place[1])
            tables[place] = table
        if change.log_number is not None:
            found.log_number = change.log_number
        if change.last_sequence is not None:
            found.last_sequence = change.last_sequence
    found.tables = {number: table.size for (_, number), table in tables.items()}
    found.ranges = {number: (table.first, table.last) for (_, number), table in tables.items()}
    return found


def _records(manifest: bytes) -> Iterator[bytes]:
    parts: list[bytes] = []
    position = 0
    while position + _HEADER_BYTES <= len(manifest):
        if _BLOCK_BYTES - position % _BLOCK_BYTES < _HEADER_BYTES:
            position += _BLOCK_BYTES - position % _BLOCK_BYTES
            continue
        length = int.from_bytes(manifest[position + 4 : position + 6], "little")
        kind = manifest[position + 6]
        begin = position + _HEADER_BYTES
        position = begin + length
        if position > len(manifest):
            return
        if kind in (_WHOLE, _FIRST):
            parts = []
        elif kind not in (_MIDDLE, _LAST):
            raise ValueError(f"a fragment of kind {kind}")
        parts.append(manifest[begin:position])
        if kind in (_WHOLE, _LAST):
            yield b"".join(parts)


@dataclass(frozen=True, slots=True)
class _Table:
    place: _Place
    size: int
    first: bytes
    last: bytes


@dataclass(slots=True)
class _Change:
    removed: set[_Place] = field(default_factory=set)
    added: list[_Table] = field(default_factory=list)
    log_number: int | None = None
    last_sequence: int | None = None


def _read_change(fields: _Fields) -> _Change:
    change = _Change()
    while not fields.is_at_end:
        tag = fields.number()
        if tag in _TEXTS:
            fields.text()
        elif tag == _LOG:
            change.log_number = fields.number()
        elif tag == _SEQUENCE:
            change.last_sequence = fields.number()
        elif tag in _NUMBERS:
            fields.number()
        elif tag == _COMPACTION:
            fields.number()
            fields.text()
        elif tag == _REMOVED:
            change.removed.add((fields.number(), fields.number()))
        elif tag == _ADDED:
            place = (fields.number(), fields.number())
            size = fields.number()
            first, last = fields.text()[:-_SUFFIX_BYTES], fields.text()[:-_SUFFIX_BYTES]
            change.added.append(_Table(place, size, first, last))
        else:
            raise ValueError(f"a field of tag {tag}")
    return change


class _Fields:
    """Reads a record from its start."""

    def __init__(self, record: bytes) -> None:
        self._record = record
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        return self._position == len(self._record)

    def number(self) -> int:
        value = shift = 0
        while True:
            if self._position >= len(self._record):
                raise ValueError("a record that ends too early")
            byte = self._record[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self) -> bytes:
        length = self.number()
        begin = self._position
        self._position += length
        if self._position > len(self._record):
            raise ValueError("a record that ends too early")
        return self._record[begin : self._position]
