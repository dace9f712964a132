"""Values of which there are a few: switches, words, named numbers, sets of flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Final

from fastnode.records import dataclass
from fastnode.values.refusal import Reject, describe, refuse_other_members
from fastnode.values.schemas import Schema, object_of
from fastnode.values.value_type import ValueType

__all__ = ["BOOLEAN", "Boolean", "Choice", "Levels", "NumberChoice", "Options"]


@dataclass(frozen=True, slots=True)
class Boolean(ValueType):
    """True or false; as text also 1 or 0."""

    is_switch: ClassVar[bool] = True

    name: str = "boolean"
    metavar: str = ""
    expects: str = "true or false"
    expects_text: str = "1, true, 0 or false"

    def from_text(self, text: str) -> bool:
        value = {"1": True, "true": True, "0": False, "false": False}.get(text.lower())
        if value is None:
            raise self.refuse_text(text)
        return value

    def from_json(self, value: object) -> bool:
        if isinstance(value, bool):
            return value
        raise self.refuse(value)

    def to_text(self, value: Any) -> str:
        return "true" if value else "false"

    def schema(self) -> Schema:
        return {"type": "boolean"}


BOOLEAN: Final = Boolean()


@dataclass(frozen=True, slots=True)
class Choice(ValueType):
    """One of a few words.  As text in any case, and by a synonym, which is read as the word it points to."""

    choices: tuple[str, ...]
    synonyms: tuple[tuple[str, str], ...] = ()
    name: str = field(default="string", kw_only=True)

    @property
    def metavar(self) -> str:
        return "|".join(self.choices)

    @property
    def expects(self) -> str:
        return " or ".join((", ".join(self.choices[:-1]), self.choices[-1]))

    @property
    def words(self) -> tuple[str, ...]:
        return self.choices

    def from_text(self, text: str) -> str:
        word = dict(self.synonyms).get(text.lower(), text.lower())
        if word not in self.choices:
            raise self.refuse_text(text)
        return word

    def from_toml(self, value: object) -> str:
        # `rpc-error-status = 400` is what one writes, so a number may stand for its word.
        if isinstance(value, str) or type(value) is int:
            return self.from_text(str(value))
        raise self.refuse(value)

    def from_json(self, value: object) -> str:
        if isinstance(value, str) and value in self.choices:
            return value
        raise self.refuse(value)

    def schema(self) -> Schema:
        return {"enum": list(self.choices)}


class Levels(Choice):
    """A word, or levels by module as nodes of the network take them: ``info; debug: archiver, p2p``.

    The level of all modules counts, ``info`` if there is none: the modules are those of other programs.
    """

    __slots__ = ()

    def from_text(self, text: str) -> str:
        parts = [part.partition(":") for part in text.split(";") if part.strip()]
        levels = [(Choice.from_text(self, level.strip()), colon) for level, colon, _ in parts]
        if not levels:
            raise self.refuse_text(text)
        return next((level for level, colon in levels if not colon), "info")


@dataclass(frozen=True, slots=True)
class NumberChoice(ValueType):
    """One of a few JSON numbers, each of which has a name."""

    name: str = field()
    choices: Mapping[int, str] = field(hash=False)

    @property
    def expects(self) -> str:
        return "one of " + ", ".join(f"{number} ({name})" for number, name in self.choices.items())

    def from_json(self, value: object) -> int:
        if isinstance(value, int | float) and not isinstance(value, bool) and value in self.choices:
            return int(value)
        raise self.refuse(value)

    def schema(self) -> Schema:
        return {"enum": list(self.choices), "description": self.expects}


@dataclass(frozen=True, slots=True)
class Options(ValueType):
    """An object of flags.  Gives the set of the flags that are true."""

    name: str = field()
    flags: tuple[str, ...]

    @property
    def expects(self) -> str:
        return f"an object with the flags {', '.join(self.flags)}"

    def from_json(self, value: object) -> frozenset[str]:
        if not isinstance(value, dict):
            raise self.refuse(value)
        refuse_other_members(value, self.flags)
        chosen = set()
        for flag in self.flags:
            if flag not in value:
                continue
            if not isinstance(value[flag], bool):
                raise Reject(f"must be true or false, got {describe(value[flag])}", f".{flag}")
            if value[flag]:
                chosen.add(flag)
        return frozenset(chosen)

    def to_json(self, value: Any) -> dict[str, bool]:
        return {flag: True for flag in self.flags if flag in value}

    def schema(self) -> Schema:
        return object_of({flag: {"type": "boolean"} for flag in self.flags}, closed=True)
