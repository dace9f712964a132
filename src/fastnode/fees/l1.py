"""Prices of gas according to L1: the contract's own price now, the fee model over its facts for the next slots."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from fastnode.fees.sources import ChainFees, FeeSource, ModelFees
from fastnode.protocol.fees import FeeFacts, ManaUsage
from fastnode.protocol.header import GasFees
from fastnode.sources.l1.rollup import RollupFacts
from fastnode.sources.l1.state import FeeState

__all__ = ["L1FeeSource"]


class L1FeeSource:
    """``newest`` gives the newest state of fees, None before L1 has answered: then ``otherwise`` is asked."""

    def __init__(
        self,
        newest: Callable[[], tuple[RollupFacts, FeeState] | None],
        l1_slot_duration: Callable[[], int],
        otherwise: FeeSource | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._newest = newest
        self._l1_slot_duration = l1_slot_duration
        self._otherwise: FeeSource = otherwise or ChainFees()
        self._now = now

    def current(self, view: Any) -> GasFees:
        newest = self._newest()
        return self._otherwise.current(view) if newest is None else GasFees(0, newest[1].minimum)

    def predicted(self, view: Any, usage: ManaUsage) -> Sequence[GasFees] | None:
        newest = self._newest()
        if newest is None:
            return self._otherwise.predicted(view, usage)
        facts, fees = newest

        def facts_of_fees() -> FeeFacts:
            return fees.facts

        model = ModelFees(
            facts_of_fees,
            genesis_time=facts.genesis_time,
            slot_duration=facts.slot_duration,
            l1_slot_duration=self._l1_slot_duration(),
            now=self._now,
        )
        return model.predicted(view, usage)
