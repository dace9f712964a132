"""Threads for what may take seconds: a bounded queue, and a bounded time in it.

They are shared out among clients as all threads are (http/fair_threads.py).  Without a bound of the time, slow work
would keep all that comes later waiting for minutes, long after its clients have given up.

A full queue belongs to nobody: who comes then takes the place of the newest that waits of the address with most, if
that has more than one place beyond its own.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Literal, TypeVar

from fastnode.errors import Refused
from fastnode.http.allowance import Party
from fastnode.http.fair_threads import FairThreads
from fastnode.values.client_network import most_crowded

__all__ = ["LimitedThreads"]

#: Raised for work that has no room; the same a little later may go well.
_BUSY: Final = {"code": "BUSY"}

Result = TypeVar("Result")


class _Place:
    """The place of one call, of the address or client ``owner``."""

    __slots__ = ("owner", "state")

    def __init__(self, owner: object) -> None:
        self.owner = owner
        self.state: Literal["waits", "runs", "displaced"] = "waits"


class LimitedThreads(FairThreads):
    """``count`` threads for ``what``, as errors name it.

    Refused, from :meth:`submit` and :meth:`submit_for`, when ``admitted_max`` run or wait; as the result, for what
    has waited for ``wait_s_max`` or gave its place to another address.
    """

    def __init__(self, count: int, *, name: str, what: str, admitted_max: int, wait_s_max: float) -> None:
        super().__init__(count, name=name)
        self._what = what
        self._admitted_max = admitted_max
        self._wait_s_max = wait_s_max
        self._admission = threading.Lock()
        #: What runs or waits of each address, the newest last; of None that of nobody in particular.
        self._admitted: defaultdict[object, list[_Place]] = defaultdict(list)
        self._count = 0

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        place = self._admit(None)
        return self._begin(place, lambda: super(LimitedThreads, self).submit(self._in_time(fn, place), *args, **kwargs))

    def submit_for(self, party: Party, function: Callable[..., Result], /, *arguments: Any) -> Future[Result]:
        place = self._admit(party if party.network is None else party.network)
        work = self._in_time(function, place)
        return self._begin(place, lambda: super(LimitedThreads, self).submit_for(party, work, *arguments))

    def _admit(self, owner: object) -> _Place:
        with self._admission:
            if self._count >= self._admitted_max and not self._make_room(owner):
                message = f"{self._admitted_max} {self._what} are running or waiting; try again later"
                raise Refused(message, data=_BUSY)
            place = _Place(owner)
            self._admitted[owner].append(place)
            self._count += 1
            return place

    def _make_room(self, owner: object) -> bool:
        """Let the newest that waits of the address with most give up its place, if that is fairer."""
        counts = {each: len(places) for each, places in self._admitted.items() if each is not None}
        crowded = most_crowded(counts, owner)
        for place in reversed(self._admitted[crowded] if crowded is not None else ()):
            if place.state == "waits":
                place.state = "displaced"
                self._remove(place)
                return True
        return False

    def _remove(self, place: _Place) -> None:
        places = self._admitted[place.owner]
        places.remove(place)
        if not places:
            del self._admitted[place.owner]
        self._count -= 1

    def _begin(self, place: _Place, submit: Callable[[], Future[Result]]) -> Future[Result]:
        try:
            future = submit()
        except RuntimeError:  # the node is stopping
            self._end(place)
            raise
        future.add_done_callback(lambda _: self._end(place))
        return future

    def _end(self, place: _Place) -> None:
        with self._admission:
            if place.state != "displaced":
                self._remove(place)

    def _in_time(self, function: Callable[..., Result], place: _Place) -> Callable[..., Result]:
        last = time.monotonic() + self._wait_s_max

        def run(*arguments: Any, **keywords: Any) -> Result:
            with self._admission:
                is_admitted = place.state == "waits"
                if is_admitted:
                    place.state = "runs"
            if not is_admitted or time.monotonic() > last:
                raise Refused(f"Too many {self._what} are running; try again later", data=_BUSY)
            return function(*arguments, **keywords)

        return run
