"""Threads for what is too long for the event loop, shared out among those who ask.

As on the loop the party that has used least comes next (http/fair_queue.py): a client that queues a thousand long calls
waits for them itself.  A job without a waiter is not begun.  Where the system lets threads of one process have
priorities of their own, these come after the loop's: it has the processor as soon as there is something to read.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from fastnode import interpreter
from fastnode.http.allowance import Allowance, Party
from fastnode.http.fair_queue import FairQueue, Groups
from fastnode.kernels import loop_time

__all__ = ["FairThreads", "run_off_loop"]

#: Assumed use of a call until it is known.
EXPECTED_NS: Final = 1_000_000

#: Priority below the loop's thread, as by nice(1): a tenth of the processor while both want it.
NICENESS: Final = 10

Result = TypeVar("Result")


class _Work(NamedTuple):
    party: Party | None
    future: Future[Any]
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


class FairThreads(Executor):
    """``count`` threads.  As any executor it takes work of no party in particular, which then shares one share.

    ``keeps_busy``: the work is for the interpreter, and has a place for it (interpreter.py).
    """

    def __init__(self, count: int, *, name: str, keeps_busy: bool = False) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name, initializer=_step_back)
        self._waiting: FairQueue[_Work] = FairQueue()
        self._groups = Groups()
        self._others = loop_time.Share()
        self._lock = threading.Lock()
        self._keeps_busy = keeps_busy
        self._place: AbstractContextManager[None] = interpreter.BUSY if keeps_busy else nullcontext()

    @property
    def waiting_count(self) -> int:
        """Calls that wait for a thread."""
        return len(self._waiting)

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        return self._submit(_Work(None, Future(), fn, args, kwargs))

    def submit_for(self, party: Party, function: Callable[..., Result], /, *arguments: Any) -> Future[Result]:
        """The future is cancelled if the party has gone before a thread is free."""
        return self._submit(_Work(party, Future(), function, arguments, {}))

    def _submit(self, work: _Work) -> Future[Any]:
        with self._lock:
            share = self._others if work.party is None else self._share_of(work.party)
            self._waiting.push(share, work, EXPECTED_NS)
        self._pool.submit(self._run_next)
        return work.future

    def _share_of(self, party: Party) -> loop_time.Share:
        """Use of these threads: use of others is on another clock, and would put it behind all."""
        share = party.thread_shares.get(self)
        if share is None:
            share = party.thread_shares[self] = loop_time.Share()
            self._groups.join(share, party.network)
        return share

    def _run_next(self) -> None:
        with self._lock:
            share, work = self._waiting.pop(EXPECTED_NS)
        with self._place:
            if self._keeps_busy:
                interpreter.LOOP.give_way()
            started = time.monotonic_ns()
            _run(work)
            del work  # an error knows the frames below it, this one too, and would be kept by its own future
            elapsed = time.monotonic_ns() - started
        with self._lock:
            share.charge(elapsed)
            share.add(-EXPECTED_NS)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            with self._lock:
                while self._waiting:
                    self._waiting.pop()[1].future.cancel()
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


def _step_back() -> None:
    """Let the calling thread come after those of usual priority; not where that would be the whole process."""
    if sys.platform.startswith("linux"):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)


def _run(work: _Work) -> None:
    future = work.future
    if work.party is not None and work.party.is_gone:
        future.cancel()
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work.function(*work.arguments, **work.keywords)
    except BaseException as error:  # noqa: BLE001 - it is the caller's
        future.set_exception(error)
    else:
        future.set_result(result)
    del future, work  # likewise


async def run_off_loop(
    executor: Executor | None, allowance: Allowance, function: Callable[..., Result], *arguments: Any
) -> Result:
    """Run ``function`` in a thread of ``executor`` (default: the event loop's), for the party of a request, to whose
    trace its log lines and calls belong."""
    function = partial(copy_context().run, function)
    if isinstance(executor, FairThreads):
        return await asyncio.wrap_future(executor.submit_for(allowance.party, function, *arguments))
    return await asyncio.get_running_loop().run_in_executor(executor, function, *arguments)
