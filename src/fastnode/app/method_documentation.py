"""Writes the table of methods in README.md; docs/methods.md, with every parameter, comes from ``app/documentation.py``.

``scripts/make-docs`` runs both; tests fail when a page is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fastnode.api.discovery import discovery
from fastnode.app.method_tables import Services, admin_methods, public_methods
from fastnode.config.configuration import NodeConfiguration
from fastnode.config.settings import Settings
from fastnode.jsonrpc.methods import Method
from fastnode.log_index.known_tags import KnownTags

__all__ = ["all_methods", "render_readme"]

TABLE_START: Final = "<!-- methods: made by scripts/make-docs -->\n"
TABLE_END: Final = "<!-- end of methods -->\n"

#: What a method does not do, or needs; those that are not named are complete.
STATES: Final = {
    "node_getEncodedEnr": "that of the followed node; this one has none",
    "node_sendTx": "with real proofs: needs a [verifier](docs/proofs.md)",
    "node_getValidatorsStats": "with `--sentinel-enabled`, or from the followed node",
    "node_getValidatorStats": "with `--sentinel-enabled`, or from the followed node",
    "nodeAdmin_setConfig": "keys of parts that are not there are kept and shown only",
    "nodeAdmin_getSlashOffenses": "with `--sentinel-enabled`",
    "nodeAdmin_getSlashPayloads": "with `--sentinel-enabled`",
}

#: The smallest filter that there is: a table of methods has no tags to know.
_FILTER_BYTES: Final = 1 << 10


def all_methods() -> list[Method]:
    """Every method of both ports, in the order of the tables, as a node with default settings serves it."""
    settings = Settings()
    public = public_methods(settings, Services(known_tags=KnownTags(_FILTER_BYTES)))
    methods = [*public, *admin_methods(NodeConfiguration(settings))]
    return [*methods, discovery(methods)]


def render_readme(text: str) -> str:
    """``text`` with a current table between the two marks."""
    before, _, rest = text.partition(TABLE_START)
    _, _, after = rest.partition(TABLE_END)
    if not rest or not after:
        raise ValueError("README.md lacks the marks of the method table")
    return "".join((before, TABLE_START, _table(all_methods()), TABLE_END, after))


def _table(methods: Iterable[Method]) -> str:
    lines = ["| method | sets | what it answers | state |", "|---|---|---|---|"]
    for method in methods:
        sets = [name for name in ("release", "development") if method.signature(name) is not None]
        summary = method.summary.replace("|", "\\|")
        which, state = "both" if len(sets) == 2 else sets[0], STATES.get(method.name, "")
        lines.append(f"| `{method.name}` | {which} | {summary} | {state} |")
    return "\n".join(lines) + "\n"


def main(readme: Path) -> None:
    """Bring the table up to date in place."""
    readme.write_text(render_readme(readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
