"""Work after passes over another node, in rounds: one at a time, with a minimum interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor

__all__ = ["Rounds"]


class Rounds:
    """``interval_s``: from the beginning of one round to that of the next, at least."""

    def __init__(self, executor: Executor, interval_s: float) -> None:
        self._executor = executor
        self._interval_s = interval_s
        self._next_at = 0.0
        self._is_running = threading.Lock()

    def begin(self, work: Callable[[], None]) -> None:
        """Do ``work`` on the executor, unless the last round is not over or it is too early."""
        now = time.monotonic()
        if now < self._next_at or not self._is_running.acquire(blocking=False):
            return
        self._next_at = now + self._interval_s
        try:
            self._executor.submit(self._run, work)
        except RuntimeError:  # the node is stopping
            self._is_running.release()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            self._is_running.release()
