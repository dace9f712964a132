"""How many threads keep the interpreter busy beside the event loop.

The event loop releases the interpreter lock with every read and write, and gets it back only after all threads that
wait for it.  With many threads running Python code that delays every request.  So only one thread at a time runs such
code: it takes the one place there is, and leaves it while it waits for hashes, the disk or other servers:

    with interpreter.BUSY:
        tx = Tx.from_json(value)

Threads that wait for the place sleep.  More places would not make anything faster, as only one thread holds the lock
at a time.  A kernel that releases the lock for long, such as zlib's, is called inside :meth:`BusyPlace.left`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import TracebackType
from typing import Final

__all__ = ["BUSY", "BusyPlace"]


class BusyPlace:
    """A context manager; a thread that has the place may enter again."""

    def __init__(self) -> None:
        # A queue serves as a semaphore written in C: it wakes one thread, with one lock.
        self._free: SimpleQueue[None] = SimpleQueue()
        self._free.put(None)
        self._of_thread = threading.local()

    def __enter__(self) -> None:
        depth: int = getattr(self._of_thread, "depth", 0)
        if depth == 0:
            self._free.get()
        self._of_thread.depth = depth + 1

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._of_thread.depth -= 1
        if self._of_thread.depth == 0:
            self._free.put(None)

    @contextmanager
    def left(self) -> Iterator[None]:
        """Leave the place for the duration; does nothing in a thread that does not have it."""
        depth: int = getattr(self._of_thread, "depth", 0)
        if depth == 0:
            yield
            return
        self._of_thread.depth = 0
        self._free.put(None)
        try:
            yield
        finally:
            self._free.get()
            self._of_thread.depth = depth


#: Of this process.
BUSY: Final = BusyPlace()
