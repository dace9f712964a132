"""Calls of contracts and their answers, as far as the rollup's contracts need it.

    call data    selector 4 | argument 32 ...         selector = first 4 bytes of keccak(signature)
    answer       word 32 ...                          one word per output; an array of addresses alone is
                                                      offset 32 | count 32 | address 32 ...
    log          topics [keccak(signature), indexed argument ...], data: word 32 ... of the others

Words are big endian.  Addresses and numbers are at the end of their word, ``bytes16`` at its start.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

from fastnode.errors import DecodeError
from fastnode.kernels import encode
from fastnode.protocol.constants import JSON_INTEGER_MAX
from fastnode.protocol.ethereum import keccak_256

__all__ = [
    "ADDRESS_BYTES",
    "WORD_BYTES",
    "Argument",
    "Event",
    "Function",
    "Kind",
    "from_amount",
    "from_quantity",
    "hex_data",
    "quantity",
    "words_of",
]

WORD_BYTES: Final = 32
ADDRESS_BYTES: Final = 20
_SELECTOR_BYTES: Final = 4
_ROLLING_BYTES: Final = 16

#: An argument: a number, an address (20 bytes) or a word (32 bytes).
Argument: TypeAlias = int | bytes


class Kind(Enum):
    """The type of a word."""

    NUMBER = "number"
    #: A number that is kept and answered as a JSON number: of a block, a checkpoint, a slot, seconds.
    COUNT = "count"
    ADDRESS = "address"
    BYTES32 = "bytes32"
    BYTES16 = "bytes16"
    BOOLEAN = "boolean"
    ADDRESSES = "addresses"  # an array; only as the one output of a function


class Function:
    """A function that is asked with ``eth_call``."""

    def __init__(self, signature: str, *outputs: Kind) -> None:
        self.name = signature.partition("(")[0]
        self.selector = keccak_256(signature.encode())[:_SELECTOR_BYTES]
        self._outputs = outputs

    def encode(self, *arguments: Argument) -> str:
        """Call data as hex."""
        return hex_data(self.selector + b"".join(map(_word, arguments)))

    def decode(self, answer: object) -> tuple[Any, ...]:
        """The outputs; DecodeError for an answer that cannot be this function's."""
        words = words_of(answer, self.name)
        if self._outputs == (Kind.ADDRESSES,):
            return (_addresses(words, self.name),)
        if len(words) < len(self._outputs):
            raise DecodeError(f"{self.name}: {len(words)} words instead of {len(self._outputs)}")
        return tuple(_value(word, kind, self.name) for word, kind in zip(words, self._outputs, strict=False))


class Event:
    """A log with a name: first the indexed arguments, then the others."""

    def __init__(self, signature: str, indexed: Sequence[Kind], others: Sequence[Kind]) -> None:
        self.name = signature.partition("(")[0]
        self.topic = hex_data(keccak_256(signature.encode()))
        self._indexed, self._others = tuple(indexed), tuple(others)

    def decode(self, log: dict[str, Any]) -> tuple[Any, ...]:
        """Values of the indexed arguments, then of the others; DecodeError if it is no log of this event."""
        topics = log.get("topics")
        if not isinstance(topics, list) or len(topics) != 1 + len(self._indexed) or topics[0] != self.topic:
            raise DecodeError(f"{self.name}: a log of another event")
        words = [word for topic in topics[1:] for word in words_of(topic, self.name)]
        data = words_of(log.get("data"), self.name)
        if len(words) != len(self._indexed) or len(data) != len(self._others):
            raise DecodeError(f"{self.name}: a log of {len(words)} + {len(data)} words")
        kinds = self._indexed + self._others
        return tuple(_value(word, kind, self.name) for word, kind in zip(words + data, kinds, strict=True))


def hex_data(data: bytes) -> str:
    return encode.to_hex(data).decode()


def quantity(number: int) -> str:
    return hex(number)


def from_quantity(value: object, name: str) -> int:
    """A count of the execution API: ``0x`` and hex digits, not more than :data:`JSON_INTEGER_MAX`."""
    count = from_amount(value, name)
    if count > JSON_INTEGER_MAX:
        raise DecodeError(f"{name}: {value} is no count")
    return count


def from_amount(value: object, name: str) -> int:
    """An amount of money, as :func:`from_quantity`, of a word at most."""
    if isinstance(value, str) and value.startswith("0x") and len(value) <= 2 + 2 * WORD_BYTES:
        try:
            return int(value, 16)
        except ValueError:
            pass
    raise DecodeError(f"{name}: no quantity")


def words_of(value: object, name: str) -> list[bytes]:
    """The words of hex data."""
    try:
        data = encode.from_hex(value) if isinstance(value, str) else None
    except ValueError:
        data = None
    if data is None or len(data) % WORD_BYTES:
        raise DecodeError(f"{name}: no words")
    return [data[at : at + WORD_BYTES] for at in range(0, len(data), WORD_BYTES)]


def _word(argument: Argument) -> bytes:
    if isinstance(argument, int):
        return argument.to_bytes(WORD_BYTES, "big")
    return argument.rjust(WORD_BYTES, b"\0")


def _value(word: bytes, kind: Kind, name: str) -> Any:
    if kind is Kind.BYTES32:
        return word
    if kind is Kind.BYTES16:
        return word[:_ROLLING_BYTES]
    number = int.from_bytes(word, "big")
    if kind is Kind.NUMBER or (kind is Kind.COUNT and number <= JSON_INTEGER_MAX):
        return number
    if kind is Kind.BOOLEAN and number <= 1:
        return bool(number)
    if kind is Kind.ADDRESS and number < 1 << 8 * ADDRESS_BYTES:
        return word[-ADDRESS_BYTES:]
    raise DecodeError(f"{name}: {hex_data(word)} is no {kind.value}")


def _addresses(words: Sequence[bytes], name: str) -> tuple[bytes, ...]:
    if len(words) < 2 or int.from_bytes(words[0], "big") != WORD_BYTES:
        raise DecodeError(f"{name}: no array")
    count = int.from_bytes(words[1], "big")
    if count != len(words) - 2:
        raise DecodeError(f"{name}: an array of {count} in {len(words) - 2} words")
    return tuple(_value(word, Kind.ADDRESS, name) for word in words[2:])
