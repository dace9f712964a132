"""The columns of the tables in docs/analysis.md, written by ``python -m fastnode.development.parquet_page FILE``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from fastnode.development.marked_pages import renew, renew_named_file
from fastnode.parquet.tables import TABLES, Column

__all__ = ["render", "render_page"]

_TYPES: Final = {
    "int": "`BIGINT`",
    "hash": "`VARCHAR`",
    "name": "`VARCHAR`",
    "fee": "`DECIMAL(38,0)`",
    "time": "`TIMESTAMP`",
    "hashes": "`VARCHAR[]`",
    "bytes": "`BLOB`",
}


#: Tables that have a column alike before it is described once.
_COMMON_MIN: Final = 3


def render() -> str:
    """The tables with their columns, in Markdown; columns of several tables first."""
    alike = Counter(column for table in TABLES for column in table.columns)
    common = [column for column, count in alike.items() if count >= _COMMON_MIN]
    lines = ["### Columns of several tables", "", *_rows(common), ""]
    for table in TABLES:
        named = ", ".join(f"`{column.name}`" for column in table.columns if column in common)
        meaning = f"{table.meaning[0].upper()}{table.meaning[1:]}{named and f'; with {named}'}."
        own = [column for column in table.columns if column not in common]
        lines += [f"### {table.name}", "", meaning, "", *_rows(own), ""]
    return "\n".join(lines).rstrip()


def _rows(columns: Iterable[Column]) -> list[str]:
    rows = [f"| `{column.name}` {_TYPES[column.kind]} | {column.meaning} |" for column in columns]
    return ["| column, type | |", "|---|---|", *rows]


def render_page(page: str) -> str:
    """``page`` with the tables between its marks renewed; ValueError if it has no marks."""
    return renew(page, "tables", render())


if __name__ == "__main__":
    renew_named_file(render_page)
