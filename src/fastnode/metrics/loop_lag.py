"""Lag of the event loop behind what is due: time that a client waits beside that of its own call."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from typing import Final

__all__ = ["LAG_BOUNDS_S", "LoopLag"]

#: Upper bounds of the buckets.  The loop's timers go by milliseconds, so less cannot be told.
LAG_BOUNDS_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
#: Between two looks; each takes a few microseconds.
_INTERVAL_S: Final = 0.1


class LoopLag:
    """Looks ten times a second, from :meth:`start` to :meth:`stop`; both are called on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        #: Looks per bucket of LAG_BOUNDS_S, the last one above all of them.
        self.counts = [0] * (len(LAG_BOUNDS_S) + 1)
        #: Sum over all looks.
        self.total_s = 0.0

    def start(self) -> None:
        due = self._loop.time() + _INTERVAL_S
        self._timer = self._loop.call_at(due, self._look, due)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, due: float) -> None:
        lag = max(0.0, self._loop.time() - due)
        self.counts[bisect_left(LAG_BOUNDS_S, lag)] += 1
        self.total_s += lag
        self.start()
