"""Lag of an event loop."""

from __future__ import annotations

import asyncio
import time

from fastnode.metrics.loop_lag import LAG_BOUNDS_S, LoopLag


def test_a_loop_that_is_held_is_late() -> None:
    async def held() -> LoopLag:
        lag = LoopLag(asyncio.get_running_loop())
        lag.start()
        time.sleep(0.4)  # what no work of ours may do: 0.3 s longer than the next look is away
        while sum(lag.counts) < 2:
            await asyncio.sleep(0.01)
        lag.stop()
        return lag

    lag = asyncio.run(held())
    late = [count for bound, count in zip((*LAG_BOUNDS_S, float("inf")), lag.counts, strict=True) if bound >= 0.5]
    assert sum(late) >= 1
    assert lag.total_s >= 0.25


def test_it_looks_no_more_after_the_end() -> None:
    async def ended() -> int:
        lag = LoopLag(asyncio.get_running_loop())
        lag.start()
        lag.stop()
        await asyncio.sleep(0.2)
        return sum(lag.counts)

    assert asyncio.run(ended()) == 0
