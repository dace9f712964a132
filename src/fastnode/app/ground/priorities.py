"""Priorities of the processes of a node with workers, where there are fewer processors than work.

A request takes some microseconds and a block milliseconds, on several threads.  So the primary comes after the workers;
its thread that applies blocks, and those that it begins, take no processor from others when they wake up; and the
threads of a worker that its clients wait for ask for turns that are short, which the system then gives soon: its event
loop for the shortest, what repeats the primary's writes for longer ones.  What merges a worker's tables has time.

Nothing that a block waits for is at a higher niceness than that: on a machine with many other busy processes a block
would take minutes.

What a worker repeats stays at usual priority.  Its thread holds the interpreter, or the lock of a database, that the
worker's event loop waits for: if other work could push it aside, so would that work push aside all of the worker's
clients, until the system's next tick.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import struct
import sys
import threading
from pathlib import Path
from typing import Final

from fastnode.errors import DataDirectoryError
from fastnode.storage.database import open_leveldb

__all__ = ["answer_soon", "come_last", "leave_to_requests", "merge_last", "repeat_soon", "wake_on_time"]

#: As by nice(1).  While all processors are busy with requests the primary has a quarter of one, and more by its threads
#: for hashes.
PRIMARY_NICENESS: Final = 5

#: The shortest that Linux gives (kernel/sched/syscalls.c); in nanoseconds.
TURN_NS: Final = 100_000
#: Turn of what repeats writes, in ns: longer than that of a loop, shorter than that of any other thread.
REPEATING_TURN_NS: Final = 400_000
#: Niceness of the thread that merges tables.
MERGING_NICENESS: Final = 10

_SCHED_SETATTR: Final = {"x86_64": 314, "aarch64": 274}
#: struct sched_attr of sched_setattr(2): size, policy | flags | nice | priority | runtime, deadline, period.
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
_SCHED_OTHER: Final = 0
#: Option of prctl(2).
_SET_TIMER_SLACK: Final = 29
_RESET_ON_FORK: Final = 1


def leave_to_requests() -> None:
    """Let this process come after those of usual priority: before it has threads, which are born with that."""
    os.nice(PRIMARY_NICENESS)


def come_last() -> None:
    """Let the calling thread, and those that it begins, take no processor from others when they wake up; their share
    stays what it is.  Only where threads have that of their own.
    """
    if sys.platform.startswith("linux"):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def merge_last(folder: Path) -> None:
    """Begin LevelDB's thread that merges tables, the only one of a process, with what :func:`come_last` says and a
    niceness of its own.  Before any database is open; ``folder`` is made, and removed.

    It is begun by whichever thread needs it first, and has that one's priority.
    """
    thread = threading.Thread(target=_begin_merging, args=(folder,))
    thread.start()
    thread.join()


def _begin_merging(folder: Path) -> None:
    come_last()
    if sys.platform.startswith("linux"):
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), max(nice, MERGING_NICENESS))
    try:
        database = open_leveldb(folder, create=True)
        database.compact_range(start=b"\0", stop=b"\1")
        database.close()
    except DataDirectoryError:
        pass  # merging is begun by another thread then
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def repeat_soon() -> None:
    """Let the calling thread come after event loops, and before what has asked for nothing."""
    answer_soon(REPEATING_TURN_NS)


def wake_on_time() -> None:
    """Let the calling thread, and those that it begins, wake up when they want to, and not some 50 us later, which is
    what Linux allows itself: the wait for the interpreter is shorter than that.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, 1, 0, 0, 0)


def answer_soon(turn_ns: int = TURN_NS) -> bool:
    """Ask for short turns for the calling thread, not for those that it begins; whether that was granted.

    Linux has them since 6.12; what is older takes the wish and goes on as it was.  A process that an operator has put
    before others is left alone, because the threads that it begins would lose that.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    if number is None or not sys.platform.startswith("linux") or nice < 0:
        return False
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, _SCHED_OTHER, _RESET_ON_FORK, nice, 0, turn_ns, 0, 0)
    found: int = ctypes.CDLL(None, use_errno=True).syscall(number, 0, attributes, 0)
    return found == 0
