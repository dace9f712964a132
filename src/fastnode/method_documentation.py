"""Writes docs/methods.md and the table in README.md from the method tables.

``scripts/make-docs`` runs it; a test fails when a page is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from fastnode.config.settings import Settings
from fastnode.logs.known_tags import KnownTags
from fastnode.method_tables import Services, admin_methods, public_methods
from fastnode.rpc.methods import Method, Signature

__all__ = ["all_methods", "render_page", "render_readme"]

TABLE_START: Final = "<!-- methods: made by scripts/make-docs -->\n"
TABLE_END: Final = "<!-- end of methods -->\n"

#: The smallest filter that there is: a table of methods has no tags to know.
_FILTER_BYTES: Final = 1 << 10

_INTRODUCTION: Final = """\
# Methods

<!-- Made by scripts/make-docs; change the method tables in src/fastnode/rpc instead. -->

JSON-RPC 2.0 over HTTP POST, parameters by position. *release* and *development* are the two generations of the
interface; `--method-set` chooses one, and the default `both` serves the methods of either: where a method is in both,
the development form is used, which takes everything that the release form takes. `?` marks what may be left out, or an
answer that may have no `result`: nothing found.

A block is named by its number, its hash, a tip (`"latest"`, `"proposed"`, `"checkpointed"`, `"proven"`,
`"finalized"`), or an object with one of `number`, `hash`, `archive` and `tag`; the release set knows numbers, hashes
and `"latest"`. Limits stand in the error that they cause.
"""


def all_methods() -> list[Method]:
    """Every method of both ports, in the order of the tables, as a node with default settings serves it."""
    return [*public_methods(Settings(), Services(known_tags=KnownTags(_FILTER_BYTES))), *admin_methods()]


def render_page() -> str:
    """docs/methods.md."""
    return "\n".join((_INTRODUCTION, *_chapters(all_methods())))


def _chapters(methods: Iterable[Method]) -> Iterator[str]:
    for method in methods:
        yield f"## {method.name}\n\n{method.summary}\n"
        if method.release == method.development and method.release is not None:
            yield _signature(method.name, "", method.release)
            continue
        for name, signature in (("release", method.release), ("development", method.development)):
            if signature is not None:
                yield _signature(method.name, f"*{name}*: ", signature)


def _signature(method: str, label: str, signature: Signature) -> str:
    names = ", ".join(parameter.name + "?" * parameter.optional for parameter in signature.parameters)
    result = signature.result + "?" * signature.may_be_absent
    lines = [f"{label}`{method}({names})` answers `{result}`\n"]
    if signature.parameters:
        lines += ["| parameter | type | what it may be |", "|---|---|---|"]
        for parameter in signature.parameters:
            name = parameter.name + "?" * parameter.optional
            lines.append(f"| `{name}` | {_cell(parameter.type.name)} | {_cell(parameter.type.expects)} |")
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def render_readme(text: str) -> str:
    """``text`` with a current table between the two marks."""
    before, _, rest = text.partition(TABLE_START)
    _, _, after = rest.partition(TABLE_END)
    if not rest or not after:
        raise ValueError("README.md lacks the marks of the method table")
    return "".join((before, TABLE_START, _table(all_methods()), TABLE_END, after))


def _table(methods: Iterable[Method]) -> str:
    lines = ["| method | sets | what it answers |", "|---|---|---|"]
    for method in methods:
        sets = [name for name in ("release", "development") if method.signature(name) is not None]
        lines.append(f"| `{method.name}` | {'both' if len(sets) == 2 else sets[0]} | {_cell(method.summary)} |")
    return "\n".join(lines) + "\n"


def main(project: Path) -> None:
    """Rewrite both pages below ``project``."""
    (project / "docs" / "methods.md").write_text(render_page(), encoding="utf-8")
    readme = project / "README.md"
    readme.write_text(render_readme(readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
