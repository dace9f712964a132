"""Types as the documentation writes them, and their JSON schemas.

    Fr[]                    an array
    (Fr|null)[]             brackets group, | is a choice
    [bigint, SiblingPath]   a tuple
    {root: Fr, index?: bigint}   an object; ? marks a key that may be absent
    "dropped"|"pending"     texts
    BlockHeader             a name: a reference to the component of this name

The same notation names the results in the method table and the members of records in api/record_schemas.py.
"""

from __future__ import annotations

import re
from typing import Final

from fastnode.values.schemas import Schema, reference

__all__ = ["schema_of"]

_TOKEN: Final = re.compile(r'\s*("[^"]*"|[A-Za-z_$][\w$]*|\[\]|[\[\](){}|,:?])')


def schema_of(expression: str) -> Schema:
    """The schema of a type; ValueError for what the notation does not know."""
    reader = _Reader(expression)
    schema = reader.choice()
    reader.expect_end()
    return schema


class _Reader:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens: list[str] = []
        position = 0
        while position < len(expression.rstrip()):
            match = _TOKEN.match(expression, position)
            if match is None:
                raise ValueError(f"{expression!r} is no type: stuck at {expression[position:]!r}")
            self._tokens.append(match[1])
            position = match.end()
        self._tokens.reverse()

    def choice(self) -> Schema:
        options = [self._suffixed()]
        while self._take("|"):
            options.append(self._suffixed())
        if len(options) == 1:
            return options[0]
        if all(set(option) == {"const"} for option in options):
            return {"enum": [option["const"] for option in options]}
        return {"anyOf": options}

    def _suffixed(self) -> Schema:
        schema = self._simple()
        while self._take("[]"):
            schema = {"type": "array", "items": schema}
        return schema

    def _simple(self) -> Schema:
        token = self._next()
        if token == "(":
            schema = self.choice()
            self._expect(")")
            return schema
        if token == "[":
            return self._tuple()
        if token == "{":
            return self._object()
        if token.startswith('"'):
            return {"const": token[1:-1]}
        if token == "null":
            return {"type": "null"}
        if not token[0].isalpha():
            raise ValueError(f"{self._expression!r} is no type: {token!r} is not expected")
        return reference(token)

    def _tuple(self) -> Schema:
        items = [self.choice()]
        while self._take(","):
            items.append(self.choice())
        self._expect("]")
        return {"type": "array", "items": items, "minItems": len(items), "maxItems": len(items)}

    def _object(self) -> Schema:
        properties: dict[str, Schema] = {}
        required: list[str] = []
        while not self._take("}"):
            if properties:
                self._expect(",")
            name = self._next()
            if not self._take("?"):
                required.append(name)
            self._expect(":")
            properties[name] = self.choice()
        return {"type": "object", "properties": properties, "required": required}

    # ---- tokens

    def _next(self) -> str:
        if not self._tokens:
            raise ValueError(f"{self._expression!r} is no type: it ends too early")
        return self._tokens.pop()

    def _take(self, token: str) -> bool:
        if self._tokens and self._tokens[-1] == token:
            self._tokens.pop()
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise ValueError(f"{self._expression!r} is no type: {token!r} is missing")

    def expect_end(self) -> None:
        if self._tokens:
            raise ValueError(f"{self._expression!r} is no type: {self._tokens[-1]!r} is too much")
