"""The columns of the tables in docs/analysis.md, written by ``python -m fastnode.parquet.documentation FILE``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from fastnode.parquet.tables import TABLES

__all__ = ["render", "render_page"]

BEGIN: Final = "<!-- tables: made by scripts/make-docs -->"
END: Final = "<!-- end of tables -->"

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
    """``page`` with the tables between the marks renewed; ValueError if it has no marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page lacks the marks of the tables")
    return f"{before}{BEGIN}\n{render()}\n{END}{after}"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(render_page(file.read_text(encoding="utf-8")), encoding="utf-8")
