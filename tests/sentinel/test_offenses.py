"""Inactivity as an offense: who, how much, and in which round it counts."""

from __future__ import annotations

from typing import Any

import pytest

from fastnode.sentinel.offenses import OffenseWatch, RoundSize
from fastnode.sentinel.statistics import SlotTime

EPOCH_SLOTS, SLOT_S, GENESIS = 4, 36, 1_700_000_000
LAZY, HALF, GOOD = b"\x01" * 20, b"\x02" * 20, b"\x03" * 20

DEFAULTS: dict[str, Any] = {
    "slashInactivityPenalty": 10**19,
    "slashInactivityTargetPercentage": 0.9,
    "slashInactivityConsecutiveEpochThreshold": 1,
    "slashOffenseExpirationRounds": 4,
    "slashGracePeriodL2Slots": 0,
    "slashValidatorsNever": (),
}


class FixedPerformance:
    """Epochs 0 to 29: one validator does nothing, one half of it, one everything; some are not in every committee."""

    def proven_performance(self, _view: object) -> dict[int, dict[bytes, tuple[int, int]]]:
        return {epoch: self.counts(epoch) for epoch in range(30)}

    def counts(self, epoch: int) -> dict[bytes, tuple[int, int]]:
        counts = {HALF: (2, 4), GOOD: (0, 4)}
        return counts | {LAZY: (4, 4)} if epoch % 3 else counts


class FixedView:
    class chain:  # noqa: N801 - an attribute of the view
        epoch_duration = EPOCH_SLOTS
        slot_duration = SLOT_S
        l1_genesis_time = GENESIS


def watch(epoch_now: int = 31, size: RoundSize | None = None, **configuration: Any) -> OffenseWatch:
    now = SlotTime(GENESIS, SLOT_S).of(epoch_now * EPOCH_SLOTS)
    return OffenseWatch(
        FixedPerformance(),  # type: ignore[arg-type]
        DEFAULTS | configuration,
        size or RoundSize(4, 2),
        now=lambda: now,
    )


def found(wanted: int | str, **options: Any) -> list[tuple[str, int]]:
    offenses = watch(**options).offenses(FixedView(), wanted)  # type: ignore[arg-type]
    return [(item["validator"], int(item["epochOrSlot"])) for item in offenses]


def lazy_in(epochs: range) -> list[tuple[str, int]]:
    return [("0x" + LAZY.hex(), epoch) for epoch in epochs if epoch % 3]


def test_an_offense_names_validator_amount_kind_and_epoch() -> None:
    first = watch().offenses(FixedView(), 2)[0]  # type: ignore[arg-type]
    assert first == {
        "validator": "0x" + LAZY.hex(),
        "amount": "10000000000000000000",
        "offenseType": 3,
        "epochOrSlot": "1",
    }


@pytest.mark.parametrize("wanted", [2, 3, 7])
def test_a_round_votes_on_what_happened_two_rounds_earlier(wanted: int) -> None:
    assert found(wanted) == lazy_in(range(4 * (wanted - 2), 4 * (wanted - 1)))


@pytest.mark.parametrize("wanted", [0, 1, 50])
def test_a_round_before_the_first_or_after_the_last_has_none(wanted: int) -> None:
    assert found(wanted) == []


def test_the_current_round_is_that_of_the_clock() -> None:
    assert found("current", epoch_now=31) == found(7) != []
    assert found("current", epoch_now=16) == found(4) != []
    assert found("current", epoch_now=-100) == []


def test_all_are_those_that_have_not_expired() -> None:
    assert found("all") == lazy_in(range(12, 30))
    assert found("all", slashOffenseExpirationRounds=1) == lazy_in(range(24, 30))
    assert found("all", slashOffenseExpirationRounds=100) == lazy_in(range(30))


def test_the_target_says_who_is_inactive() -> None:
    both = found(2, slashInactivityTargetPercentage=0.5)
    assert {validator for validator, _ in both} == {"0x" + LAZY.hex(), "0x" + HALF.hex()}
    assert found(2, slashInactivityTargetPercentage=0.500001) == lazy_in(range(4))


def test_epochs_in_a_row_are_those_of_its_committees() -> None:
    assert found("all", slashOffenseExpirationRounds=100, slashInactivityConsecutiveEpochThreshold=3) == lazy_in(
        range(4, 30)
    )


def test_what_the_configuration_spares_is_no_offense() -> None:
    assert found("all", slashInactivityPenalty=0) == []
    assert found("all", slashValidatorsNever=("0x" + LAZY.hex().upper(),)) == []
    assert found(2, slashGracePeriodL2Slots=8) == lazy_in(range(2, 4))


def test_the_size_of_a_round_is_that_of_the_contracts() -> None:
    assert found(5, size=RoundSize(1, 0)) == lazy_in(range(5, 6))
