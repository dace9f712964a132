"""The third stage of a node: it answers requests on its ports, and the chain is fed from its sources."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fastnode.app.ground import rate_limits
from fastnode.app.ground.method_tables import Services, admin_methods, public_methods
from fastnode.app.ground.node_settings import admin_key_of
from fastnode.app.ground.priorities import come_last
from fastnode.app.ground.servers import ServerParts, rpc_server, tell_events
from fastnode.app.process.telemetry import open_monitoring
from fastnode.app.roles.equipment import Equipped
from fastnode.app.stages.core import Joined
from fastnode.app.stages.foundation import listen
from fastnode.app.stages.ingestion import IngestionThread
from fastnode.app.stages.upkeep import Upkeep
from fastnode.archiver.commit import ChainCommit
from fastnode.jsonrpc.block_wait import BlockWait
from fastnode.jsonrpc.methods import Method
from fastnode.log import log_facts
from fastnode.mempool.finding import KnownTxs
from fastnode.mempool.network import NetworkIdentity
from fastnode.records import dataclass
from fastnode.serving.api_key import ApiKeyGuard, introduce
from fastnode.serving.same_origin import OriginsOfPages, SameOriginGuard
from fastnode.serving.server import HttpServer, RpcServer
from fastnode.serving.version_headers import version_headers
from fastnode.status_page.explorer import Explorer
from fastnode.status_page.overview import NodeSources, Overview
from fastnode.status_page.pages import StatusPage, open_paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastnode.config.settings import Settings
    from fastnode.view import View
    from fastnode.workers.counters import Totals
    from fastnode.workers.hub import Hub

__all__ = ["Serving", "serve"]

logger = logging.getLogger("fastnode.app")


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    public: RpcServer
    admin: RpcServer
    #: None: there is no port for metrics.
    metrics: HttpServer | None
    #: The explorer for everybody; None: it has no port.
    explorer: HttpServer | None = None
    #: A local network's clock as an L1; None: it has no port.
    l1_clock: RpcServer | None = None
    #: Hub that workers follow; None: there are none.
    hub: Hub | None = None
    #: Has the exception that ends the node.
    failure: asyncio.Future[None]


async def serve(equipped: Equipped, stack: AsyncExitStack) -> Serving:
    """StartError when a port cannot be had; SettingError for rate limits that make no sense."""
    joined = equipped.joined
    failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    stack.callback(failure.cancel)
    upkeep = _open_upkeep(joined)
    ingestion = _open_ingestion(joined, failure, upkeep)
    stack.push_async_callback(asyncio.to_thread, upkeep.close)
    stack.push_async_callback(_stop_ingestion, joined, ingestion)
    stack.push_async_callback(asyncio.to_thread, joined.uploads.close)
    services = _services(equipped)
    public, reported, admin = _open_servers(equipped, services)
    ports, grace_s = joined.opened.ports, joined.opened.settings.shutdown_grace_s
    hub = _open_hub(joined, services, public, reported, stack)
    if hub is None:
        public.take_over(ports.public)
    stack.push_async_callback(public.stop, grace_seconds=grace_s)
    admin.take_over(ports.admin)
    stack.push_async_callback(admin.stop, grace_seconds=grace_s)
    urls = {"url": public.url, "admin_url": admin.url}
    logger.info("serving", extra=log_facts(**urls, port=public.port, admin_port=admin.port))
    metrics = await open_monitoring(equipped, (public, admin), {"public": reported, "admin": admin}, hub, stack)
    explorer = await _open_explorer(joined, public)
    l1_clock = await _open_l1_clock(joined)
    for server in filter(None, (metrics, explorer, l1_clock)):
        stack.push_async_callback(server.stop, grace_seconds=grace_s)
    for part in equipped.parts:
        stack.push_async_callback(asyncio.to_thread, part.stop)
        await asyncio.to_thread(part.start, public)
    stack.push_async_callback(_announce_stop, joined)
    if joined.chain_file is None:
        logger.info("serving the stored chain", extra=log_facts(tip=joined.ingestor.view.tip_number))
    ingestion.start()
    return Serving(
        public=public, admin=admin, metrics=metrics, explorer=explorer, failure=failure, l1_clock=l1_clock, hub=hub
    )


def _open_hub(
    joined: Joined, services: Services, public: RpcServer, reported: RpcServer, stack: AsyncExitStack
) -> Hub | None:
    """Open the hub that workers follow, if any: they answer on the public port then, and ``public`` stands for them."""
    seat = joined.opened.seat
    if seat is None:
        return None
    from fastnode.app.roles.workers import open_hub

    public.stand_for(seat.port)
    hub = open_hub(joined, services, seat.listener, seat.workers, cast("Totals", reported))
    stack.callback(hub.close)
    hub.start()
    return hub


def _reported(joined: Joined, public: RpcServer) -> RpcServer:
    """Server to report on for the public port; with workers, the sums of what they count."""
    if joined.opened.seat is None:
        return public
    from fastnode.workers.counters import Totals

    return cast(RpcServer, Totals(public))


async def _announce_stop(joined: Joined) -> None:
    """Make /readyz fail, and go on serving until load balancers have noticed."""
    joined.condition.is_stopping = True
    if joined.opened.settings.shutdown_delay_s and joined.opened.seat is None:  # workers have done so
        await asyncio.sleep(joined.opened.settings.shutdown_delay_s)


# ---- ingestion -------------------------------------------------------------------------------------


def _open_upkeep(joined: Joined) -> Upkeep:
    views, ingestor = joined.views, joined.ingestor
    upkeep = Upkeep(
        ingestor,
        joined.opened.data.state,
        joined.opened.control,
        on_pruned=lambda: views.publish(ChainCommit(ingestor.view)),
    )
    joined.condition.mention(upkeep.troubles)
    return upkeep


def _open_ingestion(joined: Joined, failure: asyncio.Future[None], upkeep: Upkeep) -> IngestionThread:
    opened, ingestor, views = joined.opened, joined.ingestor, joined.views
    loop = asyncio.get_running_loop()
    condition = joined.condition
    condition.is_importing = joined.chain_file is not None

    def on_loaded() -> None:
        condition.is_importing = False

    def set_failure(error: BaseException) -> None:
        if not failure.done():
            failure.set_exception(error)

    def fail(error: BaseException) -> None:
        loop.call_soon_threadsafe(set_failure, error)

    def on_caught_up() -> None:
        views.publish(ChainCommit(ingestor.view))
        upkeep.start()

    ingestion = IngestionThread(
        opened.data,
        ingestor,
        joined.chain_file,
        opened.control,
        joined.source.runs,
        on_begun=(lambda: None) if opened.seat is None else come_last,
        on_caught_up=on_caught_up,
        on_done=on_loaded,
        on_failure=fail,
    )
    condition.watch(ingestion.faults)
    return ingestion


async def _stop_ingestion(joined: Joined, ingestion: IngestionThread) -> None:
    opened = joined.opened
    opened.control.stop()
    await asyncio.to_thread(joined.source.interrupt)
    await asyncio.to_thread(ingestion.stop)
    _save_filter(joined)


def _save_filter(joined: Joined) -> None:
    """The next start reads the filter of known tags from a file instead of from all logs."""
    data, view = joined.opened.data, joined.views.newest
    if view is None:
        return
    try:
        data.indexes.save_filter(view.chain, data.tag_filter_file)
    except OSError as error:
        logger.warning("the tag filter is not saved", extra=log_facts(reason=error.strerror))


# ---- ports -----------------------------------------------------------------------------------------


def _open_servers(equipped: Equipped, services: Services) -> tuple[RpcServer, RpcServer, RpcServer]:
    """The public server, what is told of it, and the admin server; not listening yet."""
    joined = equipped.joined
    opened = joined.opened
    settings = opened.settings
    headers = _headers(joined, joined.mempool.network)
    block_wait = None
    if opened.following is not None and settings.rpc_block_wait_ms:
        block_wait = BlockWait(settings.rpc_block_wait_ms / 1000)
        joined.views.subscribe(block_wait.on_committed)
    methods = public_methods(settings, services)
    public = _server(joined, methods, settings.host, settings.port, headers, block_wait)
    if joined.opened.seat is None:  # else workers tell
        tell_events(public, _parts(joined), joined.views.subscribe, joined.mempool.pool, joined.artifacts)
    if settings.rpc_limits is not None:
        rate_limits.limit_clients(public, settings.rpc_limits, are_shared=settings.bus_share_limits)
    operator_methods = admin_methods(
        joined.configuration,
        joined.validators,
        joined.operator,
        joined.uploads,
        joined.watching.slashing,
        joined.artifacts,
    )
    if joined.local_network is not None:
        from fastnode.status_page.local_network import BUTTON_METHODS

        public.set_own_pages(_own_pages(settings))

        operator_methods += [method for method in methods if method.name in BUTTON_METHODS]
    admin = _server(joined, operator_methods, settings.admin_host, settings.admin_port, headers, block_wait)
    key = admin_key_of(settings)
    guard = ApiKeyGuard.of(key, open_paths(settings.api_prefix))
    admin.set_guard(guard or SameOriginGuard(settings.admin_names or ()))
    reported = _reported(joined, public)
    admin.set_pages(_status_page(equipped, public, reported, admin, guard))
    introduce(key)
    _follow_network(joined, public, admin)
    if joined.local_network is not None:
        joined.local_network.wallet_reads.count = _reads_of_wallets(public)
    return public, reported, admin


def _own_pages(settings: Settings) -> OriginsOfPages:
    """The pages that may change a local network."""
    return OriginsOfPages(settings.admin_names or (), settings.local_network_origins or ())


def _reads_of_wallets(public: RpcServer) -> Callable[[], int]:
    from fastnode.local_network.wallet_reads import READS_OF_WALLETS

    meters = public.engine.meters
    assert meters is not None
    calls = meters.calls
    return lambda: sum(sum(calls.histogram(name)[0]) for name in READS_OF_WALLETS)


def _headers(joined: Joined, network: NetworkIdentity) -> list[tuple[str, str]]:
    known = version_headers(
        joined.opened.data.store.chain,
        network.node_version,
        vk_tree_root=network.vk_tree_root,
        protocol_contracts_hash=network.protocol_contracts_hash,
    )
    return [*known, joined.opened.lineage.header]


def _follow_network(joined: Joined, *servers: RpcServer) -> None:
    """Put into the headers what is learned of the network, and whom the node follows, once it serves."""
    loop = asyncio.get_running_loop()

    def replace_headers() -> None:
        for server in servers:
            server.set_headers(_headers(joined, joined.mempool.network))

    def on_changed(_network: NetworkIdentity | None = None) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(replace_headers)

    joined.mempool.watch_network(on_changed)
    joined.opened.lineage.watch(on_changed)


def _services(equipped: Equipped) -> Services:
    """All that methods, here and in workers, ask of the parts of the node."""
    joined, peers, fleet = equipped.joined, equipped.peers, equipped.fleet
    opened, mempool, condition = joined.opened, joined.mempool, joined.condition
    questions = None if opened.following is None else opened.following.questions
    ask_peers = None if peers is None else peers.find_tx
    known_txs = KnownTxs(mempool.pool, questions, ask_peers)
    return Services(
        known_tags=opened.data.indexes.known_tags,
        function_names=joined.function_names,
        allow_list=lambda: mempool.allow_list,
        mempool=mempool,
        fees=joined.source.fees,
        simulation=joined.simulation,
        artifacts=joined.artifacts,
        simulation_threads=joined.simulation_threads,
        trace_threads=joined.trace_threads,
        find_tx=known_txs.find,
        find_tx_here=known_txs.find_here,
        ask_peers=ask_peers,
        ask_fleet=None if fleet is None else fleet.standing_of,
        no_transactions=condition.no_transactions_because,
        sync_status=condition.sync_status,
        is_paused=lambda: condition.is_paused,
        questions=questions,
        sentinel=joined.watching.sentinel,
        outbox_roots=None if opened.l1 is None else opened.l1.outbox_roots,
        local_network=joined.local_network,
        own_record=None if peers is None else peers.record,
    )


def _server(
    joined: Joined,
    methods: list[Method],
    host: str,
    port: int,
    headers: list[tuple[str, str]],
    block_wait: BlockWait | None,
) -> RpcServer:
    return rpc_server(_parts(joined), methods, host, port, headers, block_wait)


def _parts(joined: Joined) -> ServerParts:
    opened = joined.opened
    return ServerParts(
        settings=opened.settings,
        published=joined.views.published,
        threads=opened.threads,
        busy_threads=opened.busy_threads,
        turns=opened.turns,
        budget=opened.budget,
        health=joined.condition.health,
    )


def reload_limits(serving: Serving, file: Path | None, *, are_shared: bool = False) -> None:
    """Read the limits of clients again; if anything is wrong with them, those from before stay."""
    rate_limits.reload_limits(serving.public, file, are_shared=are_shared)


def _status_page(
    equipped: Equipped, public: RpcServer, reported: RpcServer, admin: RpcServer, guard: ApiKeyGuard | None
) -> StatusPage:
    joined = equipped.joined
    sources = NodeSources(
        servers={"public": reported, "admin": admin},
        view=lambda: joined.views.newest,
        health=joined.condition.health,
        progress=joined.ingestor.progress,
        log=joined.opened.log_tail,
        recent=joined.recent,
        mempool=joined.mempool,
        sync_status=joined.condition.sync_status,
        local_network=_local_network_panel(joined),
        parts=equipped.describe,
    )
    return StatusPage(
        Overview(sources),
        Explorer(public.engine.table, joined.function_names.name_of, joined.artifacts),
        sources.view,
        knows_key=(lambda headers: True) if guard is None else guard.knows_key,
        executor=joined.opened.threads,
        busy_executor=joined.opened.busy_threads,
    )


def _local_network_panel(joined: Joined) -> Callable[[View], dict[str, Any]] | None:
    if joined.local_network is None:
        return None
    from fastnode.local_network.opening import funds_of
    from fastnode.status_page.local_network import LocalNetworkPanel

    return LocalNetworkPanel(joined.local_network, funds_of(joined.opened.settings)).describe


async def _open_explorer(joined: Joined, public: RpcServer) -> HttpServer | None:
    """StartError when the port cannot be had."""
    settings = joined.opened.settings
    if settings.explorer_port is None:
        return None
    from fastnode.status_page.port import explorer_server

    server = explorer_server(
        Explorer(public.engine.table, joined.function_names.name_of, joined.artifacts),
        lambda: joined.views.newest,
        host=settings.host,
        port=settings.explorer_port,
        executor=joined.opened.busy_threads,
    )
    await listen(server, settings.explorer_port, "explorer-")
    logger.info("explorer", extra=log_facts(url=server.url))
    return server


async def _open_l1_clock(joined: Joined) -> RpcServer | None:
    """StartError when the port cannot be had."""
    network, settings = joined.local_network, joined.opened.settings
    if network is None or settings.l1_clock_port is None:
        return None
    from fastnode.api.l1_clock import clock_methods
    from fastnode.api.local_network import methods
    from fastnode.local_network.changes import Changes

    changes = Changes(network)
    table = clock_methods(network, changes, methods(network, changes, joined.function_names))
    server = _server(joined, table, settings.host, settings.l1_clock_port, [], None)
    server.set_own_pages(_own_pages(settings))
    await listen(server, settings.l1_clock_port, "l1-clock-")
    logger.info("clock of L1", extra=log_facts(url=server.url))
    return server
