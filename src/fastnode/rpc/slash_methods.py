"""The admin methods about slashing, of a node that slashes nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fastnode.errors import ServerError
from fastnode.rpc.methods import Call, Method, Parameter, common
from fastnode.rpc.parameters import Integer

__all__ = ["methods"]

_WORDS: Final = ("all", "current")
_NUMBER: Final = Integer(name="round", minimum=0, accepts_text=True)


@dataclass(frozen=True, slots=True)
class Round:
    """A round's number, or one of two words."""

    name: str = "round"
    expects: str = 'the number of a round, "all" or "current"'

    def decode(self, value: object) -> int | str:
        return value if isinstance(value, str) and value in _WORDS else _NUMBER.decode(value)


def _not_enabled(_call: Call, *_: object) -> bytes:
    raise ServerError("Slasher client not enabled", data={"code": "SLASHER_NOT_ENABLED"})


def methods() -> list[Method]:
    return [
        Method(
            name="nodeAdmin_getSlashOffenses",
            summary="Offenses of a round. This node watches for none: an error says so.",
            handler=_not_enabled,
            **common("Offense[]", Parameter("round", Round())),
        ),
        Method(
            name="nodeAdmin_getSlashPayloads",
            summary="Payloads that are voted on. This node watches none: an error says so.",
            handler=_not_enabled,
            **common("SlashPayloadRound[]"),
        ),
    ]
