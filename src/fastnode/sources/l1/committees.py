"""Validators that may propose and attest, as the rollup draws them on L1 for each epoch.

An epoch's committee and the proposers of its slots are fixed before it begins, so they are asked for once and kept.
They are fetched by the thread that looks at L1, the newest epochs first, and answered from memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastnode.errors import UpstreamRejection
from fastnode.records import dataclass
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import ADDRESS_BYTES
from fastnode.sources.l1.endpoints import L1Endpoint, contract_call, is_revert
from fastnode.sources.l1.multicall import Read, read_together
from fastnode.sources.l1.rollup import RollupFacts

__all__ = ["Committees"]

#: Epochs that are fetched at one look, so that a long history does not hold up what is new.
EPOCHS_PER_LOOK: Final = 4
#: Slots in one call.
PROPOSERS_PER_CALL: Final = 8
_NO_VALIDATOR: Final = bytes(ADDRESS_BYTES)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """``proposers`` by slot of the epoch, None where there is none."""

    committee: tuple[bytes, ...]
    proposers: tuple[bytes | None, ...]


class Committees:
    """Committees and proposers of the newest ``epochs`` epochs.  ``refresh`` from one thread; the rest from any."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        self._drawn: dict[int, _Drawn] = {}
        #: Epochs that are read again: before they began, as a checkpoint published since may have drawn others; and
        #: without a committee while they last, or without all its proposers, as a node of L1 that lags, or begins to
        #: in the middle of the questions, does not know them yet.
        self._open: set[int] = set()
        self._epoch_duration = 1

    def committee_of(self, epoch: int) -> Sequence[bytes] | None:
        """Addresses in the committee's order, empty if there is no committee; None if that is not known."""
        drawn = self._drawn.get(epoch)
        return None if drawn is None else drawn.committee

    def proposer_of(self, slot: int) -> bytes | None:
        drawn = self._drawn.get(slot // self._epoch_duration)
        return None if drawn is None or not drawn.proposers else drawn.proposers[slot % self._epoch_duration]

    def refresh(self, endpoint: L1Endpoint, facts: RollupFacts, timestamp: int, *, has_multicall: bool) -> None:
        """Fetch some of what is missing at a time of L1.  UpstreamError, DecodeError.

        The committee of an epoch is asked for a slot before it begins, as its first proposal is made earlier than that
        (two slots where checkpoints are proposed in the slot before their own), and again until it has begun: the
        first checkpoint of the epoch before may be published in that slot, and draws the proposers.
        That an epoch has none is asked again at each look until it is over, and who proposes until all are known.
        """
        self._epoch_duration = facts.epoch_duration
        current = facts.epoch_at(timestamp)
        release = facts.release
        ahead = 2 if release is not None and release.messages.are_ahead else 1
        newest = facts.epoch_at(timestamp + ahead * facts.slot_duration)
        wanted = range(newest, max(-1, newest - self._epochs), -1)
        missing = [epoch for epoch in wanted if epoch not in self._drawn or epoch in self._open]
        for epoch in missing[:EPOCHS_PER_LOOK]:
            drawn = _read(endpoint, facts, epoch, has_multicall=has_multicall)
            if drawn is None:
                return
            if epoch > current and not drawn.committee:
                continue  # it may not be drawn yet
            is_open = epoch > current or (epoch == current and not drawn.committee) or None in drawn.proposers
            self._open = (self._open - {epoch} | ({epoch} if is_open else set())) & set(wanted)
            # Replaced as a whole: readers never see it change.
            kept = {number: item for number, item in self._drawn.items() if number in wanted}
            self._drawn = kept | {epoch: drawn}


def _read(endpoint: L1Endpoint, facts: RollupFacts, epoch: int, *, has_multicall: bool) -> _Drawn | None:
    """None when L1 does not say now."""
    first = epoch * facts.epoch_duration
    answer = endpoint.answers([contract_call(facts.rollup, contracts.COMMITTEE_OF_EPOCH, epoch)])[0]
    if isinstance(answer, UpstreamRejection):
        if not is_revert(answer):
            raise answer
        return _Drawn((), ())  # too few validators for a committee: the contract gives up
    committee: tuple[bytes, ...] = contracts.COMMITTEE_OF_EPOCH.decode(answer)[0]
    if not committee:
        return _Drawn((), ())
    times = [facts.start_of_slot(slot) for slot in range(first, first + facts.epoch_duration)]
    proposers: list[bytes | None] = []
    for start in range(0, len(times), PROPOSERS_PER_CALL):
        part = times[start : start + PROPOSERS_PER_CALL]
        found = _proposers_together(endpoint, facts, part) if has_multicall else None
        if found is None:
            found = _proposers_one_by_one(endpoint, facts, part)
        if found is None:
            return None
        proposers += found
    return _Drawn(committee, tuple(proposers))


def _proposers_together(
    endpoint: L1Endpoint, facts: RollupFacts, times: Sequence[int]
) -> Sequence[bytes | None] | None:
    """None where not all of them are answered: drawing takes gas, and calls have a limit of it."""
    answers = read_together(endpoint, [Read(contracts.PROPOSER_AT, (time,), facts.rollup) for time in times])
    if answers is None:
        return None
    found = [answer[0] for answer in answers if answer is not None]
    return [None if address == _NO_VALIDATOR else address for address in found] if len(found) == len(times) else None


def _proposers_one_by_one(
    endpoint: L1Endpoint, facts: RollupFacts, times: Sequence[int]
) -> Sequence[bytes | None] | None:
    """None when L1 does not say now."""
    proposers: list[bytes | None] = []
    for answer in endpoint.answers([contract_call(facts.rollup, contracts.PROPOSER_AT, time) for time in times]):
        if isinstance(answer, UpstreamRejection):
            if not is_revert(answer):
                return None
            proposers.append(None)
            continue
        address: bytes = contracts.PROPOSER_AT.decode(answer)[0]
        proposers.append(None if address == _NO_VALIDATOR else address)
    return proposers
