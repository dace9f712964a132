"""Contents of transactions, written once for all workers.

A transaction in the pool is some 100 kB, and each worker would write it into its copy of the database, where it is
merged and merged again.  So the primary appends it to a file beside the copies, and what goes to the workers has a
reference in its place; a worker opens the file when it meets the first reference to it, and reads what is asked for.

A file holds some hundred contents.  It is removed when all of them have left the pool; when most of one have, the rest
is written anew.  Nothing is flushed to the disk: the primary's database has all of it.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from isal import isal_zlib

from fastnode.errors import DatabaseUnreadable
from fastnode.workers.frames import Change

__all__ = ["ContentsReader", "ContentsWriter"]

#: Shorter values travel with the batch.
REFERRED_BYTES_MIN: Final = 2 << 10
#: A new file is begun when the last one is longer.
FILE_BYTES_MAX: Final = 16 << 20
#: Below this nothing is written anew; above, when less than half is of transactions in the pool.
TOTAL_BYTES_MAX: Final = 64 << 20

#: A file that is not needed stays for so long, for workers that have not come so far.
KEPT_S: Final = 10.0

#: 0, which no JSON begins with | file u32 | offset u64 | bytes u32 | CRC-32 u32.
_REFERENCE: Final = struct.Struct(">BIQII")


class _Place(NamedTuple):
    file: int
    offset: int
    length: int


class _File:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.length = self.live_bytes = 0

    def remove(self) -> None:
        os.close(self.descriptor)
        self.path.unlink(missing_ok=True)


class ContentsWriter:
    """The primary's end, in ``folder``.  ``is_content`` says of a key whether its value may be referred to.

    Calls come one at a time, in the order of the writes.
    """

    def __init__(
        self,
        folder: Path,
        is_content: Callable[[bytes], bool],
        *,
        file_bytes_max: int = FILE_BYTES_MAX,
        total_bytes_max: int = TOTAL_BYTES_MAX,
        kept_s: float = KEPT_S,
    ) -> None:
        self._folder = folder
        self._is_content = is_content
        self._file_bytes_max = file_bytes_max
        self._total_bytes_max = total_bytes_max
        self._kept_s = kept_s
        self._files: OrderedDict[int, _File] = OrderedDict()
        self._places: dict[bytes, _Place] = {}
        self._count = 0
        #: Files that are not needed, with the time from which on.
        self._unneeded: deque[tuple[float, _File]] = deque()

    @property
    def total_bytes(self) -> int:
        return sum(file.length for file in self._files.values())

    def refer(self, changes: Sequence[Change]) -> list[Change]:
        """The changes as they go to workers: with references, and with those to what was written anew."""
        found: list[Change] = []
        for key, value in changes:
            if not self._is_content(key):
                found.append((key, value))
                continue
            self._forget(key)
            found.append((key, value if value is None or len(value) < REFERRED_BYTES_MIN else self._write(key, value)))
        found += self._write_anew()
        self._remove_unneeded()
        return found

    def forget(self, changes: Sequence[Change]) -> None:
        """There are no followers: what is gone or replaced is noted only."""
        for key, _ in changes:
            if self._is_content(key):
                self._forget(key)
        self._remove_unneeded()

    def close(self) -> None:
        for file in (*self._files.values(), *(file for _, file in self._unneeded)):
            file.remove()
        self._files.clear()
        self._unneeded.clear()
        self._places.clear()

    def _write(self, key: bytes, value: bytes) -> bytes:
        """The reference; the value itself when the disk takes no more."""
        try:
            number, file = self._current()
            if os.pwrite(file.descriptor, value, file.length) != len(value):
                return value
        except OSError:
            return value
        place = self._places[key] = _Place(number, file.length, len(value))
        file.length += len(value)
        file.live_bytes += len(value)
        return _REFERENCE.pack(0, number, place.offset, place.length, isal_zlib.crc32(value))

    def _current(self) -> tuple[int, _File]:
        if self._files:
            number, file = next(reversed(self._files.items()))
            if file.length < self._file_bytes_max:
                return number, file
        self._folder.mkdir(parents=True, exist_ok=True)
        self._count += 1
        file = self._files[self._count] = _File(self._folder / str(self._count))
        return self._count, file

    def _forget(self, key: bytes) -> None:
        place = self._places.pop(key, None)
        if place is None:
            return
        file = self._files[place.file]
        file.live_bytes -= place.length
        if not file.live_bytes:
            self._give_up(place.file)

    def _give_up(self, number: int) -> None:
        self._unneeded.append((time.monotonic(), self._files.pop(number)))

    def _remove_unneeded(self) -> None:
        while self._unneeded and time.monotonic() - self._unneeded[0][0] > self._kept_s:
            self._unneeded.popleft()[1].remove()

    def _write_anew(self) -> list[Change]:
        """Rewrite what is in use of the file with the least in use; one file at a time."""
        total = self.total_bytes
        if total <= self._total_bytes_max or total <= 2 * sum(file.live_bytes for file in self._files.values()):
            return []
        number = min(list(self._files)[:-1], key=lambda number: self._files[number].live_bytes, default=None)
        if number is None:
            return []
        keys = [key for key, place in self._places.items() if place.file == number]
        found: list[Change] = []
        for key in keys:
            place = self._places[key]
            value = os.pread(self._files[number].descriptor, place.length, place.offset)
            self._places.pop(key)
            found.append((key, self._write(key, value)))
        self._give_up(number)
        return found


class ContentsReader:
    """A worker's end: for one copy of the databases.  Usable from any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._descriptors: dict[int, int] = {}

    def note(self, value: bytes | None) -> None:
        """A value that has come: open what it refers to before that is removed.  OSError when it cannot be opened."""
        if not value or value[0]:
            return
        _, number, *_ = _REFERENCE.unpack(value)
        with self._lock:
            if number not in self._descriptors:
                try:
                    self._descriptors[number] = os.open(self._folder / str(number), os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    return  # this process is far behind: what is to come says that it left the pool, or where it is now

    def read(self, value: bytes | None) -> bytes | None:
        """Content referred to, or the value itself; None when it has left the pool meanwhile.  DatabaseUnreadable."""
        if not value or value[0]:
            return value
        _, number, offset, length, check = _REFERENCE.unpack(value)
        with self._lock:
            descriptor = self._descriptors.get(number)
            if descriptor is None:
                return None
            try:
                found = os.pread(descriptor, length, offset)
            except OSError as error:
                raise DatabaseUnreadable(f"cannot read {self._folder / str(number)}: {error.strerror}") from error
        if isal_zlib.crc32(found) != check:
            raise DatabaseUnreadable(f"{self._folder / str(number)} is damaged")
        return found

    def tidy(self) -> None:
        """Give up files that the primary has removed; only while it is there, which has said before what left them."""
        with self._lock:
            for number, descriptor in list(self._descriptors.items()):
                if not os.fstat(descriptor).st_nlink:
                    os.close(self._descriptors.pop(number))

    def close(self) -> None:
        with self._lock:
            while self._descriptors:
                os.close(self._descriptors.popitem()[1])
