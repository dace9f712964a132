"""Recovery of the logs of a closed database, so that LevelDB reads a true prefix of what was written to it.

    record of a log   u64 sequence   u32 count   changes        little-endian; the next record has sequence + count

A crash leaves a last record that is not whole, of a write that was not acknowledged: it is cut off.

A disk that acknowledges what it has not stored, or a snapshot of a virtual machine, also loses acknowledged writes: a
log is shorter than ``fastnode.written`` says (log_length.py), has zeros or damage in it, or is missing.  LevelDB skips
some of these silently and reads what follows the gap.  So a log ends before its first record that is damaged, that
does not continue the sequence, or that belongs to another file, and no newer log is read after that.  What remains is
the database as it was after an earlier write; its owner fetches or computes the rest again.
"""

from __future__ import annotations

import logging
import mmap
import os
import zlib
from pathlib import Path

from fastnode.files import sync_path
from fastnode.log import log_facts
from fastnode.records import dataclass
from fastnode.storage.database_files import LOG_SUFFIX, manifest_of
from fastnode.storage.leveldb_log import begins_record, log_records
from fastnode.storage.log_length import Noted, noted

__all__ = ["LostWrites", "recover_logs"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LostWrites:
    """Acknowledged writes that a closed database no longer has."""

    #: Name of the first log that lost something.
    log: str
    #: Bytes of it that are missing or were cut off.
    byte_count: int
    #: Height of the database after its newest write, 0 if unknown (log_length.py).
    height: int


@dataclass(frozen=True, slots=True)
class _Scanned:
    #: End of the last record that counts.
    end: int
    #: Sequence that the next record must have, None before the first.
    following: int | None
    #: True if a whole record begins behind the end.
    has_more: bool


def recover_logs(path: Path) -> LostWrites | None:
    """Cut the logs of the closed database ``path`` where they stop being a prefix of what was written.

    Returns the acknowledged writes that are lost, None for none.  OSError.  The manifest and the tables must be whole.
    """
    try:
        manifest = manifest_of(path)
    except FileNotFoundError:
        return None  # not created yet
    logs = _live_logs(path, manifest.log_number)
    note = noted(path)
    if note is not None and note.number < manifest.log_number:
        note = None  # its log is in the tables
    expected = {note.number} if note is not None else set()
    if manifest.log_number:
        expected.add(manifest.log_number)
    following: int | None = None
    sequence_max = manifest.last_sequence + 1
    for number in sorted(expected | set(logs)):
        log = logs.get(number)
        required = note.length if note is not None and note.number == number else 0
        height = note.height if note is not None else 0
        if log is None:
            _remove_newer(logs, number)
            return LostWrites(f"{number:06d}{LOG_SUFFIX}", required, height)
        size = log.stat().st_size
        scanned = _scan(log, note if required else None, following, sequence_max)
        following = scanned.following
        is_newest = number == max(logs)
        if scanned.end < size:
            os.truncate(log, scanned.end)
            sync_path(log)
        if scanned.end < required or scanned.has_more or (scanned.end < size and not is_newest):
            _remove_newer(logs, number)
            return LostWrites(log.name, max(size, required) - scanned.end, height)
        if scanned.end < size:
            facts = log_facts(file=log, bytes=size - scanned.end)
            logger.warning("the end of a write that was not done is cut off", extra=facts)
    return None


def _live_logs(path: Path, oldest: int) -> dict[int, Path]:
    logs = {int(log.stem): log for log in path.glob(f"*{LOG_SUFFIX}") if log.stem.isdecimal()}
    return {number: log for number, log in logs.items() if number >= oldest}


def _remove_newer(logs: dict[int, Path], number: int) -> None:
    """Remove the logs that follow a gap: LevelDB would read them."""
    for newer in sorted(logs, reverse=True):
        if newer > number:
            logs[newer].unlink()
            sync_path(logs[newer].parent)


def _scan(log: Path, note: Noted | None, following: int | None, sequence_max: int) -> _Scanned:
    """``following`` and ``sequence_max``: the sequence that the first record must have, or may have at most."""
    if not log.stat().st_size:
        return _Scanned(0, following, has_more=False)
    with log.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if note is not None and not _has_head(content, note):
            return _Scanned(0, following, has_more=False)
        end = 0
        for record in log_records(content):
            is_next = record.sequence == following if following is not None else record.sequence <= sequence_max
            if not is_next:
                return _Scanned(end, following, has_more=True)
            following = record.sequence + record.changes
            end = record.end
        return _Scanned(end, following, has_more=begins_record(content, end + 1))


def _has_head(content: mmap.mmap, note: Noted) -> bool:
    return zlib.crc32(content[: note.head_length]) == note.head_checksum
