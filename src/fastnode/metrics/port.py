"""The port on which monitoring systems ask for the metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Executor
from http import HTTPStatus
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry

from fastnode.http.allowance import Allowance
from fastnode.http.limits import Limits
from fastnode.http.messages import Refusal, Request, Response, header_fields
from fastnode.metrics.collector import NodeCollector, Sources, registry_of, render
from fastnode.metrics.reference_names import ReferenceCollector
from fastnode.serving.server import HttpServer

__all__ = ["MetricsApplication", "metrics_server"]

PATH: Final = b"/metrics"
_TEXT: Final = header_fields(("Content-Type", "text/plain; charset=utf-8"))
_METRICS: Final = header_fields(("Content-Type", CONTENT_TYPE_LATEST))
#: Monitoring asks every few seconds, from few places.
_LIMITS: Final = Limits(connections_max=64, connections_per_address_max=16)


class MetricsApplication:
    """GET /metrics, and nothing else."""

    guard = None

    def __init__(self, registry: CollectorRegistry, executor: Executor | None = None) -> None:
        self._registry = registry
        self._executor = executor

    def on_request(self, request: Request, allowance: Allowance) -> Response | Coroutine[Any, Any, Response]:
        if request.target.partition(b"?")[0] != PATH:
            return self.on_refusal(Refusal(HTTPStatus.NOT_FOUND, "the metrics are at /metrics"))
        if request.method not in (b"GET", b"HEAD"):
            return Response(HTTPStatus.METHOD_NOT_ALLOWED, _TEXT + header_fields(("Allow", "GET, HEAD")), b"")
        return self._answer()

    def on_refusal(self, refusal: Refusal) -> Response:
        return Response(refusal.status, _TEXT, f"{refusal.status.phrase}: {refusal.reason}".encode())

    async def _answer(self) -> Response:
        """Written down in a thread: that takes milliseconds."""
        loop = asyncio.get_running_loop()
        return Response(HTTPStatus.OK, _METRICS, await loop.run_in_executor(self._executor, render, self._registry))


def metrics_server(
    sources: Sources,
    *,
    host: str,
    port: int,
    reference_names: bool,
    executor: Executor | None = None,
) -> HttpServer:
    """The server, not started yet."""
    collectors = [NodeCollector(sources), *([ReferenceCollector(sources)] if reference_names else [])]
    application = MetricsApplication(registry_of(*collectors), executor)
    return HttpServer(application, host=host, port=port, limits=_LIMITS)
