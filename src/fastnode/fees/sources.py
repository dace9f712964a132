"""Sources of gas prices: pluggable, as only some nodes see L1.

====================  ==========================================================================
:class:`ChainFees`    what the chain's source last said, else the price of the newest block
:class:`ModelFees`    the fee model over facts read from L1 (:mod:`fastnode.protocol.fees`)
:class:`LatestFees`   what another part sets from time to time, such as an upstream's answer
====================  ==========================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import orjson

from fastnode.errors import DecodeError
from fastnode.fees.congestion import Congestion, ManaTarget
from fastnode.protocol.fees import (
    PREDICTED_SLOTS,
    FeeFacts,
    ManaUsage,
    minimum_fees,
    predicted_minimum_fees,
)
from fastnode.protocol.header import GasFees

__all__ = ["NO_FEES", "ChainFees", "FeeSource", "LatestFees", "ModelFees"]

NO_FEES: Final = GasFees(0, 0)


class FeeSource(Protocol):
    """Answers at once, from what is known; ``view`` is the caller's view of the chain."""

    def current(self, view: Any) -> GasFees:
        """Least price of a block that is proposed now."""

    def predicted(self, view: Any, usage: ManaUsage) -> Sequence[GasFees] | None:
        """Least prices of the blocks of the next slots; None when nothing is known to foretell it from."""


class ChainFees:
    """From the chain alone: the record of its chain file, else the newest block's own price.

    Predictions carry that price over to the next slots with the congestion that the chain's checkpoints show
    (:mod:`fastnode.fees.congestion`).  Without the rollup's mana limit there are none.
    """

    def __init__(self) -> None:
        self._congestion = Congestion()

    def current(self, view: Any) -> GasFees:
        recorded = view.chain.chain.min_fees
        if recorded is not None:
            return GasFees.from_json(recorded, "minFees")
        header = view.chain.header_json(view.chain.tip_number)
        if header is None:
            return NO_FEES
        return GasFees.from_json(_gas_fees_of(header), "gasFees")

    def predicted(self, view: Any, usage: ManaUsage) -> Sequence[GasFees] | None:
        return self.carried(self.current(view), view, usage, is_of_next=view.chain.chain.min_fees is not None)

    def carried(
        self, price: GasFees, view: Any, usage: ManaUsage, *, is_of_next: bool = True
    ) -> Sequence[GasFees] | None:
        """Predictions from a price: that of the slot after the newest checkpoint, or else the newest block's own."""
        chain = view.chain
        target = ManaTarget.of_chain(chain.chain.l1_constants)
        if target is None:
            return None
        excess = self._congestion.excess(chain, target)
        is_complete = chain.tip_number == chain.tips.checkpointed.block.number
        of_price = excess.of_newest if is_complete and not is_of_next else excess.of_next
        return target.carried(price, of_price, excess.of_next, usage)


def _gas_fees_of(header_json: bytes) -> Any:
    try:
        return orjson.loads(header_json)["globalVariables"]["gasFees"]
    except KeyError as error:
        raise DecodeError(f"header: {error} is missing") from None


class LatestFees:
    """Holds the last answer of a source that is asked in the background; before the first one the chain's own word.

    What the source does not foretell follows from its current price and the chain's congestion.
    """

    def __init__(self, chain: ChainFees | None = None) -> None:
        self._chain = chain or ChainFees()
        self._current: GasFees | None = None
        self._predicted: dict[ManaUsage, Sequence[GasFees]] = {}

    def update(self, current: GasFees, predicted: dict[ManaUsage, Sequence[GasFees]] | None = None) -> None:
        self._current = current
        self._predicted = predicted or {}

    @property
    def newest(self) -> tuple[GasFees, dict[ManaUsage, Sequence[GasFees]]] | None:
        """Value that :meth:`update` was given last; None before."""
        return None if self._current is None else (self._current, self._predicted)

    def current(self, view: Any) -> GasFees:
        return self._current or self._chain.current(view)

    def predicted(self, view: Any, usage: ManaUsage) -> Sequence[GasFees] | None:
        if self._current is None:
            return self._chain.predicted(view, usage)
        return self._predicted.get(usage) or self._chain.carried(self._current, view, usage)


class ModelFees:
    """Computes prices from :class:`FeeFacts`; ``facts`` gives the newest ones, None before the first."""

    def __init__(
        self,
        facts: Callable[[], FeeFacts | None],
        *,
        genesis_time: int,
        slot_duration: int,
        l1_slot_duration: int,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._facts = facts
        self._genesis_time = genesis_time
        self._slot_duration = slot_duration
        self._l1_slot_duration = l1_slot_duration
        self._now = now

    def current(self, _view: Any) -> GasFees:
        facts = self._facts()
        if facts is None:
            return NO_FEES
        slot = max(facts.parent_slot + 1, self._slot(self._now() + self._l1_slot_duration))
        return minimum_fees(facts.l1_fees(slot), facts.parent, facts.pricing)

    def predicted(self, _view: Any, usage: ManaUsage) -> Sequence[GasFees]:
        facts = self._facts()
        if facts is None:
            return [NO_FEES] * PREDICTED_SLOTS
        first = max(facts.parent_slot + 1, self._slot(self._now()))
        return predicted_minimum_fees(lambda ahead: facts.l1_fees(first + ahead), facts.parent, facts.pricing, usage)

    def _slot(self, timestamp: float) -> int:
        return max(0, int(timestamp) - self._genesis_time) // self._slot_duration
