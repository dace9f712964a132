"""Settings that are read, checked and shown, and have no effect, with what they would need to have one.

They are there so that the configuration of a network's node can be kept as it is.  ``KEPT`` are those of parts that
this node does not have; a test compares them with the code: every other setting is used.  Others have no
effect beside certain settings: their rows in the table say what they need (:mod:`fastnode.config.needs`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from fastnode.config.needs import is_missing
from fastnode.config.settings import Settings, rows

__all__ = ["KEPT", "without_effect"]

#: The part that each would need, by name.
KEPT: Final[Mapping[str, str]] = {
    row.name: row.needs.text for row in rows(Settings) if row.needs is not None and is_missing(row.needs)
}


def without_effect(settings: Settings, given: Collection[str]) -> dict[str, list[str]]:
    """Names of the settings in ``given`` that have no effect, in order, by what they would need."""
    found: dict[str, list[str]] = {}
    for row in sorted(rows(Settings), key=lambda row: row.name):
        if row.name in given and row.needs is not None and not row.needs.is_met(settings):
            found.setdefault(row.needs.text, []).append(row.name)
    return found
