"""Figures of bench/figures.json in the pages that tell them.

Written by ``python -m fastnode.development.figures FILE PAGE...``.  The file has three parts::

    machines       name -> what it is
    measurements   name -> command (and its environment), date, machine, load, versions; columns and rows, the first
                   cell of a row being its name (one of the same run as another measurement names that: "run")
    tables         name -> columns and rows of cells that quote measurements

A cell of a table quotes a cell as ``{measurement|row|column}``, without what follows in parentheses, and the command of
a measurement as ``{measurement}``.  In a page, a table of either kind stands between ``<!-- figures: NAME -->`` and
``<!-- end of figures -->``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["Figures", "Measurement", "render_page"]

_MARKED: Final = re.compile(r"<!-- figures: (\S+) -->\n.*?<!-- end of figures -->", re.DOTALL)
_QUOTATION: Final = re.compile(r"\{([^{}|]+)(?:\|([^{}|]*)\|([^{}|]*))?\}")


@dataclass(frozen=True)
class Measurement:
    """A table that was measured in one run."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    command: str
    #: Variables in front of the command, or nothing.
    environment: str
    #: As "2026-11-21".
    date: str
    #: A sentence: the machine, what else it did, versions.
    circumstances: str
    #: False where another table of the same run says how it was made.
    has_source: bool

    def cell(self, row: str, column: str) -> str:
        """ValueError if there is no such cell."""
        cells = next((cells for cells in self.rows if cells[0] == row), None)
        if cells is None or column not in self.columns[1:]:
            raise ValueError(f"no figure has the row {row!r} and the column {column!r}")
        return cells[1 + self.columns[1:].index(column)]

    def render(self) -> str:
        """The table in Markdown, and how it was made."""
        table = _table(self.columns, self.rows)
        command = f"{self.environment} {self.command}".lstrip()
        return f"{table}\n\n{self.date}, {self.circumstances}: `{command}`" if self.has_source else table


class Figures:
    """All measurements and the tables that quote them."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        """``record``: the file as JSON; KeyError if a part of it is missing."""
        machines, measurements = record["machines"], record["measurements"]
        self.measurements: Final = {
            name: _measurement(fields, measurements[fields.get("run", name)], machines)
            for name, fields in measurements.items()
        }
        self._tables: Final = record["tables"]

    @classmethod
    def read(cls, file: Path) -> Figures:
        """Read the figures of ``file``, which has the form above."""
        return cls(json.loads(file.read_text(encoding="utf-8")))

    @property
    def names(self) -> frozenset[str]:
        """All names that a page may have between its marks."""
        return frozenset(self.measurements) | frozenset(self._tables)

    def render(self, name: str) -> str:
        """The table of that name, in Markdown; ValueError if there is none or if it quotes what is not there."""
        if name in self.measurements:
            return self.measurements[name].render()
        if name not in self._tables:
            raise ValueError(f"there are no figures of the name {name!r}")
        table = self._tables[name]
        return _table(table["columns"], [[self._filled(cell) for cell in row] for row in table["rows"]])

    def _filled(self, cell: str) -> str:
        return _QUOTATION.sub(self._quoted, cell)

    def _quoted(self, quotation: re.Match[str]) -> str:
        name, row, column = quotation.groups()
        if name not in self.measurements:
            raise ValueError(f"there is no measurement of the name {name!r}")
        measurement = self.measurements[name]
        if row is None:
            return f"`{measurement.command}`"
        return measurement.cell(row, column).partition(" (")[0].replace("**", "")


def render_page(page: str, figures: Figures) -> str:
    """``page`` with all tables between marks renewed; ValueError as of :meth:`Figures.render`."""
    return _MARKED.sub(
        lambda marked: f"<!-- figures: {marked[1]} -->\n{figures.render(marked[1])}\n<!-- end of figures -->", page
    )


def _measurement(fields: Mapping[str, Any], run: Mapping[str, Any], machines: Mapping[str, str]) -> Measurement:
    return Measurement(
        columns=fields["columns"],
        rows=fields["rows"],
        command=run["command"],
        environment=run.get("environment", ""),
        date=run["date"],
        circumstances=f"{machines[run['machine']]}, {run['load']}, {run['versions']}",
        has_source="run" not in fields,
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|" for cells in (columns, *rows)]
    lines.insert(1, "|---" * len(columns) + "|")
    return "\n".join(lines)


if __name__ == "__main__":
    file, *pages = map(Path, sys.argv[1:])
    known = Figures.read(file)
    for path in pages:
        path.write_text(render_page(path.read_text(encoding="utf-8"), known), encoding="utf-8")
