"""Writes the table of methods in docs/local-network.md; a test fails when the page is not current."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, cast

from fastnode.api.local_network import methods
from fastnode.jsonrpc.methods import Method

__all__ = ["render_page"]

TABLE_START: Final = "<!-- methods: made by scripts/make-docs -->\n"
TABLE_END: Final = "<!-- end of methods -->\n"
_SAME_AS: Final = "The same as "


def render_page(text: str) -> str:
    """``text`` with a current table between the two marks; ValueError if it has no marks."""
    before, _, rest = text.partition(TABLE_START)
    _, _, after = rest.partition(TABLE_END)
    if not rest or not after:
        raise ValueError("the page lacks the marks of the table of methods")
    # Only names and signatures are used: there is no network to call.
    nothing = cast(Any, None)
    return "".join((before, TABLE_START, _table(methods(nothing, nothing, nothing)), TABLE_END, after))


def _table(all_methods: Iterable[Method]) -> str:
    lines = ["| method | parameters | what it does | other names |", "|---|---|---|---|"]
    others: dict[str, list[str]] = {}
    first: list[Method] = []
    for method in all_methods:
        if method.summary.startswith(_SAME_AS):
            others.setdefault(method.summary.removeprefix(_SAME_AS).rstrip("."), []).append(f"`{method.name}`")
        else:
            first.append(method)
    for method in first:
        assert method.release is not None
        names = ", ".join(
            f"{parameter.name}{'?' if parameter.optional else ''}" for parameter in method.release.parameters
        )
        summary = method.summary.replace("|", "\\|")
        lines.append(f"| `{method.name}` | {names} | {summary} | {', '.join(others.get(method.name, []))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(render_page(file.read_text(encoding="utf-8")), encoding="utf-8")
