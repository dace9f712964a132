"""Abilities of every type of value: read from text and from JSON, describe itself, write back, give its JSON schema.

Settings, parameters of methods, and the keys of the configuration that the admin port changes share these types.

    from_text    a flag or an environment variable
    from_toml    a settings file
    from_json    a parameter of a method, a key of nodeAdmin_setConfig, a field of a network configuration

A type refuses a value with :class:`~fastnode.values.refusal.Reject`; the caller names the setting or the parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from fastnode.values.refusal import Reject, describe, refuse_other_members
from fastnode.values.schemas import Schema, reference

__all__ = ["NamedType", "ValueType", "definitions_of", "read_member", "read_members"]


class ValueType:
    """Base of all types.  A type is immutable and has no state but its limits.

    A dataclass that has one of the properties as a field writes ``field()`` where it has no default: dataclasses would
    take the property for one.
    """

    __slots__ = ()

    #: A flag of this type takes no value: ``--name`` and ``--no-name``.
    is_switch: ClassVar[bool] = False
    #: A flag of this type may be given several times.
    is_list: ClassVar[bool] = False
    #: The shell completes file names.
    is_path: ClassVar[bool] = False
    #: setConfig reads an empty text as "not set".
    is_unset_by_empty_text: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name of the type in the documentation of methods."""
        return "any"

    @property
    def metavar(self) -> str:
        """The placeholder in --help."""
        return "JSON"

    @property
    def expects(self) -> str:
        """Description of accepted JSON, to follow "must be"."""
        raise NotImplementedError

    @property
    def expects_text(self) -> str:
        """Description of accepted text, to follow "allowed: "."""
        return self.expects

    @property
    def title(self) -> str:
        """The name with the limits that the documentation shows beside it."""
        return self.name

    @property
    def words(self) -> tuple[str, ...]:
        """The texts that are accepted if they are few: the shell completes them."""
        return ()

    @property
    def wider(self) -> ValueType:
        """The type that the development set of methods has in place of this one; it takes all that this one takes."""
        return self

    def from_text(self, text: str) -> Any:
        """The value of ``text``.  A type without a text form of its own reads JSON."""
        import json

        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
        return self.from_json(value)

    def from_toml(self, value: object) -> Any:
        """The value of a TOML value; types that have a handier form in a file override this."""
        return self.from_json(value)

    def from_json(self, value: object) -> Any:
        """The value of a JSON value.  ``null`` never gets here: callers treat it as absent."""
        raise NotImplementedError

    def to_text(self, value: Any) -> str:
        """The value as ``from_text`` reads it, without what must not be shown."""
        return str(value)

    def to_json(self, value: Any) -> Any:
        """The value as ``from_json`` reads it."""
        return value

    def schema(self) -> Schema:
        """The JSON schema of what ``from_json`` accepts; it may refer to ``definitions``."""
        raise NotImplementedError

    def schema_shown(self) -> Schema:
        """The JSON schema of what ``to_json`` gives."""
        return self.schema()

    def definitions(self) -> Mapping[str, Schema]:
        """The named schemas that ``schema`` refers to."""
        return {}

    def refuse(self, value: object) -> Reject:
        """The refusal of a JSON value."""
        return Reject(f"must be {self.expects}, got {describe(value)}")

    def refuse_text(self, text: str) -> Reject:
        """The refusal of a text."""
        return Reject(f"must be {self.expects_text}, got {describe(text)}")


class NamedType(ValueType):
    """A type whose schema stands under a name of its own, to which others refer."""

    __slots__ = ()

    #: The name of the schema.
    component: ClassVar[str]

    def definition(self) -> Schema:
        """The value of the name."""
        raise NotImplementedError

    def parts(self) -> Iterable[ValueType]:
        """The types that the definition refers to."""
        return ()

    def schema(self) -> Schema:
        return reference(self.component)

    def definitions(self) -> Mapping[str, Schema]:
        return {self.component: self.definition()} | definitions_of(self.parts())


def definitions_of(kinds: Iterable[ValueType]) -> dict[str, Schema]:
    """The named schemas that any of the types refers to."""
    return {name: schema for kind in kinds for name, schema in kind.definitions().items()}


def read_members(kinds: Mapping[str, ValueType], value: dict[str, Any]) -> list[Any]:
    """Read a JSON object that has exactly the members of ``kinds``; return their values in that order.

    Reject names the member that is unknown, missing or wrong.
    """
    refuse_other_members(value, kinds)
    for key in kinds:
        if key not in value:
            raise Reject("is required", f".{key}")
    return [read_member(kind, value[key], key) for key, kind in kinds.items()]


def read_member(kind: ValueType, value: object, key: str) -> Any:
    """A member of a JSON object; the refusal names it."""
    try:
        return kind.from_json(value)
    except Reject as error:
        raise error.under(f".{key}") from None
