"""The admin methods about offenses of validators: those found here, and those that another node knows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from fastnode.errors import Refused, ServerError
from fastnode.jsonrpc.methods import Context, Gone, Method, Parameter, Signature, common
from fastnode.log import log_facts
from fastnode.records import dataclass
from fastnode.sentinel.offenses import ALL, CURRENT, Offense, RoundSize
from fastnode.values.numbers import Integer
from fastnode.values.refusal import Reject
from fastnode.values.schemas import Schema
from fastnode.values.value_type import ValueType
from fastnode.view import View

if TYPE_CHECKING:
    from fastnode.sentinel.watch import OffenseWatch

__all__ = ["AdminQuestions", "Slashing", "methods"]

logger = logging.getLogger(__name__)

OFFENSES: Final = "nodeAdmin_getSlashOffenses"
PAYLOADS: Final = "nodeAdmin_getSlashPayloads"

#: As release 4.x says it.
_TALLIED: Final = "Tally slashing model does not support slash payloads"
_WORDS: Final = (ALL, CURRENT)
_NUMBER: Final = Integer(name="round", minimum=0, accepts_text=True)


class AdminQuestions(Protocol):
    """Asks another node's admin port; RpcError when it refuses or does not answer."""

    def ask(self, method: str, parameters: Sequence[Any]) -> Any: ...


@dataclass(frozen=True, slots=True)
class Slashing:
    """``watch`` looks for offenses here; what ``other`` knows is joined to it.  Without both an error says so."""

    watch: OffenseWatch | None = None
    other: AdminQuestions | None = None
    size: RoundSize = field(default_factory=lambda: RoundSize(epochs=4, offset_rounds=2))
    #: Slash payloads of the current round; None where votes are tallied per validator.
    payloads: Callable[[], Sequence[dict[str, Any]] | None] = lambda: ()


class Round(ValueType):
    """A round's number, ``"current"`` or ``"all"``."""

    __slots__ = ()

    name = "round"
    expects = 'the number of a round, "all" or "current"'

    def from_json(self, value: object) -> int | str:
        if isinstance(value, str) and value in _WORDS:
            return value
        try:
            return _NUMBER.from_json(value)
        except Reject:
            raise self.refuse(value) from None

    def schema(self) -> Schema:
        return {"anyOf": [_NUMBER.schema(), {"enum": list(_WORDS)}]}


class _SlashMethods:
    def __init__(self, slashing: Slashing) -> None:
        self._watch = slashing.watch
        self._other = slashing.other
        self._size = slashing.size
        self._payloads = slashing.payloads

    def offenses(self, context: Context, wanted: int | str) -> bytes:
        if self._watch is None:
            return _json(self._of_other(context.view, wanted))
        own = self._watch.offenses(context.view.chain, wanted)
        if self._other is None:
            return _json(own)
        try:
            others = self._of_other(context.view, wanted)
        except (Refused, ServerError) as error:
            logger.warning("only the own offenses are shown", extra=log_facts(reason=error.message))
            return _json(own)
        known = {offense.key for offense in own}
        return _json([*own, *(offense for offense in others if offense.key not in known)])

    def payloads(self, _context: Context) -> bytes:
        """A network that tallies votes per validator has no payload to vote for, and asking for one is a mistake."""
        if self._watch is None:
            return orjson.dumps(self._required_other.ask(PAYLOADS, []))
        payloads = self._payloads()
        if payloads is None:
            raise ServerError(_TALLIED, data={"code": "NO_SLASH_PAYLOADS"})
        return orjson.dumps(list(payloads))

    @property
    def _required_other(self) -> AdminQuestions:
        if self._other is None:
            raise ServerError("Slasher client not enabled", data={"code": "SLASHER_NOT_ENABLED"})
        return self._other

    def _of_other(self, view: View, wanted: int | str) -> list[Offense]:
        if isinstance(wanted, str):
            return _read(self._required_other.ask(OFFENSES, [wanted]))
        # The reference node takes the two words only.
        duration, recorded = view.chain.chain.epoch_duration, wanted - self._size.offset_rounds
        everything = _read(self._required_other.ask(OFFENSES, [ALL]))
        return [offense for offense in everything if self._size.round_of(offense, duration) == recorded]


def _read(answer: Any) -> list[Offense]:
    try:
        if not isinstance(answer, list):
            raise TypeError
        return [Offense.from_json(item) for item in answer]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ServerError("The other node's answer is not understood", data={"code": "UPSTREAM_REJECTED"}) from error


def _json(offenses: Sequence[Offense]) -> bytes:
    return orjson.dumps([offense.to_json() for offense in offenses])


def methods(slashing: Slashing) -> list[Method]:
    handlers = _SlashMethods(slashing)
    return [
        Method(
            name=OFFENSES,
            summary="Offenses that are voted on in a round, or all that have not expired.",
            handler=handlers.offenses,
            in_thread=True,
            waits=True,
            **common("Offense[]", Parameter("round", Round())),
        ),
        Method(
            name=PAYLOADS,
            summary="Payloads that are voted on in this round; an error where votes are tallied per validator.",
            handler=handlers.payloads,
            in_thread=True,
            waits=True,
            release=Signature("SlashPayloadRound[]"),
            five=Gone("votes are tallied there"),
        ),
    ]
