"""Predicted prices from the chain's own checkpoints, against the fee model with all of L1's facts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from fastnode.fees.congestion import CHECKPOINTS_READ_MAX, Congestion, ManaTarget
from fastnode.fees.sources import ChainFees, LatestFees
from fastnode.protocol.fees import (
    FeeHeader,
    L1Fees,
    ManaPricing,
    ManaUsage,
    excess_mana,
    minimum_fees,
    predicted_minimum_fees,
)
from fastnode.protocol.header import GasFees

TARGET = 100_000_000
PRICING = ManaPricing(TARGET, 2 * TARGET, 4, 100)
L1 = L1Fees(10**9, 7)
ETH_PER_FEE_ASSET = 10**7


class MadeCheckpoints:
    """A chain of complete checkpoints of one block each, every one at the price that the fee model sets."""

    def __init__(self, used: list[int], min_fees: dict[str, str] | None = None) -> None:
        self.used = used
        excess = [0]
        for mana in used:
            excess.append(excess_mana(excess[-1], mana, TARGET))
        self.parent = FeeHeader(excess[-2], used[-1], ETH_PER_FEE_ASSET)
        before = FeeHeader(excess[-3], used[-2], ETH_PER_FEE_ASSET) if len(used) > 1 else FeeHeader(0, 0, 10**7)
        self.price = minimum_fees(L1, before, PRICING)
        self.reads = 0
        self.min_fees = min_fees
        self.tip_number = len(used)
        self.l1_constants = {"rollupManaLimit": 2 * TARGET}
        here = SimpleNamespace(number=len(used), hash=b"%032d" % hash(tuple(used)))
        self.tips = SimpleNamespace(checkpointed=SimpleNamespace(checkpoint=here, block=here))

    @property
    def chain(self) -> MadeCheckpoints:
        return self

    def checkpoint(self, number: int) -> Any:
        self.reads += 1
        header = {"totalManaUsed": hex(self.used[number - 1])}
        header_hash = b"%032d" % hash(tuple(self.used[:number]))
        return SimpleNamespace(header_json=orjson.dumps(header), header_hash=header_hash)

    def header_json(self, _number: int) -> bytes:
        return orjson.dumps({"globalVariables": {"gasFees": self.price.to_json()}})

    def foretold(self, usage: ManaUsage) -> list[int]:
        """By the model, from facts that only L1 has."""
        fees = predicted_minimum_fees(lambda _ahead: L1, self.parent, PRICING, usage)
        return [price.fee_per_l2_gas for price in fees]


BUSY = [150_000_000, 200_000_000, 180_000_000, 90_000_000]


def prices(fees: Any) -> list[int]:
    assert fees is not None
    return [price.fee_per_l2_gas for price in fees]


@pytest.mark.parametrize("usage", list(ManaUsage))
@pytest.mark.parametrize("used", [BUSY, [0, 0, 0], [200_000_000] * 30, BUSY + [0] * 20], ids=str)
def test_predictions_are_those_of_the_fee_model_while_l1s_fees_stay(used: list[int], usage: ManaUsage) -> None:
    """Up to the rounding of the three parts of a price."""
    chain = MadeCheckpoints(used)
    assert prices(ChainFees().predicted(chain, usage)) == pytest.approx(chain.foretold(usage), rel=1e-6, abs=3)


def test_the_three_usages_differ_on_a_busy_chain() -> None:
    chain = MadeCheckpoints(BUSY)
    none, target, limit = (prices(ChainFees().predicted(chain, usage)) for usage in ManaUsage)
    assert none[0] == target[0] == limit[0]
    assert none[2] < target[2] < limit[2]
    assert limit == sorted(set(limit)), "full checkpoints make it dearer from slot to slot"


def test_a_price_that_another_node_gave_is_carried_over_too() -> None:
    chain = MadeCheckpoints(BUSY)
    fees = LatestFees()
    fees.update(minimum_fees(L1, chain.parent, PRICING), {})
    assert prices(fees.predicted(chain, ManaUsage.LIMIT)) == pytest.approx(chain.foretold(ManaUsage.LIMIT), rel=1e-6)


def test_without_the_rollups_limit_there_are_no_predictions() -> None:
    chain = MadeCheckpoints(BUSY)
    chain.l1_constants = {}
    assert ChainFees().predicted(chain, ManaUsage.NONE) is None


def test_a_new_checkpoint_costs_one_read() -> None:
    congestion, target = Congestion(), ManaTarget(TARGET)
    long = MadeCheckpoints([TARGET] * (2 * CHECKPOINTS_READ_MAX))
    congestion.excess(long, target)
    assert long.reads == CHECKPOINTS_READ_MAX
    congestion.excess(long, target)
    assert long.reads == CHECKPOINTS_READ_MAX
    longer = MadeCheckpoints([*long.used, 2 * TARGET])
    assert congestion.excess(longer, target).of_next == TARGET
    assert longer.reads == 2, "the newest, and whether the one before is still the same"


def test_the_excess_follows_a_reorg() -> None:
    congestion, target = Congestion(), ManaTarget(TARGET)
    congestion.excess(MadeCheckpoints(BUSY), target)
    other = MadeCheckpoints([0, 0, 0, 150_000_000, 0])
    assert congestion.excess(other, target) == Congestion().excess(other, target)


def test_a_price_is_never_zero_where_it_was_not() -> None:
    assert ManaTarget(TARGET).carried(GasFees(0, 1), 10 * TARGET, 0, ManaUsage.NONE)[0] == GasFees(0, 1)
