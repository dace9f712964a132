"""A number of processes or threads, or the word that has the machine decide."""

from __future__ import annotations

from typing import Any, Final

from fastnode.records import dataclass
from fastnode.values.schemas import Schema
from fastnode.values.value_type import ValueType

__all__ = ["AUTO", "CountOrAuto"]

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
