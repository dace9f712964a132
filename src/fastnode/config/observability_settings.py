"""The settings of what the node tells monitoring systems."""

from __future__ import annotations

from fastnode.config import needs
from fastnode.config.table import setting
from fastnode.records import dataclass
from fastnode.values.arrays import ArrayOf
from fastnode.values.choices import Boolean
from fastnode.values.numbers import Integer
from fastnode.values.texts import Host, Text

__all__ = ["ObservabilitySettings"]

METRICS = "Metrics"
EXPLORER = "Explorer"
TELEMETRY = "OpenTelemetry"

_PORT_MAX = 65_535
_PREFIXES = ArrayOf(Text(metavar="PREFIX"), meaning="texts, separated by commas")


@dataclass(frozen=True, kw_only=True)
class ObservabilitySettings:
    explorer_port: int | None = setting(
        None,
        Integer(0, _PORT_MAX),
        EXPLORER,
        "Port of the explorer for everybody, read-only and without a key, at the address of --host; 0: any free one.",
    )
    metrics_port: int = setting(
        9464,
        Integer(0, _PORT_MAX),
        METRICS,
        "Port of GET /metrics, in the text form of Prometheus; 0: none.",
    )
    metrics_host: str = setting(
        "127.0.0.1",
        Host(),
        METRICS,
        "Address the metrics port listens on.",
        needs=needs.METRICS_PORT,
    )
    metrics_reference_names: bool = setting(
        False,
        Boolean(),
        METRICS,
        "Offer what the network's reference node measures too, under its names.",
        needs=needs.METRICS,
    )
    traces_collector_url: str | None = setting(
        None,
        Text(metavar="URL"),
        TELEMETRY,
        "Collector that gets a span for each request, as OTLP over HTTP; takes the extra otlp. Every request goes the "
        "slower way.",
        environment=("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",),
        flags=("--tel.tracesCollectorUrl",),
        secret=True,
        packages=("opentelemetry",),
    )
    metrics_collector_url: str | None = setting(
        None,
        Text(metavar="URL"),
        TELEMETRY,
        "Collector to which the metrics are sent, as OTLP over HTTP; takes the extra otlp.",
        environment=("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",),
        flags=("--tel.metricsCollectorUrl",),
        secret=True,
        packages=("opentelemetry",),
    )
    otel_collect_interval_ms: int = setting(
        60_000,
        Integer(100, 3_600_000),
        TELEMETRY,
        "How often metrics are sent.",
        needs=needs.METRICS_COLLECTOR,
        environment=("OTEL_COLLECT_INTERVAL_MS",),
        flags=("--tel.otelCollectIntervalMs",),
    )
    otel_export_timeout_ms: int = setting(
        30_000,
        Integer(100, 600_000),
        TELEMETRY,
        "How long the collector may take.",
        needs=needs.COLLECTOR,
        environment=("OTEL_EXPORT_TIMEOUT_MS",),
        flags=("--tel.otelExportTimeoutMs",),
    )
    otel_exclude_metrics: tuple[str, ...] = setting(
        (),
        _PREFIXES,
        TELEMETRY,
        "Metrics that are not sent, by how their names begin.",
        needs=needs.METRICS_COLLECTOR,
        environment=("OTEL_EXCLUDE_METRICS",),
        flags=("--tel.otelExcludeMetrics",),
    )
    otel_include_metrics: tuple[str, ...] = setting(
        (),
        _PREFIXES,
        TELEMETRY,
        "Metrics that are sent, by how their names begin; none: all.",
        needs=needs.METRICS_COLLECTOR,
        environment=("OTEL_INCLUDE_METRICS",),
        flags=("--tel.otelIncludeMetrics",),
    )
