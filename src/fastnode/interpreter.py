"""Sharing of the interpreter by the event loop and other threads: how many keep it busy, and who gives way.

The event loop releases the interpreter lock with every read and write, and gets it back only after all threads that
wait for it.  With many threads running Python code that delays every request.  So only one thread at a time runs such
code: it takes the one place there is, and leaves it while it waits for hashes, the disk or other servers:

    with interpreter.BUSY:
        tx = Tx.from_json(value, release)

Threads that wait for the place sleep.  More places would not make anything faster, as only one thread holds the lock
at a time.  A kernel that releases the lock for long, such as zlib's, is called inside :meth:`BusyPlace.left`.

Who waits for the lock may ask for it after the switch interval, and who has it gives it up at the next bytecode: after
a call into C that may take milliseconds.  A loop with much to do would be asked in the middle of its work, ten times in
a millisecond, and wait for such a call each time.  So while clients wait for their turns (http/turns.py), the loop is
not asked in the middle of a round, and a busy thread begins one piece of work in a round.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Final

__all__ = ["BUSY", "LOOP", "BusyPlace", "LoopFirst", "free_in_turns", "step_aside"]

#: Time that a thread waits before it asks for the interpreter, in seconds.  Python's own 5 ms would be the latency of
#: every request that arrives while a block is applied.
SWITCH_INTERVAL_S: Final = 100e-6
#: The same while a worker repeats what the primary has written: it runs code for a millisecond, several times a second,
#: and the loop needs the interpreter several times for a request.
REPEATING_INTERVAL_S: Final = 20e-6
#: The same while the loop gives turns.
ROUND_INTERVAL_S: Final = 5e-3
#: Longest wait of a thread that gives way to the loop, in seconds.
GIVING_WAY_S: Final = 0.01
#: Objects of a long list that are freed together, for a tenth of a millisecond.
FREED_AT_ONCE: Final = 512


def free_in_turns(items: list[Any]) -> None:
    """Empty a long list a part at a time: to free all of it at once would hold the interpreter for milliseconds."""
    while items:
        del items[-FREED_AT_ONCE:]


def step_aside() -> None:
    """Leave the interpreter and the processor to any thread that wants them, for a moment.

    A thread that runs is not made to before the system's next tick, milliseconds later, when others have slept for too
    short a time to come before it.
    """
    os.sched_yield()


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


class LoopFirst:
    """The event loop's rounds, as other threads see them; nothing happens before :meth:`begin`."""

    def __init__(self) -> None:
        self._is_on = False
        self._is_crowded = False
        self._is_awaited = False
        self._gap = threading.Lock()
        self._gap.acquire()
        self._interval_s = SWITCH_INTERVAL_S

    def begin(self) -> None:
        """Make threads give way to the loop from now on, in a process that serves."""
        self._is_on = True
        sys.setswitchinterval(SWITCH_INTERVAL_S)

    def hold(self) -> None:
        """The loop works for those that wait: other threads that want the interpreter have time."""
        if self._is_on:
            sys.setswitchinterval(ROUND_INTERVAL_S)

    def let_go(self) -> None:
        """It looks for new data, or does something else."""
        if self._is_on:
            sys.setswitchinterval(self._interval_s)

    @contextmanager
    def asked_soon(self) -> Iterator[None]:
        """The loop asks the calling thread for the interpreter sooner than others; for one thread of a process."""
        self._interval_s = REPEATING_INTERVAL_S
        self.let_go()
        try:
            yield
        finally:
            self._interval_s = SWITCH_INTERVAL_S
            self.let_go()

    def end_round(self, *, is_crowded: bool) -> None:
        """One round is over; ``is_crowded``: there is a next one."""
        self._is_crowded = is_crowded and self._is_on
        if self._is_awaited:
            self._is_awaited = False
            self._gap.release()

    def give_way(self) -> None:
        """To be called by a thread that is about to keep the interpreter busy, and has the place for it: wait for the
        end of a round, if there are rounds."""
        if self._is_crowded:
            self._is_awaited = True
            if not self._gap.acquire(timeout=GIVING_WAY_S):
                self._is_awaited = False
                self._gap.acquire(blocking=False)  # it may have come at the last moment


#: Loop and busy place of this process.
LOOP: Final = LoopFirst()
BUSY: Final = BusyPlace()
