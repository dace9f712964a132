"""Fee sources: the chain's word, somebody's latest word, the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from fastnode.errors import DecodeError
from fastnode.fees.sources import NO_FEES, ChainFees, LatestFees, ModelFees
from fastnode.mempool.clock import SlotClock
from fastnode.protocol.fees import FeeFacts, FeeHeader, L1Fees, ManaPricing, ManaUsage, minimum_fees
from fastnode.protocol.header import GasFees


@dataclass
class _Chain:
    """The part of a view that a fee source reads."""

    min_fees: dict[str, str] | None = None
    header: dict[str, Any] = field(default_factory=dict)
    tip_number: int = 3
    l1_constants: dict[str, Any] = field(default_factory=dict)

    @property
    def chain(self) -> _Chain:
        return self

    def header_json(self, number: int) -> bytes | None:
        return orjson.dumps(self.header) if number == self.tip_number else None


FEES = {"feePerDaGas": "1", "feePerL2Gas": "7"}
PRICING = ManaPricing(100_000_000, 200_000_000, 4, 100)
PARENT = FeeHeader(300_000_000, 50_000_000, 10**7)


def test_the_chain_files_word_comes_first() -> None:
    view = _Chain(FEES, {"globalVariables": {"gasFees": FEES | {"feePerL2Gas": "9"}}})
    assert ChainFees().current(view) == GasFees(1, 7)
    assert ChainFees().predicted(view, ManaUsage.LIMIT) is None, "the rollup's mana limit is not known"


def test_without_it_the_newest_blocks_price_counts() -> None:
    assert ChainFees().current(_Chain(None, {"globalVariables": {"gasFees": FEES}})) == GasFees(1, 7)
    with pytest.raises(DecodeError, match="globalVariables"):
        ChainFees().current(_Chain())


def test_latest_fees_are_the_chains_before_the_first_word() -> None:
    view = _Chain(FEES, {})
    fees = LatestFees()
    assert fees.current(view) == GasFees(1, 7)
    fees.update(GasFees(0, 5), {ManaUsage.TARGET: [GasFees(0, 6)]})
    assert fees.current(view) == GasFees(0, 5)
    assert fees.predicted(view, ManaUsage.TARGET) == [GasFees(0, 6)]
    assert fees.predicted(view, ManaUsage.NONE) is None


class _Model:
    """A model source over facts and a clock that tests set."""

    def __init__(self, parent_slot: int, slot_of_change: int, now: float) -> None:
        self.facts: FeeFacts | None = FeeFacts(
            PARENT, parent_slot, PRICING, L1Fees(10**9, 1), L1Fees(5 * 10**9, 1), slot_of_change
        )
        clock: dict[str, Any] = {"genesis_time": 1000, "slot_duration": 36, "l1_slot_duration": 12}
        self.source = ModelFees(lambda: self.facts, now=lambda: now, **clock)


def test_the_model_prices_the_slot_after_the_last_checkpoint_or_the_present_one() -> None:
    before = minimum_fees(L1Fees(10**9, 1), PARENT, PRICING)
    after = minimum_fees(L1Fees(5 * 10**9, 1), PARENT, PRICING)
    assert before != after
    slot_10 = 1000 + 36 * 10
    # (last checkpoint's slot, slot of the oracle's change, time) -> price
    assert _Model(5, 10, slot_10 - 13).source.current(None) == before
    assert _Model(5, 10, slot_10 - 12).source.current(None) == after, "the next L1 block is in slot 10"
    assert _Model(9, 10, slot_10 - 200).source.current(None) == after, "slot 9 is taken"


def test_predictions_start_at_the_present_slot_and_look_fees_up_slot_by_slot() -> None:
    slot_10 = 1000 + 36 * 10
    fees = _Model(5, 11, slot_10).source.predicted(None, ManaUsage.TARGET)
    prices = [entry.fee_per_l2_gas for entry in fees]
    assert len(prices) == 3
    assert prices[0] < prices[1]
    used = _Model(5, 99, slot_10).source.predicted(None, ManaUsage.LIMIT)
    assert used[0].fee_per_l2_gas < used[1].fee_per_l2_gas < used[2].fee_per_l2_gas


def test_without_facts_there_are_no_fees() -> None:
    model = _Model(1, 1, 1000)
    model.facts = None
    assert model.source.current(None) == NO_FEES
    assert model.source.predicted(None, ManaUsage.NONE) == [NO_FEES] * 3


@pytest.mark.parametrize(("now", "slot"), [(999.0, 0), (1000.0, 0), (1023.9, 0), (1024.0, 1), (1060.0, 2)])
def test_the_clock_names_the_slot_of_the_next_l1_block(now: float, slot: int) -> None:
    clock = SlotClock(1000, 36, 12, lambda: now)
    assert (clock.next_slot(), clock.next_slot_timestamp()) == (slot, 1000 + 36 * slot)
