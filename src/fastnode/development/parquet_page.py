"""The columns of the tables in docs/analysis.md, written by ``python -m fastnode.development.parquet_page FILE``."""

from __future__ import annotations

from typing import Final

from fastnode.development.marked_pages import renew, renew_named_file
from fastnode.parquet.tables import TABLES

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


def render() -> str:
    """The tables with their columns, in Markdown."""
    lines: list[str] = []
    for table in TABLES:
        lines += [f"### {table.name}", "", f"{table.meaning[0].upper()}{table.meaning[1:]}.", ""]
        lines += ["| column | type | what it is |", "|---|---|---|"]
        lines += [f"| `{column.name}` | {_TYPES[column.kind]} | {column.meaning} |" for column in table.columns]
        lines.append("")
    return "\n".join(lines).rstrip()


def render_page(page: str) -> str:
    """``page`` with the tables between its marks renewed; ValueError if it has no marks."""
    return renew(page, "tables", render())


if __name__ == "__main__":
    renew_named_file(render_page)
