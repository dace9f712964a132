"""Congestion of the chain, from its own checkpoints: the part of the fee model that needs no L1.

The price of a slot is a base, which follows L1, times a multiplier, which follows the mana of the checkpoints before
it.  The mana stands in the headers of checkpoints, so the multiplier can be worked out here, and a price of one slot
carried over to the slots after it::

    excess     = max(0, excess before + mana of the checkpoint - target)        target = half of the rollup's mana limit
    price      = price known * multiplier(excess then) / multiplier(excess of the price known)

What L1's own fees do in these slots is not known without L1: they are taken to stay.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import orjson

from fastnode.protocol.fees import FEE_MAX, PREDICTED_SLOTS, ManaUsage, congestion_multiplier, excess_mana
from fastnode.protocol.header import GasFees
from fastnode.records import dataclass

__all__ = ["Congestion", "ManaTarget"]

#: Checkpoints that the excess is worked out from.  It is exact if it was zero at any time within them, as it is on a
#: chain whose checkpoints are less than full now and then.
CHECKPOINTS_READ_MAX: Final = 64
#: The rollup's limit is twice its target.
_TARGETS_PER_LIMIT: Final = 2


@dataclass(frozen=True, slots=True)
class ManaTarget:
    """Mana of a checkpoint at which the price stays as it is."""

    mana: int

    @classmethod
    def of_chain(cls, l1_constants: dict[str, Any]) -> ManaTarget | None:
        """None when the chain's constants do not say."""
        limit = l1_constants.get("rollupManaLimit")
        return None if limit is None or int(limit) == 0 else cls(int(limit) // _TARGETS_PER_LIMIT)

    def used(self, usage: ManaUsage) -> int:
        """Mana that a checkpoint of a predicted slot is taken to use."""
        if usage is ManaUsage.NONE:
            return 0
        return self.mana if usage is ManaUsage.TARGET else self.mana * _TARGETS_PER_LIMIT

    def carried(self, price: GasFees, excess_of_price: int, excess: int, usage: ManaUsage) -> list[GasFees]:
        """Prices of the next slots, the first of which has this ``excess``; rounded up."""
        before = congestion_multiplier(excess_of_price, self.mana)
        fees = []
        for ahead in range(PREDICTED_SLOTS):
            if ahead:
                excess = excess_mana(excess, self.used(usage), self.mana)
            now = congestion_multiplier(excess, self.mana)
            fees.append(GasFees(0, min(-(-price.fee_per_l2_gas * now // before), FEE_MAX)))
        return fees


@dataclass(frozen=True, slots=True)
class Excess:
    """Mana in excess at the newest checkpoint's own price, and at that of the checkpoint after it."""

    of_newest: int
    of_next: int


class Congestion:
    """The excess of a chain's newest checkpoint; the last one is kept.  Usable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: tuple[int, bytes, Excess] | None = None  # number and header hash of the newest checkpoint

    def excess(self, chain: Any, target: ManaTarget) -> Excess:
        """``chain`` is a :class:`~fastnode.archiver.queries.ChainView`."""
        newest = chain.tips.checkpointed.checkpoint
        known = self._known
        if known is not None and known[1] == newest.hash:
            return known[2]
        with self._lock:
            first, excess = self._start(chain, newest.number)
            for number in range(first, newest.number + 1):
                following = excess_mana(excess.of_next, _mana_of(chain, number), target.mana)
                excess = Excess(excess.of_next, following)
            self._known = (newest.number, newest.hash, excess)
            return excess

    def _start(self, chain: Any, newest: int) -> tuple[int, Excess]:
        """The checkpoint to begin with, and the excess before it: behind what is known, if the chain still has that."""
        first = max(1, newest - CHECKPOINTS_READ_MAX + 1)
        if self._known is not None:
            number, header_hash, excess = self._known
            stored = chain.checkpoint(number) if first <= number < newest else None
            if stored is not None and stored.header_hash == header_hash:
                return number + 1, excess
        return first, Excess(0, 0)


def _mana_of(chain: Any, number: int) -> int:
    checkpoint = chain.checkpoint(number)
    assert checkpoint is not None  # it is below the tip of this view
    return int(orjson.loads(checkpoint.header_json)["totalManaUsed"], 16)
