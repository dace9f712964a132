"""A worker: a process that answers on the public port from a copy of what the primary has.

It has the servers, the methods and the threads of a node, and none of its sources.  What its methods read comes from
the replica; what only the primary can do is asked over the link.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from fastnode.app.ground.heap import resident_bytes, settle_memory, trim_after_bursts
from fastnode.app.ground.method_tables import Services, public_methods
from fastnode.app.ground.node_settings import budget_of, limits_of, memory_budget_of
from fastnode.app.ground.priorities import repeat_soon
from fastnode.app.ground.rate_limits import limit_clients, reload_limits
from fastnode.app.ground.servers import ServerParts, rpc_server, tell_events
from fastnode.app.process.telemetry import open_spans
from fastnode.app.stages.foundation import BUSY_THREADS, RPC_THREADS, trace_threads_of
from fastnode.artifacts.store import ARTIFACTS_DIRECTORY, ArtifactStore
from fastnode.chain_data import LOCAL_WORLD_STATE_CACHE_MB, ChainOptions
from fastnode.http.fair_threads import FairThreads
from fastnode.http.health import Health
from fastnode.http.limited_threads import LimitedThreads
from fastnode.http.turns import Turns
from fastnode.jsonrpc.block_wait import BlockWait
from fastnode.kernels import hash_threads
from fastnode.log import log_facts
from fastnode.mempool.known_txs import KnownTxs
from fastnode.mempool.pool_replica import OtherHandover
from fastnode.mempool.service import Mempool, MempoolOptions
from fastnode.mempool.validation import TxValidator
from fastnode.proofs.options import checks_at_once, judge_of
from fastnode.public_execution.service import Simulation
from fastnode.public_execution.simulation import ADMITTED_MAX, RUNNING_MAX
from fastnode.records import dataclass
from fastnode.serving.server import HttpServer, RpcServer
from fastnode.serving.starting_application import StartingApplication
from fastnode.serving.version_headers import OWN_VERSION, version_headers
from fastnode.values.lineage import LINEAGE_HEADER
from fastnode.workers.copies import ReplicaOptions
from fastnode.workers.counters import counters_of
from fastnode.workers.facts import Facts, FollowedFees
from fastnode.workers.link import Link
from fastnode.workers.remote import (
    RemotePool,
    RemoteQuestions,
    RemoteSentinel,
    RemoteSimulator,
    ask_fleet_over,
    message_index_over,
    outbox_roots_over,
)
from fastnode.workers.replica import Replica

if TYPE_CHECKING:
    from fastnode.config.allow_list import AllowedElement
    from fastnode.config.settings import Settings
    from fastnode.view import View
    from fastnode.workers.seat import WorkerSeat

__all__ = ["Worker"]

logger = logging.getLogger("fastnode.workers")

#: Interval of reports to the primary, in seconds.
REPORT_INTERVAL_S: Final = 1.0
#: While no block comes the files of the copy are looked at once in so many reports: transactions and merges.
LOOKS_WITHOUT_SIZES: Final = 5
#: A worker repeats a block in about this time, and all of them begin within so many times that.
REPEATING_S: Final = 2e-3
TURNS_MAX: Final = 4
#: Seconds that connections may wait for a worker that takes another's place before an answer says so.
QUIET_S: Final = 2.0
#: A worker whose primary has been away for so long is not sent requests any more: what it has is old.
AWAY_MAX_S: Final = 60.0
_STARTING_CONNECTIONS_MAX: Final = 256
_MS: Final = 1000
#: Interval of checks whether the node is ready, before it takes a port over, in seconds.
_READY_LOOK_S: Final = 0.05
#: Simulations at a time, however many workers there are.
_SIMULATIONS_MIN: Final = 2


@dataclass(slots=True, kw_only=True)
class _Served:
    """Parts that exist once there is a first view."""

    server: RpcServer
    mempool: Mempool
    #: Ids that headers tell.
    lineage: str = ""


class Worker:
    """``run`` until told to stop.  Belongs to one event loop."""

    def __init__(self, settings: Settings, seat: WorkerSeat) -> None:
        self._settings = settings = _share_of(settings, seat.of)
        # Hashes that wait for one thread go together, eight in the time of three; for several they would go in pairs.
        hash_threads.limit_threads(max(1, hash_threads.THREADS // seat.of))
        self._seat = seat
        self._stack = AsyncExitStack()
        self._loop = asyncio.get_running_loop()
        self._has_view = asyncio.Event()
        pool = RemotePool()
        options = ChainOptions.of(settings)
        self._replica = Replica(
            ReplicaOptions(
                cache_mb=max(LOCAL_WORLD_STATE_CACHE_MB, options.world_state_cache_mb // seat.of),
                tag_filter_mb=options.tag_filter_mb,
                growth_percent=settings.worker_copy_growth_percent,
            ),
            pool,
            on_first=lambda: self._in_loop(self._has_view.set),
        )
        self._pool = pool
        self._link = pool.link = Link(
            seat.address, seat.number, self._replica, on_begin=repeat_soon, delay_s=_delay_s(seat.number)
        )
        self._replica.function_names.link = self._link
        self._is_stopping = False
        #: True from when its servers are made until it stops.
        self.serves = False
        self._report_now = asyncio.Event()
        self._budget = budget_of(settings)
        #: View that was new when the size of the copy and the delays of views were last measured.
        self._measured_at: View | None = None
        self._looks_without_sizes = 0
        self._sizes = (0, 0)
        self._delays: list[float] = []

    def _in_loop(self, action: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(action)

    # ---- life --------------------------------------------------------------------------------

    async def run(self, stopping: asyncio.Future[Any]) -> None:
        try:
            # One that takes another's place lets connections wait until it answers, for a moment.
            is_awaited = self._seat.is_first and not self._seat.takes_over
            starting = await self._listen() if is_awaited else None
            self._link.start()
            self._stack.callback(self._replica.close)
            self._stack.callback(self._link.close)
            ready = asyncio.ensure_future(self._has_view.wait())
            if starting is None and not self._seat.takes_over:
                await asyncio.wait((ready, stopping), timeout=QUIET_S, return_when=asyncio.FIRST_COMPLETED)
                if not ready.done():
                    starting = await self._listen()
            await asyncio.wait((ready, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                ready.cancel()
                return
            while self._seat.takes_over and self._replica.facts.health.not_ready is not None and not stopping.done():
                await asyncio.sleep(_READY_LOOK_S)
            served = self._open()
            self.serves = True
            self._replica.watch_facts(partial(self._on_facts, served))
            self._replica.on_changed = lambda: self._in_loop(self._report_now.set)
            server = served.server
            chain, name = self._view.chain.chain, f"fastnode worker {self._seat.number}"
            await open_spans(self._settings, chain, [server], self._stack, name)
            if starting is None:
                await server.start(self._seat.listening)
            else:
                server.take_over(starting)
            self._stack.push_async_callback(server.stop, grace_seconds=self._settings.shutdown_grace_s)
            if self._settings.rpc_limits is not None:
                self._loop.add_signal_handler(
                    signal.SIGHUP, reload_limits, server, self._settings.rpc_limits, self._seat.buckets.bucket
                )
            settle_memory()
            logger.info("worker serves", extra=log_facts(port=server.port))
            trimming = asyncio.ensure_future(trim_after_bursts(self._budget))
            self._stack.callback(trimming.cancel)
            reporting = asyncio.ensure_future(self._report(served))
            self._stack.callback(reporting.cancel)
            await stopping
            self._is_stopping, self.serves = True, False
            if self._settings.shutdown_delay_s:
                await asyncio.sleep(self._settings.shutdown_delay_s)
        finally:
            await self._stack.aclose()

    async def _listen(self) -> HttpServer:
        settings = self._settings
        limits = replace(limits_of(settings), connections_max=_STARTING_CONNECTIONS_MAX)
        server = HttpServer(
            StartingApplication(
                lambda: "its primary",
                settings.api_prefix,
                lambda: [OWN_VERSION, (LINEAGE_HEADER, self._seat.instance)],
                limits,
            ),
            host=settings.host,
            port=settings.port,
            limits=limits,
        )
        await server.start(self._seat.listening)
        self._stack.push_async_callback(server.stop, grace_seconds=0.0)
        return server

    # ---- parts -------------------------------------------------------------------------------

    @property
    def _view(self) -> View:
        view = self._replica.view
        assert view is not None  # there is a copy before anything is opened
        return view

    def _open(self) -> _Served:
        settings, replica, link = self._settings, self._replica, self._link
        threads = FairThreads(RPC_THREADS + checks_at_once(settings), name="rpc")
        self._stack.callback(threads.shutdown)
        busy_threads = FairThreads(BUSY_THREADS, name="rpc-busy", keeps_busy=True)
        self._stack.callback(busy_threads.shutdown)
        fees = FollowedFees(lambda: replica.facts)
        mempool = self._open_mempool(fees)
        self._stack.callback(mempool.judge.close)
        artifacts = ArtifactStore(self._data_directory() / ARTIFACTS_DIRECTORY)
        simulation, simulation_threads = self._open_simulation(mempool, fees, artifacts)
        questions = None if settings.upstream_url is None else RemoteQuestions(link)
        ask_peers = (lambda tx_hash: link.ask("find at peers", tx_hash)) if settings.p2p_enabled else None
        known_txs = KnownTxs(mempool.pool, questions, ask_peers)
        methods = public_methods(
            settings,
            Services(
                known_tags=replica.known_tags,
                function_names=replica.function_names,
                allow_list=lambda: cast("Sequence[AllowedElement]", replica.facts.rules.setup_allow_list),
                mempool=mempool,
                fees=fees,
                simulation=simulation,
                simulation_threads=simulation_threads,
                trace_threads=None if simulation_threads is None else trace_threads_of(settings, self._stack),
                artifacts=artifacts,
                find_tx=known_txs.find,
                find_tx_here=known_txs.find_here,
                ask_fleet=ask_fleet_over(link) if settings.is_in_fleet else None,
                no_transactions=self._no_transactions,
                sync_status=lambda: replica.facts.sync_status,
                is_paused=lambda: replica.facts.is_paused,
                is_sample=lambda: replica.facts.is_sample,
                questions=questions,
                sentinel=RemoteSentinel(link, settings.sentinel_history_length_in_epochs)  # type: ignore[arg-type]
                if settings.sentinel_enabled
                else None,
                outbox_roots=outbox_roots_over(link) if settings.reads_l1 else None,
                message_index=message_index_over(link) if settings.reads_l1 else None,
                own_record=(lambda: replica.facts.record) if settings.p2p_enabled else None,
                heard=(lambda *asked: link.ask("heard of peers", *asked)) if settings.p2p_enabled else None,
            ),
        )
        view = self._view
        parts = ServerParts(
            settings=settings,
            release=view.chain.chain.release,
            published=replica.published,
            threads=threads,
            busy_threads=busy_threads,
            turns=Turns(),
            budget=self._budget,
            health=self._health,
        )
        block_wait = None
        if settings.follows and settings.rpc_block_wait_ms:
            block_wait = BlockWait(settings.rpc_block_wait_ms / _MS)
            replica.subscribe(block_wait.on_committed)
        server = rpc_server(parts, methods, settings.host, settings.port, self._headers(mempool), block_wait)
        tell_events(server, parts, replica.subscribe, mempool.pool, artifacts)
        if settings.rpc_limits is not None:
            limit_clients(server, settings.rpc_limits, self._seat.buckets.bucket)
        per_address = settings.rpc_max_connections_per_address
        server.count_connections_in(self._seat.connections.counts(self._seat.number, per_address))
        return _Served(server=server, mempool=mempool)

    def _open_mempool(self, fees: FollowedFees) -> Mempool:
        settings, replica = self._settings, self._replica
        facts, view, pool = replica.facts, self._view, replica.pool
        assert pool is not None
        directory = self._data_directory()
        judge = judge_of(settings, directory, required=facts.proofs_required)
        if facts.closed is not None:
            judge.expect_no_transactions()
        judge.use_network(facts.rules.network.vk_tree_root)
        clock = pool.clock
        mempool = Mempool(
            pool,
            TxValidator(facts.rules, clock, judge),
            replace(view, state=None),
            MempoolOptions.of(settings),
            judge=judge,
            fees=fees,
            closed=lambda: replica.facts.closed,
        )
        if facts.hands_on:
            mempool.handover = OtherHandover(pool, self._pool)
        return mempool

    def _data_directory(self) -> Path:
        given = self._settings.data_directory
        if given is not None:
            return given
        assert self._replica.path is not None
        return self._replica.path.parent.parent

    def _open_simulation(
        self, mempool: Mempool, fees: FollowedFees, artifacts: ArtifactStore
    ) -> tuple[Simulation, LimitedThreads | None]:
        settings = self._settings
        other = RemoteSimulator(self._link)
        simulation = Simulation.of(
            settings, mempool.clock, fees.current, other, self._replica.function_names, artifacts
        )
        if not simulation.is_local:
            return simulation, None
        threads = LimitedThreads(
            max(_SIMULATIONS_MIN, RUNNING_MAX // self._seat.of),
            name="simulation",
            what="public simulations",
            admitted_max=ADMITTED_MAX,
            wait_s_max=settings.rpc_simulate_timeout_ms / _MS,
        )
        self._stack.callback(threads.shutdown)
        self._stack.callback(simulation.close)  # first, so that what runs ends
        return simulation, threads

    def _headers(self, mempool: Mempool) -> list[tuple[str, str]]:
        network = mempool.network
        known = version_headers(
            self._view.chain.chain,
            network.node_version,
            vk_tree_root=network.vk_tree_root,
            protocol_contracts_hash=network.protocol_contracts_hash,
        )
        return [*known, OWN_VERSION, (LINEAGE_HEADER, self._replica.facts.lineage)]

    # ---- what the primary says ---------------------------------------------------------------

    def _on_facts(self, served: _Served, facts: Facts) -> None:
        """In the thread of the link."""
        mempool = served.mempool
        before = mempool.validator.rules
        if mempool.judge.required != facts.proofs_required:
            mempool.judge.require(facts.proofs_required)
        if before != facts.rules:
            mempool.validator.rules = facts.rules
        if before.network != facts.rules.network:
            mempool.judge.use_network(facts.rules.network.vk_tree_root)
        elif served.lineage == facts.lineage:
            return
        served.lineage = facts.lineage
        self._in_loop(lambda: served.server.set_headers(self._headers(mempool)))

    def _away_s(self) -> float | None:
        since = self._replica.away_since
        return None if since is None else time.monotonic() - since

    def _no_transactions(self) -> str | None:
        return "its primary is away" if self._away_s() is not None else self._replica.facts.no_transactions

    def _health(self) -> Health:
        health = self._replica.facts.health
        away_s = self._away_s()
        primary = None if away_s is None else "the writing process is away: answers are those of its last block"
        not_ready = health.not_ready
        if away_s is not None and away_s > AWAY_MAX_S:
            not_ready = primary
        if self._is_stopping:
            not_ready = "the node is stopping"
        components = {**health.components, "primary": primary}
        if self._is_stopping:
            components["stop"] = not_ready
        return replace(health, components=components, not_ready=not_ready)

    # ---- what the primary is told ------------------------------------------------------------

    async def _report(self, served: _Served) -> None:
        """Never returns."""
        while True:
            self._report_now.clear()
            report = await asyncio.to_thread(self._look, served.server)
            mempool = served.mempool
            counters = counters_of(served.server, mempool.rejections, mempool.judge.verdicts)
            await asyncio.to_thread(self._link.tell, "report", report, counters)
            # With a new copy at once: the primary knows nothing yet of a worker that has just connected.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._report_now.wait(), REPORT_INTERVAL_S)

    def _look(self, server: RpcServer) -> dict[str, Any]:
        """In a thread: files are looked at."""
        replica = self._replica
        replica.tidy()
        view = replica.view
        if view is not self._measured_at or self._looks_without_sizes >= LOOKS_WITHOUT_SIZES:
            self._measured_at, self._looks_without_sizes = view, 0
            self._sizes = replica.copies.sizes()
            self._delays = sorted(replica.delays_s)
        else:
            self._looks_without_sizes += 1
        (own, total), delays = self._sizes, self._delays
        if self._link.is_connected and replica.copies.has_grown_apart((own, total)):
            logger.info("the copy has grown apart", extra=log_facts(own_mb=own >> 20, of_mb=total >> 20))
            self._link.renew()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "serves": self.serves,
            "pid": os.getpid(),
            "tip": None if view is None else view.chain.tip_number,
            "connections": server.connection_count,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "resident_bytes": resident_bytes(),
            "copies": replica.copies.opened_count,
            "own_bytes": own,
            "copy_bytes": total,
            "delay_p99_ms": round(_MS * delays[min(len(delays) - 1, len(delays) * 99 // 100)], 2) if delays else None,
            "kept_bytes": server.cached_responses.kept_bytes,
        }


def _delay_s(number: int) -> float:
    """Seconds by which worker ``number``, from 1 on, repeats a block after the first ones: half of the processors are
    left to requests meanwhile, as far as there is time for that.
    """
    at_once = max(1, (os.cpu_count() or 1) // 2)
    return REPEATING_S * min((number - 1) // at_once, TURNS_MAX - 1)


def _share_of(settings: Settings, workers: int) -> Settings:
    """The settings of one of so many workers: what all together may take is shared out.

    The largest request and its answer find room in each, and each can check a proof.
    """
    least = 2 * (settings.rpc_max_response_size + settings.rpc_max_body_size)
    return replace(
        settings,
        rpc_memory_budget=max(least, memory_budget_of(settings) // workers),
        bb_num_ivc_verifiers=max(1, checks_at_once(settings) // workers),
        proof_verifier_processes=max(1, settings.proof_verifier_processes // workers),
        rpc_max_event_clients=-(-settings.rpc_max_event_clients // workers),
        rpc_max_event_subscriptions=-(-settings.rpc_max_event_subscriptions // workers),
    )
