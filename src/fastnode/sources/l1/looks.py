"""Looks at L1: one after the other by one thread, asked for and waited for by any."""

from __future__ import annotations

import threading

from fastnode.loop import Clock

__all__ = ["Looks"]


class Looks:
    """Counts of looks, and those who wait for one; usable from any thread.

    RESTING ── a pause is over, or somebody wants a look ──► LOOKING ── done ──► RESTING
       └───────────────────────── close, from both ─────────────────► CLOSED, where nobody waits
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._begun = self._done = 0
        self._is_wanted = False
        self.is_closed = False

    def invariant(self) -> None:
        """AssertionError if a look has ended that had not begun."""
        with self._changed:
            assert 0 <= self._done <= self._begun

    @property
    def has_ended_one(self) -> bool:
        return self._done > 0

    def begin(self) -> None:
        with self._changed:
            self._begun += 1

    def end(self) -> None:
        """Nobody waits any longer for the look that is over."""
        with self._changed:
            self._done = self._begun
            self._changed.notify_all()

    def want(self) -> None:
        """Have the next look begin now."""
        with self._changed:
            self._is_wanted = True
            self._changed.notify_all()

    def wait_for_new(self, timeout_s: float) -> None:
        """Wait for a look that begins after this call."""
        with self._changed:
            wanted = self._begun + 1
            self._is_wanted = True
            self._changed.notify_all()
            self._clock.wait_for(self._changed, lambda: self._done >= wanted or self.is_closed, timeout_s)

    def rest(self, seconds: float) -> None:
        """Until the next look is due, or wanted."""
        with self._changed:
            self._clock.wait_for(self._changed, lambda: self._is_wanted or self.is_closed, max(0.01, seconds))
            self._is_wanted = False

    def close(self) -> None:
        """End every wait."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()
