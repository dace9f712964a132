"""How many threads keep the interpreter busy beside the event loop.

Of many threads that run Python code at the same time each asks for the interpreter ten thousand times a second, and the
event loop, which lets go of it with every read and write, gets it back after all of them had their turn.  So a thread
that has such code to run takes the one place there is, and waits for hashes, the disk and others without it:

    with interpreter.BUSY:
        tx = Tx.from_json(value)

What waits for the place sleeps.  More places would not make anything faster, as only one thread runs at a time; a
kernel that runs without the interpreter for long, such as zlib's, is called between :meth:`BusyPlace.left`.
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
        # A queue is a semaphore that is made in C: it wakes one thread, with one lock.
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
        """Let others have the place meanwhile; nothing happens in a thread that does not have it."""
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
