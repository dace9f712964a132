"""The admin methods about offenses of validators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from fastnode.errors import ServerError
from fastnode.rpc.methods import Call, Method, Parameter, common
from fastnode.rpc.parameters import Integer
from fastnode.sentinel.offenses import ALL, CURRENT, OffenseWatch

__all__ = ["methods"]

_WORDS: Final = (ALL, CURRENT)
_NUMBER: Final = Integer(name="round", minimum=0, accepts_text=True)


@dataclass(frozen=True, slots=True)
class Round:
    """A round's number, or one of two words."""

    name: str = "round"
    expects: str = 'the number of a round, "all" or "current"'

    def decode(self, value: object) -> int | str:
        return value if isinstance(value, str) and value in _WORDS else _NUMBER.decode(value)


class _SlashMethods:
    def __init__(self, watch: OffenseWatch | None) -> None:
        self._given = watch

    @property
    def _watch(self) -> OffenseWatch:
        if self._given is None:
            raise ServerError("Slasher client not enabled", data={"code": "SLASHER_NOT_ENABLED"})
        return self._given

    def offenses(self, call: Call, wanted: int | str) -> bytes:
        return orjson.dumps(self._watch.offenses(call.view.chain, wanted))

    def payloads(self, _call: Call) -> bytes:
        """None: votes are tallied per validator, there is no payload to vote for."""
        _ = self._watch  # or the error
        return b"[]"


def methods(watch: OffenseWatch | None) -> list[Method]:
    """``watch`` None: the node looks for no offenses, and an error says so."""
    handlers = _SlashMethods(watch)
    return [
        Method(
            name="nodeAdmin_getSlashOffenses",
            summary="Offenses that are voted on in a round, or all that have not expired.",
            handler=handlers.offenses,
            in_thread=True,
            **common("Offense[]", Parameter("round", Round())),
        ),
        Method(
            name="nodeAdmin_getSlashPayloads",
            summary="Payloads that are voted on: none, as votes are tallied per validator.",
            handler=handlers.payloads,
            **common("SlashPayloadRound[]"),
        ),
    ]
