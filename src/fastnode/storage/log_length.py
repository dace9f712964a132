"""Length of the log of a database after the newest write, so that the next start notices what it has lost.

A log that was cut looks like one that a crash left.  But a write is done only once it is on disk, and what follows
that, in the file ``fastnode.written``, is never ahead of the disk: no crash leaves a shorter log than it says.

    u64 number of the log   u64 bytes   u32 height   u32 bytes of the head   u32 checksum of the head   u32 checksum

all big-endian, the last one of what comes before it.  The head is the beginning of the log, by which the log of another
database is told apart.  The height is what the owner of the database counts, such as the newest block; 0 if nothing.
Anything else counts as nothing, but for the form of older versions: number, bytes, checksum.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fastnode.storage.database_files import LOG_SUFFIX

__all__ = ["WRITTEN_FILE", "Noted", "WrittenLog", "noted"]

WRITTEN_FILE: Final = "fastnode.written"

_FACTS: Final = struct.Struct(">QQIII")
_OLD_FACTS: Final = struct.Struct(">QQ")
_CHECKSUM: Final = struct.Struct(">I")
_HEAD_BYTES_MAX: Final = 256


class Noted(NamedTuple):
    """The newest log of a database after its newest write."""

    number: int
    length: int
    height: int = 0
    head_length: int = 0
    head_checksum: int = 0


def noted(path: Path) -> Noted | None:
    """The note in the closed database ``path``; None for nothing."""
    with contextlib.suppress(OSError):
        text = (path / WRITTEN_FILE).read_bytes()
        for form in (_FACTS, _OLD_FACTS):
            facts = text[: form.size]
            if len(facts) == form.size and text[form.size :] == _checksum(facts):
                return Noted(*form.unpack(facts))
    return None


class WrittenLog:
    """Notes the length after writes of any number of threads.  A note that the disk refuses is left out."""

    def __init__(self, path: Path, height: int = 0) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._writers = 0
        self._number = self._length = 0
        self._height = height
        self._head = 0, 0
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):
            self._descriptor = os.open(path / WRITTEN_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.note()

    @contextlib.contextmanager
    def writing(self, height: int | None = None) -> Iterator[None]:
        """Within, something is written that is on disk at the end; it has brought the database to ``height``."""
        with self._lock:
            self._writers += 1
        is_done = False
        try:
            yield
            is_done = True
        finally:
            with self._lock:
                self._writers -= 1
                if is_done and height is not None:
                    self._height = height
                # The text that another thread is writing may be in the file, and not on disk yet.
                if is_done and not self._writers:
                    self.note()

    def note(self) -> None:
        """Note the length as it is; for one thread, while nothing is written."""
        with contextlib.suppress(OSError):
            if self._descriptor is None or not self._has_grown():
                return
            facts = _FACTS.pack(self._number, self._length, self._height, *self._read_head())
            os.pwrite(self._descriptor, facts + _checksum(facts), 0)

    def _has_grown(self) -> bool:
        """Look at the newest log.  Each write makes one longer; where that is not the known one, there is a new one."""
        if self._number and self._look(self._number):
            return True
        numbers = (int(log.stem) for log in self._path.glob(f"*{LOG_SUFFIX}") if log.stem.isdecimal())
        number = max(numbers, default=0)
        if number == self._number:
            return False
        self._number, self._length, self._head = number, -1, (0, 0)
        return self._look(number)

    def _look(self, number: int) -> bool:
        try:
            length = _log_of(self._path, number).stat().st_size
        except FileNotFoundError:
            return False
        before, self._length = self._length, length
        return length > before

    def _read_head(self) -> tuple[int, int]:
        """Length and checksum of the head, which is read once: a log only grows."""
        if not self._head[0] and self._length:
            with _log_of(self._path, self._number).open("rb", buffering=0) as log:
                head = log.read(min(self._length, _HEAD_BYTES_MAX))
            self._head = len(head), zlib.crc32(head)
        return self._head

    def close(self) -> None:
        """May be called more than once."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None


def _log_of(path: Path, number: int) -> Path:
    return path / f"{number:06d}{LOG_SUFFIX}"


def _checksum(facts: bytes) -> bytes:
    return _CHECKSUM.pack(zlib.crc32(facts))
