"""The fee model: what one unit of L2 gas costs at least, now and in the next slots.

All integer arithmetic; ``ceil`` rounds up, every other division rounds down.  With the L1 base fee and
blob fee of the slot and the fee header of the parent checkpoint::

    sequencer  = ceil((checkpointGas * base + 3 * 131,072 * blob) / manaTarget)
    prover     = ceil(ceil(epochGas * base / epochDuration) / manaTarget) + provingCostPerMana
    excess     = max(0, parent.excessMana + parent.manaUsed - manaTarget)
    multiplier = 10^9 * e^(excess / d), d = manaTarget * 854,700,854 / 10^8, as the Taylor series of EIP-4844
    congestion = (sequencer + prover) * multiplier / 10^9 - (sequencer + prover)
    minimum    = sum of the three, each in the fee asset: ceil(x * 10^12 / max(ethPerFeeAsset, 100))

checkpointGas and epochGas are 300,000 and 3,600,000 up to 5.x, 520,000 and 2,500,000 in 6.x.  DA gas is always free
here: it is paid for inside the L2 gas price.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from fastnode.protocol.header import GasFees
from fastnode.records import dataclass

#: Blobs of one checkpoint, bytes (= blob gas) of one blob.
BLOBS_PER_CHECKPOINT: Final = 3
GAS_PER_BLOB: Final = 131_072

MULTIPLIER_ONE: Final = 10**9
CONGESTION_UPDATE_FRACTION: Final = 854_700_854
CONGESTION_UPDATE_DIVISOR: Final = 10**8
#: The exponent excess / d is cut here, so the series stays short.
EXPONENT_MAX: Final = 100

ETH_PER_FEE_ASSET_PRECISION: Final = 10**12
ETH_PER_FEE_ASSET_MIN: Final = 100
FEE_MAX: Final = 2**128 - 1

#: The L1 fee oracle applies an observation this many slots later, so that many slots can be foreseen.
FEE_ORACLE_LAG: Final = 2
PREDICTED_SLOTS: Final = FEE_ORACLE_LAG + 1


class ManaUsage(StrEnum):
    """Assumed fill of the blocks of predicted slots."""

    NONE = "none"
    TARGET = "target"
    LIMIT = "limit"


class L1Fees(NamedTuple):
    """L1 base fee and blob base fee, wei."""

    base_fee: int
    blob_fee: int


class FeeHeader(NamedTuple):
    """The rollup's record of a checkpoint for the next one's price."""

    excess_mana: int
    mana_used: int
    eth_per_fee_asset: int


class L1Gas(NamedTuple):
    """L1 gas that the fee model of a release counts for one proposal and for one epoch proof."""

    checkpoint: int = 300_000
    epoch: int = 3_600_000


class ManaPricing(NamedTuple):
    """The rollup's settings.  ``proving_cost_per_mana`` is in wei."""

    mana_target: int
    mana_limit: int
    epoch_duration: int
    proving_cost_per_mana: int
    l1_gas: L1Gas = L1Gas()


class FeeComponents(NamedTuple):
    """The parts of the minimum fee per mana, in the smallest unit of the fee asset."""

    sequencer_cost: int
    prover_cost: int
    congestion_cost: int
    congestion_multiplier: int

    @property
    def minimum(self) -> int:
        return min(self.sequencer_cost + self.prover_cost + self.congestion_cost, FEE_MAX)


@dataclass(frozen=True, slots=True)
class FeeFacts:
    """State of the rollup contract and of L1 as an L1 reader saw it last.

    ``before`` are the fees of the contract's oracle up to slot ``slot_of_change``, ``after`` those from it
    on.  ``parent`` and ``parent_slot`` belong to the newest checkpoint.
    """

    parent: FeeHeader
    parent_slot: int
    pricing: ManaPricing
    before: L1Fees
    after: L1Fees
    slot_of_change: int

    def l1_fees(self, slot: int) -> L1Fees:
        return self.before if slot < self.slot_of_change else self.after


def excess_mana(excess: int, used: int, target: int) -> int:
    """Excess after a checkpoint that used ``used`` mana."""
    return max(0, excess + used - target)


def congestion_multiplier(excess: int, target: int) -> int:
    """Factor of congestion on the price, times 10^9."""
    denominator = target * CONGESTION_UPDATE_FRACTION // CONGESTION_UPDATE_DIVISOR
    if denominator == 0:
        return MULTIPLIER_ONE
    return fake_exponential(MULTIPLIER_ONE, min(excess, EXPONENT_MAX * denominator), denominator)


def fake_exponential(factor: int, numerator: int, denominator: int) -> int:
    """``factor * e^(numerator / denominator)`` in integers, as EIP-4844 defines it."""
    output = 0
    term = factor * denominator
    index = 1
    while term > 0:
        output += term
        term = term * numerator // (denominator * index)
        index += 1
    return output // denominator


def fee_components(l1_fees: L1Fees, excess: int, eth_per_fee_asset: int, pricing: ManaPricing) -> FeeComponents:
    """The price at an excess that already counts the parent (:func:`excess_mana`)."""
    target = pricing.mana_target
    if target == 0:
        return FeeComponents(0, 0, 0, MULTIPLIER_ONE)
    sequencer = _ceil_divide(
        pricing.l1_gas.checkpoint * l1_fees.base_fee + BLOBS_PER_CHECKPOINT * GAS_PER_BLOB * l1_fees.blob_fee,
        target,
    )
    per_epoch = _ceil_divide(pricing.l1_gas.epoch * l1_fees.base_fee, pricing.epoch_duration)
    prover = _ceil_divide(per_epoch, target) + pricing.proving_cost_per_mana
    multiplier = congestion_multiplier(excess, target)
    total = sequencer + prover
    congestion = total * multiplier // MULTIPLIER_ONE - total
    rate = max(eth_per_fee_asset, ETH_PER_FEE_ASSET_MIN)
    return FeeComponents(
        _ceil_divide(sequencer * ETH_PER_FEE_ASSET_PRECISION, rate),
        _ceil_divide(prover * ETH_PER_FEE_ASSET_PRECISION, rate),
        _ceil_divide(congestion * ETH_PER_FEE_ASSET_PRECISION, rate),
        multiplier,
    )


def minimum_fees(l1_fees: L1Fees, parent: FeeHeader, pricing: ManaPricing) -> GasFees:
    """Price that a block must charge whose parent checkpoint has this fee header."""
    excess = excess_mana(parent.excess_mana, parent.mana_used, pricing.mana_target)
    return GasFees(0, fee_components(l1_fees, excess, parent.eth_per_fee_asset, pricing).minimum)


def predicted_minimum_fees(
    l1_fees_of: Callable[[int], L1Fees], parent: FeeHeader, pricing: ManaPricing, usage: ManaUsage
) -> list[GasFees]:
    """Minimum fees of the next slots; ``l1_fees_of(i)`` are the L1 fees i slots after the first of them."""
    excess = excess_mana(parent.excess_mana, parent.mana_used, pricing.mana_target)
    fees = []
    for ahead in range(PREDICTED_SLOTS):
        if ahead:
            excess = excess_mana(excess, assumed_mana(usage, pricing), pricing.mana_target)
        components = fee_components(l1_fees_of(ahead), excess, parent.eth_per_fee_asset, pricing)
        fees.append(GasFees(0, components.minimum))
    return fees


def assumed_mana(usage: ManaUsage, pricing: ManaPricing) -> int:
    """Mana that a checkpoint of a predicted slot is taken to use."""
    if usage is ManaUsage.NONE:
        return 0
    return pricing.mana_target if usage is ManaUsage.TARGET else pricing.mana_limit


def _ceil_divide(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
