"""Traces and metrics for an OpenTelemetry collector, over OTLP/HTTP, under the settings of the network's other nodes.

Spans are called as the reference node calls its own, ``JsonRpcServer.<method>`` (``unknown`` for a batch), and are
children of what ``traceparent`` names.  Metrics are those of ``GET /metrics``, and what the reference measures under
its names (``aztec.archiver.block_height``).  The packages of the extra ``otlp`` are needed to import this.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from fastnode import __version__
from fastnode.log import log_facts
from fastnode.loop import CLOCK, Clock, Loop
from fastnode.trace import OpenSpan, Trace

__all__ = ["MetricsExport", "OtlpSpans", "metrics_data"]

logger = logging.getLogger(__name__)

_SCOPE: Final = "fastnode"
_SERVICE: Final = "aztec-node"
#: Time that a stopping node waits for a collector to take the rest.
_CLOSING_S: Final = 2.0
_HTTP_ERROR: Final = 400
#: A call names its method near its beginning or its end.
_LOOKED_AT_BYTES: Final = 512
_METHOD: Final = re.compile(rb'"method"\s*:\s*"([\w.]{1,100})"')
#: Endings that the text form adds, and what is made of a name of the reference node.
_REFERENCE_PREFIX: Final = "aztec_"
_GROUPS: Final = ("archiver", "mempool", "json_rpc_server")


def resource_of(attributes: Mapping[str, str]) -> Resource:
    """``OTEL_RESOURCE_ATTRIBUTES`` and ``OTEL_SERVICE_NAME`` go before what is said here."""
    own = {SERVICE_NAME: _SERVICE, SERVICE_VERSION: __version__, **attributes}
    return Resource(own).merge(Resource.create(own))


# ---- traces ----------------------------------------------------------------------------------------------


class _CallSpan:
    def __init__(self, span: Span, trace: Trace) -> None:
        self._span = span
        self.trace = trace

    def end(self, status: int) -> None:
        self._span.set_attribute("http.response.status_code", status)
        self._span.set_status(Status(StatusCode.ERROR if status >= _HTTP_ERROR else StatusCode.OK))
        self._span.end()


class OtlpSpans:
    """Sends spans in batches, from a thread of its own."""

    def __init__(self, url: str, *, timeout_s: float, resource: Resource) -> None:
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=timeout_s)
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer(_SCOPE, __version__)

    def begin(self, trace: Trace, body: bytes) -> OpenSpan:
        method = _method_of(body)
        context = None
        if trace.trace_id:
            flags = TraceFlags(int(trace.flags, 16))
            parent = SpanContext(int(trace.trace_id, 16), int(trace.span_id, 16), is_remote=True, trace_flags=flags)
            context = set_span_in_context(NonRecordingSpan(parent))
        attributes = {"rpc.system": "jsonrpc"} | ({} if method is None else {"rpc.method": method})
        if trace.request_id:
            attributes["http.request.header.x-request-id"] = trace.request_id
        span = self._tracer.start_span(
            f"JsonRpcServer.{method or 'unknown'}", context, kind=SpanKind.SERVER, attributes=attributes
        )
        own = span.get_span_context()
        return _CallSpan(
            span, Trace(f"{own.trace_id:032x}", f"{own.span_id:016x}", f"{own.trace_flags:02x}", trace.request_id)
        )

    def close(self) -> None:
        """Send what is left, if the collector takes it soon."""
        flushing = threading.Thread(target=self._provider.force_flush, daemon=True)
        flushing.start()
        flushing.join(_CLOSING_S)
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # ends its tries
        self._provider.shutdown()


def _method_of(body: bytes) -> str | None:
    if body[:1] != b"{":
        return None
    found = _METHOD.search(body[:_LOOKED_AT_BYTES]) or _METHOD.search(body[-_LOOKED_AT_BYTES:])
    return None if found is None else found[1].decode("ascii")


# ---- metrics ---------------------------------------------------------------------------------------------


class MetricsExport:
    """Sends what a registry collects every so many seconds, from a thread of its own."""

    def __init__(
        self,
        url: str,
        registry: CollectorRegistry,
        *,
        interval_s: float,
        timeout_s: float,
        resource: Resource,
        excluded: Sequence[str] = (),
        included: Sequence[str] = (),
        clock: Clock = CLOCK,
    ) -> None:
        """Metrics whose names begin with one of ``excluded`` are left out; without any of those, all that do not begin
        with one of ``included``."""
        self._exporter = OTLPMetricExporter(endpoint=url, timeout=timeout_s)
        self._registry = registry
        self._interval_s = interval_s
        self._resource = resource
        self._is_wanted = _filter_of(tuple(excluded), tuple(included))
        self._started_ns = time.time_ns()
        self._loop = Loop("otlp", self._turn, what="metrics are not sent to their collector", clock=clock)
        self._is_first = True
        self._has_failed = False

    def start(self) -> None:
        self._loop.start()

    def troubles(self) -> dict[str, str | None]:
        """The fault, None for nothing."""
        refused = "the collector of metrics takes none" if self._has_failed else None
        return {"metricsCollector": self._loop.trouble or refused}

    def close(self) -> None:
        """Send what there is a last time, if the collector takes it soon."""
        self._loop.interrupt()
        self._loop.join(_CLOSING_S)
        sending = threading.Thread(target=self._export_last, daemon=True)
        sending.start()
        sending.join(_CLOSING_S)
        self._exporter.shutdown()  # ends its tries
        self._loop.close()
        sending.join()

    def _turn(self) -> float:
        if not self._is_first:
            self._export()
        self._is_first = False
        return self._interval_s

    def _export_last(self) -> None:
        try:
            self._export()
        except Exception:
            logger.exception("the last metrics are not sent")

    def _export(self) -> None:
        families = (family for family in self._registry.collect() if self._is_wanted(_name_of(family.name)))
        data = metrics_data(families, self._resource, self._started_ns, time.time_ns())
        has_failed = self._exporter.export(data) is not MetricExportResult.SUCCESS
        if has_failed and not self._has_failed:
            logger.warning("the collector of metrics takes none", extra=log_facts())
        self._has_failed = has_failed


def _filter_of(excluded: tuple[str, ...], included: tuple[str, ...]) -> Callable[[str], bool]:
    if excluded:
        return lambda name: not name.startswith(excluded)
    return lambda name: not included or name.startswith(included)


def _name_of(name: str) -> str:
    """``aztec_archiver_block_height`` is ``aztec.archiver.block_height`` where OpenTelemetry is spoken."""
    for group in _GROUPS:
        prefix = f"{_REFERENCE_PREFIX}{group}_"
        if name.startswith(prefix):
            return f"aztec.{group}.{name.removeprefix(prefix)}"
    return name


def metrics_data(families: Iterable[Metric], resource: Resource, started_ns: int, now_ns: int) -> MetricsData:
    """Families of Prometheus as OTLP has them; counters are cumulative since ``started_ns``."""
    scope = InstrumentationScope(_SCOPE, __version__)
    metrics = [made for family in families for made in _metrics(family, started_ns, now_ns)]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")])


def _metrics(family: Metric, started_ns: int, now_ns: int) -> Iterator[OtlpMetric]:
    name, text = _name_of(family.name), family.documentation
    if family.type == "histogram":
        points = list(_histogram_points(family, started_ns, now_ns))
        yield OtlpMetric(name, text, "", Histogram(points, AggregationTemporality.CUMULATIVE))
        return
    by_name: dict[str, list[NumberDataPoint]] = {}
    for sample in family.samples:
        if not sample.name.endswith("_created"):
            point = NumberDataPoint(dict(sample.labels), started_ns, now_ns, float(sample.value))
            by_name.setdefault(sample.name, []).append(point)
    for sample_name, numbers in by_name.items():
        if family.type == "counter":
            yield OtlpMetric(name, text, "", Sum(numbers, AggregationTemporality.CUMULATIVE, True))
        elif family.type == "summary":
            total = Sum(numbers, AggregationTemporality.CUMULATIVE, True)
            yield OtlpMetric(_name_of(sample_name), text, "", total)
        else:
            yield OtlpMetric(name, text, "", Gauge(numbers))


def _histogram_points(family: Metric, started_ns: int, now_ns: int) -> Iterator[HistogramDataPoint]:
    """One for each set of labels."""
    found: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for sample in family.samples:
        labels = tuple(sorted((key, value) for key, value in sample.labels.items() if key != "le"))
        parts = found.setdefault(labels, {"bounds": [], "counts": [], "sum": 0.0})
        if sample.name.endswith("_bucket"):
            parts["bounds"].append(float(sample.labels["le"]))
            parts["counts"].append(sample.value)
        elif sample.name.endswith("_sum"):
            parts["sum"] = sample.value
    for labels, parts in found.items():
        counts = [int(more - less) for more, less in zip(parts["counts"], [0, *parts["counts"]], strict=False)]
        yield HistogramDataPoint(
            dict(labels),
            started_ns,
            now_ns,
            count=sum(counts),
            sum=parts["sum"],
            bucket_counts=counts,
            explicit_bounds=parts["bounds"][:-1],  # the last one is infinite
            min=None,  # type: ignore[arg-type]  # not known; the protocol's field is optional
            max=None,  # type: ignore[arg-type]
        )
