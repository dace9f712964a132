"""The tables of a LevelDB as files: whether every block in them is as it was written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fastnode.kernels import leveldb_table
from fastnode.storage.database_files import TABLE_SUFFIXES, manifest_of

__all__ = ["damaged_tables", "table_facts", "table_fault"]

#: LevelDB ends a table at 32 MiB, or with the one value that exceeds them; more than this is no table of ours, and is
#: not taken into memory.
TABLE_BYTES_MAX: Final = 256 << 20


def damaged_tables(path: Path) -> dict[str, str]:
    """Faults in the tables of the database ``path``, by name.  It may be open; takes a second per gigabyte.

    A table that its manifest does not name is none of it: one is being written, or was when the process ended.
    """
    found = {}
    live = _live_tables(path)
    for file in _tables(path):
        fault = None if live is not None and file.stem not in live else table_fault(file)
        if fault is not None:
            found[file.name] = fault
    return found


def table_facts(path: Path) -> dict[str, tuple[int, int]]:
    """Length and time of change (in nanoseconds) of each table of the database ``path``, by name; it may be open."""
    found = {}
    for file in _tables(path):
        with contextlib.suppress(FileNotFoundError):  # a compaction has merged it
            facts = file.stat()
            found[file.name] = facts.st_size, facts.st_mtime_ns
    return found


def table_fault(file: Path) -> str | None:
    """The fault in a table; None if nothing is, or if it is gone: a compaction removes what it has merged."""
    try:
        with file.open("rb", buffering=0) as table:
            size = file.stat().st_size
            if size > TABLE_BYTES_MAX:
                return f"it has {size} bytes, more than the {TABLE_BYTES_MAX} of any table"
            content = bytearray(size)
            view = memoryview(content)
            done = 0
            while count := table.readinto(view[done:]):
                done += count
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return leveldb_table.fault_of(view[:done])


def _live_tables(path: Path) -> set[str] | None:
    """Names without their endings; None where the manifest does not say."""
    try:
        return {f"{number:06d}" for number in manifest_of(path).tables}
    except (OSError, ValueError):
        return None


def _tables(path: Path) -> Iterator[Path]:
    """By name, which is by age."""
    return iter(sorted(file for file in path.iterdir() if file.suffix in TABLE_SUFFIXES))
