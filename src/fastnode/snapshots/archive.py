"""A folder of a database as one stream of bytes: a tar archive of plain files, sorted, without times or owners.

Whoever reads one does not trust it: only regular files with names of a database are taken, nothing leaves the target
folder, and nothing is written beyond the size that was announced.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastnode.errors import SnapshotError
from fastnode.storage.database_files import DATABASE_FILE

__all__ = ["CHUNK_BYTES", "ArchiveFacts", "ArchiveWriter", "archive_size", "read_archive"]

CHUNK_BYTES: Final = 1 << 20
_FILE_MODE: Final = 0o644
#: An archive ends with two empty blocks.
_END: Final = bytes(2 * tarfile.BLOCKSIZE)


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """What an archive must be, to the last bit."""

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


class _Checked(io.RawIOBase):
    """A stream of chunks as a file that counts and hashes what passes."""

    def __init__(self, chunks: Iterable[bytes], facts: ArchiveFacts) -> None:
        self._chunks = iter(chunks)
        self._facts = facts
        self._rest = memoryview(b"")
        self._hash = hashlib.sha256()
        self.bytes_done = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        if not self._rest:
            self._rest = memoryview(self._next_chunk())
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def _next_chunk(self) -> bytes:
        for chunk in self._chunks:
            if chunk:
                self.bytes_done += len(chunk)
                if self.bytes_done > self._facts.bytes:
                    raise SnapshotError(f"it is longer than the {self._facts.bytes} bytes that the index says")
                self._hash.update(chunk)
                return bytes(chunk)
        return b""

    def finish(self) -> None:
        """Read to the end; SnapshotError when the bytes are not those announced."""
        while self._next_chunk():
            pass
        if self.bytes_done != self._facts.bytes:
            raise SnapshotError(f"it has {self.bytes_done} bytes, the index says {self._facts.bytes}")
        if self._hash.hexdigest() != self._facts.sha256:
            raise SnapshotError("its SHA-256 is not the one that the index says")


def read_archive(chunks: Iterable[bytes], facts: ArchiveFacts, target: Path) -> None:
    """Unpack into the new folder ``target``; SnapshotError when a single bit differs from ``facts``.

    What was unpacked until then stays in ``target``; the caller throws it away.
    """
    target.mkdir()
    stream = _Checked(chunks, facts)
    try:
        with tarfile.open(fileobj=io.BufferedReader(stream, CHUNK_BYTES), mode="r|") as archive:
            for member in archive:
                _unpack(archive, member, target)
    except tarfile.TarError as error:
        stream.finish()  # bytes that differ from the announced ones explain it better
        raise SnapshotError(f"it is not an archive of a database ({error})") from error
    stream.finish()


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    if not member.isreg() or DATABASE_FILE.fullmatch(member.name) is None:
        raise SnapshotError(f"it has a file that does not belong to a database: {member.name!r}")
    content = archive.extractfile(member)
    assert content is not None  # a regular file has content
    try:
        with (target / member.name).open("xb") as file:
            while chunk := content.read(CHUNK_BYTES):
                file.write(chunk)
    except FileExistsError:
        raise SnapshotError(f"it has the file {member.name} twice") from None
