"""Offenses that follow from the statistics, by round.

    round of an offense    its slot / slots per round; of an epoch, the epoch's first slot
    asked for round n      those recorded in round n - offset: what is voted on in a round happened that much earlier
    all                    those that have not expired

One kind is found: inactivity, in epochs that are proven.  The others take what only a validator sees, proposals and
attestations as they pass.  Nothing is stored: the chain and the configuration of the moment say what an offense is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fastnode.archiver.queries import ChainView
from fastnode.sentinel.sentinel import Sentinel
from fastnode.sentinel.statistics import SlotTime

__all__ = ["ALL", "CURRENT", "Offense", "OffenseWatch", "RoundSize"]

ALL: Final = "all"
CURRENT: Final = "current"

#: Kinds of offenses by number; those up to this one happen in an epoch, the others in a slot.
INACTIVITY: Final = 3


class Configuration(Protocol):
    def __getitem__(self, name: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class RoundSize:
    """How L1 counts rounds: epochs per round, and after how many rounds an offense is voted on."""

    epochs: int
    offset_rounds: int


@dataclass(frozen=True, slots=True)
class Offense:
    validator: bytes
    amount: int
    type: int
    epoch: int

    def to_json(self) -> dict[str, Any]:
        return {
            "validator": f"0x{self.validator.hex()}",
            "amount": str(self.amount),
            "offenseType": self.type,
            "epochOrSlot": str(self.epoch),
        }


class OffenseWatch:
    """``configuration`` gives the values of nodeAdmin_getConfig; a change counts at once, for what is past too."""

    def __init__(
        self,
        sentinel: Sentinel,
        configuration: Configuration,
        size: RoundSize,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._sentinel = sentinel
        self._configuration = configuration
        self._size = size
        self._now = now

    def offenses(self, view: ChainView, wanted: int | str) -> list[dict[str, Any]]:
        """The offenses of a round, of the current one, or all, oldest first."""
        current = self._current_round(view)
        found = self._found(view)
        if wanted == ALL:
            oldest = current - int(self._configuration["slashOffenseExpirationRounds"])
            return [offense.to_json() for offense in found if self._round_of(offense) >= oldest]
        number = current if wanted == CURRENT else int(wanted)
        recorded = number - self._size.offset_rounds
        return [offense.to_json() for offense in found if self._round_of(offense) == recorded]

    def _current_round(self, view: ChainView) -> int:
        chain = view.chain
        slot = SlotTime(chain.l1_genesis_time, chain.slot_duration).slot_at(self._now())
        return max(0, slot) // (self._size.epochs * chain.epoch_duration)

    def _round_of(self, offense: Offense) -> int:
        return offense.epoch // self._size.epochs

    def _found(self, view: ChainView) -> list[Offense]:
        configuration = self._configuration
        penalty = int(configuration["slashInactivityPenalty"])
        if penalty == 0:
            return []
        grace_slots = int(configuration["slashGracePeriodL2Slots"])
        spared = {str(address).lower() for address in configuration["slashValidatorsNever"]}
        return [
            Offense(validator, penalty, INACTIVITY, epoch)
            for epoch, validator in _inactive(
                self._sentinel.proven_performance(view),
                target=float(configuration["slashInactivityTargetPercentage"]),
                epochs_in_a_row=int(configuration["slashInactivityConsecutiveEpochThreshold"]),
            )
            if epoch * view.chain.epoch_duration >= grace_slots and f"0x{validator.hex()}" not in spared
        ]


def _inactive(
    performance: Mapping[int, Mapping[bytes, tuple[int, int]]], *, target: float, epochs_in_a_row: int
) -> Iterator[tuple[int, bytes]]:
    """Epochs in which a validator was inactive, and in enough before: those in whose committee it was."""
    streaks: dict[bytes, int] = {}
    for epoch, counts in sorted(performance.items()):
        for validator, (missed, total) in sorted(counts.items()):
            is_inactive = total > 0 and missed / total >= target
            streaks[validator] = streaks.get(validator, 0) + 1 if is_inactive else 0
            if streaks[validator] >= epochs_in_a_row:
                yield epoch, validator
