"""Length of the log of a database after the newest write, so that the next start notices one that was cut.

A log that was cut looks like one that a crash left.  But a write is done only once it is on disk, and what follows
that, in the file ``fastnode.written``, is never ahead of the disk: no crash leaves a shorter log than it says.

    u64 number of the log   u64 bytes   u32 checksum of both       big-endian; anything else counts as nothing
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fastnode.storage.database_files import LOG_SUFFIX, oldest_log

__all__ = ["WRITTEN_FILE", "WrittenLog", "lost_by", "noted"]

WRITTEN_FILE: Final = "fastnode.written"

_FACTS: Final = struct.Struct(">QQ")
_CHECKSUM: Final = struct.Struct(">I")


def noted(path: Path) -> tuple[Path, int] | None:
    """The newest log of the closed database ``path`` and its length, as the file says it; None for nothing."""
    with contextlib.suppress(OSError, struct.error):
        text = (path / WRITTEN_FILE).read_bytes()
        number, length = _FACTS.unpack_from(text)
        if text[_FACTS.size :] == _checksum(text[: _FACTS.size]):
            return _log_of(path, number), length
    return None


def lost_by(path: Path) -> str | None:
    """Tell what the log of the closed database ``path`` has lost, as "000006.log has 10 bytes instead of 812".

    None if nothing, and if nobody said how long it was.
    """
    with contextlib.suppress(OSError):
        log, length = noted(path) or (path, 0)
        found = log.stat().st_size if log.is_file() else None
        # Older logs are in tables already.
        if length and (found is None or found < length) and int(log.stem) >= oldest_log(path):
            return f"{log.name} is missing" if found is None else f"{log.name} has {found} bytes instead of {length}"
    return None


class WrittenLog:
    """Notes the length after writes of any number of threads.  A note that the disk refuses is left out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._writers = 0
        self._number = self._length = 0
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):
            self._descriptor = os.open(path / WRITTEN_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.note()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Within, something is written that is on disk at the end."""
        with self._lock:
            self._writers += 1
        is_done = False
        try:
            yield
            is_done = True
        finally:
            with self._lock:
                self._writers -= 1
                # The text that another thread is writing may be in the file, and not on disk yet.
                if is_done and not self._writers:
                    self.note()

    def note(self) -> None:
        """Note the length as it is; for one thread, while nothing is written."""
        with contextlib.suppress(OSError):
            if self._descriptor is None or not self._has_grown():
                return
            facts = _FACTS.pack(self._number, self._length)
            os.pwrite(self._descriptor, facts + _checksum(facts), 0)

    def _has_grown(self) -> bool:
        """Look at the newest log.  Each write makes one longer; where that is not the known one, there is a new one."""
        if self._number and self._look(self._number):
            return True
        numbers = (int(log.stem) for log in self._path.glob(f"*{LOG_SUFFIX}") if log.stem.isdecimal())
        number = max(numbers, default=0)
        if number == self._number:
            return False
        self._number, self._length = number, -1
        return self._look(number)

    def _look(self, number: int) -> bool:
        try:
            length = _log_of(self._path, number).stat().st_size
        except FileNotFoundError:
            return False
        before, self._length = self._length, length
        return length > before

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
