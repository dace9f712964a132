"""Connections to the database of duties, shared by the threads of a node: each takes one and gives it back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastnode.errors import HaDatabaseError
from fastnode.ha.connection import Connection, connect
from fastnode.records import dataclass

__all__ = ["ConnectionPool", "PoolLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """``idle_s``: when an idle connection beyond the fewest is closed, 0: never; ``wait_s``: how long a free one is
    waited for, 0: without end."""

    connections_min: int = 0
    connections_max: int = 10
    idle_s: float = 10.0
    wait_s: float = 0.0


class ConnectionPool:
    """HaDatabaseError when the first connection cannot be made."""

    def __init__(
        self, url: str, limits: PoolLimits | None = None, *, open_one: Callable[[str], Connection] = connect
    ) -> None:
        self._url = url
        self._limits = limits or PoolLimits()
        self._open_one = open_one
        self._changed = threading.Condition()
        #: With the time since when, the one that was used last at the end.
        self._idle: list[tuple[float, Connection]] = []
        self._count = 0
        self._sweeper: threading.Timer | None = None
        self._is_closed = False
        try:
            self._fill(max(1, self._limits.connections_min))
        except HaDatabaseError:
            self.close()
            raise

    @property
    def count(self) -> int:
        """Connections that are open, those in use included."""
        return self._count

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """One for this caller alone.  HaDatabaseError when none can be had in time."""
        connection = self._take()
        try:
            yield connection
        finally:
            self._give_back(connection)

    def drop_idle(self) -> None:
        """After a connection broke the others are no better."""
        with self._changed:
            self._close_idle()

    def close(self) -> None:
        """May be called more than once; a connection in use is closed when it comes back."""
        with self._changed:
            self._is_closed = True
            if self._sweeper is not None:
                self._sweeper.cancel()
            self._close_idle()
            self._changed.notify_all()

    # ---- taking and giving back ----------------------------------------------------------------

    def _fill(self, count: int) -> None:
        for _ in range(count):
            connection = self._open_one(self._url)
            with self._changed:
                self._count += 1
                self._idle.append((time.monotonic(), connection))

    def _take(self) -> Connection:
        with self._changed:
            connection = self._wait_for_one()
        if connection is not None:
            return connection
        try:
            return self._open_one(self._url)
        except BaseException:
            with self._changed:
                self._count -= 1
                self._changed.notify()
            raise

    def _wait_for_one(self) -> Connection | None:
        """None: the caller has the right to open one."""
        limits = self._limits
        is_in_time = self._changed.wait_for(
            lambda: self._is_closed or self._idle or self._count < limits.connections_max,
            timeout=limits.wait_s or None,
        )
        if self._is_closed:
            raise HaDatabaseError("the connections to the database of duties are closed")
        if not is_in_time:
            raise HaDatabaseError(f"no connection to the database of duties was free within {limits.wait_s:g} s")
        while self._idle:
            _, connection = self._idle.pop()
            if not connection.closed:
                return connection
            self._count -= 1
        self._count += 1
        return None

    def _give_back(self, connection: Connection) -> None:
        with self._changed:
            if self._is_closed or connection.closed:
                self._count -= 1
                connection.close()
            else:
                self._idle.append((time.monotonic(), connection))
            self._sweep_later()
            self._changed.notify()

    # ---- idle connections ----------------------------------------------------------------------

    def _sweep_later(self) -> None:
        is_needed = len(self._idle) > self._limits.connections_min and self._limits.idle_s > 0
        if is_needed and self._sweeper is None and not self._is_closed:
            self._sweeper = threading.Timer(self._limits.idle_s, self._sweep)
            self._sweeper.daemon = True
            self._sweeper.start()

    def _sweep(self) -> None:
        with self._changed:
            self._sweeper = None
            oldest = time.monotonic() - self._limits.idle_s
            while self._idle and self._idle[0][0] <= oldest and self._count > self._limits.connections_min:
                self._close_first()
            self._sweep_later()

    def _close_idle(self) -> None:
        while self._idle:
            self._close_first()

    def _close_first(self) -> None:
        _, connection = self._idle.pop(0)
        connection.close()
        self._count -= 1
