"""Which process of a node with workers has a processor first, where there are fewer processors than work.

A request takes some microseconds and a block milliseconds, on several threads.  So the primary comes after the workers;
its thread that applies blocks, and those that it begins, take no processor from others when they wake up; and the
threads of a worker that its clients wait for, its event loop and what repeats the primary's writes, ask for turns that
are short, which the system then gives soon.

Nothing is at a higher niceness than that: on a machine with many other busy processes a block would take minutes.

What a worker repeats stays at usual priority.  Its thread holds the interpreter, or the lock of a database, that the
worker's event loop waits for: if other work could push it aside, so would that work push aside all of the worker's
clients, until the system's next tick.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from typing import Final

__all__ = ["answer_soon", "come_last", "leave_to_requests"]

#: As by nice(1).  While all processors are busy with requests the primary has a quarter of one, and more by its threads
#: for hashes.
PRIMARY_NICENESS: Final = 5

#: The shortest that Linux gives (kernel/sched/syscalls.c); in nanoseconds.
TURN_NS: Final = 100_000

_SCHED_SETATTR: Final = {"x86_64": 314, "aarch64": 274}
#: struct sched_attr of sched_setattr(2): size, policy | flags | nice | priority | runtime, deadline, period.
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
_SCHED_OTHER: Final = 0
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


def answer_soon() -> bool:
    """Ask for short turns for the calling thread, not for those that it begins; whether that was granted.

    Linux has them since 6.12; what is older takes the wish and goes on as it was.  A process that an operator has put
    before others is left alone, because the threads that it begins would lose that.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    if number is None or not sys.platform.startswith("linux") or nice < 0:
        return False
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, _SCHED_OTHER, _RESET_ON_FORK, nice, 0, TURN_NS, 0, 0)
    found: int = ctypes.CDLL(None, use_errno=True).syscall(number, 0, attributes, 0)
    return found == 0
