"""Findings of the explorer, in the form that the page shows."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from fastnode.records import dataclass

__all__ = ["Document", "Fact", "Finding", "Table", "fee_juice", "hex_of", "time_of"]

#: Decimals of the fee asset.
_DECIMALS: Final = 18
_DECIMALS_SHOWN: Final = 9


@dataclass(frozen=True, slots=True)
class Fact:
    """``query`` is what the explorer would be asked for more about the value, if anything."""

    name: str
    value: str
    query: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """The result of a call as JSON text; None instead of a text that is too long."""

    method: str
    params: list[Any]
    json: str | None
    size: int


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; the name of a cell is that of its column."""

    columns: list[str]
    rows: list[list[Fact]]
    #: Heading, where a finding has several tables.
    title: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    title: str
    facts: list[Fact] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    #: The block that can be had whole.
    block: int | None = None
    table: Table | None = None
    #: Further tables, each under its title.
    tables: list[Table] = field(default_factory=list)
    #: Transaction whose calls can be had as a tree.
    trace: str | None = None
    #: The following and the preceding finding.
    more: list[Fact] = field(default_factory=list)


def hex_of(value: bytes) -> str:
    return "0x" + value.hex()


def time_of(timestamp: int) -> str:
    """A time as the page knows it: it writes date and time in UTC."""
    return f"@{timestamp}"


def fee_juice(units: int) -> str:
    """An amount of the fee asset, counted in 10^-18 of it, for people; exact where nine decimals are enough."""
    whole, rest = divmod(units, 10**_DECIMALS)
    decimals = f"{rest:0{_DECIMALS}d}"
    shown = decimals[:_DECIMALS_SHOWN].rstrip("0")
    text = f"{whole:,}.{shown}" if shown else f"{whole:,}"
    if int(decimals[_DECIMALS_SHOWN:]):
        return f"{text}… fee juice ({units:,} · 10⁻¹⁸)"
    return f"{text} fee juice"
