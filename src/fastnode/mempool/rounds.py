"""Work after passes over another node, in rounds: one at a time, with a minimum interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor

from fastnode.loop import Setbacks

__all__ = ["Rounds"]


class Rounds:
    """``interval_s``: from the beginning of one round to that of the next, at least; ``what``: says what is not done
    when the work raises what it does not expect."""

    def __init__(self, executor: Executor, interval_s: float, what: str) -> None:
        self._setbacks = Setbacks(what)
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

    @property
    def trouble(self) -> str | None:
        return self._setbacks.reason

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
            self._setbacks.end()
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            self._setbacks.note(error)
        finally:
            self._is_running.release()
