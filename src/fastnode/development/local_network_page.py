"""Writes the table of methods in docs/local-network.md; a test fails when the page is not current."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from fastnode.api.local_network import methods
from fastnode.development.marked_pages import renew, renew_named_file
from fastnode.jsonrpc.methods import Method

__all__ = ["render_page"]

_SAME_AS: Final = "The same as "


def render_page(page: str) -> str:
    """``page`` with the table between its marks renewed; ValueError if it has no marks."""
    # Only names and signatures are used: there is no network to call.
    nothing = cast(Any, None)
    return renew(page, "methods", _table(methods(nothing, nothing, nothing)))


def _table(all_methods: Iterable[Method]) -> str:
    lines = ["| method, other names | parameters | what it does |", "|---|---|---|"]
    others: dict[str, list[str]] = {}
    first: list[Method] = []
    for method in all_methods:
        if method.summary.startswith(_SAME_AS):
            others.setdefault(method.summary.removeprefix(_SAME_AS).rstrip("."), []).append(f"`{method.name}`")
        else:
            first.append(method)
    for method in first:
        assert method.release is not None
        names = ", ".join([f"`{method.name}`", *others.get(method.name, [])])
        parameters = ", ".join(
            f"{parameter.name}{'?' if parameter.optional else ''}" for parameter in method.release.parameters
        )
        summary = method.summary.replace("|", "\\|")
        lines.append(f"| {names} |{parameters and f' {parameters}'} | {summary} |")
    return "\n".join(lines)


if __name__ == "__main__":
    renew_named_file(render_page)
