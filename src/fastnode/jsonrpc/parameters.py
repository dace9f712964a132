"""Parameter types: from a JSON value to what a handler works with, or a refusal that says why.

A type knows its name for the documentation and what it expects in words.  ``decode`` raises
:class:`Reject`; the method table puts the parameter's name and position in front of the reason.
Rules: what the reference node accepts, written down type by type; where fastnode is stricter,
docs/compatibility.md says so.

``null`` for an optional parameter never reaches a type: the method table treats it as absent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Protocol, runtime_checkable

from fastnode.kernels import encode
from fastnode.records import dataclass
from fastnode.values.refusal import Reject, describe

__all__ = [
    "ADDRESS",
    "BLOCK_HASH",
    "BOOLEAN",
    "FIELD",
    "TX_HASH",
    "TX_VALIDATION_OPTIONS",
    "Address",
    "ArrayOf",
    "Boolean",
    "Choice",
    "Field",
    "Integer",
    "NumberChoice",
    "Options",
    "ParameterType",
    "Text",
    "TxHash",
    "Widened",
    "read_integer_text",
]

#: No number that is in any range needs more digits.
NUMBER_TEXT_LENGTH_MAX: Final = 80


class ParameterType(Protocol):
    """How one parameter is read."""

    @property
    def name(self) -> str:
        """The type's name in the documentation."""

    @property
    def expects(self) -> str:
        """What is accepted, to follow "must be"."""

    def decode(self, value: object) -> Any:
        """The value for the handler; raises :class:`Reject`."""


@runtime_checkable
class Widened(ParameterType, Protocol):
    """A type of the release set for which the development set has a wider one."""

    @property
    def wider(self) -> ParameterType:
        """Takes all that this type takes, and more."""


def reject_type(kind: ParameterType, value: object) -> Reject:
    return Reject(f"must be {kind.expects}, got {describe(value)}")


# ---- hashes and addresses -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """A field element: ``0x`` and 1 to 64 hex digits, or decimal digits only.  Gives 32 bytes."""

    name: str = "Fr"
    expects: str = "a field element as a string (0x and 1 to 64 hex digits, or decimal digits)"

    def decode(self, value: object) -> bytes:
        if not isinstance(value, str):
            raise reject_type(self, value)
        try:
            return bytes(encode.field_from_text(value))
        except ValueError as error:
            raise Reject(f"must be {self.expects}, got {describe(value)} ({error})") from None


_BARE_HASH: Final = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})", re.ASCII)


def _read_full_hash(kind: ParameterType, value: object) -> bytes:
    """32 bytes from exactly 64 hex digits with or without ``0x``, below the field modulus."""
    if not isinstance(value, str):
        raise reject_type(kind, value)
    match = _BARE_HASH.fullmatch(value)
    if match is None:
        raise reject_type(kind, value)
    try:
        return bytes(encode.field_from_text("0x" + match[1]))
    except ValueError as error:
        raise Reject(f"must be {kind.expects}, got {describe(value)} ({error})") from None


@dataclass(frozen=True, slots=True)
class TxHash:
    """A transaction hash: all 64 hex digits, ``0x`` optional.  Gives 32 bytes."""

    name: str = "TxHash"
    expects: str = "a transaction hash (0x and 64 hex digits)"

    def decode(self, value: object) -> bytes:
        return _read_full_hash(self, value)


@dataclass(frozen=True, slots=True)
class Address:
    """A contract address: all 64 hex digits, ``0x`` optional.  Gives 32 bytes."""

    name: str = "AztecAddress"
    expects: str = "an address (0x and 64 hex digits)"

    def decode(self, value: object) -> bytes:
        return _read_full_hash(self, value)


# ---- numbers --------------------------------------------------------------------------------

_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_PREFIXED: Final = {"0x": 16, "0o": 8, "0b": 2}


def read_integer_text(text: str) -> int | None:
    """The integer that JavaScript's ``Number(text)`` gives, or None if it is not an integer.

    Blanks around the number, a sign, ``1e3``, ``2.0`` and the prefixes 0x, 0o, 0b are read; the
    empty string, which JavaScript reads as 0, is not.
    """
    text = text.strip()
    if not text or len(text) > NUMBER_TEXT_LENGTH_MAX:
        return None
    base = _PREFIXED.get(text[:2].lower())
    try:
        if base is not None:
            return int(text[2:], base) if text[2:].isalnum() else None
        if _DECIMAL.fullmatch(text) is None:
            return None
        if "." not in text and "e" not in text and "E" not in text:
            return int(text)
        number = float(text)
        return int(number) if number.is_integer() else None
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number within bounds; ``accepts_text`` also takes it as a string, as the reference does for numbers
    of blocks, checkpoints, epochs and slots."""

    name: str = "number"
    minimum: int | None = None
    maximum: int | None = None
    accepts_text: bool = False

    @property
    def expects(self) -> str:
        return "an integer" if self.accepts_text else "an integer (a JSON number)"

    def decode(self, value: object) -> int:
        number = self.read(value)
        if number is None:
            raise reject_type(self, value)
        if self.minimum is not None and number < self.minimum:
            raise Reject(f"must be at least {self.minimum}, got {describe(value)}")
        if self.maximum is not None and number > self.maximum:
            raise Reject(f"must be at most {self.maximum}, got {describe(value)}")
        return number

    def read(self, value: object) -> int | None:
        """The whole number that ``value`` is, whatever its size; None if it is none."""
        if type(value) is int:
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)  # JSON does not tell 1.0 and 1e30 from integers
        if self.accepts_text and isinstance(value, str):
            return read_integer_text(value)
        return None


# ---- choices and flags ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    name: str
    choices: tuple[str, ...]

    @property
    def expects(self) -> str:
        return "one of " + ", ".join(self.choices)

    def decode(self, value: object) -> str:
        if isinstance(value, str) and value in self.choices:
            return value
        raise reject_type(self, value)


@dataclass(frozen=True, slots=True)
class NumberChoice:
    """One of a few JSON numbers, each of which has a name."""

    name: str
    choices: Mapping[int, str] = field(hash=False)

    @property
    def expects(self) -> str:
        return "one of " + ", ".join(f"{number} ({name})" for number, name in self.choices.items())

    def decode(self, value: object) -> int:
        if isinstance(value, int | float) and not isinstance(value, bool) and value in self.choices:
            return int(value)
        raise reject_type(self, value)


@dataclass(frozen=True, slots=True)
class Boolean:
    name: str = "boolean"
    expects: str = "true or false"

    def decode(self, value: object) -> bool:
        if isinstance(value, bool):
            return value
        raise reject_type(self, value)


@dataclass(frozen=True, slots=True)
class Options:
    """An object of flags.  Gives the set of the flags that are true; unknown keys are ignored, as in the reference."""

    name: str
    flags: tuple[str, ...]

    @property
    def expects(self) -> str:
        return f"an object with the flags {', '.join(self.flags)}"

    def decode(self, value: object) -> frozenset[str]:
        if not isinstance(value, dict):
            raise reject_type(self, value)
        chosen = set()
        for flag in self.flags:
            if flag not in value:
                continue
            if not isinstance(value[flag], bool):
                raise Reject(f"must be true or false, got {describe(value[flag])}", f".{flag}")
            if value[flag]:
                chosen.add(flag)
        return frozenset(chosen)


# ---- text and arrays ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """A string of bounded length."""

    name: str = "string"
    length_max: int = 10_000

    @property
    def expects(self) -> str:
        return f"a string of at most {self.length_max} characters"

    def decode(self, value: object) -> str:
        if not isinstance(value, str):
            raise reject_type(self, value)
        if len(value) > self.length_max:
            raise Reject(f"must be {self.expects}, got {len(value)}")
        return value


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array of one type, of bounded length.  Gives a list."""

    element: ParameterType
    length_max: int

    @property
    def name(self) -> str:
        return f"{self.element.name}[]"

    @property
    def expects(self) -> str:
        return f"an array of at most {self.length_max}"

    def decode(self, value: object) -> list[Any]:
        if not isinstance(value, list):
            raise reject_type(self, value)
        if len(value) > self.length_max:
            raise Reject(f"must be {self.expects}, got {len(value)}")
        decoded = []
        for index, item in enumerate(value):
            try:
                decoded.append(self.element.decode(item))
            except Reject as error:
                raise Reject(error.reason, f"[{index}]{error.path}") from None
        return decoded


FIELD: Final = Field()
BLOCK_HASH: Final = Field(
    name="BlockHash", expects="a block hash as a string (0x and 1 to 64 hex digits, or decimal digits)"
)
TX_HASH: Final = TxHash()
ADDRESS: Final = Address()
BOOLEAN: Final = Boolean()
TX_VALIDATION_OPTIONS: Final = Options("TxValidationOptions", ("isSimulation", "skipFeeEnforcement"))
