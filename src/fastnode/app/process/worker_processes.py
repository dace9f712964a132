"""A node in several processes: the supervisor, and what each process that it forks does."""

from __future__ import annotations

import asyncio
import gc
import logging
from importlib import import_module
from typing import Final

import uvloop

from fastnode import interpreter
from fastnode.app.ground.heap import bound_heap
from fastnode.app.ground.node_settings import worker_count
from fastnode.app.ground.priorities import answer_soon, leave_to_requests, merge_last, wake_on_time
from fastnode.app.process.process import (
    OTHER_FILES,
    allow_open_files,
    run_node,
    stop_requested_by_signal,
    stop_timeout_s,
)
from fastnode.app.process.stop_deadline import StopDeadline
from fastnode.app.process.value_checks import check_values
from fastnode.app.process.worker import Worker
from fastnode.config.settings import Settings
from fastnode.log import log_facts
from fastnode.serving.server import bind_failure
from fastnode.workers.seat import PrimarySeat, WorkerSeat
from fastnode.workers.supervisor import Supervisor, listening_sockets

__all__ = ["run_with_workers"]

logger = logging.getLogger("fastnode.workers")

#: Time for a process whose stop has timed out to say so, before it is killed.
_ENDING_S: Final = 10.0
#: Modules that the primary would import on demand; imported before the fork, all processes share them.
_SHARED: Final = ("fastnode.app.stages.origins", "fastnode.app.roles.workers")


def run_with_workers(settings: Settings) -> None:
    """Comes back in every process; SystemExit with the code of a primary that could not go on."""
    check_values(settings)
    for module in _SHARED:
        import_module(module)
    count = worker_count(settings)
    try:
        sockets = listening_sockets(settings.host, settings.port, count, takes_over=settings.take_over_port)
    except OSError as error:
        raise bind_failure(error, settings.host, settings.port) from error
    # Objects that exist now stay, and their pages are shared as long as no process writes to them.
    gc.collect()
    gc.freeze()
    supervisor = Supervisor(
        sockets, takes_over=settings.take_over_port, stop_timeout_s=stop_timeout_s(settings) + _ENDING_S
    )
    logger.info("workers", extra=log_facts(count=count, port=supervisor.port))
    seat = supervisor.run()
    if isinstance(seat, PrimarySeat):
        leave_to_requests()
        run_node(settings, seat)
    elif isinstance(seat, WorkerSeat):
        _run_worker(settings, seat)
    elif seat:
        raise SystemExit(seat)


def _run_worker(settings: Settings, seat: WorkerSeat) -> None:
    interpreter.LOOP.begin()
    wake_on_time()
    answer_soon()
    merge_last(seat.address.parent / f"merging-{seat.number}")
    bound_heap()
    allow_open_files(settings.rpc_max_connections + OTHER_FILES)

    deadline = StopDeadline(stop_timeout_s(settings))

    async def run() -> None:
        deadline.watch_tasks_of(asyncio.get_running_loop())
        with stop_requested_by_signal(deadline.begin) as stop_requested:
            await Worker(settings, seat).run(asyncio.ensure_future(stop_requested.wait()))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
