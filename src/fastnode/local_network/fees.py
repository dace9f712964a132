"""Gas fees of a local network: the fee model over an L1 that stands still, or a price that was set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode.protocol.fees import (
    PREDICTED_SLOTS,
    FeeHeader,
    L1Fees,
    ManaPricing,
    ManaUsage,
    excess_mana,
    minimum_fees,
    predicted_minimum_fees,
)
from fastnode.protocol.header import GasFees

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = ["ETH_PER_FEE_ASSET", "MANA_TARGET", "LocalFees", "mana_of"]

#: An idle L1, as anvil's is after a while.
QUIET_L1: Final = L1Fees(base_fee=7, blob_fee=1)
MANA_TARGET: Final = 100_000_000
PROVING_COST_PER_MANA: Final = 100
#: In 1e-12 ETH, where a deployment names no other.
ETH_PER_FEE_ASSET: Final = 10_000_000
#: Checkpoints over which excess mana is added up; more than it takes any excess to be used up.
EXCESS_CHECKPOINTS: Final = 256


class LocalFees:
    """A source of prices for the mempool and for blocks.

    ``eth_per_fee_asset`` is the price of the fee asset, in 1e-12 ETH.
    """

    def __init__(
        self,
        epoch_duration: int,
        mana_limit: int,
        eth_per_fee_asset: int = ETH_PER_FEE_ASSET,
    ) -> None:
        self._pricing = ManaPricing(MANA_TARGET, mana_limit, epoch_duration, PROVING_COST_PER_MANA)
        #: Mana used beyond the target so far, and that of the newest checkpoint.
        self.usage = (0, 0)
        self.eth_per_fee_asset = eth_per_fee_asset
        self.l1_fees = QUIET_L1
        #: Price of L2 gas that holds instead of the model's; None: the model's does.
        self.fixed: int | None = None

    def on_block(self, mana: int) -> None:
        """A block that used so much is the newest one."""
        excess, used = self.usage
        self.usage = (excess_mana(excess, used, MANA_TARGET), mana)

    def current(self, _view: Any = None) -> GasFees:
        if self.fixed is not None:
            return GasFees(0, self.fixed)
        return minimum_fees(self.l1_fees, self._parent(), self._pricing)

    def predicted(self, view: Any, usage: ManaUsage) -> Sequence[GasFees]:
        if self.fixed is not None:
            return [self.current(view)] * PREDICTED_SLOTS
        return predicted_minimum_fees(lambda _: self.l1_fees, self._parent(), self._pricing, usage)

    def _parent(self) -> FeeHeader:
        excess, used = self.usage
        return FeeHeader(excess, used, self.eth_per_fee_asset)


def mana_of(chain: ChainView) -> tuple[int, int]:
    """Excess mana before the newest checkpoint, and the mana that this one used."""
    newest = chain.tips.checkpointed.checkpoint.number
    excess, used = 0, 0
    for number in range(max(1, newest - EXCESS_CHECKPOINTS + 1), newest + 1):
        checkpoint = chain.checkpoint(number)
        assert checkpoint is not None
        excess = excess_mana(excess, used, MANA_TARGET)
        used = int(orjson.loads(checkpoint.header_json)["totalManaUsed"], 16)
    return excess, used
