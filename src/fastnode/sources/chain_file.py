"""Chain files: what ``fastnode import`` reads and ``fastnode export`` writes.

JSON lines, UTF-8, plain or compressed with gzip or, when reading, xz (told apart by the first bytes when reading, by
the name's ``.gz`` when writing), in this order:

    {"kind":"chain","version":1,"nodeInfo":{..},"l1Constants":{..},"minFees":{..}|null}
    {"kind":"genesis","header":BlockHeader,"blockHash":Fr,"archiveRoot":Fr,"prefilledPublicData":[{"slot","value"}],
     "contractClasses":[..],"contractInstances":[..]}
    {"kind":"checkpoint","published":PublishedCheckpoint,"l1ToL2Messages":[Fr..]}      per checkpoint
    {"kind":"block","block":L2Block[,"l1ToL2Messages":[Fr..]]}                         per block behind the last one
    {"kind":"tips","tips":L2Tips}                                                      at most once, last

Messages come without their zero padding; those of a block are there only for the first block of a
checkpoint, and may be left out when there are none.
"""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import orjson

from fastnode.archiver.source import (
    BlockRecord,
    ChainRecord,
    CheckpointRecord,
    GenesisRecord,
    Record,
    TipsRecord,
)
from fastnode.errors import ChainFileError, DecodeError
from fastnode.files import system_reason
from fastnode.protocol.tips import L2Tips

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = ["CHAIN_FILE_VERSION", "ChainFileSource", "ChainFileWriter", "bundled_chain"]

CHAIN_FILE_VERSION: Final = 1
#: A checkpoint of full blobs is a few MB of JSON; a line beyond this is not a chain file.
LINE_BYTES_MAX: Final = 64 << 20

GZIP_LEVEL: Final = 6
_GZIP_MAGIC: Final = b"\x1f\x8b"
_XZ_MAGIC: Final = b"\xfd7zXZ\x00"
_ERROR_TEXT_MAX: Final = 200

#: Kinds in the order in which they must come.
_ORDER: Final = {"chain": 0, "genesis": 1, "checkpoint": 2, "block": 3, "tips": 4}

_ADVICE: Final = "this is not a chain file, which fastnode export and --dump-state write"

_T = TypeVar("_T")


def bundled_chain() -> resources.abc.Traversable:
    """The chain file that comes with the package: a recording."""
    return resources.files("fastnode") / "data" / "sample_chain.jsonl.xz"


class ChainFileSource:
    """Reads a chain file line by line; never holds more than one record.

    The first two lines are read at once, the rest by :meth:`records`.  Every fault is a
    :class:`ChainFileError` with the line it is in.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line = 0
        try:
            # Not a context manager here: the file lives as long as the source.
            self._file = path.open("rb")
            self.bytes_total = path.stat().st_size
        except OSError as error:
            raise ChainFileError(str(path), None, system_reason(path, error)) from error
        try:
            self._lines: IO[bytes] = self._decompressed()
            self.chain = self._decode(self._expect("chain"), _chain_record)
            self.genesis = self._decode(self._expect("genesis"), GenesisRecord.from_json)
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        return str(self._path)

    @property
    def line(self) -> int:
        """Number of the line read last, from 1."""
        return self._line

    @property
    def bytes_read(self) -> int:
        """Bytes of the file, as it lies on disk, that have been read."""
        return self._file.tell()

    def records(self, _stored: Callable[[], ChainView] | None = None) -> Iterator[Record]:
        """All records of the file, also those that are stored."""
        previous = _ORDER["genesis"]
        while (raw := self._next()) is not None:
            kind = raw.get("kind")
            order = _ORDER.get(kind, -1) if isinstance(kind, str) else -1
            if order < 0:
                raise self._error(f"unknown kind {str(kind)[:_ERROR_TEXT_MAX]!r}")
            if order < max(previous, _ORDER["checkpoint"]) or previous == _ORDER["tips"]:
                raise self._error(f"a line of kind {kind!r} is not allowed here")
            previous = order
            yield self._decode(raw, _RECORDS[str(kind)])

    def newest_final_checkpoint(self) -> int:
        """Final checkpoint by the last line; 0 for a file that ends without tips, or that cannot be read to its end.

        To be called before :meth:`records`, of a source that is for nothing else: it reads the whole file.
        """
        last = b""
        try:
            while line := self._lines.readline(LINE_BYTES_MAX + 1):
                last = line
            return _tips_record(orjson.loads(last)).tips.finalized.checkpoint.number
        except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError, AttributeError, DecodeError):
            return 0

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> ChainFileSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def error(self, reason: str) -> ChainFileError:
        """A fault of the line read last."""
        return self._error(reason)

    def _error(self, reason: str) -> ChainFileError:
        return ChainFileError(self.name, self._line, reason)

    def _decompressed(self) -> IO[bytes]:
        magic = self._file.peek(len(_XZ_MAGIC))[: len(_XZ_MAGIC)]  # a pipe cannot go back
        if magic.startswith(_GZIP_MAGIC):
            return gzip.GzipFile(fileobj=self._file, mode="rb")  # type: ignore[return-value]
        if magic == _XZ_MAGIC:
            return lzma.LZMAFile(self._file)
        return self._file

    def _expect(self, kind: str) -> dict[str, Any]:
        raw = self._next()
        if raw is None:
            self._line += 1
            raise self._error(f"the file ends where a line of kind {kind!r} is expected")
        if "kind" not in raw:
            raise self._error(f"a JSON object without 'kind', where one of kind {kind!r} is expected: {_ADVICE}")
        if raw.get("kind") != kind:
            raise self._error(f"expected a line of kind {kind!r}, got {str(raw.get('kind'))[:_ERROR_TEXT_MAX]!r}")
        return raw

    def _next(self) -> dict[str, Any] | None:
        """The next line as a JSON object, or None at the end of the file."""
        self._line += 1
        try:
            line = self._lines.readline(LINE_BYTES_MAX + 1)
        except EOFError as error:
            raise self._error("the compressed data ends in the middle") from error
        except (OSError, zlib.error, lzma.LZMAError) as error:
            raise self._error(f"cannot be read: {error}") from error
        if not line:
            self._line -= 1
            return None
        if len(line) > LINE_BYTES_MAX:
            raise self._error(f"longer than {LINE_BYTES_MAX} bytes")
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            advice = f": {_ADVICE}" if self._line == 1 else ""
            raise self._error(f"not JSON: {str(error)[:_ERROR_TEXT_MAX]}{advice}") from error
        if not isinstance(value, dict):
            raise self._error("not a JSON object")
        return value

    def _decode(self, raw: dict[str, Any], decode: Callable[[dict[str, Any]], _T]) -> _T:
        try:
            return decode(raw)
        except DecodeError as error:
            raise self._error(str(error)) from error


def _chain_record(raw: dict[str, Any]) -> ChainRecord:
    version = raw.get("version")
    if version != CHAIN_FILE_VERSION:
        raise DecodeError(f"version: {version!r} is not {CHAIN_FILE_VERSION}, the only one this fastnode reads")
    return ChainRecord.from_json(raw)


def _tips_record(raw: dict[str, Any]) -> TipsRecord:
    return TipsRecord(L2Tips.from_json(raw.get("tips"), "tips"))


_RECORDS: Final[dict[str, Callable[[dict[str, Any]], Record]]] = {
    "checkpoint": CheckpointRecord,
    "block": BlockRecord,
    "tips": _tips_record,
}


class ChainFileWriter:
    """Writes a chain file beside its final name and moves it there when it is complete.

    A context manager: leaving it without an error completes the file, leaving it with one removes what was
    written.  A write that the disk refuses is a :class:`ChainFileError`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(path.name + ".partial")
        try:
            self._file = self._partial.open("wb")
        except OSError as error:
            raise self._error(error) from error
        # mtime 0 and no name: the same chain gives the same bytes.
        self._gzip = gzip.GzipFile("", "wb", GZIP_LEVEL, self._file, mtime=0) if path.suffix == ".gz" else None

    def write(self, kind: bytes, members: bytes) -> None:
        """One line: ``members`` is what follows the kind, ``"key":value,...`` without braces: ready JSON,
        so that a record can be spliced from stored answers."""
        line = b'{"kind":"%b",%b}\n' % (kind, members)
        try:
            (self._gzip or self._file).write(line)
        except OSError as error:
            raise self._error(error) from error

    def finish(self) -> None:
        """Complete the file and give it its name."""
        try:
            if self._gzip is not None:
                self._gzip.close()
            # Synced before it gets its name: after a crash there is a whole file of that name, or none.
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self._path)
        except OSError as error:
            raise self._error(error) from error

    def discard(self) -> None:
        """Remove what was written."""
        for file in (self._gzip, self._file):
            # A full disk refuses the last buffer too; it is thrown away with the rest.
            with contextlib.suppress(OSError):
                if file is not None:
                    file.close()
        self._partial.unlink(missing_ok=True)

    def _error(self, error: OSError) -> ChainFileError:
        return ChainFileError(str(self._path), None, f"cannot be written: {system_reason(self._path, error)}")

    def __enter__(self) -> ChainFileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.discard()
            return
        try:
            self.finish()
        except ChainFileError:
            self.discard()
            raise
