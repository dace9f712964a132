"""Offenses, and the rounds in which they count.

epoch kinds (0 to 3)    an epoch                                round: epoch / epochs per round
slot kinds (4 to 9)     a slot                                  round: slot / slots per round
asked for round n       those recorded in round n - offset: what is voted on in a round happened that much earlier
"""

from __future__ import annotations

import enum
import logging
from typing import Any, Final

from fastnode.log import log_facts
from fastnode.records import dataclass

__all__ = ["ALL", "CURRENT", "Offense", "OffenseType", "RoundSize"]

ALL: Final = "all"
CURRENT: Final = "current"


class OffenseType(enum.IntEnum):
    """Numbers of the network."""

    UNKNOWN = 0
    DATA_WITHHOLDING = 1
    VALID_EPOCH_PRUNED = 2
    INACTIVITY = 3
    BROADCASTED_INVALID_BLOCK_PROPOSAL = 4
    PROPOSED_INSUFFICIENT_ATTESTATIONS = 5
    PROPOSED_INCORRECT_ATTESTATIONS = 6
    ATTESTED_DESCENDANT_OF_INVALID = 7
    DUPLICATE_PROPOSAL = 8
    DUPLICATE_ATTESTATION = 9

    @property
    def is_of_epoch(self) -> bool:
        """True if it happens in an epoch; the others happen in a slot."""
        return self <= OffenseType.INACTIVITY


@dataclass(frozen=True, slots=True)
class Offense:
    """``amount``: the penalty, in the smallest unit of the staking asset; ``at``: the epoch or slot."""

    validator: bytes
    amount: int
    type: OffenseType
    at: int

    @property
    def key(self) -> tuple[int, int, bytes]:
        """Two with the same key are one offense."""
        return self.type, self.at, self.validator

    def slot(self, epoch_duration: int) -> int:
        """The (first) slot in which it happened."""
        return self.at * epoch_duration if self.type.is_of_epoch else self.at

    def to_json(self) -> dict[str, Any]:
        return {
            "validator": f"0x{self.validator.hex()}",
            "amount": str(self.amount),
            "offenseType": int(self.type),
            "epochOrSlot": str(self.at),
        }

    @classmethod
    def from_json(cls, value: Any) -> Offense:
        """ValueError, KeyError or TypeError for anything that :meth:`to_json` does not make."""
        validator = bytes.fromhex(value["validator"].removeprefix("0x"))
        amount, at = int(value["amount"]), int(value["epochOrSlot"])
        if len(validator) != _ADDRESS_BYTES or amount < 0 or at < 0:
            raise ValueError
        return cls(validator, amount, OffenseType(value["offenseType"]), at)


logger = logging.getLogger(__name__)

_ADDRESS_BYTES: Final = 20


@dataclass(slots=True)
class RoundSize:
    """Rounds as L1 counts them: epochs per round, and after how many rounds an offense is voted on.

    A node begins with what its settings say; what the slasher on L1 says replaces it.
    """

    epochs: int
    offset_rounds: int

    def learn(self, epochs: int, offset_rounds: int) -> None:
        if (epochs, offset_rounds) != (self.epochs, self.offset_rounds):
            extra = log_facts(epochs=epochs, offset_rounds=offset_rounds)
            logger.info("the slasher on L1 counts rounds in another way than the settings", extra=extra)
            self.epochs, self.offset_rounds = epochs, offset_rounds

    def round_of(self, offense: Offense, epoch_duration: int) -> int:
        """The round in which it is recorded."""
        return self.round_at(offense.slot(epoch_duration), epoch_duration)

    def round_at(self, slot: int, epoch_duration: int) -> int:
        return slot // (self.epochs * epoch_duration)
