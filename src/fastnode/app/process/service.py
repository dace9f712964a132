"""The fourth stage of a node: it answers requests on its ports, and the chain is fed from its sources."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from fastnode.app.ground import rate_limits
from fastnode.app.ground.method_tables import admin_methods, public_methods, tracing_methods
from fastnode.app.ground.node_settings import admin_key_of
from fastnode.app.ground.servers import ServerParts, rpc_server
from fastnode.app.process.telemetry import open_monitoring
from fastnode.app.roles.equipment import Equipment
from fastnode.app.stages.core import Core
from fastnode.app.stages.foundation import listen
from fastnode.app.stages.ingestion import IngestionThread
from fastnode.app.stages.upkeep import Upkeep
from fastnode.archiver.commit import ChainCommit
from fastnode.archiver.queries import ChainInfo
from fastnode.config.settings import Settings
from fastnode.jsonrpc.block_wait import BlockWait
from fastnode.log import log_facts
from fastnode.mempool.network import NetworkIdentity
from fastnode.records import dataclass
from fastnode.serving.api_key import ApiKeyGuard, introduce
from fastnode.serving.same_origin import SameOriginGuard
from fastnode.serving.server import HttpServer, RpcServer
from fastnode.serving.version_headers import OWN_VERSION, version_headers
from fastnode.status_page.explorer import TRACE_METHOD, Explorer
from fastnode.status_page.overview import NodeSources, Overview
from fastnode.status_page.pages import StatusPage, is_link, open_paths

__all__ = ["Service", "serve"]

logger = logging.getLogger("fastnode.app")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    public: RpcServer
    admin: RpcServer
    #: None: there is no port for metrics.
    metrics: HttpServer | None
    #: The explorer for everybody; None: it has no port.
    explorer: HttpServer | None = None
    #: A local network's clock as an L1; None: it has no port.
    l1_clock: RpcServer | None = None
    #: Has the exception that ends the node.
    failure: asyncio.Future[None]


async def serve(equipment: Equipment, stack: AsyncExitStack) -> Service:
    """StartError when a port cannot be had; SettingError for rate limits that make no sense."""
    core = equipment.core
    failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    stack.callback(failure.cancel)
    upkeep = _open_upkeep(core)
    ingestion = _open_ingestion(equipment, failure, upkeep)
    stack.push_async_callback(asyncio.to_thread, upkeep.close)
    stack.push_async_callback(_stop_ingestion, core, ingestion)
    stack.push_async_callback(asyncio.to_thread, core.uploads.close)
    public, reported, admin = _open_servers(equipment)
    ports, grace_s = core.foundation.ports, core.foundation.settings.shutdown_grace_s
    equipment.public_port.take_over(public)
    stack.push_async_callback(public.stop, grace_seconds=grace_s)
    admin.take_over(ports.admin)
    stack.push_async_callback(admin.stop, grace_seconds=grace_s)
    urls = {"url": public.url, "admin_url": admin.url}
    logger.info("serving", extra=log_facts(**urls, port=public.port, admin_port=admin.port))
    metrics = await open_monitoring(equipment, (public, admin), {"public": reported, "admin": admin}, stack)
    explorer = await _open_explorer(core, public)
    l1_clock = await _open_l1_clock(core)
    if core.local_network.network is not None:
        public.engine.table.l1_advice = _l1_advice(core.foundation.settings, l1_clock)
    for server in filter(None, (metrics, explorer, l1_clock)):
        stack.push_async_callback(server.stop, grace_seconds=grace_s)
    for part in equipment.parts:
        stack.push_async_callback(asyncio.to_thread, part.stop)
        await core.foundation.start_wait.in_thread(part.start, public)  # none is stopped while it starts
    stack.push_async_callback(_announce_stop, equipment)
    if core.chain_file is None:
        logger.info("serving the stored chain", extra=log_facts(tip=core.ingestor.view.tip_number))
    ingestion.start()
    return Service(public=public, admin=admin, metrics=metrics, explorer=explorer, failure=failure, l1_clock=l1_clock)


async def _announce_stop(equipment: Equipment) -> None:
    """Make /readyz fail, and go on serving until load balancers have noticed."""
    equipment.core.condition.is_stopping = True
    await equipment.public_port.announce_stop()


# ---- ingestion -------------------------------------------------------------------------------------


def _open_upkeep(core: Core) -> Upkeep:
    views, ingestor = core.views, core.ingestor
    upkeep = Upkeep(
        ingestor,
        core.foundation.data.state,
        core.foundation.control,
        keep_blocks=core.foundation.settings.keep_blocks,
        on_pruned=lambda: views.publish(ChainCommit(ingestor.view)),
    )
    core.condition.mention(upkeep.troubles)
    return upkeep


def _open_ingestion(equipment: Equipment, failure: asyncio.Future[None], upkeep: Upkeep) -> IngestionThread:
    core = equipment.core
    foundation, ingestor, views = core.foundation, core.ingestor, core.views
    loop = asyncio.get_running_loop()
    condition = core.condition
    condition.is_importing = core.chain_file is not None

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
        foundation.data,
        ingestor,
        core.chain_file,
        foundation.control,
        core.source.runs,
        on_begun=equipment.public_port.begin_ingestion,
        on_caught_up=on_caught_up,
        on_done=on_loaded,
        on_failure=fail,
    )
    condition.watch(ingestion.faults)
    return ingestion


async def _stop_ingestion(core: Core, ingestion: IngestionThread) -> None:
    foundation = core.foundation
    foundation.control.stop()
    await asyncio.to_thread(core.source.interrupt)
    await asyncio.to_thread(ingestion.stop)
    _save_filter(core)


def _save_filter(core: Core) -> None:
    """The next start reads the filter of known tags from a file instead of from all logs."""
    data, view = core.foundation.data, core.views.newest
    if view is None:
        return
    try:
        data.indexes.save_filter(view.chain, data.tag_filter_file)
    except OSError as error:
        logger.warning("the tag filter is not saved", extra=log_facts(reason=error.strerror))


# ---- ports -----------------------------------------------------------------------------------------


def _open_servers(equipment: Equipment) -> tuple[RpcServer, RpcServer, RpcServer]:
    """The public server, what is told of it, and the admin server; not listening yet."""
    core = equipment.core
    foundation = core.foundation
    settings = foundation.settings
    chain = foundation.data.store.chain
    headers = _headers(core, chain)
    block_wait = None
    if core.source.follower is not None and settings.rpc_block_wait_ms:
        block_wait = BlockWait(settings.rpc_block_wait_ms / 1000)
        core.views.subscribe(block_wait.on_committed)
    methods = public_methods(settings, equipment.services)
    public = rpc_server(_parts(core), methods, settings.host, settings.port, headers, block_wait)
    reported = equipment.public_port.open(public, _parts(core), equipment.services)
    if settings.rpc_limits is not None:
        rate_limits.limit_clients(public, settings.rpc_limits, are_shared=settings.bus_share_limits)
    operator_methods = admin_methods(
        core.configuration,
        core.validators,
        core.operator,
        core.uploads,
        core.validator_watch.slashing,
        core.artifacts,
        core.local_network.hold_of(core.condition),
        tracing_methods(equipment.services),
    )
    operator_methods += core.local_network.serve_with(public, methods)
    admin = rpc_server(_parts(core), operator_methods, settings.admin_host, settings.admin_port, headers, block_wait)
    key = admin_key_of(settings)
    guard = ApiKeyGuard.of(key, open_paths(settings.api_prefix), lambda path: is_link(path, settings.api_prefix))
    admin.set_guard(guard or SameOriginGuard(settings.admin_names or ()))
    admin.set_pages(_status_page(equipment, public, reported, admin, guard))
    introduce(key)
    _follow_network(core, chain, public, admin)
    return public, reported, admin


def _headers(core: Core, chain: ChainInfo) -> list[tuple[str, str]]:
    network = core.mempool.network
    known = version_headers(
        chain,
        network.node_version,
        vk_tree_root=network.vk_tree_root,
        protocol_contracts_hash=network.protocol_contracts_hash,
    )
    return [*known, OWN_VERSION, core.foundation.lineage.header]


def _follow_network(core: Core, chain: ChainInfo, *servers: RpcServer) -> None:
    """Put into the headers what is learned of the network, and whom the node follows, once it serves.

    The event loop reads no database for that: what they say of the chain stays.
    """
    loop = asyncio.get_running_loop()

    def replace_headers() -> None:
        for server in servers:
            server.set_headers(_headers(core, chain))

    def on_changed(_network: NetworkIdentity | None = None) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(replace_headers)

    core.mempool.watch_network(on_changed)
    core.foundation.lineage.watch(on_changed)


def _parts(core: Core) -> ServerParts:
    foundation = core.foundation
    return ServerParts(
        settings=foundation.settings,
        release=foundation.data.store.chain.release,
        published=core.views.published,
        threads=foundation.threads,
        busy_threads=foundation.busy_threads,
        turns=foundation.turns,
        budget=foundation.budget,
        health=core.condition.health,
    )


def reload_limits(service: Service, file: Path | None, *, are_shared: bool = False) -> None:
    """Read the limits of clients again; if anything is wrong with them, those from before stay."""
    rate_limits.reload_limits(service.public, file, are_shared=are_shared)


def _status_page(
    equipment: Equipment, public: RpcServer, reported: RpcServer, admin: RpcServer, guard: ApiKeyGuard | None
) -> StatusPage:
    core = equipment.core
    sources = NodeSources(
        servers={"public": reported, "admin": admin},
        view=lambda: core.views.newest,
        health=core.condition.health,
        progress=core.ingestor.progress,
        log=core.foundation.log_tail,
        recent=core.recent,
        mempool=core.mempool,
        sync_status=core.condition.sync_status,
        local_network=core.local_network.panel(),
        parts=equipment.parts.describe,
    )
    return StatusPage(
        Overview(sources),
        Explorer(
            public.engine.table, core.function_names.name_of, core.artifacts, admin.engine.table.method(TRACE_METHOD)
        ),
        sources.view,
        knows_key=(lambda headers: True) if guard is None else guard.knows_key,
        executor=core.foundation.threads,
        busy_executor=core.foundation.busy_threads,
    )


async def _open_explorer(core: Core, public: RpcServer) -> HttpServer | None:
    """StartError when the port cannot be had."""
    settings = core.foundation.settings
    if settings.explorer_port is None:
        return None
    from fastnode.status_page.port import explorer_server

    server = explorer_server(
        Explorer(
            public.engine.table,
            core.function_names.name_of,
            core.artifacts,
            public.engine.table.method(TRACE_METHOD),
        ),
        lambda: core.views.newest,
        host=settings.host,
        port=settings.explorer_port,
        executor=core.foundation.busy_threads,
    )
    await listen(server, settings.explorer_port, "explorer-")
    logger.info("explorer", extra=log_facts(url=server.url))
    return server


def _l1_advice(settings: Settings, clock: RpcServer | None) -> str:
    """Advice for the caller of a method of L1 at the public port of a local network."""
    if clock is not None:
        return f"call the L1 port, {clock.url}"
    if settings.l1_rpc_urls is not None:
        return "call the L1 of --l1-rpc-urls"
    return "this local network has no L1 port; --l1-clock-port PORT opens one"


async def _open_l1_clock(core: Core) -> RpcServer | None:
    """StartError when the port cannot be had."""
    settings, methods = core.foundation.settings, core.local_network.clock_methods(core.function_names)
    if methods is None or settings.l1_clock_port is None:
        return None
    server = rpc_server(_parts(core), methods, settings.host, settings.l1_clock_port, [], None)
    core.local_network.own(server)
    await listen(server, settings.l1_clock_port, "l1-clock-")
    logger.info("clock of L1", extra=log_facts(url=server.url))
    return server
