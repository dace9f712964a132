"""Duties that a validator signs once, and the right to sign: the part of the locks that needs no database."""

from __future__ import annotations

import enum
from typing import Final

from fastnode.records import dataclass

__all__ = ["Duty", "DutyLock", "DutyType"]

_ADDRESS_BYTES: Final = 20

#: ``block_index_within_checkpoint`` of duties that are not about one block.
_NO_BLOCK_INDEX: Final = -1


class DutyType(enum.StrEnum):
    BLOCK_PROPOSAL = "BLOCK_PROPOSAL"
    CHECKPOINT_PROPOSAL = "CHECKPOINT_PROPOSAL"
    ATTESTATION = "ATTESTATION"
    ATTESTATIONS_AND_SIGNERS = "ATTESTATIONS_AND_SIGNERS"
    GOVERNANCE_VOTE = "GOVERNANCE_VOTE"
    SLASHING_VOTE = "SLASHING_VOTE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """A duty that is to be signed once: by this validator of this rollup, in this slot.

    Addresses have 20 bytes.  ``block_index`` is the block's index within its checkpoint, for block proposals
    alone.  ``block_number`` is kept for people to read; it does not tell duties apart.
    """

    rollup: bytes
    validator: bytes
    slot: int
    type: DutyType
    block_number: int = 0
    block_index: int | None = None

    def __post_init__(self) -> None:
        if len(self.rollup) != _ADDRESS_BYTES or len(self.validator) != _ADDRESS_BYTES:
            raise ValueError(f"an address has {_ADDRESS_BYTES} bytes")
        if self.slot < 0 or self.block_number < 0:
            raise ValueError("slots and block numbers are not negative")
        if (self.type is DutyType.BLOCK_PROPOSAL) != (self.block_index is not None):
            raise ValueError("block proposals, and no other duties, have a block index")
        if self.block_index is not None and self.block_index < 0:
            raise ValueError("a block index is not negative")

    @property
    def key(self) -> tuple[str, str, int, str, int]:
        """The primary key of its row."""
        index = _NO_BLOCK_INDEX if self.block_index is None else self.block_index
        return _hex(self.rollup), _hex(self.validator), self.slot, str(self.type), index

    def __str__(self) -> str:
        block = "" if self.block_index is None else f", block {self.block_index} of its checkpoint"
        return f"{self.type} of {_hex(self.validator)} in slot {self.slot}{block}"


@dataclass(frozen=True, slots=True)
class DutyLock:
    """The right to sign ``message_hash``, until it is finished or failed."""

    duty: Duty
    message_hash: bytes
    token: str


def _hex(value: bytes) -> str:
    return "0x" + value.hex()
