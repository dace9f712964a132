"""Work for the one thread that changes the chain, handed over by other threads.

    jobs = JobQueue("the local network", on_added)
    jobs.work()                                     # the thread that changes the chain
    result = jobs.run(job)                          # from another thread: waits for that one

So no job sees the chain change under it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, TypeVar

from fastnode.errors import Refused

__all__ = ["JobQueue"]

_T = TypeVar("_T")

#: Jobs that may wait; more are refused.
WAITING_MAX: Final = 1_000


class JobQueue:
    """Jobs run in the order in which they came.  ``owner``: what they are for, for messages.

    ``on_added`` is called after each: it wakes the other thread.
    """

    def __init__(self, owner: str, on_added: Callable[[], None]) -> None:
        self._owner = owner
        self._on_added = on_added
        self._lock = threading.Lock()
        self._jobs: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._is_closed = False

    def run(self, job: Callable[[], _T], within_s: float | None = None) -> _T:
        """Have ``job`` run by the other thread and wait for what it returns or raises.

        Refused when too many wait already, when the other thread has not begun it ``within_s`` seconds, or when the
        node is stopping: ``job`` does not run then.
        """
        future: Future[_T] = Future()
        with self._lock:
            if self._is_closed:
                raise self._stopping()
            if len(self._jobs) >= WAITING_MAX:
                raise Refused(f"{WAITING_MAX} changes of {self._owner} are waiting already; try again later")
            self._jobs.append((job, future))
        self._on_added()
        try:
            return future.result(within_s)
        except FutureTimeoutError:
            if future.cancel():
                raise Refused(f"{self._owner} could not be changed for {within_s:g} s: it is busy or paused") from None
        return future.result()

    def close(self) -> None:
        """Jobs that wait end with an error, and so does each later one."""
        with self._lock:
            self._is_closed = True
            jobs, self._jobs = self._jobs, deque()
        for _, future in jobs:
            if future.set_running_or_notify_cancel():
                future.set_exception(self._stopping())

    def _stopping(self) -> Refused:
        return Refused(f"{self._owner[0].upper()}{self._owner[1:]} is stopping")

    # ---- the thread that works ---------------------------------------------------------------

    def work(self) -> None:
        """Run all jobs that wait.  What they raise is their caller's."""
        while True:
            with self._lock:
                if not self._jobs:
                    return
                job, future = self._jobs.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = job()
            except BaseException as error:
                future.set_exception(error)
                if not isinstance(error, Exception):
                    raise
            else:
                future.set_result(result)
