"""Votes where L1 tallies them per validator, and the round to execute.

    round n         its proposers vote on the committees of round n - offset: an epoch's offenses are known by then
    vote            0 to 3 for each place of these committees: units of stake that its holder is to lose
    votes, encoded  four to a byte, the first in the lowest two bits

A round is executed once the delay after it is over, by the first proposer that finds it decided, until it expires.
Nothing here asks L1: what L1 says is given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, Protocol

from fastnode.records import dataclass
from fastnode.sentinel.offenses import Offense

__all__ = [
    "Execution",
    "RoundReader",
    "TallyTerms",
    "VoteRules",
    "Votes",
    "encode_votes",
    "execution",
    "rounds_to_execute",
    "tally_votes",
]

_VOTES_PER_BYTE: Final = 4
_VOTE_BITS: Final = 2
_NO_ADDRESS: Final = bytes(20)


@dataclass(frozen=True, slots=True, kw_only=True)
class TallyTerms:
    """Terms of the contract.  ``amounts``: what a validator loses by 1, 2 and 3 units, ascending."""

    round_slots: int
    epoch_slots: int
    offset_rounds: int
    execution_delay_rounds: int
    lifetime_rounds: int
    quorum: int
    committee_size: int
    amounts: tuple[int, int, int]

    def round_at(self, slot: int) -> int:
        return slot // self.round_slots

    def epochs_of(self, number: int) -> range:
        """Epochs with a slot in a round."""
        first = number * self.round_slots
        return range(first // self.epoch_slots, (first + self.round_slots - 1) // self.epoch_slots + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRules:
    """Wishes of the operator: whom to slash in any case and in none, most places, how far back to execute."""

    always: Sequence[bytes] = ()
    never: Collection[bytes] = ()
    validators_max: int = 50
    look_back_rounds: int = 4


@dataclass(frozen=True, slots=True)
class Votes:
    """For the committees of ``slashed`` round, cast in ``round``."""

    round: int
    slashed: int
    votes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Execution:
    """``committees``: those of the round's epochs, empty where nobody is slashed."""

    round: int
    committees: tuple[tuple[bytes, ...], ...]


class CommitteesOf(Protocol):
    def __call__(self, epoch: int, /) -> Sequence[bytes] | None: ...


def tally_votes(
    slot: int, offenses: Iterable[Offense], terms: TallyTerms, rules: VoteRules, committee_of: CommitteesOf
) -> Votes | None:
    """Vote of the proposer of ``slot``; None: nothing.

    ``offenses``: all that are known; ``committee_of`` None: the epoch has none.
    """
    number = terms.round_at(slot)
    slashed = number - terms.offset_rounds
    if slashed < 0:
        return None
    counted = [
        offense
        for offense in offenses
        if terms.round_at(offense.slot(terms.epoch_slots)) == slashed and offense.validator not in rules.never
    ]
    always = [validator for validator in rules.always if validator not in rules.never]
    if not counted and not always:
        return None
    votes: list[int] = []
    for epoch in terms.epochs_of(slashed):
        members = committee_of(epoch) or (_NO_ADDRESS,) * terms.committee_size
        amounts = [_amount(member, epoch, counted, always, terms) for member in members]
        votes += [sum(amount >= unit for unit in terms.amounts) for amount in amounts]
        votes += [0] * (terms.committee_size - len(members))
    _keep_heaviest(votes, rules.validators_max)
    return Votes(number, slashed, tuple(votes)) if any(votes) else None


def _amount(member: bytes, epoch: int, offenses: Iterable[Offense], always: Sequence[bytes], terms: TallyTerms) -> int:
    """Cost of a member's deeds in an epoch; who is always slashed loses the most, in every epoch."""
    deeds = sum(
        offense.amount
        for offense in offenses
        if offense.validator == member and offense.slot(terms.epoch_slots) // terms.epoch_slots == epoch
    )
    return deeds + always.count(member) * terms.amounts[-1]


def _keep_heaviest(votes: list[int], count: int) -> None:
    """Take back all but ``count`` votes: of those that weigh the same the first stay."""
    places = sorted((place for place, vote in enumerate(votes) if vote), key=lambda place: -votes[place])
    for place in places[count:]:
        votes[place] = 0


def encode_votes(votes: Sequence[int]) -> bytes:
    """ValueError where the places of all committees are no multiple of four."""
    if len(votes) % _VOTES_PER_BYTE:
        raise ValueError(f"{len(votes)} votes are no whole bytes")
    groups = (votes[at : at + _VOTES_PER_BYTE] for at in range(0, len(votes), _VOTES_PER_BYTE))
    return bytes(sum(vote << _VOTE_BITS * place for place, vote in enumerate(group)) for group in groups)


def rounds_to_execute(slot: int, terms: TallyTerms, rules: VoteRules) -> range:
    """Rounds that may be executed in a slot, the oldest first: their delay is over, and they have not expired."""
    number = terms.round_at(slot)
    newest = number - terms.execution_delay_rounds - 1
    oldest = max(0, number - terms.lifetime_rounds, newest - rules.look_back_rounds)
    return range(oldest, newest + 1)


class RoundReader(Protocol):
    """A round according to L1."""

    def is_slashing_enabled(self) -> bool: ...

    def round(self, number: int) -> tuple[bool, int]:
        """True if it was executed, and the number of votes."""

    def is_ready(self, number: int, slot: int) -> bool: ...

    def tally(self, number: int) -> tuple[Sequence[tuple[bytes, int]], Sequence[Sequence[bytes]]]:
        """Losses by validator, and the committees of its epochs."""

    def payload(self, number: int, actions: Any, committees: Any) -> bytes:
        """Address of what executes it."""

    def is_vetoed(self, payload: bytes) -> bool: ...


def execution(slot: int, terms: TallyTerms, rules: VoteRules, reader: RoundReader) -> Execution | None:
    """The oldest round that can be executed in a slot and slashes anybody; None: there is none."""
    rounds = rounds_to_execute(slot, terms, rules)
    if not rounds or not reader.is_slashing_enabled():
        return None
    for number in rounds:
        is_executed, count = reader.round(number)
        if is_executed or count == 0 or count < terms.quorum or not reader.is_ready(number, slot):
            continue
        actions, committees = reader.tally(number)
        if not actions or reader.is_vetoed(reader.payload(number, actions, committees)):
            continue
        slashed = {validator for validator, _ in actions}
        return Execution(
            number,
            tuple(tuple(committee) if slashed.intersection(committee) else () for committee in committees),
        )
    return None
