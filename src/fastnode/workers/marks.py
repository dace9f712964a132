"""Marks in what workers are sent: a worker that has come to one answers from all that was sent before it.

A worker is waited for by its number, as it may come to a mark on a later connection: one that gets a new copy of the
databases answers from the old copy until then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

__all__ = ["Marks"]


class Marks:
    """Usable from any thread."""

    def __init__(self) -> None:
        self._numbers = count(1)
        #: Numbers of all workers that have connected.
        self._known: set[int] = set()
        #: Workers that have not come to a mark yet, by its number.
        self._waited: dict[int, set[int]] = {}
        self._changed = threading.Condition()
        self._is_over = False

    def invariant(self) -> None:
        """AssertionError if a worker is waited for that has never connected."""
        with self._changed:
            assert all(waited <= self._known for waited in self._waited.values())

    def connected(self, worker: int) -> None:
        """A worker has connected, maybe again.  To be called before it gets a copy."""
        with self._changed:
            self._known.add(worker)

    @property
    def open_marks(self) -> list[int]:
        """Marks that are waited for, in order: what a worker that has a new copy is sent."""
        with self._changed:
            return sorted(self._waited)

    def wait(self, send: Callable[[int], object], timeout_s: float) -> set[int]:
        """Have a mark sent, and wait until all workers have come to it; returns those that have not in time."""
        mark = next(self._numbers)
        with self._changed:
            # Sent with the lock, so that no answer comes before it is known who is asked.
            self._waited[mark] = waited = set(self._known)
            send(mark)
            self._changed.wait_for(lambda: self._is_over or not waited, timeout=timeout_s)
            del self._waited[mark]
            return set() if self._is_over else waited

    def come(self, worker: int, mark: int) -> None:
        """A worker has come to a mark, maybe not for the first time."""
        with self._changed:
            self._waited.get(mark, set()).discard(worker)
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody waits any longer."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
