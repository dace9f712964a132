"""Names for the schemas of a document that have none: generators of code name their types after the titles.

Without a title a generator names a type by a digest of its content (``AnyOfIntegerOmVsfaNvString1J8Cby5T``), and
otherwise in each release.  Here a schema is named by its place: ``NodeGetBlocksFrom``, and inside of that
``NodeGetBlocksFromInteger``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from fastnode.values.schemas import Schema

__all__ = ["pascal", "titled"]

_WORD_BEGINS: Final = re.compile(r"(?:^|[^A-Za-z0-9])([A-Za-z0-9])")
#: Members that hold one schema, several by name, or several in a row.
_ONE: Final = ("items", "additionalProperties")
_NAMED: Final = ("properties", "patternProperties")
_SEVERAL: Final = ("anyOf", "oneOf", "allOf")
_OF_ARRAYS: Final = "Item"


def pascal(name: str) -> str:
    """A name as types are written: ``node_getBlocks`` becomes ``NodeGetBlocks``."""
    return re.sub(r"[^A-Za-z0-9]", "", _WORD_BEGINS.sub(lambda found: found[1].upper(), name))


def titled(schema: Schema, title: str) -> Schema:
    """A copy in which each schema that is no reference has a title, ``title`` or one that begins with it."""
    if "$ref" in schema:
        return schema
    made: dict[str, Any] = dict(schema)
    made.setdefault("title", "Null" if schema == {"type": "null"} else title)
    for key in _ONE:
        if isinstance(inner := schema.get(key), dict):
            made[key] = titled(inner, title + _OF_ARRAYS)
        elif isinstance(inner, list):
            made[key] = [titled(each, f"{title}{_OF_ARRAYS}{number}") for number, each in enumerate(inner, 1)]
    for key in _NAMED:
        if key in schema:
            made[key] = {name: titled(each, title + (pascal(name) or _OF_ARRAYS)) for name, each in schema[key].items()}
    for key in _SEVERAL:
        if key in schema:
            names = _told_apart(_kind(each) for each in schema[key])
            made[key] = [titled(each, title + name) for each, name in zip(schema[key], names, strict=True)]
    return made


def _kind(schema: Schema) -> str:
    if "const" in schema:
        return pascal(str(schema["const"])) or "Constant"
    if "enum" in schema:
        return "Choice"
    kind = schema.get("type", "Any")
    return pascal(kind) if isinstance(kind, str) else "Any"


def _told_apart(names: Iterable[str]) -> list[str]:
    """The same names, with a number behind each that was there before."""
    seen: Counter[str] = Counter()
    made = []
    for name in names:
        seen[name] += 1
        made.append(name if seen[name] == 1 else f"{name}{seen[name]}")
    return made
