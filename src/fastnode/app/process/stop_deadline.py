"""The deadline of a stop: a process that has not ended by then logs the stacks of its threads and tasks, and exits with
code 70.

    deadline = StopDeadline(30.0)
    deadline.begin()        # when the stop begins: from a signal handler too

The databases are left as after a kill, which the next start expects.  The deadline applies until the process ends: a
thread that is joined while the interpreter ends counts too.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Final

from fastnode.log import log_facts

__all__ = ["StopDeadline"]

logger = logging.getLogger("fastnode.app.node")

#: Seconds after the deadline at which ``faulthandler`` ends the process, with stacks: while a thread holds the lock of
#: the interpreter, no Python code runs, this module's thread included.
STUCK_S: Final = 5.0
#: Frames of a thread or a task.
_FRAMES_MAX: Final = 30
#: Facts of a log line are cut when they are long.
_FRAMES_PER_LINE: Final = 5


class StopDeadline:
    """``seconds`` from :meth:`begin` on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_begun = False
        # A plain lock: it can be released in a signal handler without waiting.
        self._wait = threading.Lock()
        self._wait.acquire()
        threading.Thread(target=self._watch, name="stop-deadline", daemon=True).start()

    def watch_tasks_of(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tasks of this loop are shown too."""
        self._loop = loop

    def begin(self) -> None:
        """The stop has begun; the first call counts."""
        if not self._is_begun:
            self._is_begun = True
            faulthandler.dump_traceback_later(self._seconds + STUCK_S, exit=True)
            self._wait.release()

    def _watch(self) -> None:
        self._wait.acquire()
        time.sleep(self._seconds)
        try:
            logger.error("stop timed out", extra=log_facts(seconds=self._seconds, exit_code=os.EX_SOFTWARE))
            for what, frames in (*_threads(), *_tasks(self._loop)):
                for first in range(0, len(frames), _FRAMES_PER_LINE):
                    stack = " < ".join(frames[first : first + _FRAMES_PER_LINE])
                    logger.error("stop timed out", extra=log_facts(waits=what, stack=stack))
            sys.stderr.flush()
        finally:
            os._exit(os.EX_SOFTWARE)


def _threads() -> list[tuple[str, list[str]]]:
    """Each thread but this one, with its frames."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        (f"thread {names.get(number, number)}", _frames(traceback.walk_stack(frame)))
        for number, frame in sys._current_frames().items()
        if number != threading.get_ident()
    ]


def _tasks(loop: asyncio.AbstractEventLoop | None) -> list[tuple[str, list[str]]]:
    """Each task that has not ended, with the frames of its coroutine."""
    if loop is None:
        return []
    return [
        (f"task {task.get_name()}", _frames((frame, frame.f_lineno) for frame in reversed(task.get_stack())))
        for task in asyncio.all_tasks(loop)
    ]


def _frames(stack: Iterable[tuple[FrameType, int]]) -> list[str]:
    """Places, the innermost first."""
    return [
        f"{Path(frame.f_code.co_filename).name}:{line} {frame.f_code.co_name}"
        for frame, line in islice(stack, _FRAMES_MAX)
    ]
