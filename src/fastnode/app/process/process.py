"""The node as a process: runs until SIGTERM or SIGINT, until its terminal is gone, or until something ends it."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvloop

from fastnode import __version__, interpreter, kernels
from fastnode.app.ground.heap import bound_heap, settle_memory, trim_after_bursts
from fastnode.app.ground.seat import OwnSeat
from fastnode.app.ground.service_manager import READY, STOPPING, notify
from fastnode.app.ground.takeover import FIRST_PROCESS, taken_over
from fastnode.app.process.node import Node
from fastnode.app.process.ready_line import announce
from fastnode.app.process.reset import ResetRequest
from fastnode.app.process.stop_deadline import StopDeadline
from fastnode.config.settings import Settings
from fastnode.log import log_facts
from fastnode.storage.database import databases_without_seal

if TYPE_CHECKING:
    from fastnode.workers.seat import PrimarySeat

__all__ = ["OTHER_FILES", "allow_open_files", "run", "run_node", "stop_requested_by_signal", "stop_timeout_s"]

logger = logging.getLogger("fastnode.app.node")

#: Open files besides the connections: databases, upstreams, logs.
OTHER_FILES: Final = 2_048
#: Least time that is left of a stop once no request is waited for any more.
_CLOSING_S: Final = 1.0


def _do_nothing() -> None:
    pass


def run(settings: Settings) -> None:
    """Run a node until it is told to stop; raises what keeps it from starting or what ended it.

    With workers this comes back in each of the node's processes, when that one has done its part.
    """
    if not settings.workers:
        run_node(settings, OwnSeat())
        return
    from fastnode.app.process.worker_processes import run_with_workers

    run_with_workers(settings)


def run_node(settings: Settings, seat: OwnSeat | PrimarySeat) -> None:
    """The node in one process, or the primary of a node with workers."""
    logger.info("fastnode", extra=log_facts(version=__version__, kernel=kernels.poseidon2.kernel_name()))
    interpreter.LOOP.begin()
    deadline = StopDeadline(stop_timeout_s(settings))
    seat.begin()
    bound_heap()
    allow_open_files(settings.rpc_max_connections + OTHER_FILES)
    resetting = taken_over() if settings.local_network else FIRST_PROCESS
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            deadline.watch_tasks_of(runner.get_loop())
            runner.run(_run_until_stopped(lambda: Node.start(settings, seat, resetting), deadline.begin))
    except Exception as error:
        if not resetting.is_unfinished():
            raise
        resetting.go_back(error)
    resetting.give_up()


def stop_timeout_s(settings: Settings) -> float:
    """From the signal to the end of the process."""
    return settings.shutdown_delay_s + max(settings.shutdown_timeout_s, settings.shutdown_grace_s + _CLOSING_S)


def allow_open_files(wanted: int) -> None:
    """Ask the system for as many open files as the connections need; say so if it does not grant them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        _make_room_for_files(wanted)
        return
    granted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))
    _make_room_for_files(granted)
    if granted < wanted:
        logger.warning(
            "fewer open files are allowed than the connections may need",
            extra=log_facts(allowed=granted, wanted=wanted),
        )


def _make_room_for_files(count: int) -> None:
    """Let the system's table of open files grow to its size now.

    It doubles the table when that is full, and Linux makes a process of several threads wait for all processors then,
    for ten to sixty milliseconds: while connections are accepted that would be the loop.
    """
    with Path(os.devnull).open("rb") as file:
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, count - 1))


async def _run_until_stopped(
    start: Callable[[], Coroutine[Any, Any, Node]], on_stop: Callable[[], None] = _do_nothing
) -> None:
    """``on_stop`` is called when the stop begins, whatever begins it."""
    with stop_requested_by_signal(on_stop) as stop_requested:
        stopping = asyncio.ensure_future(stop_requested.wait())
        starting = asyncio.ensure_future(start())
        if not _has_terminal():  # where there is one, its end is the end of the node
            say = "nothing to read again without --rpc-limits"
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, logger.info, say)
        try:
            # A start may have to wait for other nodes; a signal ends that too.
            if await _first_of(starting, stopping):
                await _serve(starting.result(), stopping, on_stop, stop_requested)
        finally:
            stopping.cancel()
        _say_stopped()


async def _serve(
    node: Node, stopping: asyncio.Future[Any], on_stop: Callable[[], None], stop_requested: asyncio.Event
) -> None:
    if node.settings.rpc_limits is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, node.reload_limits)
    settle_memory()
    trimming = asyncio.ensure_future(trim_after_bursts(node.foundation.budget))
    reset = node.reset
    try:
        await node.equipment.public_port.until_served(stopping.done)
        notify(READY)
        announce(node)
        await _first_of(asyncio.ensure_future(_first_end(node, reset)), stopping)
    finally:
        trimming.cancel()
        on_stop()
        if not reset.is_made:
            notify(STOPPING)
        await node.stop()
    if reset.is_made:
        # A signal that came before this line stops the node in place of the reset; one that comes after it ends the
        # process at once, as it ends the one that takes over until that has its own handlers.
        for number in _stop_signals():
            signal.signal(number, signal.SIG_DFL)
        await asyncio.sleep(0)  # what a handler has scheduled
        if stop_requested.is_set():
            notify(STOPPING)
            reset.withdraw()
        else:
            _say_stopped()
            reset.begin_anew(node)


def _say_stopped() -> None:
    """Only a stop that leaves every database closed and sealed is one: else the next start sees less of a damage."""
    left = databases_without_seal()
    if not left:
        logger.info("stopped")
    for path, reason in left.items():
        logger.error("ended with a database that is not sealed", extra=log_facts(path=path, reason=reason))


async def _first_end(node: Node, reset: ResetRequest) -> None:
    """Wait until a local network is reset; raises what ended ingestion."""
    await _first_of(asyncio.ensure_future(node.wait_for_failure()), asyncio.ensure_future(reset.wait()))


def _stop_signals() -> list[signal.Signals]:
    hang_up = [signal.SIGHUP] if _has_terminal() else []
    return [signal.SIGTERM, signal.SIGINT, *hang_up]


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


async def _first_of(work: asyncio.Future[Any], stopping: asyncio.Future[Any]) -> bool:
    """True if ``work`` has a result, also one that came when it was being cancelled; raises what ``work`` raises.

    ``stopping`` cancels ``work``; what goes wrong while it ends then is not raised.
    """
    await asyncio.wait((work, stopping), return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        work.result()
        return True
    work.cancel()
    await asyncio.wait((work,))
    return not work.cancelled() and work.exception() is None


@contextmanager
def stop_requested_by_signal(on_stop: Callable[[], None] = _do_nothing) -> Iterator[asyncio.Event]:
    """Event that the first signal sets; a second signal of the same kind ends the process at once.

    ``on_stop`` is called in the handler of the first one.

    The handlers are the interpreter's and not the loop's: the loop's act in one of its next rounds, and lose a second
    signal that comes before that round.  The second one is the kernel's: KeyboardInterrupt would be raised wherever
    the loop happens to be, and is lost there where exceptions are logged.
    """
    loop = asyncio.get_running_loop()
    stop_requested = asyncio.Event()

    def begin(number: signal.Signals) -> None:
        logger.info("stopping", extra=log_facts(signal=number.name))
        stop_requested.set()

    def on_signal(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        on_stop()
        loop.call_soon_threadsafe(begin, signal.Signals(number))

    before = {}
    for number in _stop_signals():
        before[number] = signal.signal(number, on_signal)
        signal.siginterrupt(number, False)
    try:
        yield stop_requested
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is on_signal:
                signal.signal(number, handler)
