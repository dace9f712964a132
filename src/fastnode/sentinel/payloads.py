"""Votes where L1 takes whole payloads: which one a proposer backs, which it makes, and which it executes.

    payload         who loses how much, and for which offenses; anybody may put one on L1
    offense         may be in the payloads of the rounds after it can be known, until it expires
    a proposer      agrees with a payload if it knows each of its offenses, finds its amounts right, and misses none
                    that L1 alone shows; it backs the one with the highest (signals + 1) x sum of amounts, its own
                    among them while half of the remaining slots could still elect it

A payload that was elected in a round is executed once the delay after it is over, until it expires.  Nothing here asks
L1: what L1 says is given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from fastnode.records import dataclass
from fastnode.sentinel.offenses import Offense, OffenseType

__all__ = [
    "Choice",
    "ElectedPayload",
    "PayloadRules",
    "PayloadTerms",
    "RoundPayload",
    "Slash",
    "choose_payload",
    "payload_to_execute",
]

#: Percentages are counted in thousandths, as release 4.x does.
_THOUSAND: Final = 1000

#: Seen on L1 alone, so that every node must know them.
_UNCONTROVERSIAL: Final = frozenset(
    {
        OffenseType.PROPOSED_INSUFFICIENT_ATTESTATIONS,
        OffenseType.PROPOSED_INCORRECT_ATTESTATIONS,
        OffenseType.ATTESTED_DESCENDANT_OF_INVALID,
    }
)
#: Known only when the epoch was not proven in time.
_PRUNED: Final = frozenset({OffenseType.VALID_EPOCH_PRUNED, OffenseType.DATA_WITHHOLDING})


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadTerms:
    """Terms of the contracts."""

    round_slots: int
    epoch_slots: int
    proof_epochs: int
    quorum: int
    execution_delay_rounds: int
    lifetime_rounds: int

    def first_round_of(self, kind: OffenseType, at: int) -> int:
        """The first whose payloads may have an offense: the one after it can be known."""
        if not kind.is_of_epoch:
            return (at + 1) // self.round_slots + 1
        known_at = at + (self.proof_epochs if kind in _PRUNED else 1)
        return known_at * self.epoch_slots // self.round_slots + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadRules:
    """Rules of the operator.  ``penalties`` by kind; ``least`` and ``most``: multiples of them that a payload of others
    may ask for; ``override``: a payload that is voted for whatever is known."""

    penalties: Mapping[OffenseType, int]
    validators_max: int = 50
    expiration_rounds: int = 4
    least: float = 0.5
    most: float = 2.0
    override: bytes | None = None


@dataclass(frozen=True, slots=True)
class Slash:
    """``offenses``: kind, and the epoch or slot."""

    validator: bytes
    amount: int
    offenses: tuple[tuple[OffenseType, int], ...]


@dataclass(frozen=True, slots=True)
class RoundPayload:
    """With the signals that it has in a round."""

    address: bytes
    signals: int
    slashes: tuple[Slash, ...]

    @property
    def score(self) -> int:
        return (self.signals + 1) * sum(slash.amount for slash in self.slashes)


@dataclass(frozen=True, slots=True)
class Choice:
    """``address`` of a payload that is there, or ``slashes`` of one to be made and backed."""

    address: bytes | None
    slashes: tuple[Slash, ...] = ()


def choose_payload(
    slot: int, payloads: Iterable[RoundPayload], known: Collection[Offense], terms: PayloadTerms, rules: PayloadRules
) -> Choice | None:
    """Choice of the proposer of a slot; None: nothing.

    ``payloads``: those with signals in the slot's round; ``known``: offenses that no elected payload has.
    """
    if rules.override is not None:
        return Choice(rules.override)
    number, place = divmod(slot, terms.round_slots)
    here = sorted(payloads, key=lambda payload: payload.address)
    if any(payload.signals >= terms.quorum for payload in here):
        return None
    judge = _Judge(number, known, terms, rules)
    feasible = (payload for payload in here if terms.quorum - payload.signals <= terms.round_slots - place)
    backed = [payload for payload in feasible if judge.agrees_with(payload.slashes)]
    best = max(backed, key=lambda payload: payload.score, default=None)
    own = judge.own() if place <= (terms.round_slots - terms.quorum) // 2 else ()
    score = 0 if best is None else best.score
    if sum(slash.amount for slash in own) > score:
        return Choice(None, own)
    return None if best is None or score == 0 else Choice(best.address)


class _Judge:
    """In one round."""

    def __init__(self, number: int, known: Collection[Offense], terms: PayloadTerms, rules: PayloadRules) -> None:
        self._number, self._terms, self._rules = number, terms, rules
        self._known = {offense.key for offense in known}
        eligible = [offense for offense in known if self._is_eligible(offense.type, offense.at)]
        self._eligible = sorted(eligible, key=_rank)

    def _is_eligible(self, kind: OffenseType, at: int) -> bool:
        first = self._terms.first_round_of(kind, at)
        return first <= self._number <= first + self._rules.expiration_rounds

    def own(self) -> tuple[Slash, ...]:
        """The payload that this node would make: one offense each, the heaviest."""
        return tuple(
            Slash(offense.validator, offense.amount, ((offense.type, offense.at),))
            for offense in self._eligible[: self._rules.validators_max]
        )

    def agrees_with(self, slashes: Sequence[Slash]) -> bool:
        if len(slashes) > self._rules.validators_max or not all(map(self._is_right, slashes)):
            return False
        named = {(kind, at, slash.validator) for slash in slashes for kind, at in slash.offenses}
        required = [offense for offense in self._eligible if offense.type in _UNCONTROVERSIAL]
        return all(offense.key in named for offense in required[: self._rules.validators_max])

    def _is_right(self, slash: Slash) -> bool:
        for kind, at in slash.offenses:
            if (kind, at, slash.validator) not in self._known or not self._is_eligible(kind, at):
                return False
        least, most = (
            sum(self._penalty(kind) * int(share * _THOUSAND) // _THOUSAND for kind, _ in slash.offenses)
            for share in (self._rules.least, self._rules.most)
        )
        return least <= slash.amount <= most

    def _penalty(self, kind: OffenseType) -> int:
        return self._rules.penalties[kind]


def _rank(offense: Offense) -> tuple[int, int, int, bytes, int]:
    is_uncontroversial = offense.type in _UNCONTROVERSIAL
    return (not is_uncontroversial, -offense.amount, offense.at, offense.validator, -offense.type)


# ---- execution ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ElectedPayload:
    address: bytes
    round: int


class ElectionReader(Protocol):
    """Elections as L1 tells them."""

    def is_executed(self, number: int) -> bool: ...

    def is_slashing_enabled(self) -> bool: ...

    def is_vetoed(self, payload: bytes) -> bool: ...


def payload_to_execute(
    slot: int, elected: Iterable[ElectedPayload], terms: PayloadTerms, reader: ElectionReader
) -> ElectedPayload | None:
    """The first of those elected that may be executed in a slot; None: there is none."""
    number = slot // terms.round_slots
    for payload in elected:
        if number < payload.round + terms.execution_delay_rounds + 1:
            continue
        if payload.round + terms.lifetime_rounds < number or reader.is_executed(payload.round):
            continue
        if not reader.is_slashing_enabled():
            return None
        if not reader.is_vetoed(payload.address):
            return payload
    return None
