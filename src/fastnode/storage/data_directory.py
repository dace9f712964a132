"""The data directory as a whole: that it can be used, and that no other process uses it.

    <data directory>/
      fastnode.lock     held (flock) by the process that uses the directory, with its id inside
      fastnode.temporary   (empty) its process removes the directory at exit; the next one that needs a temporary
                        directory does so if that process was killed
      archiver/         chain database
      world_state/      state trees
      p2p/              transaction pool
      offenses/         offenses of validators, if they are looked for

The lock spans all databases, and an operator gets one sentence instead of LevelDB's.  It is left
in place at exit: removing a lock file lets two processes lock two files of one name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final

from fastnode.errors import DataDirectoryError, UnusableDirectoryError
from fastnode.files import system_reason

__all__ = ["LOCK_FILE", "TEMPORARY_FILE", "DataDirectory", "require_reachable", "sweep"]

LOCK_FILE: Final = "fastnode.lock"
#: Mark of a temporary directory.  A directory that an operator has named has none, wherever it is.
TEMPORARY_FILE: Final = "fastnode.temporary"
_PREFIX: Final = "fastnode-"

#: Digits of a process id, with room to spare.
_PROCESS_ID_MAX: Final = 32


class DataDirectory:
    """A locked data directory; ``close`` frees it, and removes it if it is a temporary one."""

    def __init__(self, path: Path, lock: int, *, temporary: bool) -> None:
        self.path = path
        self._lock: int | None = lock
        try:
            self.is_temporary = temporary
        except BaseException:
            os.close(lock)
            raise

    @property
    def is_temporary(self) -> bool:
        """True if ``close`` removes the directory; a sweep does, should the process be killed before."""
        return self._is_temporary

    @is_temporary.setter
    def is_temporary(self, value: bool) -> None:
        if value:
            (self.path / TEMPORARY_FILE).touch()
        else:
            (self.path / TEMPORARY_FILE).unlink(missing_ok=True)
        self._is_temporary = value

    @classmethod
    def open(cls, path: Path, *, create: bool) -> DataDirectory:
        """Lock ``path``.  DataDirectoryError: not there (unless ``create``), unusable, or in use."""
        try:
            if create:
                path.mkdir(mode=0o750, parents=True, exist_ok=True)
            elif not path.is_dir():
                raise DataDirectoryError(f"there is no data directory {path}")
            return cls(path, _lock(path), temporary=False)
        except FileExistsError:
            raise UnusableDirectoryError(f"the data directory {path} cannot be used: it is a file") from None
        except (PermissionError, FileNotFoundError, NotADirectoryError) as error:
            raise UnusableDirectoryError(_refusal(path, error)) from error
        except OSError as error:
            raise DataDirectoryError(_refusal(path, error)) from error

    @classmethod
    def temporary(cls) -> DataDirectory:
        """A fresh directory that lives as long as the process; those of killed ones are removed."""
        try:
            sweep(Path(tempfile.gettempdir()))
            path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            return cls(path, _lock(path), temporary=True)
        except OSError as error:
            raise DataDirectoryError(
                f"no temporary directory can be made in {tempfile.gettempdir()} ({error.strerror}); "
                f"give a --data-directory"
            ) from error

    def close(self) -> None:
        """May be called more than once."""
        if self._lock is None:
            return
        if self.is_temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = None

    def __enter__(self) -> DataDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def sweep(directory: Path) -> None:
    """Remove the temporary directories of processes that were killed: those of this user with the mark, whose lock
    nobody holds.
    """
    for folder in directory.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and _is_marked(folder):
                _remove_unless_locked(folder)


def _is_marked(folder: Path) -> bool:
    return stat.S_ISREG((folder / TEMPORARY_FILE).lstat().st_mode)


def _remove_unless_locked(folder: Path) -> None:
    """OSError: it is used (or another sweep removes it)."""
    file = folder / LOCK_FILE
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another sweep may have removed it, or an operator named it, since it was found.
        if os.path.samestat(os.fstat(descriptor), file.lstat()) and _is_marked(folder):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def require_reachable(path: Path) -> None:
    """UnusableDirectoryError when this user may not even look for what is in the directory, or would be."""
    try:
        (path / LOCK_FILE).stat()
    except PermissionError as error:
        raise UnusableDirectoryError(_refusal(path, error)) from error
    except OSError:  # there is nothing yet, or no room for it: who opens it says so
        pass


def _refusal(path: Path, error: OSError) -> str:
    return f"the data directory {path} cannot be used: {system_reason(path, error)}"


def _lock(path: Path) -> int:
    """The descriptor that holds the lock; OSError for what the file system refuses."""
    descriptor = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, b"%d\n" % os.getpid())
    except BlockingIOError:
        holder = _process_in(descriptor)
        os.close(descriptor)
        raise DataDirectoryError(f"the data directory {path} is in use by {holder}") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _process_in(descriptor: int) -> str:
    text = b""
    with contextlib.suppress(OSError):
        text = os.pread(descriptor, _PROCESS_ID_MAX, 0).strip()
    # Empty for the instant between another process's lock and its write.
    return f"fastnode process {text.decode()}" if text.isdigit() else "another fastnode process"
