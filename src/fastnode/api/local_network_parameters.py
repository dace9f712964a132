"""The types of the parameters of a local network's methods."""

from __future__ import annotations

import re
from typing import Final

from fastnode.api.schema_language import Schema
from fastnode.jsonrpc.parameters import ADDRESS, FIELD, Integer, reject_type
from fastnode.local_network.kept import OpenMessage
from fastnode.records import dataclass
from fastnode.values.refusal import Reject, describe

__all__ = ["AMOUNT", "NUMBER", "SECONDS", "WORD", "BlockTime", "Depth", "EthAddress", "Message", "TimeText"]

NUMBER: Final = Integer(name="number", minimum=0, accepts_text=True)
SECONDS: Final = Integer(name="seconds", minimum=0, maximum=1 << 40, accepts_text=True)
AMOUNT: Final = Integer(name="bigint", minimum=0, accepts_text=True)
_QUANTITY: Final[Schema] = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}


@dataclass(frozen=True, slots=True)
class TimeText:
    """A time, or so many seconds from now."""

    name: str = "number"
    expects: str = "a timestamp, or +seconds"

    @property
    def json_schema(self) -> Schema:
        return {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}

    def decode(self, value: object) -> str:
        if isinstance(value, str | int) and not isinstance(value, bool) and len(str(value)) < 80:
            return str(value)
        raise Reject(f"must be {self.expects}, got {describe(value)}")


@dataclass(frozen=True, slots=True)
class EthAddress:
    """20 bytes as hex; also at the end of 32, as contracts see it."""

    name: str = "EthAddress"
    expects: str = "an L1 address (0x and 40 hex digits)"

    @property
    def json_schema(self) -> Schema:
        return {"type": "string", "pattern": "^(0[xX])?(0{24})?[0-9a-fA-F]{40}$"}

    def decode(self, value: object) -> bytes:
        if isinstance(value, str):
            match = re.fullmatch(r"(?:0[xX])?(?:0{24})?([0-9a-fA-F]{40})", value, re.ASCII)
            if match is not None:
                return bytes.fromhex(match[1])
        raise reject_type(self, value)


@dataclass(frozen=True, slots=True)
class Message:
    """A message from L1: ``{sender, recipient, content, secretHash}``."""

    name: str = "L1ToL2Message"
    expects: str = "an object with sender, recipient, content and secretHash"

    @property
    def json_schema(self) -> Schema:
        return {
            "type": "object",
            "properties": {key: {"type": "string"} for key in ("sender", "recipient", "content", "secretHash")},
            "required": ["sender", "recipient", "content", "secretHash"],
        }

    def decode(self, value: object) -> OpenMessage:
        if not isinstance(value, dict):
            raise reject_type(self, value)
        kinds = (("sender", EthAddress()), ("recipient", ADDRESS), ("content", FIELD), ("secretHash", FIELD))
        parts = []
        for key, kind in kinds:
            try:
                parts.append(kind.decode(value.get(key)))
            except Reject as error:
                raise Reject(error.reason, f".{key}") from None
        return OpenMessage(*parts)


@dataclass(frozen=True, slots=True)
class BlockTime:
    """The time of a block to build, alone or as ``{timestamp, blocks}``."""

    name: str = "number"
    expects: str = "a timestamp, or an object with timestamp and blocks"

    @property
    def json_schema(self) -> Schema:
        return {"anyOf": [_QUANTITY, {"type": "object", "properties": {"timestamp": _QUANTITY, "blocks": _QUANTITY}}]}

    def decode(self, value: object) -> tuple[int | None, int]:
        if not isinstance(value, dict):
            return NUMBER.decode(value), 1
        timestamp, blocks = value.get("timestamp"), value.get("blocks")
        return None if timestamp is None else NUMBER.decode(timestamp), 1 if blocks is None else NUMBER.decode(blocks)


@dataclass(frozen=True, slots=True)
class Depth:
    """How many blocks, alone or as ``{depth}``."""

    name: str = "number"
    expects: str = "a number of blocks"

    @property
    def json_schema(self) -> Schema:
        return {"anyOf": [_QUANTITY, {"type": "object", "properties": {"depth": _QUANTITY}}]}

    def decode(self, value: object) -> int:
        return NUMBER.decode(value.get("depth") if isinstance(value, dict) else value)


@dataclass(frozen=True, slots=True)
class Word:
    """32 bytes: a field element, or a number of up to 256 bits that is one."""

    name: str = "Fr"
    expects: str = "a field element (a number, or text)"

    @property
    def json_schema(self) -> Schema:
        return _QUANTITY

    def decode(self, value: object) -> bytes:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            value = str(value)
        return FIELD.decode(value)


WORD: Final = Word()
