"""Records of a LevelDB log or manifest, and where they stop being whole.

blocks of 32 kB  | fragments | filling      as in a manifest (leveldb_manifest.py); a write is one record
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import Final, NamedTuple

from fastnode.kernels import leveldb_table

__all__ = ["LogRecord", "begins_record", "end_of_whole_records", "log_records", "short_record"]

_BLOCK_BYTES: Final = 32 * 1024
_HEADER_BYTES: Final = 7
_WHOLE: Final = 1
_FIRST: Final = 2
_LAST: Final = 4
#: Sequence and count at the start of each record of a log.
_BATCH_HEADER_BYTES: Final = 12


class LogRecord(NamedTuple):
    """A write in a log: so many ``changes``, the first of which has the number ``sequence``."""

    end: int
    sequence: int
    changes: int


def log_records(content: bytes | mmap) -> Iterator[LogRecord]:
    """The whole records of a log up to the first one that is damaged or cut short."""
    header = b""
    for place, following in _fragments(content):
        if following is None:
            return
        kind = content[place + 6]
        if kind in (_WHOLE, _FIRST):
            header = b""
        if len(header) < _BATCH_HEADER_BYTES:
            header += content[place + _HEADER_BYTES : min(following, place + _HEADER_BYTES + _BATCH_HEADER_BYTES)]
        if kind in (_WHOLE, _LAST):
            if len(header) < _BATCH_HEADER_BYTES:
                return
            yield LogRecord(following, int.from_bytes(header[:8], "little"), int.from_bytes(header[8:12], "little"))


def end_of_whole_records(content: bytes) -> int | None:
    """Place of the first record that is damaged; None if there is none, or it only ends too early."""
    end = 0
    for place, following in _fragments(content):
        if following is None:
            return end
        if content[place + 6] in (_WHOLE, _LAST):
            end = following
    return None


def short_record(content: bytes) -> bytes:
    """As LevelDB writes a short one."""
    kind_and_content = bytes([_WHOLE]) + content
    checksum = leveldb_table.crc32c(kind_and_content)
    masked = (checksum >> 15 | checksum << 17 & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF
    return masked.to_bytes(4, "little") + len(content).to_bytes(2, "little") + kind_and_content


def _fragments(content: bytes | mmap) -> Iterator[tuple[int, int | None]]:
    """As :func:`_places` from the beginning on; a fragment that does not continue its record counts as damaged."""
    kind = _LAST
    for place, following in _places(content, 0):
        before, kind = kind, content[place + 6]
        if following is None or (before in (_WHOLE, _LAST)) != (kind in (_WHOLE, _FIRST)):
            yield place, None
            return
        yield place, following


def _places(content: bytes | mmap, place: int) -> Iterator[tuple[int, int | None]]:
    """Places of fragments and of what follows each; None for one that is damaged, which is the last one."""
    while True:
        left = _BLOCK_BYTES - place % _BLOCK_BYTES
        if left < _HEADER_BYTES:
            place, left = place + left, _BLOCK_BYTES
        if place + _HEADER_BYTES > len(content):
            return
        length = int.from_bytes(content[place + 4 : place + 6], "little")
        following = place + _HEADER_BYTES + length
        if content[place + 6] and following > len(content) and following <= place + left:
            return
        if not _is_whole(content, place):
            yield place, None
            return
        yield place, following
        place = following


def _is_whole(content: bytes | mmap, place: int) -> bool:
    end = place + _HEADER_BYTES + int.from_bytes(content[place + 4 : place + 6], "little")
    is_inside = end <= min(len(content), (place // _BLOCK_BYTES + 1) * _BLOCK_BYTES)
    if not is_inside or not _WHOLE <= content[place + 6] <= _LAST:
        return False
    return leveldb_table.crc32c(content[place + 6 : end]) == _plain(
        int.from_bytes(content[place : place + 4], "little")
    )


def _plain(masked: int) -> int:
    """The checksum that LevelDB has masked."""
    turned = (masked - 0xA282EAD8) & 0xFFFFFFFF
    return (turned << 15 | turned >> 17) & 0xFFFFFFFF


def begins_record(content: bytes | mmap, begin: int) -> bool:
    """True if a whole fragment from ``begin`` on is the first one of a record: wherever it lies in this block, and in
    those after it as far as their fragments follow each other."""
    following = (begin // _BLOCK_BYTES + 1) * _BLOCK_BYTES
    if any(_is_beginning(content, place) for place in range(begin, min(following, len(content)) - _HEADER_BYTES + 1)):
        return True
    for block in range(following, len(content), _BLOCK_BYTES):
        for place, after in _places(content, block):
            if after is None or place >= block + _BLOCK_BYTES:
                break
            if _is_beginning(content, place):
                return True
    return False


def _is_beginning(content: bytes | mmap, place: int) -> bool:
    return content[place + 6] in (_WHOLE, _FIRST) and _is_whole(content, place)
