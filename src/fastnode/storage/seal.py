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
from typing import Any, Final

import orjson

from fastnode.files import sync_path
from fastnode.storage.database_files import DATABASE_FILE, LOG_SUFFIX, TABLE_SUFFIXES

__all__ = ["SEAL_FILE", "break_seal", "broken_by", "has_sealed_logs", "write_seal"]

SEAL_FILE: Final = "fastnode.seal"

_CHUNK_BYTES: Final = 1 << 20


def write_seal(path: Path) -> None:
    """Seal the closed database ``path``.  OSError when the disk refuses; a database without a seal can be opened."""
    files = _facts(path)
    text = orjson.dumps({"files": files, "crc32": _checksum(files)})
    try:
        (path / SEAL_FILE).write_bytes(text)
    except OSError:
        (path / SEAL_FILE).unlink(missing_ok=True)
        raise


def broken_by(path: Path) -> str | None:
    """The change of the manifest or a table since the database ``path`` was sealed, as "000005.ldb is missing".

    None if nothing did, if it is not sealed, and if the seal itself is not what was written.
    """
    sealed = _read_seal(path)
    if sealed is None:
        return None
    found = _facts(path)
    for name, facts in sealed.items():
        if name.endswith(LOG_SUFFIX):
            continue
        if name not in found:
            return f"{name} is missing"
        if found[name]["bytes"] != facts["bytes"]:
            return f"{name} has {found[name]['bytes']} bytes instead of {facts['bytes']}"
        if found[name] != facts:
            return f"{name} is not what was written"
    return None


def has_sealed_logs(path: Path) -> bool:
    """True if the database ``path`` is sealed and its logs are what they were then."""
    sealed = _read_seal(path)
    if sealed is None:
        return False
    found = _facts(path)
    return all(found.get(name) == facts for name, facts in sealed.items() if name.endswith(LOG_SUFFIX))


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
