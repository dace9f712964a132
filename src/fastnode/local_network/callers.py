"""Threads that wait for the thread that changes the chain."""

from __future__ import annotations

import threading
from collections.abc import Sequence

__all__ = ["Callers"]


class Callers:
    """Threads that wait for the next round of the working thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[threading.Event] = []

    def join(self) -> threading.Event:
        """An event that is set after that round."""
        is_done = threading.Event()
        with self._lock:
            self._waiting.append(is_done)
        return is_done

    def take(self) -> list[threading.Event]:
        """The threads that wait now, for :meth:`release` after the work."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return waiting

    def release(self, waiting: Sequence[threading.Event] | None = None) -> None:
        """Wake these threads, or all."""
        for is_done in self.take() if waiting is None else waiting:
            is_done.set()
