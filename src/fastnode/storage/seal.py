"""The files of a database as they were when it was closed, so that the next start notices changes.

A log that is cut short looks like one that a crash left: LevelDB reads what there is.  But after a close there was no
crash.  The file ``fastnode.seal`` lies in the database's folder while it is closed:

    {"files": {"000006.log": {"bytes": 812, "crc32": 2868...}, "000005.ldb": {"bytes": 90210}, ...}, "crc32": ...}

Tables have no checksum here: they carry their own, and may be large.  The last number is that of the text of "files".
"""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from fastnode.files import sync_path
from fastnode.storage.database_files import DATABASE_FILE, LOG_SUFFIX, TABLE_SUFFIXES

__all__ = ["SEAL_FILE", "SealCheck", "break_seal", "check_seal", "write_seal"]

SEAL_FILE: Final = "fastnode.seal"

_CHUNK_BYTES: Final = 1 << 20


class SealCheck(NamedTuple):
    """The files of a closed database, compared with its seal."""

    #: The change of the manifest or a table since then, as "000005.ldb is missing"; None for none, and without a seal.
    fault: str | None
    #: True if there is a seal and the logs are what they were.
    has_same_logs: bool


def write_seal(path: Path) -> None:
    """Seal the closed database ``path``.  OSError when the disk refuses; a database without a seal can be opened."""
    files = _facts(path)
    text = orjson.dumps({"files": files, "crc32": _checksum(files)})
    try:
        (path / SEAL_FILE).write_bytes(text)
    except OSError:
        (path / SEAL_FILE).unlink(missing_ok=True)
        raise


def check_seal(path: Path) -> SealCheck:
    """Compare the closed database ``path`` with its seal; one that is not what was written counts as none."""
    sealed = _read_seal(path)
    if sealed is None:
        return SealCheck(None, has_same_logs=False)
    found = _facts(path)
    changed = [name for name, facts in sealed.items() if found.get(name) != facts]
    faults = [_describe_change(name, sealed[name], found.get(name)) for name in changed if not _is_log(name)]
    return SealCheck(next(iter(faults), None), has_same_logs=not any(map(_is_log, changed)))


def _is_log(name: str) -> bool:
    return name.endswith(LOG_SUFFIX)


def _describe_change(name: str, sealed: dict[str, Any], found: dict[str, Any] | None) -> str:
    if found is None:
        return f"{name} is missing"
    if found["bytes"] != sealed["bytes"]:
        return f"{name} has {found['bytes']} bytes instead of {sealed['bytes']}"
    return f"{name} is not what was written"


def break_seal(path: Path) -> None:
    """To be called before the database may change; on disk when this returns."""
    seal = path / SEAL_FILE
    if not seal.exists():
        return
    seal.unlink()
    sync_path(path)


def _read_seal(path: Path) -> dict[str, Any] | None:
    with contextlib.suppress(FileNotFoundError, orjson.JSONDecodeError, KeyError, TypeError):
        seal = orjson.loads((path / SEAL_FILE).read_bytes())
        if seal["crc32"] == _checksum(seal["files"]):
            files: dict[str, Any] = seal["files"]
            return files
    return None


def _facts(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for file in sorted(path.iterdir()):
        if DATABASE_FILE.fullmatch(file.name) is None:
            continue
        facts[file.name] = {"bytes": file.stat().st_size}
        if file.suffix not in TABLE_SUFFIXES:
            facts[file.name]["crc32"] = _checksum_of_file(file)
    return facts


def _checksum(files: Any) -> int:
    return zlib.crc32(orjson.dumps(files, option=orjson.OPT_SORT_KEYS))


def _checksum_of_file(file: Path) -> int:
    checksum = 0
    with file.open("rb") as content:
        while chunk := content.read(_CHUNK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
    return checksum
