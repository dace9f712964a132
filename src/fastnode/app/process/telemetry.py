"""Outputs for monitoring systems: the port that they ask, and what is sent to a collector of OpenTelemetry."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastnode.log import log_facts
from fastnode.serving.server import HttpServer, RpcServer, describe_bind_error
from fastnode.values.urls import check_url, without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fastnode.app.roles.equipment import Equipment
    from fastnode.app.stages.core import Core
    from fastnode.archiver.queries import ChainInfo
    from fastnode.config.settings import Settings
    from fastnode.metrics.collector import Sources

__all__ = ["open_monitoring", "open_spans"]

logger = logging.getLogger("fastnode.app")


async def open_monitoring(
    equipment: Equipment,
    servers: Sequence[RpcServer],
    reported: Mapping[str, RpcServer],
    stack: AsyncExitStack,
) -> HttpServer | None:
    """The server of the metrics; None: there is none.  SettingError for a collector whose URL is none.

    ``reported`` are servers by their names as they are told of, with what worker processes answer.
    """
    core = equipment.core
    settings = core.foundation.settings
    for url, flag in (
        (settings.traces_collector_url, "--traces-collector-url"),
        (settings.metrics_collector_url, "--metrics-collector-url"),
    ):
        if url is not None:
            check_url(url, flag)
    if not (settings.metrics_port or settings.metrics_collector_url or settings.traces_collector_url):
        return None
    sources = await _sources(equipment, reported, stack)
    await _open_telemetry(core, servers, sources, stack)
    return None if settings.metrics_port == 0 else await _open_port(core, sources)


async def _sources(equipment: Equipment, reported: Mapping[str, RpcServer], stack: AsyncExitStack) -> Sources:
    # On demand, and in a thread: the library takes a while to load, and requests are answered already.
    await asyncio.to_thread(import_module, "fastnode.metrics.port")
    from fastnode.metrics.collector import Sources
    from fastnode.metrics.loop_lag import LoopLag

    core = equipment.core
    data = core.foundation.data
    lag = LoopLag(asyncio.get_running_loop())
    lag.start()
    stack.callback(lag.stop)
    return Sources(
        servers=reported,
        view=lambda: core.views.newest,
        progress=core.ingestor.progress,
        data_directory=data.directory.path,
        known_tags=data.indexes.known_tags,
        recent=core.recent,
        mempool=core.mempool,
        uploads=core.uploads,
        health=core.condition.health,
        sync_status=core.condition.sync_status,
        loop_lag=lag,
        exchange_times=core.source.exchange_times,
        parts=equipment.parts.metrics,
    )


async def _open_port(core: Core, sources: Sources) -> HttpServer | None:
    from fastnode.metrics.port import metrics_server

    settings = core.foundation.settings
    host, port = settings.metrics_host, settings.metrics_port
    server = metrics_server(
        sources,
        host=host,
        port=port,
        reference_names=settings.metrics_reference_names,
        executor=core.foundation.threads,
    )
    try:
        await server.start()
    except OSError as error:
        # The chain is served without; a port that happens to be taken is no reason not to.
        reason = describe_bind_error(error, host, port, "metrics-")
        core.condition.missing["metrics"] = f"not served: {reason}"
        logger.warning("no metrics", extra=log_facts(reason=reason))
        return None
    return server


async def open_spans(
    settings: Settings, chain: ChainInfo, servers: Sequence[RpcServer], stack: AsyncExitStack, name: str | None = None
) -> None:
    """Send spans of the requests to these servers, if that is asked for; ``name`` is the process among those of its
    node.  ModuleNotFoundError without the extra.
    """
    url = settings.traces_collector_url
    if url is None:
        return
    await asyncio.to_thread(import_module, "fastnode.metrics.otlp")
    from fastnode.metrics.otlp import OtlpSpans

    resource = _resource(settings, chain, {} if name is None else {"process.title": name})
    spans = OtlpSpans(url, timeout_s=settings.otel_export_timeout_ms / 1000, resource=resource)
    stack.push_async_callback(asyncio.to_thread, spans.close)
    for server in servers:
        server.set_spans(spans)
    logger.info("traces", extra=log_facts(collector=without_secrets(url)))


def _resource(settings: Settings, chain: ChainInfo, more: Mapping[str, str]) -> Any:
    from fastnode.metrics.otlp import resource_of

    # All that the library says belongs to the log of the node, but for the URLs in it.
    library = logging.getLogger("opentelemetry")
    urls = filter(None, (settings.traces_collector_url, settings.metrics_collector_url))
    library.handlers[:], library.propagate = [_WithoutUrls(urls)], False
    return resource_of({"aztec.node_role": "node", "aztec.rollup_version": str(chain.rollup_version), **more})


class _WithoutUrls(logging.Handler):
    """Hands on to the handlers of this node's log, without what may be secret in URLs: user, path and query."""

    def __init__(self, urls: Iterable[str]) -> None:
        super().__init__()
        parts = [urlsplit(url) for url in urls]
        found = {text for part in parts for text in (part.path, part.query, part.username, part.password) if text}
        self._secrets = sorted(found - {"/"}, key=len, reverse=True)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]}"
        for secret in self._secrets:
            text = text.replace(secret, "...")
        own = logging.getLogger("fastnode")
        for handler in own.handlers:
            handler.handle(own.makeRecord(record.name, record.levelno, record.pathname, record.lineno, text, (), None))


async def _open_telemetry(
    core: Core,
    servers: Sequence[RpcServer],
    sources: Sources,
    stack: AsyncExitStack,
) -> None:
    """ModuleNotFoundError without the extra."""
    settings = core.foundation.settings
    chain = core.ingestor.view.chain
    await open_spans(settings, chain, servers, stack)
    metrics_url = settings.metrics_collector_url
    if metrics_url is None:
        return
    await asyncio.to_thread(import_module, "fastnode.metrics.otlp")
    from fastnode.metrics.collector import NodeCollector, registry_of
    from fastnode.metrics.otlp import MetricsExport
    from fastnode.metrics.reference_names import ReferenceCollector

    export = MetricsExport(
        metrics_url,
        registry_of(NodeCollector(sources), ReferenceCollector(sources)),
        interval_s=settings.otel_collect_interval_ms / 1000,
        timeout_s=settings.otel_export_timeout_ms / 1000,
        resource=_resource(settings, chain, {}),
        excluded=settings.otel_exclude_metrics,
        included=settings.otel_include_metrics,
    )
    export.start()
    core.condition.mention(export.troubles)
    stack.push_async_callback(asyncio.to_thread, export.close)
    logger.info("metrics", extra=log_facts(collector=without_secrets(metrics_url)))
