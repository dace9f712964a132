"""Marks in what workers are told: who has come to one has seen all that was told before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count

from fastnode.workers.feed import Follower

__all__ = ["Marks"]


class Marks:
    """Usable from any thread."""

    def __init__(self) -> None:
        self._numbers = count(1)
        #: Followers that have not come to a mark yet, by its number.
        self._waited: dict[int, list[Follower]] = {}
        self._changed = threading.Condition()
        self._is_over = False

    def invariant(self) -> None:
        """AssertionError if a follower is waited for twice."""
        with self._changed:
            assert all(len(set(map(id, each))) == len(each) for each in self._waited.values())

    def wait(self, tell: Callable[[int], list[Follower]], timeout_s: float) -> Sequence[Follower]:
        """Have a mark told, and wait until all who are told have come to it or have gone; returns the others."""
        mark = next(self._numbers)
        with self._changed:
            # Told with the lock, so that no answer comes before it is known who is asked.
            self._waited[mark] = waited = tell(mark)
            self._changed.wait_for(
                lambda: self._is_over or all(follower.is_closed for follower in waited), timeout=timeout_s
            )
            del self._waited[mark]
            return [] if self._is_over else [follower for follower in waited if not follower.is_closed]

    def come(self, follower: Follower, mark: int) -> None:
        """A follower has come to a mark."""
        with self._changed:
            waited = self._waited.get(mark, [])
            if follower in waited:
                waited.remove(follower)
            self._changed.notify_all()

    def gone(self) -> None:
        """A follower has gone."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody waits any longer."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
