"""A clock that stands until a test moves it; who waits by it does so until then, or for what else is waited for."""

from __future__ import annotations

import threading

from fastnode import loop


class Clock(loop.Clock):
    """Its two times are the same.  It is also a function, for those who only ask."""

    def __init__(self, now: float = 1000.0) -> None:
        self._now = now
        self._waiting: dict[int, threading.Condition] = {}
        self._guard = threading.Condition()
        self._waits = 0

    def __call__(self) -> float:
        return self._now

    monotonic = time = __call__

    @property
    def now(self) -> float:
        return self._now

    @now.setter
    def now(self, now: float) -> None:
        self._now = now
        with self._guard:
            waiting = list(self._waiting.values())
        for changed in waiting:
            with changed:
                changed.notify_all()

    def go_on(self, seconds: float) -> None:
        """In place of a sleep."""
        self.now += seconds

    def wait(self, changed: threading.Condition, until: float | None) -> None:
        with self._guard:
            self._waiting[threading.get_ident()] = changed
            self._waits += 1
            self._guard.notify_all()
        if until is None or self._now < until:  # whoever moves it now waits for ``changed``
            changed.wait()
        with self._guard:
            del self._waiting[threading.get_ident()]

    def wait_for_waiter(self, at_most_s: float) -> None:
        with self._guard:
            self._guard.wait_for(lambda: self._waiting, at_most_s)

    def pass_by(self, seconds: float, *, at_most_s: float) -> None:
        """Move it once somebody waits, and return when somebody waits again; or after so many real seconds."""
        self.wait_for_waiter(at_most_s)
        waits = self._waits
        self.now += seconds
        with self._guard:
            self._guard.wait_for(lambda: self._waits > waits, at_most_s)
