"""One open LevelDB: sharing it between the writer and its readers, and write transactions.

LevelDB must stay open as long as any snapshot of it is in use; closing it under a reader that is
inside a read crashes the process.  :class:`SharedDatabase` therefore counts its owners: the store
is one, every live view is one, and the last to leave closes the files and frees the lock.

A damaged block is never read as if it were whole:

    what                        is held against its checksum
    data block                  each time it is read: tables are mapped, so no read says whether it comes from the disk
    a table's index and filter  when the table is opened, which is before its first read
    manifest, log               when the database is opened; a compaction checks what it reads too
    which files there are       when the database is opened (database_files.py, seal.py, log_length.py)

A log that has lost acknowledged writes is cut to the writes before them (log_recovery.py).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import plyvel

from fastnode.errors import DatabaseError, DatabaseFull, DatabaseUnreadable, DatabaseUnwritable, DataDirectoryError
from fastnode.interpreter import free_in_turns, step_aside
from fastnode.kernels import checked_reads, stored_text
from fastnode.log import log_facts
from fastnode.records import dataclass
from fastnode.storage.damage import Damage
from fastnode.storage.database_files import fault_of_files, is_database
from fastnode.storage.log_length import WrittenLog
from fastnode.storage.log_recovery import LostWrites, recover_logs
from fastnode.storage.seal import break_seal, check_seal, write_seal
from fastnode.storage.torn_write import cut_torn_change, finish_creation

__all__ = [
    "CHAIN_MEMORY",
    "LOG_LEFT_BYTES_MAX",
    "SMALL_MEMORY",
    "DatabaseMemory",
    "SharedDatabase",
    "WriteBatch",
    "databases_without_seal",
    "end_databases",
    "has_room",
    "lacking_bytes",
    "log_bytes",
    "open_leveldb",
]

logger = logging.getLogger(__name__)

# A write buffer of this size halves what merging writes, compared with a quarter of it, and the log that the
# next start replays after a crash still takes less than a second.
WRITE_BUFFER_BYTES: Final = 32 << 20
# A longer log is written into a table before the database is closed, so that the next start need not replay it: a
# millisecond for each 100 kB.
LOG_LEFT_BYTES_MAX: Final = 256 << 10
# The filter spares a disk read for hashes that the chain does not have, which is what most lookups by hash are.
BLOOM_FILTER_BITS_PER_KEY: Final = 10
BLOCK_CACHE_BYTES: Final = 32 << 20
# LevelDB keeps a thousand tables open.  At its default of 2 MB a table, a database above 2 GB opens and
# closes them all the time, and a random read takes twice as long.
TABLE_BYTES: Final = 32 << 20
# Verifying a block takes as long as it is: at a quarter of LevelDB's default a verified read costs what an unverified
# one did, for 3 % more disk.
BLOCK_BYTES: Final = 1 << 10
# LevelDB cannot go on after a write that the disk refused, not even when there is room again.  So nothing is begun
# without room for it, for the tables of a full write buffer, and for a usual compaction.
ROOM_BYTES: Final = 512 << 20
#: Wait before a batch is repeated: a tenth of a millisecond, when event loops wait.
_PART: Final = 48
#: No key is longer.
KEY_BYTES_MAX: Final = 128
RESTART: Final = "start the node again when the disk can be written"
#: Advice for an operator with a damaged database, unless its owner says otherwise.
RESTORE_OR_IMPORT: Final = "restore it, or remove it and import again"


@dataclass(frozen=True, slots=True)
class DatabaseMemory:
    """Memory that LevelDB may use: the cache of blocks that were read, and each of two write buffers."""

    block_cache_bytes: int = BLOCK_CACHE_BYTES
    write_buffer_bytes: int = WRITE_BUFFER_BYTES


#: For the databases of a chain.  Far behind, each byte is merged half as often as with the usual write buffer.  At the
#: tip :meth:`SharedDatabase.shorten_log` keeps to the usual one.
CHAIN_MEMORY: Final = DatabaseMemory(write_buffer_bytes=4 * WRITE_BUFFER_BYTES)
#: For a chain that is written one block at a time: nothing waits for tables to be merged.
SMALL_MEMORY: Final = DatabaseMemory(block_cache_bytes=8 << 20, write_buffer_bytes=4 << 20)


def open_leveldb(
    path: Path,
    *,
    create: bool,
    memory: DatabaseMemory | None = None,
    remedy: str = RESTORE_OR_IMPORT,
    height_key: bytes = b"",
) -> Any:
    """Open or create the LevelDB at ``path``; every failure is a DataDirectoryError that says why.

    ``remedy`` is what to do when it is damaged, for the end of that sentence.  ``height_key`` is the entry that begins
    with the number of the newest block, a u32: blocks are named when the log has lost acknowledged writes.
    """
    memory = memory or DatabaseMemory()
    if not create and not is_database(path):
        raise DataDirectoryError(f"{path} holds no fastnode database")
    try:
        path.mkdir(parents=True, exist_ok=True)
        finish_creation(path)
        cut_torn_change(path)
        seal = check_seal(path)
        fault = fault_of_files(path) or seal.fault
        if fault is not None:
            raise DataDirectoryError(f"the database {path} is damaged: {fault}; {remedy}")
        lost = None if seal.has_same_logs else recover_logs(path)
        break_seal(path)
        database = plyvel.DB(
            str(path),
            create_if_missing=create,
            write_buffer_size=memory.write_buffer_bytes,
            max_file_size=TABLE_BYTES,
            block_size=BLOCK_BYTES,
            # Says what is damaged in a log, an index or a filter; without, what follows it is silently left out.
            paranoid_checks=True,
            # Nearly everything stored is hashes: compressing saves a twentieth of the disk for a fifth of the time.
            compression=None,
            bloom_filter_bits=BLOOM_FILTER_BITS_PER_KEY,
            lru_cache_size=memory.block_cache_bytes,
        )
    except plyvel.CorruptionError as error:
        raise DataDirectoryError(f"the database {path} is damaged ({reason_of(error)}); {remedy}") from error
    except plyvel.Error as error:
        reason = reason_of(error)
        if f"lock {path}/LOCK" in reason:
            raise DataDirectoryError(
                f"the data directory {path.parent} is in use by another fastnode process"
            ) from error
        advice = "; let the node have more (ulimit -n)" if os.strerror(errno.EMFILE) in reason else ""
        raise DataDirectoryError(f"cannot open the database {path}: {reason}{advice}") from error
    except OSError as error:
        raise DataDirectoryError(f"cannot use the data directory {path.parent}: {error.strerror}") from error
    if lost is not None:
        _report_lost(path, database, height_key, lost)
    return database


def free_bytes(path: Path) -> int:
    """Room that this process may use on the disk of ``path``."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def has_room(path: Path) -> bool:
    """True if the disk of ``path`` takes more than small files."""
    found = os.statvfs(path)
    has_names = found.f_favail > 0 or found.f_files == 0  # some file systems do not count them
    return has_names and lacking_bytes(path, 0) == 0


def lacking_bytes(path: Path, count: int) -> int:
    """Bytes that are missing on the disk of ``path`` before ``count`` bytes are written there beside a
    database that grows; 0: nothing."""
    return max(0, ROOM_BYTES + count - free_bytes(path))


def log_bytes(path: Path) -> int:
    """Length of the logs of the LevelDB at ``path``; 0 when they cannot be looked at."""
    try:
        return sum(log.stat().st_size for log in path.glob("*.log"))
    except OSError:
        return 0


def reason_of(error: Exception) -> str:
    """LevelDB's message, which plyvel hands over as bytes."""
    message = error.args[0] if error.args else ""
    return message.decode(errors="replace") if isinstance(message, bytes) else str(message)


class SharedDatabase:
    """An open LevelDB with several owners.  The creator is the first owner."""

    def __init__(
        self,
        database: Any,
        path: Path,
        *,
        memory: DatabaseMemory | None = None,
        remedy: str = RESTORE_OR_IMPORT,
        texts: bytes = b"",
        height_key: bytes = b"",
    ) -> None:
        self._database = database
        self._height_key = height_key
        self._memory = memory
        self._remedy = remedy
        #: By the first byte of a key: 1 if its value is a text, which may be packed.
        self._is_text = bytes(byte in texts for byte in range(256))
        self._owners = 1
        # Reentrant: a garbage collection inside release() may run another view's finalizer.
        self._lock = threading.RLock()
        self._failure: str | None = None
        #: Advice after a write that failed.
        self.after_failure = RESTART
        self._shortage: str | None = None
        self._damage = Damage(path, remedy)
        self._on_write: Callable[[list[tuple[bytes, bytes | None]]], None] | None = None
        #: Held while a batch is written and told of; taken only once somebody is told.
        self._writing = threading.RLock()
        self._written = WrittenLog(path, _height_of(database, height_key))
        self.path = path
        _OPEN[id(self)] = self
        _NOT_SEALED[path] = "it is still open"

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        create: bool,
        memory: DatabaseMemory | None = None,
        remedy: str = RESTORE_OR_IMPORT,
        texts: bytes = b"",
        height_key: bytes = b"",
    ) -> Self:
        """``open_leveldb``, shared.  ``texts``: first bytes of keys whose values are texts, which batches pack
        (``stored_text``) and reads unpack."""
        database = open_leveldb(path, create=create, memory=memory, remedy=remedy, height_key=height_key)
        return cls(database, path, memory=memory, remedy=remedy, texts=texts, height_key=height_key)

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
            if self._owners == 0:  # it was ended under this one
                return
            self._owners -= 1
            last = self._owners == 0
        if last:
            self._close()

    def end(self) -> None:
        """Close it whoever holds it still: each read of theirs is an error from then on.

        Only once no thread can be inside a read any more: LevelDB would crash the process.
        """
        with self._lock:
            is_open, self._owners = self._owners > 0, 0
        if is_open:
            self._close()

    def _close(self) -> None:
        if self.fault is None and log_bytes(self.path) > LOG_LEFT_BYTES_MAX:
            with contextlib.suppress(plyvel.Error):  # no room, say: it is all in the log
                self._flush()
        self._database.close()
        self._written.close()
        if self.fault is not None:
            _NOT_SEALED[self.path] = self.fault
            return
        try:
            write_seal(self.path)
        except OSError as error:  # the next start sees less
            _NOT_SEALED[self.path] = error.strerror or str(error)
        else:
            _NOT_SEALED.pop(self.path, None)

    @property
    def fault(self) -> str | None:
        """The fault and what to do about it, in one line; None as long as nothing was found."""
        if self._shortage is not None and self._missing_bytes(0) <= 0:
            self._shortage = None
        return self._damage.fault or self._failure or self._shortage

    def snapshot(self) -> checked_reads.CheckedSnapshot:
        """The database as it is now.  Every read of it verifies checksums; what fails is :attr:`fault` from then on."""
        return checked_reads.CheckedSnapshot(self._database.snapshot(), self.error_of, self._is_text)

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._database.get(key, verify_checksums=True)
        except plyvel.Error as error:
            raise self.unreadable(error) from error
        except RuntimeError as error:  # it was closed by a reopen() that failed
            raise DatabaseUnreadable(self._failure or str(error)) from error
        return None if value is None else self.unpacked(key, value)

    def packed(self, key: bytes, value: bytes) -> bytes:
        """The value of a key as it is stored."""
        return stored_text.pack(value) if key and self._is_text[key[0]] else value

    def unpacked(self, key: bytes, stored: bytes) -> bytes:
        """The inverse of :meth:`packed`, also for what was stored as it is.  DatabaseUnreadable."""
        if not (key and self._is_text[key[0]]):
            return stored
        try:
            return stored_text.unpack(stored)
        except ValueError as error:
            raise self.unreadable(error) from error

    def is_empty(self) -> bool:
        try:
            with self._database.iterator(include_value=False, verify_checksums=True) as keys:
                return next(keys, None) is None
        except plyvel.Error as error:
            raise self.unreadable(error) from error

    def error_of(self, error: Exception) -> Exception:
        """The error to raise instead of an exception of a read; a ValueError is of a text that is none."""
        return self.unreadable(error) if isinstance(error, plyvel.Error | ValueError) else error

    def unreadable(self, error: Exception) -> DatabaseUnreadable:
        """The error to raise when a read failed, or gave what its reader cannot decode."""
        reason = reason_of(error)
        if isinstance(error, plyvel.Error) and not isinstance(error, plyvel.CorruptionError):
            # The disk, a limit of open files, or a file that is too short.
            self._damage.note(f"cannot be read ({reason})")
            return DatabaseUnreadable(
                f"cannot read the database {self.path}: {reason}; if it is damaged, {self._remedy}"
            )
        self._damage.note(f"is damaged ({reason})")
        return DatabaseUnreadable(f"the database {self.path} is damaged ({reason}); {self._remedy}")

    def write(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Apply all changes (``None`` deletes) in one synced batch: all of them survive a crash, or none."""
        changes = list(changes)
        # After one failed write LevelDB may hold half a record in its log; nothing may follow it.
        self._require_room(changes)
        if self._on_write is None:
            self._write(changes, sync=True)
            free_in_turns(changes)
            return
        with self._writing:
            self._write(changes, sync=True)
            self._on_write(changes)

    def fill(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Put entries into a database that nobody reads yet.  They last once :meth:`write` has come after them."""
        self.require_room(sum(map(len, keys)) + sum(map(len, values)))
        self._write(zip(keys, values, strict=True), sync=False)

    def repeat(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Apply a batch that the database which this one is a copy of has on disk: a snapshot that is made meanwhile
        may have a part of it, and nothing of it need survive, because the copy does not outlive its process.
        """
        changes = list(changes)
        for first in range(0, len(changes), _PART):
            if first:
                step_aside()
            self._write(changes[first : first + _PART], sync=False)

    def watch_writes(self, on_write: Callable[[list[tuple[bytes, bytes | None]]], None]) -> None:
        """From now on tell of each batch, once it is on disk, in the order of the batches and in the writing thread."""
        self._on_write = on_write

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is written within; for a database whose writes are watched."""
        with self._writing:
            yield

    def _write(self, changes: Iterable[tuple[bytes, bytes | None]], *, sync: bool) -> None:
        try:
            batch = self._database.write_batch(sync=sync)
            put, delete = batch.put, batch.delete
            height_key, height = self._height_key, None
            for key, value in changes:
                if value is None:
                    delete(key)
                else:
                    put(key, value)
                    if key == height_key:
                        height = _height_in(value)
            if sync:
                with self._written.writing(height):
                    batch.write()
            else:
                batch.write()
        except plyvel.CorruptionError as error:
            # A compaction has met a damaged block; LevelDB refuses every write from then on.
            reason = reason_of(error)
            self._damage.note(f"is damaged ({reason})")
            self._failure = f"cannot write the database {self.path}, which is damaged ({reason}); {self._remedy}"
            raise DatabaseUnwritable(self._failure) from error
        except (plyvel.Error, OSError) as error:
            self._failure = f"cannot write the database {self.path}: {reason_of(error)}; {self.after_failure}"
            raise DatabaseUnwritable(self._failure) from error

    def reopen(self) -> None:
        """Reopen it after a failed write: LevelDB writes nothing more before that.  DatabaseError if that fails too.

        Only for a single owner, and while nothing is read.
        """
        if self._failure is None:
            return
        assert self._owners == 1, "others may be reading"
        self._database.close()
        self._database = open_leveldb(
            self.path, create=False, memory=self._memory, remedy=self._remedy, height_key=self._height_key
        )
        self._written.close()
        self._written = WrittenLog(self.path, _height_of(self._database, self._height_key))
        self._failure = None

    def require_room(self, count: int = 0) -> None:
        """DatabaseFull unless ``count`` bytes can be written, and what LevelDB does of its own accord after that.

        DatabaseUnwritable after a write that failed.
        """
        if self._failure is not None:
            raise DatabaseUnwritable(self._failure)
        missing = self._missing_bytes(count)
        if missing <= 0:
            self._shortage = None
            return
        self._shortage = (
            f"the disk of {self.path} is full: {-(-missing >> 20)} MiB more must be free before anything is written; "
            f"make room, and the node goes on by itself"
        )
        raise DatabaseFull(self._shortage)

    def _require_room(self, changes: list[tuple[bytes, bytes | None]]) -> None:
        self.require_room(sum(len(key) + len(value or b"") for key, value in changes))

    def _missing_bytes(self, count: int) -> int:
        return ROOM_BYTES + 2 * count - free_bytes(self.path)

    def _flush(self) -> None:
        """Write what only the log has into a table.  A range without keys: nothing else is merged."""
        nowhere = b"\xff" * (KEY_BYTES_MAX + 1)
        self._database.compact_range(start=nowhere, stop=nowhere)

    def shorten_log(self) -> bool:
        """Write what only the log has into a table if the log is as long as a usual write buffer; False if it is not.

        It takes a second for each 100 MB; reads and writes go on beside it.
        """
        if self.fault is not None or log_bytes(self.path) <= WRITE_BUFFER_BYTES:
            return False
        self._flush()
        return True

    def merge(self, first: bytes, last: bytes) -> None:
        """Merge the tables with keys of a range, as far down as they overlap; what was removed is gone then.

        As long as that takes no table is merged of LevelDB's own accord.
        """
        self._database.compact_range(start=first, stop=last)

    def compact(self) -> None:
        """Merge everything into sorted tables."""
        # Without bounds plyvel merges nothing.
        self._database.compact_range(start=b"\0", stop=b"\xff" * KEY_BYTES_MAX)


def _report_lost(path: Path, database: Any, height_key: bytes, lost: LostWrites) -> None:
    facts: dict[str, Any] = {"database": path, "file": lost.log, "bytes": lost.byte_count}
    if height_key:
        height = _height_of(database, height_key)
        facts |= {"block": height, "blocks_lost": max(0, lost.height - height) if lost.height else None}
    logger.warning("database recovered: its log lost acknowledged writes", extra=log_facts(**facts))


def _height_of(database: Any, height_key: bytes) -> int:
    """Number of the newest block in a LevelDB; 0 if it has none, or no entry for it."""
    try:
        value = database.get(height_key) if height_key else None
    except plyvel.Error:  # the next read raises it
        return 0
    return _height_in(value) or 0


def _height_in(value: bytes | None) -> int | None:
    return None if value is None else int.from_bytes(value[:4], "big")


#: Databases in the order in which they were opened, by the addresses of the objects.
_OPEN: Final[weakref.WeakValueDictionary[int, SharedDatabase]] = weakref.WeakValueDictionary()
#: Folders of databases that this process has opened and not sealed again, and why.
_NOT_SEALED: Final[dict[Path, str]] = {}


def end_databases(directory: Path) -> None:
    """End each database below ``directory`` that this process has opened: see :meth:`SharedDatabase.end`."""
    for database in list(_OPEN.values()):
        if database.path.parent == directory:
            database.end()


def databases_without_seal() -> dict[Path, str]:
    """Databases that this process has used and left without a seal, and why; not those that are gone."""
    return {path: reason for path, reason in _NOT_SEALED.items() if path.is_dir()}


class WriteBatch:
    """Changes gathered for one batch.  Reads see them, so that several writers can build on each other."""

    def __init__(self, database: SharedDatabase) -> None:
        self._database = database
        self._changes: dict[bytes, bytes | None] = {}
        #: Bytes that were put since the last commit, also those that others have replaced.
        self.byte_count = 0

    @property
    def changes(self) -> Mapping[bytes, bytes | None]:
        """Changes gathered since the last commit, as they are stored: the mapping goes on growing, and stays as it is
        at a commit."""
        return self._changes

    def get(self, key: bytes) -> bytes | None:
        if key not in self._changes:
            return self._database.get(key)
        stored = self._changes[key]
        return None if stored is None else self._database.unpacked(key, stored)

    def put(self, key: bytes, value: bytes) -> None:
        self._changes[key] = stored = self._database.packed(key, value)
        self.byte_count += len(key) + len(stored)

    def delete(self, key: bytes) -> None:
        self._changes[key] = None

    def commit(self) -> None:
        """Write everything in one synced batch; DatabaseError when the disk refuses."""
        self._database.write(self._changes.items())
        self._changes = {}
        self.byte_count = 0
