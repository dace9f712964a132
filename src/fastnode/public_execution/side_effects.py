"""Side effects of one transaction so far, and their limits.

Lists in the order of their making.  A checkpoint is their lengths: taking one and going back to it cost nothing
that was not done since.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fastnode.errors import TxExecutionError
from fastnode.protocol.constants import (
    L2_TO_L1_MESSAGES_PER_TX_MAX,
    NOTE_HASHES_PER_TX_MAX,
    NULLIFIERS_PER_TX_MAX,
    PUBLIC_LOG_HEADER_FIELDS,
    PUBLIC_LOGS_FLAT_FIELDS_MAX,
)
from fastnode.protocol.effects import PublicDataWrite, PublicLog
from fastnode.public_execution.transaction import MessageToL1

__all__ = ["STORAGE_SLOTS_MAX", "Mark", "SideEffects"]

#: Different slots of storage that contracts may write, and that an effect may have; one place is the fee's.
STORAGE_SLOTS_MAX: Final = 63


class Mark(NamedTuple):
    """Lengths at a checkpoint."""

    note_hashes: int
    nullifiers: int
    messages: int
    public_logs: int
    log_fields: int
    writes: int
    written_slots: int


class SideEffects:
    """The lists may be read directly and grow through the methods only."""

    __slots__ = (
        "_log_fields",
        "_writes",
        "_written_slots",
        "messages",
        "note_hashes",
        "nullifiers",
        "public_logs",
    )

    def __init__(self) -> None:
        self.note_hashes: list[bytes] = []
        self.nullifiers: list[bytes] = []
        self.messages: list[MessageToL1] = []
        self.public_logs: list[PublicLog] = []
        self._log_fields = 0
        #: (leaf slot, value) of each write.
        self._writes: list[tuple[bytes, bytes]] = []
        #: Leaf slots that contracts have written, in order of their first write.
        self._written_slots: dict[bytes, None] = {}

    # ---- checkpoints ---------------------------------------------------------------------------

    def mark(self) -> Mark:
        return Mark(
            len(self.note_hashes),
            len(self.nullifiers),
            len(self.messages),
            len(self.public_logs),
            self._log_fields,
            len(self._writes),
            len(self._written_slots),
        )

    def rollback(self, mark: Mark) -> None:
        """Forget everything since ``mark``."""
        del self.note_hashes[mark.note_hashes :]
        del self.nullifiers[mark.nullifiers :]
        del self.messages[mark.messages :]
        del self.public_logs[mark.public_logs :]
        del self._writes[mark.writes :]
        self._log_fields = mark.log_fields
        while len(self._written_slots) > mark.written_slots:
            self._written_slots.popitem()

    # ---- limits ----------------------------------------------------------------------------------

    @property
    def has_room_for_note_hash(self) -> bool:
        return len(self.note_hashes) < NOTE_HASHES_PER_TX_MAX

    @property
    def has_room_for_nullifier(self) -> bool:
        return len(self.nullifiers) < NULLIFIERS_PER_TX_MAX

    @property
    def has_room_for_message(self) -> bool:
        return len(self.messages) < L2_TO_L1_MESSAGES_PER_TX_MAX

    def has_room_for_public_log(self, size: int) -> bool:
        """``size`` in fields, without the header that each log takes."""
        return self._log_fields + size + PUBLIC_LOG_HEADER_FIELDS <= PUBLIC_LOGS_FLAT_FIELDS_MAX

    def may_write(self, leaf_slot: bytes) -> bool:
        return leaf_slot in self._written_slots or len(self._written_slots) < STORAGE_SLOTS_MAX

    # ---- growth ----------------------------------------------------------------------------------

    def is_written(self, leaf_slot: bytes) -> bool:
        """True if a contract has written this slot."""
        return leaf_slot in self._written_slots

    def add_write(self, leaf_slot: bytes, value: bytes) -> None:
        """A write of a contract."""
        self._written_slots[leaf_slot] = None
        self._writes.append((leaf_slot, value))

    def add_fee_write(self, leaf_slot: bytes, value: bytes) -> None:
        """The write that pays the fee; it takes none of the contracts' slots."""
        self._writes.append((leaf_slot, value))

    def add_public_log(self, log: PublicLog) -> None:
        self._log_fields += len(log.fields) + PUBLIC_LOG_HEADER_FIELDS
        self.public_logs.append(log)

    # ---- result ----------------------------------------------------------------------------------

    def public_data_writes(self) -> tuple[PublicDataWrite, ...]:
        """One write per slot: in the place of its first one, with the value of its last one."""
        return tuple([PublicDataWrite(slot, value) for slot, value in dict(self._writes).items()])

    def check_final_counts(self, slots_max: int) -> None:
        """TxExecutionError for more slots than a transaction may write, which the fee's slot can bring about."""
        slots = len(dict(self._writes))
        if slots > slots_max:
            raise TxExecutionError(
                f"Too many side effects. Note hashes: {len(self.note_hashes)}, Nullifiers: {len(self.nullifiers)}, "
                f"L2 to L1 messages: {len(self.messages)}, Storage writes: {slots}"
            )
