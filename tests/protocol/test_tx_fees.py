"""The fee model, against 40 answers of the deployed rollup contract."""

from __future__ import annotations

from typing import Any

import pytest
from tests.mempool.recorded import rows

from fastnode.protocol.fees import (
    FEE_MAX,
    FeeHeader,
    L1Fees,
    ManaPricing,
    ManaUsage,
    excess_mana,
    fee_components,
    minimum_fees,
    predicted_minimum_fees,
)

CASES = rows("txs_fees")
MANA_LIMIT = 200_000_000


def _inputs(case: dict[str, Any]) -> tuple[L1Fees, FeeHeader, ManaPricing]:
    pricing = ManaPricing(case["manaTarget"], MANA_LIMIT, case["epochDuration"], case["provingCostPerManaEth"])
    excess, used, rate = (int(value) for value in case["feeHeader"][:3])
    return L1Fees(*case["l1"]), FeeHeader(excess, used, rate), pricing


@pytest.mark.parametrize("case", CASES)
def test_the_minimum_fee_is_the_contracts(case: dict[str, Any]) -> None:
    fees, header, pricing = _inputs(case)
    assert minimum_fees(fees, header, pricing).fee_per_l2_gas == int(case["minFee"])


@pytest.mark.parametrize("case", CASES)
def test_the_components_add_up_to_the_fee(case: dict[str, Any]) -> None:
    fees, header, pricing = _inputs(case)
    excess = excess_mana(header.excess_mana, header.mana_used, pricing.mana_target)
    components = fee_components(fees, excess, header.eth_per_fee_asset, pricing)
    parts = {components.sequencer_cost, components.prover_cost, components.congestion_cost}
    assert parts | {components.congestion_multiplier} == {int(value) for value in case["components"]}


def test_prices_rise_with_assumed_use_and_start_at_the_current_price() -> None:
    fees, _, pricing = _inputs(CASES[0])
    header = FeeHeader(3 * pricing.mana_target, pricing.mana_target, 10**7)
    predicted = {
        usage: [entry.fee_per_l2_gas for entry in predicted_minimum_fees(lambda _: fees, header, pricing, usage)]
        for usage in ManaUsage
    }
    current = minimum_fees(fees, header, pricing).fee_per_l2_gas
    assert all(len(entries) == 3 and entries[0] == current for entries in predicted.values())
    assert predicted[ManaUsage.NONE][2] < predicted[ManaUsage.TARGET][2] < predicted[ManaUsage.LIMIT][2]
    assert predicted[ManaUsage.TARGET] == [current] * 3


def test_da_gas_is_free_and_a_chain_without_target_too() -> None:
    fees, header, pricing = _inputs(CASES[0])
    assert minimum_fees(fees, header, pricing).fee_per_da_gas == 0
    assert minimum_fees(fees, header, pricing._replace(mana_target=0)).fee_per_l2_gas == 0


def test_a_fee_never_exceeds_128_bits() -> None:
    _, header, pricing = _inputs(CASES[0])
    huge = minimum_fees(L1Fees(10**40, 10**40), header._replace(excess_mana=10**12, eth_per_fee_asset=1), pricing)
    assert huge.fee_per_l2_gas == FEE_MAX
