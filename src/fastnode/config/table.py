"""Rows of the settings table: what each says about a setting, and how a table is written down and read."""

from __future__ import annotations

import functools
from dataclasses import field, fields
from typing import Any

from fastnode.config.needs import Need
from fastnode.records import dataclass
from fastnode.values.value_type import ValueType

__all__ = [
    "CHECK",
    "ENVIRONMENT_PREFIX",
    "EXPORT",
    "IMPORT",
    "PROOFS",
    "START",
    "STORE_COMMANDS",
    "Setting",
    "rows",
    "setting",
]

#: Environment names that begin with this belong to the node; an unknown one stops the start.
ENVIRONMENT_PREFIX = "SVC_"

# Commands that take settings.
START = "start"
IMPORT = "import"
EXPORT = "export"
CHECK = "db check"
PROOFS = "proofs"
STORE_COMMANDS = (START, IMPORT, EXPORT, CHECK)


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    name: str
    kind: ValueType
    default: Any
    section: str
    help: str
    commands: tuple[str, ...]
    other_environment: tuple[str, ...]  # accepted beside the SVC_ name
    other_flags: tuple[str, ...]  # accepted beside --name
    secret: bool  # never shown
    needs: Need | None  # what it has no effect without; None: it always has one
    packages: tuple[str, ...]  # of extras, which a value takes
    whole_release: bool  # refused on a chain of a release that this node only reads
    untried: str  # attribute of the setting with which it is not; empty: there is none

    @property
    def attribute(self) -> str:
        return self.name.replace("-", "_")

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    @property
    def environment(self) -> tuple[str, ...]:
        """Every environment name, the node's own first."""
        return (ENVIRONMENT_PREFIX + self.attribute.upper(), *self.other_environment)

    def show(self, value: Any) -> str | None:
        """``value`` for human eyes; None if it is not set."""
        if value is None:
            return None
        return "(set, not shown)" if self.secret else self.kind.to_text(value)


def setting(
    default: Any,
    kind: ValueType,
    section: str,
    help: str,
    *,
    commands: tuple[str, ...] = (START,),
    environment: tuple[str, ...] = (),
    flags: tuple[str, ...] = (),
    secret: bool = False,
    needs: Need | None = None,
    packages: tuple[str, ...] = (),
    whole_release: bool = False,
    untried: str = "",
) -> Any:
    """A dataclass field that is a setting; a ``default`` of None means "not set"."""
    facts = {
        "kind": kind,
        "default": default,
        "section": section,
        "help": help,
        "commands": commands,
        "other_environment": environment,
        "other_flags": flags,
        "secret": secret,
        "needs": needs,
        "packages": packages,
        "whole_release": whole_release,
        "untried": untried,
    }
    return field(default=default, metadata=facts)


def rows(table: type) -> tuple[Setting, ...]:
    """The settings of a dataclass whose fields were made by :func:`setting`: its own, then those of its bases."""
    return _rows(table)


@functools.cache
def _rows(table: type) -> tuple[Setting, ...]:
    """A start asks for them three times."""
    own = vars(table).get("__annotations__", {})
    items = sorted(fields(table), key=lambda item: item.name not in own)
    return tuple(Setting(name=item.name.replace("_", "-"), **item.metadata) for item in items)
