"""Pause and resume for the thread that ingests.

                       pause()                     the worker reaches its next pass point
    RUNNING ────────────────────► PAUSING ─────────────────────────────► PAUSED
       ▲                             │                                     │
       └──────────── resume() ───────┴──────────────── resume() ───────────┘

    stop(), from any state: STOPPING; the worker leaves with StopRequested at its next pass point
    leave(), by the worker: it will never touch the chain again; pausing then succeeds at once

The worker passes between two records, so a paused chain consists of whole blocks.  Other threads write beside it in
short steps (:meth:`SyncControl.aside`), and pausing waits for the one that goes on.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["StopRequested", "SyncControl", "SyncState"]


class StopRequested(BaseException):
    """Ends the worker between two records.  What goes on after any Exception does not go on after this."""


class SyncState(enum.Enum):
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    STOPPING = "stopping"


class SyncControl:
    """Shared by the worker and those who control it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._state = SyncState.RUNNING
        self._worker_has_left = False
        self._operation: str | None = None
        self._is_woken = False
        self._aside = 0

    @property
    def state(self) -> SyncState:
        return self._state

    @property
    def is_paused(self) -> bool:
        return self._state in (SyncState.PAUSING, SyncState.PAUSED)

    # ---- the worker's side -------------------------------------------------------------------

    def pass_point(self) -> None:
        """Go on, wait here while paused, or leave with StopRequested."""
        # Fast path: without a pending request no lock is needed.
        if self._state is SyncState.RUNNING:
            return
        with self._changed:
            while self._state in (SyncState.PAUSING, SyncState.PAUSED):
                self._enter(SyncState.PAUSED)
                self._changed.wait()
            if self._state is SyncState.STOPPING:
                raise StopRequested

    def sleep(self, seconds: float | None) -> None:
        """A pause at which a request of the operator is served at once; None: it ends when it is woken."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_woken or self._state is not SyncState.RUNNING, timeout=seconds)
            self._is_woken = False
        self.pass_point()

    def leave(self) -> None:
        with self._changed:
            self._worker_has_left = True
            if self._state is SyncState.PAUSING:
                self._state = SyncState.PAUSED
            self._changed.notify_all()

    # ---- beside the worker -------------------------------------------------------------------

    @contextmanager
    def aside(self) -> Iterator[bool]:
        """A step of another thread that writes: True if it may be done now.  It must not wait for the worker."""
        with self._changed:
            may_write = self._state is SyncState.RUNNING
            self._aside += may_write
        try:
            yield may_write
        finally:
            if may_write:
                with self._changed:
                    self._aside -= 1
                    self._changed.notify_all()

    # ---- the other side ----------------------------------------------------------------------

    def wake(self) -> None:
        """There is something to do: the sleep that goes on, or else the next one, ends at once."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def pause(self, timeout_s: float) -> bool:
        """Wait until the worker rests; False if it does not in time (then it rests later)."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            if self._state is SyncState.RUNNING:
                self._enter(SyncState.PAUSED if self._worker_has_left else SyncState.PAUSING)
            return self._changed.wait_for(
                lambda: self._state is not SyncState.PAUSING and not self._aside,
                timeout=max(0.0, deadline - time.monotonic()),
            )

    def resume(self) -> bool:
        """False if there was nothing to resume."""
        with self._changed:
            if not self.is_paused:
                return False
            self._enter(SyncState.RUNNING)
            return True

    def stop(self) -> None:
        with self._changed:
            self._enter(SyncState.STOPPING)

    @contextmanager
    def one_operation(self, name: str) -> Iterator[str | None]:
        """None for one caller at a time; others meanwhile get the ``name`` of what is running."""
        with self._changed:
            running = self._operation
            if running is None:
                self._operation = name
        try:
            yield running
        finally:
            if running is None:
                self._operation = None

    def _enter(self, state: SyncState) -> None:
        if state is not self._state:
            self._state = state
            self._changed.notify_all()
