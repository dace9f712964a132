"""Small files that are replaced whole: after a crash, of the process or of the machine, there is the old content or
the new one.

A checked file says whether it is still what was written:

    content | \n | CRC-32 of the content, 8 hexadecimal digits | \n
"""

from __future__ import annotations

import contextlib
import os
import pwd
import zlib
from pathlib import Path
from typing import Final

__all__ = [
    "UNFINISHED_SUFFIX",
    "make_folder",
    "put_file",
    "read_checked_file",
    "replace_checked_file",
    "replace_file",
    "sync_path",
    "system_reason",
]

#: Behind a file's name while it is written; what a crash leaves of it is overwritten the next time.
UNFINISHED_SUFFIX: Final = ".new"

_CHECK_BYTES: Final = 10


def replace_file(path: Path, *parts: bytes, mode: int = 0o666) -> None:
    """Give ``path`` the content ``parts``, joined; on disk, under its name, when this returns.

    One thread at a time for a path.  ``mode``: who may read and write it, less what the process's mask takes away.
    OSError: the old content stands, or the new one if the disk refused to keep its name.
    """
    put_file(path, *parts, mode=mode)
    sync_path(path.parent)


def replace_checked_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """The same for a checked file."""
    replace_file(path, content, _check_of(content), mode=mode)


def read_checked_file(path: Path) -> bytes:
    """Its content; OSError, or ValueError when that is not what was written."""
    whole = path.read_bytes()
    content = whole[:-_CHECK_BYTES]
    if whole[len(content) :] != _check_of(content):
        raise ValueError("its checksum is wrong")
    return content


def _check_of(content: bytes) -> bytes:
    return b"\n%08x\n" % zlib.crc32(content)


def put_file(path: Path, *parts: bytes, mode: int = 0o666, is_synced: bool = True) -> None:
    """The same for one of many files: its content is on disk, its name only when the folder is synced.

    Not ``is_synced``: for what may be lost.  Nothing is waited for, and when the machine ends, not just the process,
    the file may be empty.
    """
    unfinished = path.with_name(path.name + UNFINISHED_SUFFIX)
    unfinished.unlink(missing_ok=True)  # its mode may be another one
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.writelines(parts)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        with contextlib.suppress(OSError):  # what the disk said first counts
            unfinished.unlink(missing_ok=True)  # a full disk needs its room
        raise


def make_folder(path: Path) -> None:
    """Make it, and those that it lies in, where they are not there; their names are on disk when this returns."""
    try:
        path.mkdir()
    except FileExistsError:
        return
    except FileNotFoundError:
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
    sync_path(path.parent)


def sync_path(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def system_reason(path: Path, error: OSError) -> str:
    """Words of the system; where it denies the use of ``path``, also who may use it and who wants to."""
    if not isinstance(error, PermissionError):
        return error.strerror or str(error)
    there = next(folder for folder in (path, *path.parents) if _is_seen(folder))
    return f"{error.strerror} ({there} belongs to {_user(there.stat().st_uid)}, this is {_user(os.geteuid())})"


def _is_seen(path: Path) -> bool:
    """False also for what is below a folder that this user may not enter."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def _user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
