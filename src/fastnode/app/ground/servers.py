"""A server of JSON-RPC as the settings ask for it: of the node's own process, or of one of its workers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import cast

from fastnode.api.discovery import discovery
from fastnode.app.ground.node_settings import limits_of
from fastnode.artifacts.store import ArtifactStore
from fastnode.config.settings import Settings
from fastnode.errors import SettingError
from fastnode.http.allowance import MemoryBudget
from fastnode.http.health import Health
from fastnode.http.meters import CallMeters
from fastnode.http.turns import Turns
from fastnode.jsonrpc.block_wait import BlockWait
from fastnode.jsonrpc.engine import Engine
from fastnode.jsonrpc.methods import METHOD_SETS, Method, MethodSet, MethodTable
from fastnode.kernels import simple_request
from fastnode.mempool.pool import TxPool
from fastnode.protocol.releases import Release
from fastnode.records import dataclass
from fastnode.serving.event_streams import EventStreams
from fastnode.serving.server import RpcServer
from fastnode.values.namespaces import Namespaces
from fastnode.view import Committed, View

__all__ = ["ServerParts", "method_set_of", "rpc_server", "tell_events"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParts:
    """Parts that the servers of one process share."""

    settings: Settings
    #: Release of the chain that is served.
    release: Release
    published: simple_request.Published[View | None]
    threads: Executor
    busy_threads: Executor
    turns: Turns
    budget: MemoryBudget
    health: Callable[[], Health]


def method_set_of(settings: Settings, release: Release) -> MethodSet:
    """Methods that a node answers with: those of the release of its chain, unless the operator names others.
    SettingError for a release whose record names a set that there is not."""
    chosen = release.method_set if settings.method_set == "auto" else settings.method_set
    if chosen not in METHOD_SETS:
        raise SettingError(f"the record of release {release.name} names the methods {chosen!r}, which there are not")
    return chosen


def rpc_server(
    parts: ServerParts,
    methods: list[Method],
    host: str,
    port: int,
    headers: list[tuple[str, str]],
    block_wait: BlockWait | None,
) -> RpcServer:
    """Not listening yet."""
    settings = parts.settings
    omits_absent = settings.absent_results == "omit"
    table = MethodTable(
        [*methods, discovery(methods, lambda: server.client_url, omits_absent=omits_absent)],
        method_set_of(settings, parts.release),
        namespaces=cast(Namespaces, settings.namespaces),
    )
    aliases = {name: method.name for name, method in table.by_wire_name().items() if name != method.name}
    engine = Engine(
        table,
        parts.published,
        limits=limits_of(settings),
        executor=parts.threads,
        busy_executor=parts.busy_threads,
        block_wait=block_wait,
        meters=CallMeters((method.name for method in table), aliases)
        if settings.metrics_port or settings.metrics_collector_url or settings.local_network
        else None,
        omits_absent=omits_absent,
    )
    server = RpcServer(
        engine,
        host=host,
        port=port,
        headers=headers,
        error_status=int(settings.rpc_error_status),
        health=parts.health,
        path_prefix=settings.api_prefix,
        turns=parts.turns,
        budget=parts.budget,
    )
    return server


def tell_events(
    server: RpcServer,
    parts: ServerParts,
    subscribe: Callable[[Callable[[Committed], None]], None],
    pool: TxPool,
    artifacts: ArtifactStore,
) -> None:
    """Let clients of ``server`` be told what happens, if the settings say so; ``subscribe``: to commits."""
    clients_max = parts.settings.rpc_max_event_clients
    if clients_max:
        published = parts.published
        events = EventStreams(
            lambda: published.value, clients_max=clients_max, budget=parts.budget, traffic=server.traffic
        )
        # Not before a node needs it: it loads for a while.
        from fastnode.serving.push import Push

        push = Push(
            lambda: published.value,
            has_room=events.has_room,
            subscriptions_max=parts.settings.rpc_max_event_subscriptions,
            budget=parts.budget,
            traffic=server.traffic,
            artifacts=artifacts,
        )
        events.other_count = lambda: push.client_count

        def on_pending(tx_hash: bytes) -> None:
            events.on_pending(tx_hash)
            push.on_pending(tx_hash)

        subscribe(events.on_committed)
        subscribe(push.on_committed)
        pool.watch_pending(on_pending)
        server.set_events(events, push)
