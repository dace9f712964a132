"""Pieces of JSON schemas (draft 7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

__all__ = ["NUMBER_TEXT", "Schema", "object_of", "one_key", "reference"]

Schema: TypeAlias = dict[str, Any]

#: Texts that are read as numbers: decimal digits with fraction and exponent, or a prefix and digits.
NUMBER_TEXT: Final = (
    r"^(\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*|0x[0-9a-fA-F]{1,64}|0o[0-7]{1,64}|0b[01]{1,64})$"
)


def reference(name: str) -> Schema:
    """The component of this name."""
    return {"$ref": f"#/components/schemas/{name}"}


def object_of(members: Mapping[str, Schema], required: Iterable[str] = (), *, closed: bool = False) -> Schema:
    """An object with these members; a ``closed`` one has no others."""
    schema: Schema = {"type": "object", "properties": dict(members)}
    if names := list(required):
        schema["required"] = names
    if closed:
        schema["additionalProperties"] = False
    return schema


def one_key(members: Mapping[str, Schema]) -> Schema:
    """An object with exactly one of the keys."""
    return {**object_of(members, closed=True), "minProperties": 1, "maxProperties": 1}
