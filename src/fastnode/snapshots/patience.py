"""Waiting for a location: with a limit, and ended by a request to stop.

What a library does while it waits cannot be interrupted, so it waits in a thread of its own, which is left behind when
it takes too long: a daemon, so that it keeps no process.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from fastnode.errors import SnapshotError

__all__ = ["INDEX_TIME_S", "STALL_TIME_S", "Check", "in_time", "without_stall"]

#: For the index of a location, and for the list of its networks.
INDEX_TIME_S: Final = 30.0
#: For an archive to bring anything more.
STALL_TIME_S: Final = 60.0

#: Time between two checks whether the node is stopping, in seconds.
_HEARING_INTERVAL_S: Final = 0.1
#: Chunks that wait to be unpacked.
_CHUNKS_AHEAD: Final = 4

#: Raises what ends the wait.
Check = Callable[[], None]
T = TypeVar("T")


def in_time(what: str, work: Callable[[], T], check: Check, *, limit_s: float = INDEX_TIME_S) -> T:
    """Result of ``work``, or its error; SnapshotError, naming ``what`` is waited for, when it takes too long."""

    def one() -> Iterator[T]:
        yield work()

    return next(without_stall(what, one, check, limit_s=limit_s))


def without_stall(
    what: str, begin: Callable[[], Iterator[T]], check: Check, *, limit_s: float = STALL_TIME_S
) -> Iterator[T]:
    """Items of the iterator that ``begin`` makes; SnapshotError when it brings nothing for ``limit_s``."""
    arrived: queue.Queue[tuple[bool, T | BaseException | None]] = queue.Queue(_CHUNKS_AHEAD)
    is_left = threading.Event()

    def put(is_end: bool, item: T | BaseException | None) -> None:
        while not is_left.is_set():
            with contextlib.suppress(queue.Full):
                arrived.put((is_end, item), timeout=_HEARING_INTERVAL_S)
                return

    def fetch() -> None:
        try:
            for item in begin():
                put(False, item)
                if is_left.is_set():
                    return
            put(True, None)
        except BaseException as error:  # noqa: BLE001 - raised by the one who waits
            put(True, error)

    threading.Thread(target=fetch, name="fastnode-location", daemon=True).start()
    try:
        while True:
            is_end, item = _next(what, arrived, check, limit_s)
            if is_end:
                if item is not None:
                    raise item  # type: ignore[misc]
                return
            yield item  # type: ignore[misc]
    finally:
        is_left.set()
        item = None  # an error holds its traceback, that this frame and its callers', and they what they have opened


def _next(
    what: str, arrived: queue.Queue[tuple[bool, T | BaseException | None]], check: Check, limit_s: float
) -> tuple[bool, T | BaseException | None]:
    deadline = time.monotonic() + limit_s
    while True:
        check()
        try:
            return arrived.get(timeout=min(_HEARING_INTERVAL_S, limit_s))
        except queue.Empty:
            if time.monotonic() >= deadline:
                raise SnapshotError(f"{what} has brought nothing for {limit_s:g} seconds") from None
