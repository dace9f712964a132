"""Lag of an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.clock import Clock

from fastnode.metrics.loop_lag import LAG_BOUNDS_S, LoopLag


class Loop:
    """Calls what is due as late as it is told to."""

    def __init__(self) -> None:
        self.time = Clock()
        self.timers: list[Any] = []

    def call_at(self, due: float, callback: Callable[[float], None], argument: float) -> Any:
        timer = SimpleNamespace(due=due, run=lambda: callback(argument))
        timer.cancel = lambda: self.timers.remove(timer)
        self.timers.append(timer)
        return timer

    def look(self, late_s: float) -> None:
        timer = self.timers.pop()
        self.time.now = timer.due + late_s
        timer.run()


def test_a_loop_that_is_held_is_late() -> None:
    loop = Loop()
    lag = LoopLag(loop)  # type: ignore[arg-type]
    lag.start()
    for late_s in (0.0, 0.3, 0.0, 7.0):
        loop.look(late_s)
    late = {bound: count for bound, count in zip((*LAG_BOUNDS_S, None), lag.counts, strict=True) if count}
    assert late == {LAG_BOUNDS_S[0]: 2, 0.5: 1, None: 1}
    assert lag.total_s == pytest.approx(7.3)
    lag.stop()
    assert loop.timers == [], "it looks no more"


def test_it_looks_on_a_loop_as_there_are() -> None:
    async def looks() -> int:
        lag = LoopLag(asyncio.get_running_loop())
        looked, count = asyncio.Event(), lag._look

        def look(due: float) -> None:
            count(due)
            looked.set()

        lag._look = look  # type: ignore[method-assign]
        lag.start()
        await asyncio.wait_for(looked.wait(), 60)
        lag.stop()
        return sum(lag.counts)

    assert asyncio.run(looks()) == 1
