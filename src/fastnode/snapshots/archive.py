"""A folder of a database as one stream of bytes: a tar archive of plain files, sorted, without times or owners.

A reader does not trust one: only regular files with names of a database are taken, nothing leaves the target
folder, and nothing is written beyond the size that was announced.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from fastnode.errors import SnapshotError
from fastnode.records import dataclass
from fastnode.storage.database_files import DATABASE_FILE

__all__ = ["CHUNK_BYTES", "ArchiveFacts", "ArchiveWriter", "archive_size", "read_archive"]

CHUNK_BYTES: Final = 1 << 20
_FILE_MODE: Final = 0o644
#: Files of an archive: some, and more for each of so many bytes.  Tables have two megabytes; empty files take a place
#: on the disk each, and time.
_FILES: Final = 4_096
_BYTES_PER_FILE: Final = 16 << 10
#: An archive ends with two empty blocks.
_END: Final = bytes(2 * tarfile.BLOCKSIZE)


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """Size and SHA-256 that an archive must have."""

    bytes: int
    sha256: str


class ArchiveWriter:
    """The archive of a folder, chunk by chunk, to be read once; ``facts`` when that is done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hash = hashlib.sha256()
        self._bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks():
            self._hash.update(chunk)
            self._bytes += len(chunk)
            yield chunk

    @property
    def bytes_done(self) -> int:
        return self._bytes

    @property
    def facts(self) -> ArchiveFacts:
        return ArchiveFacts(self._bytes, self._hash.hexdigest())

    def _chunks(self) -> Iterator[bytes]:
        for path in _files(self._folder):
            yield from _entry(path)
        yield _END


def archive_size(folder: Path) -> int:
    """Bytes of the archive of ``folder``."""
    blocks = sum(1 + -(-path.stat().st_size // tarfile.BLOCKSIZE) for path in _files(folder))
    return blocks * tarfile.BLOCKSIZE + len(_END)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir(), key=lambda path: path.name)


def _entry(path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    header = tarfile.TarInfo(path.name)
    header.size, header.mode = size, _FILE_MODE
    yield header.tobuf(tarfile.GNU_FORMAT)
    with path.open("rb") as file:
        left = size
        while left:
            chunk = file.read(min(CHUNK_BYTES, left))
            if not chunk:
                raise SnapshotError(f"{path} became shorter while it was read")
            left -= len(chunk)
            yield chunk
    yield bytes(-size % tarfile.BLOCKSIZE)


# ---- reading -----------------------------------------------------------------------------------------


class _NotAnArchiveError(Exception):
    pass


class _Checked:
    """A stream of chunks that is counted and hashed as it passes."""

    def __init__(self, chunks: Iterable[bytes], facts: ArchiveFacts) -> None:
        self._chunks = iter(chunks)
        self._facts = facts
        self._rest = memoryview(b"")
        self._hash = hashlib.sha256()
        self._bytes_done = 0

    @property
    def bytes_left(self) -> int:
        """Announced bytes that have not been read yet."""
        return self._facts.bytes - self._bytes_done + len(self._rest)

    def take(self, count: int) -> Iterator[memoryview]:
        """The next ``count`` bytes in pieces."""
        while count:
            if not self._rest:
                self._rest = memoryview(self._next_chunk())
            if not self._rest:
                raise _NotAnArchiveError("it ends too early")
            piece, self._rest = self._rest[:count], self._rest[count:]
            count -= len(piece)
            yield piece

    def _next_chunk(self) -> bytes:
        for chunk in self._chunks:
            if chunk:
                self._bytes_done += len(chunk)
                if self._bytes_done > self._facts.bytes:
                    raise SnapshotError(f"it is longer than the {self._facts.bytes} bytes that the index says")
                self._hash.update(chunk)
                return bytes(chunk)
        return b""

    def finish(self) -> None:
        """Read to the end; SnapshotError when the bytes are not those announced."""
        while self._next_chunk():
            pass
        if self._bytes_done != self._facts.bytes:
            raise SnapshotError(f"it has {self._bytes_done} bytes, the index says {self._facts.bytes}")
        if self._hash.hexdigest() != self._facts.sha256:
            raise SnapshotError("its SHA-256 is not the one that the index says")


def read_archive(chunks: Iterable[bytes], facts: ArchiveFacts, target: Path) -> None:
    """Unpack into the new folder ``target``; SnapshotError when a single bit differs from ``facts``.

    What was unpacked until then stays in ``target``; the caller throws it away.
    """
    target.mkdir()
    stream, files_left = _Checked(chunks, facts), _FILES + facts.bytes // _BYTES_PER_FILE
    try:
        while (member := _next_member(stream)) is not None:
            if files_left == 0:
                raise SnapshotError("it has more files than a database of its size")
            files_left -= 1
            _unpack(stream, member, target)
    except _NotAnArchiveError as error:
        stream.finish()  # bytes that differ from the announced ones explain it better
        raise SnapshotError(f"it is not an archive of a database ({error})") from error
    stream.finish()


def _next_member(stream: _Checked) -> tarfile.TarInfo | None:
    """The next header, None at the end.

    One block and no more: longer forms of a header (names, sparse files, attributes) have no place here, and their
    reader would take into memory what they say of their size.
    """
    block = b"".join(stream.take(tarfile.BLOCKSIZE))
    if not any(block):
        return None
    try:
        return tarfile.TarInfo.frombuf(block, tarfile.ENCODING, "surrogateescape")
    except tarfile.TarError as error:
        raise _NotAnArchiveError(str(error)) from error


def _unpack(stream: _Checked, member: tarfile.TarInfo, target: Path) -> None:
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or DATABASE_FILE.fullmatch(member.name) is None:
        raise SnapshotError(f"it has a file that does not belong to a database: {member.name!r}")
    if not 0 <= member.size <= stream.bytes_left:
        raise SnapshotError(f"it says that {member.name} has {member.size} bytes, which is more than it has left")
    try:
        with (target / member.name).open("xb") as file:
            for piece in stream.take(member.size):
                file.write(piece)
    except FileExistsError:
        raise SnapshotError(f"it has the file {member.name} twice") from None
    for _ in stream.take(-member.size % tarfile.BLOCKSIZE):
        pass
