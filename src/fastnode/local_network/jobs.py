"""Work for the one thread that changes the chain, handed over by the threads that answer requests."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from fastnode.errors import Refused

__all__ = ["Callers", "JobQueue"]

_T = TypeVar("_T")

#: Jobs that may wait; more are refused.
WAITING_MAX: Final = 1_000


class JobQueue:
    """Jobs run in the order in which they came.  ``wake`` ends a wait without a job."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._is_awake = False
        self._is_closed = False

    def run(self, job: Callable[[], _T]) -> _T:
        """Have ``job`` run by the other thread and wait for what it returns or raises.

        Refused when too many wait already, or when the node is stopping.
        """
        future: Future[_T] = Future()
        with self._changed:
            if self._is_closed:
                raise Refused("The local network is stopping")
            if len(self._jobs) >= WAITING_MAX:
                raise Refused(f"{WAITING_MAX} changes of the local network are waiting already; try again later")
            self._jobs.append((job, future))
            self._changed.notify_all()
        return future.result()

    def wake(self) -> None:
        with self._changed:
            self._is_awake = True
            self._changed.notify_all()

    def close(self) -> None:
        """Jobs that wait end with an error, and so does each later one."""
        with self._changed:
            self._is_closed = True
            jobs, self._jobs = self._jobs, deque()
            self._changed.notify_all()
        for _, future in jobs:
            future.set_exception(Refused("The local network is stopping"))

    # ---- the thread that works ---------------------------------------------------------------

    def wait(self, timeout_s: float | None) -> None:
        """Until there is a job, or ``wake`` is called, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._is_awake or self._is_closed, timeout_s)
            self._is_awake = False

    def work(self) -> None:
        """Run all jobs that wait.  What they raise is their caller's."""
        while True:
            with self._changed:
                if not self._jobs:
                    return
                job, future = self._jobs.popleft()
            try:
                result = job()
            except BaseException as error:
                future.set_exception(error)
                if not isinstance(error, Exception):
                    raise
            else:
                future.set_result(result)


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
