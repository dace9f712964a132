"""Offenses that were found, and the checkpoints they were looked for in: the LevelDB ``offenses/``.

    00 "schema", 00 "chain"                          the layout's version and whose validators these are
                                                     (storage/side_database.py)
    00 "judged"                                      u64 epochs below this one were judged for inactivity
    01 | kind u8 | epoch or slot u64 | validator 20  penalty 32
    02 | slot u64 | header hash 32                   flags u8 (bit 0: sound) | signers, 20 bytes each

All numbers are big-endian.  A checkpoint stays here when a reorg takes it out of the chain: of who signed another one
for the same slot, nothing else would tell.  It is little, so everything is in memory too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Self, TypeAlias

from fastnode.records import dataclass
from fastnode.sentinel.offenses import Offense, OffenseType
from fastnode.storage.database import DatabaseMemory, SharedDatabase
from fastnode.storage.migration import Migration
from fastnode.storage.side_database import open_side_database

__all__ = ["MIGRATIONS", "OFFENSES_DIRECTORY", "OffenseStore", "SeenCheckpoint"]

#: In the data directory.
OFFENSES_DIRECTORY: Final = "offenses"

#: Migrations of the layout, from each version to the next: there has been one so far.
MIGRATIONS: Final[tuple[Migration, ...]] = ()

_KEY_JUDGED: Final = b"\x00judged"
_OFFENSE: Final = b"\x01"
_SEEN: Final = b"\x02"

_NUMBER_BYTES: Final = 8
_ADDRESS_BYTES: Final = 20
_AMOUNT_BYTES: Final = 32
_SOUND: Final = 1

_MEMORY: Final = DatabaseMemory(block_cache_bytes=1 << 20)

Change: TypeAlias = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class SeenCheckpoint:
    """Signers of a checkpoint; ``is_sound`` if it and the looked at ones before it have the attestations they need."""

    slot: int
    header_hash: bytes
    signers: frozenset[bytes]
    is_sound: bool


class OffenseStore:
    """Written by one thread at a time; readers get copies."""

    def __init__(self, database: SharedDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._offenses: dict[tuple[int, int, bytes], Offense] = {}
        self._seen: dict[int, dict[bytes, SeenCheckpoint]] = {}
        self.judged_epochs = int.from_bytes(database.get(_KEY_JUDGED) or b"", "big")
        self._load()

    @classmethod
    def open(cls, path: Path, genesis_hash: bytes) -> Self:
        """Open or create.  DataDirectoryError when it belongs to another chain or a newer fastnode."""
        database = open_side_database(
            path, genesis_hash, migrations=MIGRATIONS, content="offenses of validators", memory=_MEMORY
        )
        try:
            return cls(database)
        except BaseException:
            database.release()
            raise

    def close(self) -> None:
        """May be called more than once."""
        if not self._database.closed:
            self._database.release()

    @property
    def fault(self) -> str | None:
        """The fault of the database, None for nothing."""
        return self._database.fault

    # ---- reading -------------------------------------------------------------------------------

    def offenses(self) -> list[Offense]:
        with self._lock:
            return list(self._offenses.values())

    def has(self, offense: Offense) -> bool:
        return offense.key in self._offenses

    def seen(self, slot: int) -> Mapping[bytes, SeenCheckpoint]:
        """The checkpoints of a slot, by header hash."""
        return self._seen.get(slot, {})

    # ---- writing -------------------------------------------------------------------------------

    def add(self, offenses: Iterable[Offense], seen: Iterable[SeenCheckpoint], judged_epochs: int) -> None:
        """Keep all of it or, when the disk refuses (DatabaseError), nothing."""
        new, looked_at = list(offenses), list(seen)
        changes: list[Change] = [(_offense_key(item), item.amount.to_bytes(_AMOUNT_BYTES, "big")) for item in new]
        changes += [(_seen_key(item), _encode_seen(item)) for item in looked_at]
        if judged_epochs != self.judged_epochs:
            changes.append((_KEY_JUDGED, judged_epochs.to_bytes(_NUMBER_BYTES, "big")))
        if not changes:
            return
        self._database.write(changes)
        with self._lock:
            self.judged_epochs = judged_epochs
            self._offenses |= {item.key: item for item in new}
            for item in looked_at:
                self._seen.setdefault(item.slot, {})[item.header_hash] = item

    def forget(self, offenses: Iterable[Offense], below_slot: int) -> None:
        """Drop these offenses, and the checkpoints of older slots."""
        gone = list(offenses)
        old = [item for slot, items in self._seen.items() if slot < below_slot for item in items.values()]
        changes: list[Change] = [(_offense_key(item), None) for item in gone]
        changes += [(_seen_key(item), None) for item in old]
        if not changes:
            return
        self._database.write(changes)
        with self._lock:
            for item in gone:
                self._offenses.pop(item.key, None)
            for seen in old:
                self._seen.pop(seen.slot, None)

    def _load(self) -> None:
        snapshot = self._database.snapshot()
        try:
            with snapshot.iterator(prefix=_OFFENSE) as pairs:
                for key, value in pairs:
                    offense = _decode_offense(key, value)
                    self._offenses[offense.key] = offense
            with snapshot.iterator(prefix=_SEEN) as pairs:
                for key, value in pairs:
                    seen = _decode_seen(key, value)
                    self._seen.setdefault(seen.slot, {})[seen.header_hash] = seen
        finally:
            snapshot.close()


# ---- keys and values -----------------------------------------------------------------------------------


def _offense_key(offense: Offense) -> bytes:
    return _OFFENSE + bytes([offense.type]) + offense.at.to_bytes(_NUMBER_BYTES, "big") + offense.validator


def _decode_offense(key: bytes, value: bytes) -> Offense:
    kind, rest = OffenseType(key[1]), key[2:]
    at = int.from_bytes(rest[:_NUMBER_BYTES], "big")
    return Offense(rest[_NUMBER_BYTES:], int.from_bytes(value, "big"), kind, at)


def _seen_key(seen: SeenCheckpoint) -> bytes:
    return _SEEN + seen.slot.to_bytes(_NUMBER_BYTES, "big") + seen.header_hash


def _encode_seen(seen: SeenCheckpoint) -> bytes:
    return bytes([_SOUND if seen.is_sound else 0]) + b"".join(sorted(seen.signers))


def _decode_seen(key: bytes, value: bytes) -> SeenCheckpoint:
    slot, header_hash = int.from_bytes(key[1 : 1 + _NUMBER_BYTES], "big"), key[1 + _NUMBER_BYTES :]
    signers = frozenset(value[at : at + _ADDRESS_BYTES] for at in range(1, len(value), _ADDRESS_BYTES))
    return SeenCheckpoint(slot, header_hash, signers, bool(value[0] & _SOUND))
