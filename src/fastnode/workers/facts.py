"""Facts that answers rest on beside the databases: a small record, sent by the primary when it changes and each second.

The record is pickled, so it has values only: no callables, nothing that is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from fastnode.fees.l1 import L1FeeSource
from fastnode.fees.sources import ChainFees, FeeSource, LatestFees
from fastnode.http.health import Health
from fastnode.protocol.fees import ManaUsage
from fastnode.protocol.header import GasFees
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.mempool.validation import ValidationRules
    from fastnode.sources.l1.rollup import RollupFacts
    from fastnode.sources.l1.state import FeeState

__all__ = ["ChainTime", "Facts", "FeeFactsOfNode", "FollowedFees"]

#: A clock of the chain that differs less than this from the one on the wall is that one.
_SAME_CLOCK_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FeeFactsOfNode:
    """``latest``: what another node said; ``l1``: what L1 said, with the duration of its slots; None: neither."""

    latest: tuple[GasFees, Mapping[ManaUsage, Sequence[GasFees]]] | None = None
    l1: tuple[RollupFacts, FeeState] | None = None
    l1_slot_duration: int = 12


@dataclass(frozen=True, slots=True)
class ChainTime:
    """The time of the chain: that of the clock on the wall, or a fixed one until the next record."""

    fixed: float | None = None

    @classmethod
    def of(cls, now: Callable[[], float]) -> Self:
        there = now()
        return cls(None if abs(there - time.time()) < _SAME_CLOCK_S else there)

    def now(self) -> float:
        return time.time() if self.fixed is None else self.fixed


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    health: Health
    #: Reason that no transaction is taken now; None if good ones are.
    no_transactions: str | None
    #: Reason that clients may send none at all; None if they may.
    closed: str | None
    #: Description of how the chain is followed; None when it is not.
    sync_status: dict[str, Any] | None
    is_paused: bool
    #: True where the chain is the recording that comes with the package.
    is_sample: bool
    rules: ValidationRules
    proofs_required: bool
    #: True if other nodes take transactions.
    hands_on: bool
    fees: FeeFactsOfNode
    time: ChainTime
    #: On the peer-to-peer network; None: the node is not on it, or does not listen yet.
    record: str | None = None
    #: Ids of this node and of those that it follows.
    lineage: str = ""


class FollowedFees:
    """A fee source over the newest record."""

    def __init__(self, facts: Callable[[], Facts]) -> None:
        self._facts = facts
        self._chain = ChainFees()

    def _source(self) -> FeeSource:
        fees = self._facts().fees
        if fees.l1 is not None:
            return L1FeeSource(lambda: fees.l1, lambda: fees.l1_slot_duration, self._chain)
        if fees.latest is None:
            return self._chain
        latest = LatestFees(self._chain)
        latest.update(fees.latest[0], dict(fees.latest[1]))
        return latest

    def current(self, view: Any) -> GasFees:
        return self._source().current(view)

    def predicted(self, view: Any, usage: ManaUsage) -> Sequence[GasFees] | None:
        return self._source().predicted(view, usage)
