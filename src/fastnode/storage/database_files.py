"""Check that the files of a LevelDB are all there, before it is opened.

    CURRENT           names the manifest
    MANIFEST-000004   names the tables with their sizes, and the oldest log that counts
    000005.ldb        a table; its footer says where its indexes are
    000006.log        what is in no table yet
    fastnode.seal     what all of these were when the database was closed (seal.py)
    fastnode.written  how long its newest log was after the newest write (log_length.py)

LevelDB takes a folder without CURRENT for a new database and removes the tables in it, and one without its log for an
older one.  It takes as much memory as a footer says that an index has, for any size of the file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from fastnode.storage.leveldb_manifest import Manifest, read_manifest

__all__ = [
    "CURRENT",
    "DATABASE_FILE",
    "LOG_SUFFIX",
    "TABLE_SUFFIXES",
    "fault_of_files",
    "fault_of_parts",
    "is_database",
    "manifest_of",
    "named_manifest",
]

CURRENT: Final = "CURRENT"
TABLE_SUFFIXES: Final = (".ldb", ".sst")
LOG_SUFFIX: Final = ".log"

#: Names of the files that belong to a settled database.
DATABASE_FILE: Final = re.compile(r"CURRENT|MANIFEST-[0-9]{1,20}|[0-9]{1,20}\.(?:ldb|sst|log)", re.ASCII)
_MANIFEST_NAME: Final = re.compile(r"MANIFEST-[0-9]{1,20}", re.ASCII)
#: All that a creation leaves that was cut short.
FIRST_MANIFEST: Final = "MANIFEST-000001"

_FOOTER_BYTES: Final = 48
_MAGIC: Final = (0xDB4775248B80FB57).to_bytes(8, "little")


def is_database(path: Path) -> bool:
    """True if there is anything of a database in the folder ``path``: a damaged one is one too."""
    try:
        names = [file.name for file in path.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any(DATABASE_FILE.fullmatch(name) and name != FIRST_MANIFEST for name in names)


def fault_of_files(path: Path) -> str | None:
    """The fault in the manifest and the tables of the closed database ``path``, as "000005.ldb is missing".

    None if nothing is, and if there is no database yet.  OSError when they cannot be read.  Logs: log_recovery.py.
    """
    if not is_database(path):
        return None
    try:
        current = named_manifest(path)
    except FileNotFoundError:
        return f"{CURRENT} is missing"
    if current is None:
        return f"{CURRENT} names no manifest"
    try:
        manifest = read_manifest((path / current).read_bytes())
    except FileNotFoundError:
        return f"{current} is missing"
    except ValueError as error:
        return f"{current} has {error}"
    return _fault_of_tables(path, manifest)


def named_manifest(path: Path) -> str | None:
    """The manifest that CURRENT names; None if that is no name of one.  OSError when it cannot be read."""
    try:
        current = (path / CURRENT).read_text("ascii").strip()
    except UnicodeDecodeError:
        return None
    return current if _MANIFEST_NAME.fullmatch(current) else None


def fault_of_parts(path: Path, manifest: Manifest) -> str | None:
    """The fault in the logs and tables that a manifest names; OSError as above."""
    if manifest.log_number and not (path / f"{manifest.log_number:06d}{LOG_SUFFIX}").is_file():
        return f"{manifest.log_number:06d}{LOG_SUFFIX} is missing"
    return _fault_of_tables(path, manifest)


def _fault_of_tables(path: Path, manifest: Manifest) -> str | None:
    for number, size in sorted(manifest.tables.items()):
        fault = _fault_of_table(path, number, size)
        if fault is not None:
            return fault
    return None


def manifest_of(path: Path) -> Manifest:
    """The tables of the database ``path``, also of one that is open.  OSError or ValueError for damaged files."""
    return read_manifest((path / (path / CURRENT).read_text("ascii").strip()).read_bytes())


def _fault_of_table(path: Path, number: int, size: int) -> str | None:
    for suffix in TABLE_SUFFIXES:
        name = f"{number:06d}{suffix}"
        try:
            with (path / name).open("rb", buffering=0) as table:
                length = os.fstat(table.fileno()).st_size
                footer = os.pread(table.fileno(), _FOOTER_BYTES, max(0, length - _FOOTER_BYTES))
        except FileNotFoundError:
            continue
        if length != size:
            return f"{name} has {length} bytes instead of {size}"
        return None if _is_footer(footer, length) else f"{name} has no footer that makes sense"
    return f"{number:06d}{TABLE_SUFFIXES[0]} is missing"


def _is_footer(footer: bytes, length: int) -> bool:
    """True if both handles lie within a table of ``length`` bytes."""
    if len(footer) != _FOOTER_BYTES or not footer.endswith(_MAGIC):
        return False
    numbers: list[int] = []
    value = shift = 0
    for byte in footer[: -len(_MAGIC)]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
            if len(numbers) == 4:
                return numbers[0] + numbers[1] < length and numbers[2] + numbers[3] < length
    return False
