"""The folder of an export, and what it says about itself.

    <folder>/
      manifest.json                               what is whole: chain, tables, partitions with their files' checksums
      <table>/blocks=00000000-00009999/part.parquet

A partition holds the blocks of a fixed range, as far as they are exported: the last one grows with the chain, and is
written anew then.  Files are written under temporary names, waited for, and renamed when all of a partition are there;
the manifest names a partition last.  So a file under its own name is whole, whatever ended the process, and what the
manifest does not name is written again by the next run, to the same bytes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import orjson

from fastnode.archiver.queries import ChainInfo
from fastnode.errors import ExportError
from fastnode.files import make_folder, replace_file, sync_path
from fastnode.parquet.tables import TABLES
from fastnode.protocol.constants import JSON_INTEGER_MAX
from fastnode.protocol.fields import hex_text
from fastnode.records import dataclass

__all__ = ["BLOCKS_MAX", "MANIFEST", "ExportFolder", "Manifest", "Partition", "describe_chain", "digest_of", "naming"]

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
#: Blocks of a partition, at most.
BLOCKS_MAX: Final = 10_000_000

_HASH: Final = re.compile(r"0x[0-9a-f]{64}", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_FILE: Final = "part.parquet"
_UNFINISHED: Final = ".new"
_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Partition:
    """Blocks ``first`` to ``last`` in files, by table: (rows, bytes, SHA-256)."""

    first: int
    last: int
    last_hash: str
    is_verified: bool
    files: dict[str, tuple[int, int, str]]

    def to_json(self) -> dict[str, Any]:
        return {
            "firstBlock": self.first,
            "lastBlock": self.last,
            "lastBlockHash": self.last_hash,
            "verified": self.is_verified,
            "files": {
                name: {"rows": rows, "bytes": size, "sha256": digest}
                for name, (rows, size, digest) in self.files.items()
            },
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Partition:
        """KeyError, TypeError, AttributeError or ValueError for anything that :meth:`to_json` does not produce."""
        files = {
            name: (_number(item, "rows"), _number(item, "bytes"), _text(item, "sha256", _DIGEST))
            for name, item in record["files"].items()
        }
        is_verified = record["verified"]
        if type(is_verified) is not bool:
            raise ValueError(f"verified must be true or false, got {is_verified!r}")
        first, last = _number(record, "firstBlock", 1), _number(record, "lastBlock", 1)
        return cls(first, last, _text(record, "lastBlockHash", _HASH), is_verified, files)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Chain and form of an export, and its whole partitions in the order of their blocks."""

    chain: dict[str, Any]
    tables: tuple[str, ...]
    partition_blocks: int
    first: int
    partitions: tuple[Partition, ...] = ()

    @property
    def last(self) -> int:
        """The newest block that is there; the one before the first if there is none."""
        return self.partitions[-1].last if self.partitions else self.first - 1

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "chain": self.chain,
            "tables": self.tables,
            "partitionBlocks": self.partition_blocks,
            "firstBlock": self.first,
            "lastBlock": self.last,
            "partitions": [partition.to_json() for partition in self.partitions],
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Manifest:
        """As :meth:`Partition.from_json`."""
        if record["format"] != FORMAT:
            raise ValueError(f"it is of form {record['format']}, this is {FORMAT}")
        if not isinstance(record["chain"], dict):
            raise ValueError("chain must be an object")
        known = {table.name for table in TABLES}
        tables = record["tables"]
        if not isinstance(tables, list) or not tables or not all(table in known for table in tables):
            raise ValueError(f"tables must be names of tables, got {tables!r}")
        if len(set(tables)) < len(tables):
            raise ValueError(f"tables has one twice: {tables!r}")
        manifest = cls(
            record["chain"],
            tuple(tables),
            _number(record, "partitionBlocks", 1, BLOCKS_MAX),
            _number(record, "firstBlock", 1),
            tuple(Partition.from_json(item) for item in record["partitions"]),
        )
        manifest._require_contiguous()
        return manifest

    def _require_contiguous(self) -> None:
        """ValueError unless the partitions follow each other from the first block on, each within its range."""
        following = self.first
        for partition in self.partitions:
            ((first, end), *_) = self.ranges(following, following + self.partition_blocks)
            if partition.first != first or not first <= partition.last <= end:
                raise ValueError(
                    f"a partition has blocks {partition.first} to {partition.last}, at most {first} to {end} expected"
                )
            if set(partition.files) != set(self.tables):
                raise ValueError(f"the partition of block {first} has other files than the tables")
            following = partition.last + 1

    def ranges(self, first: int, last: int) -> Iterable[tuple[int, int]]:
        """(first, last) block of the partitions that hold ``first`` to ``last``."""
        while first <= last:
            end = min(last, first // self.partition_blocks * self.partition_blocks + self.partition_blocks - 1)
            yield first, end
            first = end + 1


def _number(record: dict[str, Any], key: str, minimum: int = 0, maximum: int = JSON_INTEGER_MAX) -> int:
    value = record[key]
    if type(value) is not int or not minimum <= value <= maximum:
        raise ValueError(f"{key} must be a whole number from {minimum} to {maximum}, got {value!r}")
    return value


def _text(record: dict[str, Any], key: str, form: re.Pattern[str]) -> str:
    value = record[key]
    if not isinstance(value, str) or form.fullmatch(value) is None:
        raise ValueError(f"{key} must be {form.pattern}, got {value!r}")
    return value


def describe_chain(chain: ChainInfo) -> dict[str, Any]:
    """The chain as a manifest names it."""
    return {
        "l1ChainId": chain.l1_chain_id,
        "rollupVersion": chain.rollup_version,
        "genesisBlockHash": hex_text(chain.genesis_block_hash),
    }


class ExportFolder:
    """The folder, locked for one process.  ``close`` frees it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: Path) -> ExportFolder:
        """Make it if it is not there, and lock it.

        ExportError: it cannot be used, is in use, or holds other files and no export.
        """
        try:
            make_folder(path)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ExportError(f"the folder {path} cannot be used: {error.strerror}") from error
        folder = cls(path, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder._refuse_others()
        except BlockingIOError:
            folder.close()
            raise ExportError(f"the folder {path} is in use by another export") from None
        except BaseException:
            folder.close()
            raise
        return folder

    def _refuse_others(self) -> None:
        """Nobody's files are overwritten, and none stand beside the partitions, where a reader's pattern finds them."""
        ours = {MANIFEST, MANIFEST + _UNFINISHED}
        has_manifest = (self.path / MANIFEST).exists()
        if has_manifest:
            ours |= {table.name for table in TABLES}
        others = sorted(item.name for item in self.path.iterdir() if item.name not in ours)
        if others and not has_manifest:
            raise ExportError(f"the folder {self.path} holds {others[0]!r} and no export; give an empty or a new one")
        self._reject_links()

    def _reject_links(self) -> None:
        """Reject symbolic links in the folder, so that nothing outside of it is written or removed."""
        for table in TABLES:
            folder = self.path / table.name
            for entry in (folder, *folder.glob("blocks=*"), *folder.glob("blocks=*/*")):
                if entry.is_symlink():
                    raise ExportError(
                        f"{entry} is a symbolic link; an export follows none: remove it, or begin elsewhere"
                    )

    def read_manifest(self) -> Manifest | None:
        """The folder's words about itself; None for an empty one.  ExportError when that cannot be read."""
        try:
            text = (self.path / MANIFEST).read_bytes()
        except FileNotFoundError:
            return None
        try:
            return Manifest.from_json(orjson.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ExportError(f"{self.path / MANIFEST} cannot be read ({error}); begin with an empty folder") from error

    def write_manifest(self, manifest: Manifest) -> None:
        """On disk when it returns."""
        text = orjson.dumps(manifest.to_json(), option=orjson.OPT_INDENT_2)
        with naming(self.path / MANIFEST):
            replace_file(self.path / MANIFEST, text, b"\n")

    # ---- partitions -----------------------------------------------------------------------------------

    def file(self, table: str, manifest: Manifest, first: int) -> Path:
        """The file of a table in the partition that holds block ``first``."""
        start = first // manifest.partition_blocks * manifest.partition_blocks
        stop = start + manifest.partition_blocks - 1
        return self.path / table / f"blocks={start:08}-{stop:08}" / _FILE

    def unfinished(self, file: Path) -> Path:
        """The name of a file while it is written; its folder is made."""
        with naming(file):
            make_folder(file.parent)
        return file.with_name(file.name + _UNFINISHED)

    def finish(self, files: Sequence[Path]) -> None:
        """Give written files their names; on disk when it returns."""
        for file in files:
            with naming(file):
                file.with_name(file.name + _UNFINISHED).replace(file)
        for file in files:
            sync_path(file.parent)

    def remove_others(self, manifest: Manifest) -> None:
        """Remove the partitions that the manifest does not name, and what was left unfinished."""
        kept = {
            self.file(table, manifest, item.first).parent for table in manifest.tables for item in manifest.partitions
        }
        for table in TABLES:
            for folder in sorted((self.path / table.name).glob("blocks=*")):
                if folder not in kept:
                    shutil.rmtree(folder)
                else:
                    (folder / (_FILE + _UNFINISHED)).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not there, or not empty
                (self.path / table.name).rmdir()

    def faults(self, manifest: Manifest, partition: Partition, is_digest: Callable[[Path, str], bool]) -> list[str]:
        """Differences between the files of a partition and what the manifest says of them."""
        found = []
        for table, (_, size, digest) in partition.files.items():
            file = self.file(table, manifest, partition.first)
            if not file.is_file():
                found.append(f"{file} is not there")
            elif file.stat().st_size != size:
                found.append(f"{file} has {file.stat().st_size} bytes, was written with {size}")
            elif not is_digest(file, digest):
                found.append(f"{file} is not what was written")
        return found

    def close(self) -> None:
        """May be called once."""
        os.close(self._descriptor)

    def __enter__(self) -> ExportFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def digest_of(file: Path) -> str:
    """SHA-256 of a file's content."""
    digest = sha256()
    with file.open("rb") as content:
        while piece := content.read(_READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError inside says which file cannot be written."""
    try:
        yield
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error.strerror or error}") from error
