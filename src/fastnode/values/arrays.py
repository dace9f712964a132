"""Arrays of one type: JSON arrays, TOML lists, and texts with commas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

from fastnode.records import dataclass
from fastnode.values.refusal import Reject
from fastnode.values.schemas import Schema
from fastnode.values.texts import Text
from fastnode.values.value_type import ValueType

__all__ = ["ArrayOf", "texts"]


@dataclass(frozen=True, slots=True)
class ArrayOf(ValueType):
    """An array of ``length_min`` to ``length_max`` values of one type.  Gives a tuple.

    As text the values stand between commas; a flag may be repeated instead.  A settings file has a list, or that text.
    """

    is_list: ClassVar[bool] = True

    element: ValueType
    length_max: int | None = None
    length_min: int = field(default=0, kw_only=True)
    #: Description of allowed text, if it is not the element's.
    meaning: str = field(default="", kw_only=True)

    @property
    def name(self) -> str:
        return f"{self.element.name}[]"

    @property
    def metavar(self) -> str:
        return self.element.metavar

    @property
    def expects(self) -> str:
        if self.length_max is not None:
            return f"an array of at most {self.length_max}"
        return "an array that is not empty" if self.length_min else "an array"

    @property
    def expects_text(self) -> str:
        return self.meaning or f"{self.element.expects_text} each, separated by commas"

    def from_text(self, text: str) -> tuple[Any, ...]:
        parts = [part.strip() for part in text.split(",")] if text else []
        if len(parts) < self.length_min or (self.length_max is not None and len(parts) > self.length_max):
            raise self.refuse_text(text)
        return tuple(map(self.element.from_text, parts))

    def from_toml(self, value: object) -> tuple[Any, ...]:
        return self.from_text(value) if isinstance(value, str) else self.from_json(value)

    def from_json(self, value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) < self.length_min:
            raise self.refuse(value)
        if self.length_max is not None and len(value) > self.length_max:
            raise Reject(f"must be {self.expects}, got {len(value)}")
        read = []
        for index, item in enumerate(value):
            try:
                read.append(self.element.from_json(item))
            except Reject as error:
                raise error.under(f"[{index}]") from None
        return tuple(read)

    def to_text(self, value: Any) -> str:
        return ",".join(map(self.element.to_text, value))

    def to_json(self, value: Any) -> list[Any]:
        return list(map(self.element.to_json, value))

    def schema(self) -> Schema:
        return self._bounded(self.element.schema())

    def schema_shown(self) -> Schema:
        return self._bounded(self.element.schema_shown())

    def _bounded(self, items: Schema) -> Schema:
        schema: Schema = {"type": "array", "items": items}
        if self.length_min:
            schema["minItems"] = self.length_min
        if self.length_max is not None:
            schema["maxItems"] = self.length_max
        return schema

    def definitions(self) -> Mapping[str, Schema]:
        return self.element.definitions()


def texts(metavar: str, meaning: str = "one or more texts, separated by commas") -> ArrayOf:
    """At least one text."""
    return ArrayOf(Text(metavar=metavar), length_min=1, meaning=meaning)
