"""The bus as a followed node, where the chain comes from elsewhere: nothing is heard there, and nothing loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastnode.view import Committed

__all__ = ["NoBus"]


class NoBus:
    #: Called, by a bus, when there is something new.
    on_news: Callable[[], None]

    def snapshot_locations(self) -> tuple[str, ...]:
        return ()

    def on_committed(self, committed: Committed) -> None:
        """Nothing of it was on its way here."""

    def describe_bus(self) -> dict[str, Any]:
        return {}
