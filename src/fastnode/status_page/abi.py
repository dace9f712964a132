"""Tables of what an artifact says of a contract: its functions and its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastnode.protocol.artifacts import type_text
from fastnode.status_page.findings import Fact, Table, hex_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastnode.protocol.artifacts import Artifact, Member

__all__ = ["abi_tables"]

_ROWS_LISTED: Final = 100
_PARAMETERS_LENGTH: Final = 200


def abi_tables(artifact: Artifact) -> list[Table]:
    functions = [
        [Fact("Function", function.name), Fact("Selector", hex_of(selector)), _parameters(function.parameters)]
        for selector, function in sorted(artifact.functions.items(), key=lambda item: item[1].name)
    ]
    events = [
        [
            Fact("Event", event.name),
            Fact("Selector", f"0x{selector:08x}"),
            _parameters(event.fields),
        ]
        for selector, event in artifact.events.items()
    ]
    return [
        Table(["Function", "Selector", "Parameters"], functions[:_ROWS_LISTED], f"Functions: {len(functions)}"),
        Table(["Event", "Selector", "Parameters"], events[:_ROWS_LISTED], f"Events: {len(events)}"),
    ]


def _parameters(members: Iterable[Member]) -> Fact:
    text = ", ".join(f"{member.name}: {type_text(member.type)}" for member in members)
    return Fact("Parameters", text if len(text) <= _PARAMETERS_LENGTH else text[:_PARAMETERS_LENGTH] + "…")
