"""Numbers of things with another way to say them: a word that has the machine decide, or the bytes that they take."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from fastnode.records import dataclass
from fastnode.values.schemas import Schema
from fastnode.values.value_type import ValueType

__all__ = ["AUTO", "CountOrAuto", "CountOrSize", "Quantity"]

#: As many as the machine has processors.
AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class CountOrAuto(ValueType):
    """A whole number from 0 to ``maximum``, or ``auto``."""

    maximum: int
    name: str = "count"
    metavar: str = "N|auto"

    @property
    def expects(self) -> str:
        return f"a whole number from 0 to {self.maximum}, or {AUTO}"

    def from_text(self, text: str) -> int | str:
        if text == AUTO:
            return AUTO
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) <= self.maximum):
            raise self.refuse_text(text)
        return int(text)

    def from_json(self, value: object) -> int | str:
        if value == AUTO:
            return AUTO
        if type(value) is not int or not 0 <= value <= self.maximum:
            raise self.refuse(value)
        return value

    def to_json(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "integer", "minimum": 0, "maximum": self.maximum}, {"const": AUTO}]}


class Quantity(NamedTuple):
    """So many things, or so many bytes of them; the other one is None."""

    number: int | None = None
    size: int | None = None


_UNITS: Final = {"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


@dataclass(frozen=True, slots=True)
class CountOrSize(ValueType):
    """A whole number of things, or the bytes that they may take: ``10000``, ``20gb``."""

    name: str = "quantity"
    metavar: str = "N|SIZE"
    expects: str = "a whole number, or a size with kb, mb or gb"

    def from_text(self, text: str) -> Quantity:
        match = re.fullmatch(r"([0-9]{1,15}) ?(|kb|mb|gb)", text.lower())
        if match is None:
            raise self.refuse_text(text)
        number, unit = int(match[1]), match[2]
        return Quantity(size=number * _UNITS[unit]) if unit else Quantity(number=number)

    def from_json(self, value: object) -> Quantity:
        if isinstance(value, str):
            return self.from_text(value)
        if type(value) is not int or value < 0:
            raise self.refuse(value)
        return Quantity(number=value)

    def to_json(self, value: Any) -> Any:
        return self.to_text(value) if value.number is None else value.number

    def to_text(self, value: Any) -> str:
        if value.number is not None:
            return str(value.number)
        unit = next((name for name, size in reversed(_UNITS.items()) if value.size % size == 0), "kb")
        return f"{value.size // _UNITS[unit]}{unit}"

    def schema(self) -> Schema:
        number = {"type": "integer", "minimum": 0}
        return {"anyOf": [number, {"type": "string", "pattern": "^[0-9]{1,15} ?([kKmMgG][bB])?$"}]}
