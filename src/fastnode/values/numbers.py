"""Numbers: whole ones, fractions, amounts of a token, durations, sizes."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any, Final

from fastnode.records import dataclass
from fastnode.values.schemas import NUMBER_TEXT, Schema
from fastnode.values.value_type import ValueType

__all__ = ["Amount", "Integer", "Number", "Seconds", "Size", "read_integer_text"]

#: No number that is in any range needs more digits.
NUMBER_TEXT_LENGTH_MAX: Final = 80
#: Digits of a field element.
HEX_DIGITS_MAX: Final = 64

_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_PREFIXED: Final = {"0x": 16, "0o": 8, "0b": 2}


def read_integer_text(text: str) -> int | None:
    """The integer that JavaScript's ``Number(text)`` gives, or None if it is not an integer.

    Blanks around a decimal number, a sign, ``1e3``, ``2.0`` and the prefixes 0x, 0o, 0b are read.  Not read are the
    empty string, which JavaScript takes for 0, and what may be a hash that was written wrongly: ``0X``, blanks around
    hex, and more than 64 digits of it.
    """
    base = _PREFIXED.get(text[:2])
    try:
        if base is not None:
            is_read = len(text) <= 2 + HEX_DIGITS_MAX and text.isascii() and text[2:].isalnum()
            return int(text[2:], base) if is_read else None
        text = text.strip()
        if not text or len(text) > NUMBER_TEXT_LENGTH_MAX:
            return None
        if _DECIMAL.fullmatch(text) is None:
            return None
        if "." not in text and "e" not in text and "E" not in text:
            return int(text)
        number = float(text)
        return int(number) if number.is_integer() else None
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class Integer(ValueType):
    """A whole number from ``minimum`` to ``maximum``, both included; None: no bound.

    ``accepts_text`` also takes it as a JSON string, as the reference does for numbers of blocks, checkpoints, epochs
    and slots.
    """

    minimum: int | None = None
    maximum: int | None = None
    name: str = field(default="number", kw_only=True)
    metavar: str = field(default="N", kw_only=True)
    accepts_text: bool = field(default=False, kw_only=True)

    @property
    def expects(self) -> str:
        if self.minimum is None:
            return "a whole number" if self.maximum is None else f"a whole number of at most {self.maximum}"
        if self.maximum is None:
            return f"a whole number of at least {self.minimum}"
        return f"a whole number from {self.minimum} to {self.maximum}"

    @property
    def title(self) -> str:
        if self.minimum is None:
            return self.name
        return f"{self.name} {self.minimum}..{'' if self.maximum is None else self.maximum}"

    def from_text(self, text: str) -> int:
        if re.fullmatch(r"[+-]?[0-9]{1,20}", text) is None:
            raise self.refuse_text(text)
        number = int(text)
        if not self._is_in_range(number):
            raise self.refuse_text(text)
        return number

    def from_json(self, value: object) -> int:
        number = self.read(value)
        if number is None or not self._is_in_range(number):
            raise self.refuse(value)
        return number

    def read(self, value: object) -> int | None:
        """The whole number, of any size, that a JSON value is; None if it is none."""
        if type(value) is int:
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)  # JSON does not tell 1.0 and 1e30 from integers
        if self.accepts_text and isinstance(value, str):
            return read_integer_text(value)
        return None

    def _is_in_range(self, number: int) -> bool:
        return (self.minimum is None or number >= self.minimum) and (self.maximum is None or number <= self.maximum)

    def schema(self) -> Schema:
        number: Schema = {"type": "integer"}
        if self.minimum is not None:
            number["minimum"] = self.minimum
        if self.maximum is not None:
            number["maximum"] = self.maximum
        return {"anyOf": [number, {"type": "string", "pattern": NUMBER_TEXT}]} if self.accepts_text else number


_AMOUNT_MAX: Final = (1 << 256) - 1
_AMOUNT_DIGITS: Final = "^[0-9]{1,78}$"


@dataclass(frozen=True, slots=True)
class Amount(ValueType):
    """A whole number of the smallest unit of a token, up to 256 bits; in TOML and JSON also as a string of digits."""

    name: str = "bigint"
    metavar: str = "N"
    expects: str = "a whole number from 0 to 2^256 - 1"

    def from_text(self, text: str) -> int:
        if re.fullmatch(r"[0-9]{1,78}", text) is None or int(text) > _AMOUNT_MAX:
            raise self.refuse_text(text)
        return int(text)

    def from_json(self, value: object) -> int:
        if isinstance(value, str):
            return self.from_text(value)
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if type(number) is not int or not 0 <= number <= _AMOUNT_MAX:
            raise self.refuse(value)
        return number

    def to_json(self, value: Any) -> str:
        return str(value)

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "integer", "minimum": 0}, self.schema_shown()]}

    def schema_shown(self) -> Schema:
        return {"type": "string", "pattern": _AMOUNT_DIGITS}


@dataclass(frozen=True, slots=True)
class Number(ValueType):
    """A number, fractions included, from ``minimum`` (or above it, if ``above_minimum``) to ``maximum``.

    A whole number is read as an int, so that it is shown as it was written.
    """

    minimum: float
    maximum: float
    above_minimum: bool = False
    name: str = field(default="float", kw_only=True)
    metavar: str = field(default="X", kw_only=True)

    @property
    def expects(self) -> str:
        return f"a number {'above' if self.above_minimum else 'from'} {self.minimum:g} to {self.maximum:g}"

    def from_text(self, text: str) -> float:
        if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text) is None or not self._is_in_range(float(text)):
            raise self.refuse_text(text)
        return self._as_written(float(text))

    def from_json(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not self._is_in_range(value):
            raise self.refuse(value)
        return self._as_written(value)

    def _is_in_range(self, value: float) -> bool:
        return self.minimum <= value <= self.maximum and not (self.above_minimum and value == self.minimum)

    @staticmethod
    def _as_written(value: float) -> float:
        return int(value) if int(value) == value else value

    def schema(self) -> Schema:
        least = "exclusiveMinimum" if self.above_minimum else "minimum"
        return {"type": "number", least: self.minimum, "maximum": self.maximum}


@dataclass(frozen=True, slots=True)
class Seconds(Number):
    """A number of seconds, fractions included; always a float."""

    metavar: str = field(default="SECONDS", kw_only=True)

    @property
    def expects(self) -> str:
        return f"seconds from {self.minimum:g} to {self.maximum:g}"

    @staticmethod
    def _as_written(value: float) -> float:
        return float(value)

    def to_text(self, value: Any) -> str:
        return f"{value:g}"


#: Multiples of a size's unit; 1mb is 1,048,576 bytes, as the network's other nodes read it.
_UNITS: Final = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


@dataclass(frozen=True, slots=True)
class Size(ValueType):
    """A number of bytes, written as digits with an optional unit: ``65536``, ``512kb``, ``1mb``."""

    minimum: int
    maximum: int
    metavar: str = "SIZE"

    @property
    def expects(self) -> str:
        return f"{self.to_text(self.minimum)} to {self.to_text(self.maximum)}, in bytes or with b, kb, mb or gb"

    def from_text(self, text: str) -> int:
        match = re.fullmatch(r"([0-9]{1,15}) ?(|b|kb|mb|gb)", text.lower())
        if match is None:
            raise self.refuse_text(text)
        size = int(match[1]) * _UNITS[match[2]]
        if not self.minimum <= size <= self.maximum:
            raise self.refuse_text(text)
        return size

    def from_json(self, value: object) -> int:
        if isinstance(value, str):
            return self.from_text(value)
        if type(value) is not int or not self.minimum <= value <= self.maximum:
            raise self.refuse(value)
        return value

    def to_text(self, value: Any) -> str:
        for unit in ("gb", "mb", "kb"):
            if value and value % _UNITS[unit] == 0:
                return f"{value // _UNITS[unit]}{unit}"
        return str(value)

    def schema(self) -> Schema:
        number = {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}
        return {"anyOf": [number, {"type": "string", "pattern": "^[0-9]{1,15} ?([bB]|[kKmMgG][bB])?$"}]}
