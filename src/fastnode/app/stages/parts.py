"""List of the parts of a node, filled by its stages from the core on."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from fastnode.app.ground.part import Part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from fastnode.app.ground.views import Views
    from fastnode.app.stages.condition import Condition

__all__ = ["Parts"]

_P = TypeVar("_P", bound=Part)


class Parts:
    """Parts in the order in which they start.  ``stack`` closes them."""

    def __init__(self, views: Views, condition: Condition, stack: AsyncExitStack) -> None:
        self._views = views
        self._condition = condition
        self._stack = stack
        self._parts: list[Part] = []

    def add(self, part: _P) -> _P:
        """From now on it is told of commits and asked how it is."""
        self._parts.append(part)
        self._stack.push_async_callback(asyncio.to_thread, part.close)
        self._views.subscribe(part.on_committed)
        self._condition.add(part)
        return part

    def __iter__(self) -> Iterator[Part]:
        return iter(tuple(self._parts))

    def describe(self) -> dict[str, Any]:
        """Members of the object that the status page is made of."""
        return {name: value for part in self for name, value in part.describe().items()}

    def metrics(self) -> Iterator[Metric]:
        for part in self:
            yield from part.metrics()
