"""Threads for what may take seconds: a bounded queue, and a bounded time in it.

They are shared out among clients as all threads are (http/fair_threads.py).  Without a bound of the time, slow work
would keep all that comes later waiting for minutes, long after its clients have given up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from fastnode.errors import Refused
from fastnode.http.allowance import Party
from fastnode.http.fair_threads import FairThreads

__all__ = ["LimitedThreads"]

#: Raised for work that has no room; the same a little later may go well.
_BUSY: Final = {"code": "BUSY"}

Result = TypeVar("Result")


class LimitedThreads(FairThreads):
    """``count`` threads for ``what``, as errors name it.

    Refused, from :meth:`submit` and :meth:`submit_for`, when ``admitted_max`` run or wait; as the result, for what
    has waited for ``wait_s_max``.
    """

    def __init__(self, count: int, *, name: str, what: str, admitted_max: int, wait_s_max: float) -> None:
        super().__init__(count, name=name)
        self._what = what
        self._admitted_max = admitted_max
        self._wait_s_max = wait_s_max
        self._places = threading.BoundedSemaphore(admitted_max)

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        return self._admit(lambda: super(LimitedThreads, self).submit(self._in_time(fn), *args, **kwargs))

    def submit_for(self, party: Party, function: Callable[..., Result], /, *arguments: Any) -> Future[Result]:
        return self._admit(lambda: super(LimitedThreads, self).submit_for(party, self._in_time(function), *arguments))

    def _admit(self, submit: Callable[[], Future[Result]]) -> Future[Result]:
        if not self._places.acquire(blocking=False):
            message = f"{self._admitted_max} {self._what} are running or waiting; try again later"
            raise Refused(message, data=_BUSY)
        try:
            future = submit()
        except RuntimeError:  # the node is stopping
            self._places.release()
            raise
        future.add_done_callback(lambda _: self._places.release())
        return future

    def _in_time(self, function: Callable[..., Result]) -> Callable[..., Result]:
        last = time.monotonic() + self._wait_s_max

        def run(*arguments: Any, **keywords: Any) -> Result:
            if time.monotonic() > last:
                raise Refused(f"Too many {self._what} are running; try again later", data=_BUSY)
            return function(*arguments, **keywords)

        return run
