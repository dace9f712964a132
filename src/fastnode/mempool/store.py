"""The pool on disk: the LevelDB ``p2p/``.

Keys and values::

    00 ...           the layout's version and whose transactions these are (storage/side_database.py)
    01 | tx hash 32  record of the transaction (entries.py)
    02 | tx hash 32  the transaction as JSON, as it is sent; absent for deleted ones
    03 | number 8    hash 32 | bytes of JSON 4: a final transaction that is kept (final_txs.py); its record is gone, its
                     JSON stays.  Numbers rise by one
    04 | tx hash 32  number 8 | text: why it left without a block (departures.py); an older fastnode overlooks it

Writes are staged in the order in which they happened and made durable in that order, several callers'
at once: the first to commit takes along what the others have staged meanwhile, so a burst of
transactions costs one disk flush, not one each.
"""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple, Self, TypeAlias

from fastnode.errors import DatabaseError, DatabaseUnwritable, DataDirectoryError
from fastnode.log import log_facts
from fastnode.loop import CLOCK, Clock, Loop
from fastnode.mempool.entries import PoolEntry
from fastnode.storage.database import DatabaseMemory, SharedDatabase
from fastnode.storage.migration import Batch
from fastnode.storage.side_database import open_side_database

__all__ = [
    "MIGRATIONS",
    "POOL_DIRECTORY",
    "REASON_LENGTH_MAX",
    "DepartedRow",
    "KeptRow",
    "PoolStore",
    "departed_key",
    "entry_key",
    "hash_of_departed_key",
    "hash_of_entry_key",
    "is_json_key",
    "json_key",
    "kept_key",
]

logger = logging.getLogger("fastnode.mempool")

POOL_DIRECTORY: Final = "p2p"
#: Pause between attempts to reopen the database after a failed write.
RECOVERY_INTERVAL_S: Final = 2.0
#: Characters of a reason that are kept.
REASON_LENGTH_MAX: Final = 500

_ENTRY: Final = b"\x01"
_JSON: Final = b"\x02"
_KEPT: Final = b"\x03"
_DEPARTED: Final = b"\x04"
_KEPT_NUMBER: Final = struct.Struct(">Q")
_DEPARTED_NUMBER: Final = struct.Struct(">Q")
_KEPT_VALUE: Final = struct.Struct(">32sI")

#: One key's new value; None deletes.
Change: TypeAlias = tuple[bytes, bytes | None]


def entry_key(tx_hash: bytes) -> bytes:
    return _ENTRY + tx_hash


def hash_of_entry_key(key: bytes) -> bytes | None:
    """The transaction whose record is at ``key``; None if something else is."""
    return key[len(_ENTRY) :] if key[: len(_ENTRY)] == _ENTRY else None


def json_key(tx_hash: bytes) -> bytes:
    return _JSON + tx_hash


def is_json_key(key: bytes) -> bool:
    """True if the content of a transaction is at ``key``."""
    return key[: len(_JSON)] == _JSON


def kept_key(number: int) -> bytes:
    return _KEPT + _KEPT_NUMBER.pack(number)


def departed_key(tx_hash: bytes) -> bytes:
    return _DEPARTED + tx_hash


def hash_of_departed_key(key: bytes) -> bytes | None:
    """The transaction whose reason is at ``key``; None if something else is."""
    return key[len(_DEPARTED) :] if key[: len(_DEPARTED)] == _DEPARTED else None


class DepartedRow(NamedTuple):
    """A transaction that left without a block: its number in the order in which they left, and the reason."""

    number: int
    tx_hash: bytes
    reason: str

    def cut(self) -> DepartedRow:
        """The same with no more of the reason than is kept: another node may have given it."""
        return self._replace(reason=self.reason[:REASON_LENGTH_MAX])

    def encode(self) -> bytes:
        return _DEPARTED_NUMBER.pack(self.number) + self.reason.encode("utf-8", "replace")

    @classmethod
    def decode(cls, tx_hash: bytes, value: bytes) -> DepartedRow:
        (number,) = _DEPARTED_NUMBER.unpack_from(value)
        return cls(number, tx_hash, value[_DEPARTED_NUMBER.size :].decode("utf-8", "replace"))


class KeptRow(NamedTuple):
    """A transaction that is kept: its number in the order in which they came, and the bytes of its JSON."""

    number: int
    tx_hash: bytes
    size: int

    def encode(self) -> bytes:
        return _KEPT_VALUE.pack(self.tx_hash, self.size)


def _to_version_2(_database: SharedDatabase) -> Iterator[Batch]:
    """Records got the flags "forwarded" and "proof checked" (entries.py).

    Version 1 has neither, which reads as "neither forwarded nor checked": such a transaction is handed on once
    more, and the other node knows it.  A fastnode that knows version 1 only would lose the flags.
    """
    return iter(())


def _to_version_3(_database: SharedDatabase) -> Iterator[Batch]:
    """Final transactions may be kept.  A fastnode that knows version 2 only would never delete their contents."""
    return iter(())


MIGRATIONS: Final = (_to_version_2, _to_version_3)


class PoolStore:
    """Usable from any thread.  A ticket is the number of changes staged so far.

    written ──── the disk refuses a write ────► refused: opened anew every few seconds
       ▲                                           │
       └──── all that is staged is written ────────┘
    """

    def __init__(self, database: SharedDatabase, clock: Clock = CLOCK) -> None:
        self._database = database
        self._stage_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._staged: list[Change] = []
        self._overlay: dict[bytes, bytes | None] = {}
        self._staged_count = 0
        self._written_count = 0
        #: Held while the database is read, and while it is opened anew.
        self._reading = threading.RLock()
        #: When the refused database is opened anew, None while it is written.
        self._reopened_at: float | None = None
        #: Writes that were refused since the start.
        self._refusals = 0
        self._recovery = Loop("fastnode-pool-recovery", self._recover, what="the pool is not opened anew", clock=clock)
        self._recovers = False
        database.after_failure = "it is opened anew every few seconds, and the node goes on by itself"

    @classmethod
    def open(cls, path: Path, genesis_hash: bytes, memory: DatabaseMemory | None = None) -> Self:
        """Open or create.  DataDirectoryError when it belongs to another chain or a newer fastnode."""
        database = open_side_database(
            path, genesis_hash, migrations=MIGRATIONS, content="unmined transactions", memory=memory
        )
        return cls(database)

    def close(self) -> None:
        """Write what is staged and close; more than once is allowed."""
        if self._database.closed:
            return
        self._recovery.close()
        try:
            self.commit(self._staged_count)
        except DatabaseError as error:  # what was promised is on disk
            logger.error("the newest changes of the pool are lost", extra=log_facts(reason=str(error)))
        finally:
            self._database.release()

    @property
    def database(self) -> SharedDatabase:
        """For those who watch its writes, or repeat those of another one."""
        return self._database

    @property
    def fault(self) -> str | None:
        """The fault of the database, None for nothing."""
        return self._database.fault or self._recovery.trouble

    # ---- reading ---------------------------------------------------------------------------

    def entries(self) -> Iterator[PoolEntry]:
        """All records, by hash."""
        with (
            self._reading,
            closing(self._database.snapshot()) as snapshot,
            snapshot.iterator(prefix=_ENTRY) as pairs,
        ):
            for key, record in pairs:
                yield PoolEntry.decode(key[len(_ENTRY) :], record)

    def stored_hashes(self) -> Iterator[bytes]:
        """Hashes of the transactions whose content is on disk."""
        with (
            self._reading,
            closing(self._database.snapshot()) as snapshot,
            snapshot.iterator(prefix=_JSON, include_value=False) as keys,
        ):
            for key in keys:
                yield key[len(_JSON) :]

    def kept_rows(self) -> Iterator[KeptRow]:
        """Transactions that are kept, the oldest first."""
        with (
            self._reading,
            closing(self._database.snapshot()) as snapshot,
            snapshot.iterator(prefix=_KEPT) as pairs,
        ):
            for key, value in pairs:
                (number,) = _KEPT_NUMBER.unpack_from(key, len(_KEPT))
                yield KeptRow(number, *_KEPT_VALUE.unpack(value))

    def departed_rows(self) -> Iterator[DepartedRow]:
        """Transactions that left without a block, with the reasons, in no order."""
        with (
            self._reading,
            closing(self._database.snapshot()) as snapshot,
            snapshot.iterator(prefix=_DEPARTED) as pairs,
        ):
            for key, value in pairs:
                yield DepartedRow.decode(key[len(_DEPARTED) :], value)

    def tx_json(self, tx_hash: bytes) -> bytes | None:
        """The JSON of a transaction, also of one that is only staged yet."""
        key = json_key(tx_hash)
        missing = b""
        staged = self._overlay.get(key, missing)
        if staged is not missing:
            return staged
        with self._reading:
            return self._database.get(key)

    def require_room(self, count: int) -> None:
        """DatabaseFull unless ``count`` bytes can be written now."""
        self._database.require_room(count)

    # ---- writing ---------------------------------------------------------------------------

    def stage(self, changes: Iterable[Change]) -> int:
        """Queue changes; the ticket to commit them with.  No reader sees a part of them on disk."""
        with self._stage_lock:
            before = len(self._staged)
            self._staged.extend(changes)
            self._overlay.update(self._staged[before:])
            self._staged_count += len(self._staged) - before
            return self._staged_count

    def commit(self, ticket: int) -> None:
        """Return once everything up to ``ticket`` is on disk; DatabaseError if the disk refuses."""
        if self._written_count >= ticket:
            return
        with self._write_lock:
            if self._written_count >= ticket:
                return
            with self._stage_lock:
                changes, self._staged = self._staged, []
                target = self._staged_count
            try:
                self._database.write(changes)
            except BaseException as error:
                with self._stage_lock:  # for when there is room again, whatever it was
                    self._staged = changes + self._staged
                if isinstance(error, DatabaseUnwritable):
                    self._recover_later()
                raise
            with self._stage_lock:
                self._written_count = target
                self._forget(changes)

    def _recover_later(self) -> None:
        """Open the database anew as soon as that can be done.  Holding the lock of writes."""
        self._refusals += 1
        if self._recovery.is_stopping or self._reopened_at is not None:
            return
        logger.error("the pool cannot be written", extra=log_facts(reason=str(self.fault)))
        self._reopened_at = self._recovery.clock.monotonic() + RECOVERY_INTERVAL_S
        if self._recovers:
            self._recovery.wake()
        else:
            self._recovers = True
            self._recovery.start()

    def _recover(self) -> float | None:
        if self._reopened_at is None:
            return None
        pause = self._reopened_at - self._recovery.clock.monotonic()
        if pause > 0:
            return pause
        try:
            with self._write_lock, self._reading:
                refusals = self._refusals
                self._database.reopen()
            self.commit(self._staged_count)
        except (DatabaseError, DataDirectoryError) as error:
            logger.debug("the pool still cannot be written: %s", error)
            self._reopened_at = self._recovery.clock.monotonic() + RECOVERY_INTERVAL_S
            return RECOVERY_INTERVAL_S
        with self._write_lock:
            is_refused_again = self._refusals != refusals  # to somebody else, just now
            self._reopened_at = self._recovery.clock.monotonic() + RECOVERY_INTERVAL_S if is_refused_again else None
        if is_refused_again:
            return RECOVERY_INTERVAL_S
        logger.warning("the pool is written again")
        return None

    def _forget(self, changes: list[Change]) -> None:
        """Drop what is on disk from the overlay, but for keys that were staged again meanwhile."""
        again = {key for key, _ in self._staged}
        for key, _ in changes:
            if key not in again:
                self._overlay.pop(key, None)
