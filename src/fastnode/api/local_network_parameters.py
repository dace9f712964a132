"""The types of the parameters of a local network's methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fastnode.local_network.kept_state import OpenMessage
from fastnode.local_network.options import Fork
from fastnode.values.field_elements import ADDRESS, FIELD, Field
from fastnode.values.numbers import Integer
from fastnode.values.refusal import Reject, describe, refuse_other_members
from fastnode.values.schemas import Schema, object_of
from fastnode.values.texts import HexText
from fastnode.values.value_type import ValueType, definitions_of, read_member

__all__ = [
    "AMOUNT",
    "BLOCK_TIME",
    "DEPTH",
    "ETH_ADDRESS",
    "FORK_OPTIONS",
    "MESSAGE",
    "NUMBER",
    "SECONDS",
    "TIME_TEXT",
    "WORD",
]

NUMBER: Final = Integer(name="number", minimum=0, accepts_text=True)
SECONDS: Final = Integer(name="seconds", minimum=0, maximum=1 << 40, accepts_text=True)
AMOUNT: Final = Integer(name="bigint", minimum=0, accepts_text=True)

#: Digits of a time or of a number of seconds.
TIME_LENGTH_MAX: Final = 80


class TimeText(ValueType):
    """A time, or so many seconds from now."""

    __slots__ = ()

    name = "number"
    expects = "a timestamp, or +seconds"

    def from_json(self, value: object) -> str:
        if isinstance(value, str | int) and not isinstance(value, bool) and len(str(value)) < TIME_LENGTH_MAX:
            return str(value)
        raise self.refuse(value)

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "maxLength": TIME_LENGTH_MAX - 1}]}


class PaddedEthAddress(HexText):
    """An address on L1 as 20 bytes of hex; also at the end of 32, as contracts see it.  Gives 20 bytes."""

    __slots__ = ()

    def from_json(self, value: object) -> bytes:
        if isinstance(value, str):
            digits = value.removeprefix("0x")
            value = digits.removeprefix(_PADDING) if len(digits) > 2 * self.byte_count else value
        return bytes.fromhex(HexText.from_json(self, value)[2:])

    def schema(self) -> Schema:
        return {"type": "string", "pattern": "^(0x)?(0{24})?[0-9a-fA-F]{40}$"}


_PADDING: Final = "0" * 24
ETH_ADDRESS: Final = PaddedEthAddress(20, name="EthAddress", meaning="an L1 address")
_MESSAGE_TYPES: Final[Mapping[str, ValueType]] = {
    "sender": ETH_ADDRESS,
    "recipient": ADDRESS,
    "content": FIELD,
    "secretHash": FIELD,
}


class Message(ValueType):
    """A message from L1: ``{sender, recipient, content, secretHash}``."""

    __slots__ = ()

    name = "L1ToL2Message"
    expects = "an object with sender, recipient, content and secretHash"

    def from_json(self, value: object) -> OpenMessage:
        if not isinstance(value, dict):
            raise self.refuse(value)
        refuse_other_members(value, _MESSAGE_TYPES)
        return OpenMessage(*(read_member(kind, value.get(key), key) for key, kind in _MESSAGE_TYPES.items()))

    def schema(self) -> Schema:
        members = {key: kind.schema() for key, kind in _MESSAGE_TYPES.items()}
        return object_of(members, required=members, closed=True)

    def definitions(self) -> Mapping[str, Schema]:
        return definitions_of(_MESSAGE_TYPES.values())


class BlockTime(ValueType):
    """The time of a block to build, alone or as ``{timestamp, blocks}``."""

    __slots__ = ()

    name = "number"
    expects = "a timestamp, or an object with timestamp and blocks"

    def from_json(self, value: object) -> tuple[int | None, int]:
        if not isinstance(value, dict):
            return NUMBER.from_json(value), 1
        refuse_other_members(value, ("timestamp", "blocks"))
        timestamp, blocks = (
            None if value.get(key) is None else read_member(NUMBER, value[key], key) for key in ("timestamp", "blocks")
        )
        return timestamp, 1 if blocks is None else blocks

    def schema(self) -> Schema:
        return {
            "anyOf": [
                NUMBER.schema(),
                object_of({"timestamp": NUMBER.schema(), "blocks": NUMBER.schema()}, closed=True),
            ]
        }


class Depth(ValueType):
    """Number of blocks, alone or as ``{depth}``."""

    __slots__ = ()

    name = "number"
    expects = "a number of blocks"

    def from_json(self, value: object) -> int:
        if isinstance(value, dict):
            refuse_other_members(value, ("depth",))
            value = value.get("depth")
        return NUMBER.from_json(value)

    def schema(self) -> Schema:
        return {"anyOf": [NUMBER.schema(), object_of({"depth": NUMBER.schema()}, required=["depth"], closed=True)]}


class Word(Field):
    """32 bytes: a field element, or a number of up to 256 bits that is one."""

    __slots__ = ()

    def from_json(self, value: object) -> bytes:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            value = str(value)
        return Field.from_json(self, value)

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "integer", "minimum": 0}, Field.schema(self)]}


#: Names for what is copied: this node's own, and anvil's.
_SOURCES: Final = ("source", "jsonRpcUrl")


class ForkOptions(ValueType):
    """``{fork: {source, blockNumber}}``; anvil's ``{forking: {jsonRpcUrl, blockNumber}}`` means the same."""

    __slots__ = ()

    name = "{fork?: {source: string, blockNumber?: number}}"
    expects = "an object with fork, itself an object with source and blockNumber"

    def from_json(self, value: object) -> Fork:
        if not isinstance(value, dict):
            raise self.refuse(value)
        refuse_other_members(value, ("fork", "forking"))
        key = "fork" if value.get("fork") is not None else "forking"
        fork = value.get(key)
        if fork is None:
            return Fork(None, None)
        if not isinstance(fork, dict):
            raise Reject(f"must be an object, got {describe(fork)}", f".{key}")
        refuse_other_members(fork, (*_SOURCES, "blockNumber"), f".{key}")
        source, number = fork.get("source") or fork.get("jsonRpcUrl"), fork.get("blockNumber")
        if not isinstance(source, str) or not source or source.startswith("-"):
            reason = f"must be a chain file, a data directory or a URL, got {describe(source)}"
            raise Reject(reason, f".{key}.source")
        return Fork(source, None if number is None else read_member(NUMBER, number, f"{key}.blockNumber"))

    def schema(self) -> Schema:
        members: dict[str, Schema] = {name: {"type": "string", "pattern": "^[^-]"} for name in _SOURCES}
        members["blockNumber"] = NUMBER.schema()
        fork = {"anyOf": [object_of(members, required=[name], closed=True) for name in _SOURCES]}
        return object_of({"fork": fork, "forking": fork}, closed=True)


TIME_TEXT: Final = TimeText()
MESSAGE: Final = Message()
BLOCK_TIME: Final = BlockTime()
DEPTH: Final = Depth()
WORD: Final = Word(expects="a field element (a number, or text)")
FORK_OPTIONS: Final = ForkOptions()
