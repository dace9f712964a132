"""One open LevelDB: sharing it between the writer and its readers, and write transactions.

LevelDB must stay open as long as any snapshot of it is in use; closing it under a reader that is
inside a read crashes the process.  :class:`SharedDatabase` therefore counts its owners: the store
is one, every live view is one, and the last to leave closes the files and frees the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Self

import plyvel

from fastnode.errors import DatabaseError, DataDirectoryError

__all__ = ["SharedDatabase", "Transaction", "open_leveldb"]

# A write buffer of this size halves what merging writes, compared with a quarter of it, and the log that the
# next start replays still takes less than a second.
WRITE_BUFFER_BYTES: Final = 32 << 20
# The filter spares a disk read for hashes that the chain does not have, which is what most lookups by hash are.
BLOOM_FILTER_BITS_PER_KEY: Final = 10
BLOCK_CACHE_BYTES: Final = 32 << 20
# LevelDB keeps a thousand tables open.  At its default of 2 MB a table, a database above 2 GB opens and
# closes them all the time, and a random read takes twice as long.
TABLE_BYTES: Final = 32 << 20
#: No key is longer.
KEY_BYTES_MAX: Final = 128
#: What an operator does about a damaged database, unless its owner knows better.
RESTORE_OR_IMPORT: Final = "restore it, or remove it and import again"


def open_leveldb(
    path: Path, *, create: bool, block_cache_bytes: int = BLOCK_CACHE_BYTES, remedy: str = RESTORE_OR_IMPORT
) -> Any:
    """Open or create the LevelDB at ``path``; every failure is a DataDirectoryError that says why.

    ``remedy`` is what to do when it is damaged, for the end of that sentence.
    """
    if not create and not (path / "CURRENT").is_file():
        raise DataDirectoryError(f"{path} holds no fastnode database")
    try:
        path.mkdir(parents=True, exist_ok=True)
        return plyvel.DB(
            str(path),
            create_if_missing=create,
            write_buffer_size=WRITE_BUFFER_BYTES,
            max_file_size=TABLE_BYTES,
            # Nearly everything stored is hashes: compressing saves a twentieth of the disk for a fifth of the time.
            compression=None,
            bloom_filter_bits=BLOOM_FILTER_BITS_PER_KEY,
            lru_cache_size=block_cache_bytes,
        )
    except plyvel.CorruptionError as error:
        raise DataDirectoryError(f"the database {path} is damaged ({reason_of(error)}); {remedy}") from error
    except plyvel.Error as error:
        reason = reason_of(error)
        if f"lock {path}/LOCK" in reason:
            raise DataDirectoryError(
                f"the data directory {path.parent} is in use by another fastnode process"
            ) from error
        raise DataDirectoryError(f"cannot open the database {path}: {reason}") from error
    except OSError as error:
        raise DataDirectoryError(f"cannot use the data directory {path.parent}: {error.strerror}") from error


def reason_of(error: Exception) -> str:
    """LevelDB's message, which plyvel hands over as bytes."""
    message = error.args[0] if error.args else ""
    return message.decode(errors="replace") if isinstance(message, bytes) else str(message)


class SharedDatabase:
    """An open LevelDB with several owners.  The creator is the first owner."""

    def __init__(self, database: Any, path: Path, *, remedy: str = RESTORE_OR_IMPORT) -> None:
        self._database = database
        self._remedy = remedy
        self._owners = 1
        # Reentrant: a garbage collection inside release() may run another view's finalizer.
        self._lock = threading.RLock()
        self._failure: str | None = None
        self.path = path

    @classmethod
    def open(
        cls, path: Path, *, create: bool, block_cache_bytes: int = BLOCK_CACHE_BYTES, remedy: str = RESTORE_OR_IMPORT
    ) -> Self:
        """``open_leveldb``, shared."""
        database = open_leveldb(path, create=create, block_cache_bytes=block_cache_bytes, remedy=remedy)
        return cls(database, path, remedy=remedy)

    @property
    def owners(self) -> int:
        return self._owners

    @property
    def closed(self) -> bool:
        return self._owners == 0

    def acquire(self) -> SharedDatabase:
        """Become an owner; pair it with :meth:`release`."""
        with self._lock:
            if self._owners == 0:
                raise DatabaseError(f"the database {self.path} is closed")
            self._owners += 1
        return self

    def release(self) -> None:
        """Stop being an owner.  The last one closes the database."""
        with self._lock:
            self._owners -= 1
            last = self._owners == 0
        if last:
            self._database.close()

    def snapshot(self) -> Any:
        return self._database.snapshot()

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._database.get(key)
        except plyvel.Error as error:
            raise self.unreadable(error) from error
        return value

    def is_empty(self) -> bool:
        try:
            with self._database.iterator(include_value=False) as keys:
                return next(keys, None) is None
        except plyvel.Error as error:
            raise self.unreadable(error) from error

    def unreadable(self, error: Exception) -> DatabaseError:
        """What to raise when a read failed, or gave what its reader cannot decode."""
        if isinstance(error, plyvel.Error) and not isinstance(error, plyvel.CorruptionError):
            # The disk, a limit of open files, or a file that is too short.
            return DatabaseError(
                f"cannot read the database {self.path}: {reason_of(error)}; if it is damaged, {self._remedy}"
            )
        return DatabaseError(f"the database {self.path} is damaged ({reason_of(error)}); {self._remedy}")

    def write(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Apply all changes (``None`` deletes) in one synced batch: all of them survive a crash, or none."""
        # After one failed write LevelDB may hold half a record in its log; nothing may follow it.
        if self._failure is not None:
            raise DatabaseError(self._failure)
        try:
            batch = self._database.write_batch(sync=True)
            for key, value in changes:
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
            batch.write()
        except (plyvel.Error, OSError) as error:
            self._failure = f"cannot write the database {self.path}: {reason_of(error)}"
            raise DatabaseError(self._failure) from error

    def compact(self) -> None:
        """Merge everything into sorted tables."""
        # Without bounds plyvel merges nothing.
        self._database.compact_range(start=b"\0", stop=b"\xff" * KEY_BYTES_MAX)


class Transaction:
    """Changes gathered for one batch.  Reads see them, so that several writers can build on each other."""

    def __init__(self, database: SharedDatabase) -> None:
        self._database = database
        self._changes: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        if key in self._changes:
            return self._changes[key]
        return self._database.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        self._changes[key] = value

    def delete(self, key: bytes) -> None:
        self._changes[key] = None

    def commit(self) -> None:
        """Write everything in one synced batch; DatabaseError when the disk refuses."""
        self._database.write(self._changes.items())
        self._changes = {}
