"""The part of a write that a power cut has left at the end of a database's log, or of its manifest.

    blocks of 32 kB  | fragments | filling      as in a manifest (leveldb_manifest.py); a write is one record

Some file systems give a file its new length before all of its new pages are on the disk: those that are missing are
zeros.  LevelDB takes that for damage, and would have the whole database thrown away for a write that nobody was told
of.  So it is cut off, if it was the last one: whatever lies behind it belongs to the same record.

A manifest is changed before LevelDB removes what it no longer needs.  So its last change is cut off if all is there
that the changes before it name: whether it was done or not, nothing is lost.

The first manifest of a database is named by CURRENT before it is on the disk.  It is the same in all of them, and what
was written since is in the logs: so it is written again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fastnode.files import sync_path
from fastnode.kernels import leveldb_table
from fastnode.log import log_facts
from fastnode.storage.database_files import FIRST_MANIFEST, LOG_SUFFIX, fault_of_parts, named_manifest
from fastnode.storage.leveldb_manifest import read_manifest
from fastnode.storage.log_length import noted
from fastnode.storage.seal import SEAL_FILE

__all__ = ["cut_torn_change", "cut_torn_write", "finish_creation"]

logger = logging.getLogger(__name__)

_BLOCK_BYTES: Final = 32 * 1024
_HEADER_BYTES: Final = 7
_WHOLE: Final = 1
_FIRST: Final = 2
_LAST: Final = 4


def cut_torn_write(path: Path) -> None:
    """Cut what is left of the last write off the newest log of the closed database ``path``, if it is not whole.

    Nothing is cut that is known to have been written (log_length.py), nor where another write follows.  OSError.
    """
    log = max(path.glob(f"*{LOG_SUFFIX}"), default=None)
    if log is None:
        return
    known = noted(path)
    length = known[1] if known is not None and known[0] == log else 0  # a power cut may have left an older note
    if log.stat().st_size <= length:
        return
    content = log.read_bytes()
    end = _end_of_whole_writes(content, length)
    if end is None or _begins_a_write(content, end + 1):
        return
    _cut(log, content, end)


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
    end = _end_of_whole_writes(content, 0)
    if not end or _begins_a_write(content, end + 1) or (path / SEAL_FILE).exists():
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


def _record(content: bytes) -> bytes:
    """As LevelDB writes a short one."""
    kind_and_content = bytes([_WHOLE]) + content
    checksum = leveldb_table.crc32c(kind_and_content)
    masked = (checksum >> 15 | checksum << 17 & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF
    return masked.to_bytes(4, "little") + len(content).to_bytes(2, "little") + kind_and_content


#: Comparator, log 0, next file 2, last change 0.
_FIRST_CONTENT: Final = _record(b"\1\x1aleveldb.BytewiseComparator\2\0\3\2\4\0")


def _cut(file: Path, content: bytes, end: int) -> None:
    os.truncate(file, end)
    sync_path(file)
    logger.warning(
        "the end of a write that was not done is cut off", extra=log_facts(file=file, bytes=len(content) - end)
    )


def _end_of_whole_writes(content: bytes, begin: int) -> int | None:
    """Place of the first record from ``begin`` on that is damaged; None if there is none, or it only ends too early."""
    end, kind = begin, _LAST
    for place, following in _places(content, begin):
        before, kind = kind, content[place + 6]
        if following is None or (before in (_WHOLE, _LAST)) != (kind in (_WHOLE, _FIRST)):
            return end
        if kind in (_WHOLE, _LAST):
            end = following
    return None


def _places(content: bytes, place: int) -> Iterator[tuple[int, int | None]]:
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


def _is_whole(content: bytes, place: int) -> bool:
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


def _begins_a_write(content: bytes, begin: int) -> bool:
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


def _is_beginning(content: bytes, place: int) -> bool:
    return content[place + 6] in (_WHOLE, _FIRST) and _is_whole(content, place)
