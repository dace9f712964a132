"""Figures of each worker's process, for the port of metrics; what all of them count together is in the node's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fastnode.workers.hub import Hub

__all__ = ["worker_metrics"]

#: Member of a report: name and text of its metric.
_GAUGES: Final = {
    "resident_bytes": ("worker_resident_bytes", "Memory of the process."),
    "connections": ("worker_connections", "Connections that are open."),
    "tip": ("worker_tip_block", "Newest block that requests are answered from."),
    "own_bytes": ("worker_copy_own_bytes", "Bytes of the copy of the databases that it shares with no other process."),
    "delay_p99_ms": ("worker_view_delay_ms", "Time from a commit until it is visible, 99th percentile."),
}
_COUNTERS: Final = {
    "cpu_s": ("worker_cpu_seconds", "Processor time of the process."),
    "copies": ("worker_copies", "Copies of the databases that it has opened."),
}


def worker_metrics(hub: Hub) -> Iterator[Metric]:
    reports = hub.reports()
    for member, (name, text) in _GAUGES.items():
        gauge = GaugeMetricFamily(f"fastnode_{name}", text, labels=("worker",))
        for report in reports:
            if report.facts.get(member) is not None:
                gauge.add_metric((str(report.number),), report.facts[member])
        yield gauge
    for member, (name, text) in _COUNTERS.items():
        counter = CounterMetricFamily(f"fastnode_{name}", text, labels=("worker",))
        for report in reports:
            if report.facts.get(member) is not None:
                counter.add_metric((str(report.number),), report.facts[member])
        yield counter
    behind = GaugeMetricFamily("fastnode_worker_behind_bytes", "Bytes that wait to be sent.", labels=("worker",))
    for report in reports:
        behind.add_metric((str(report.number),), report.behind_bytes)
    yield behind
    serving = sum(1 for report in reports if report.facts.get("serves"))
    yield GaugeMetricFamily("fastnode_workers_serving", "Workers that answer requests.", value=serving)
    yield GaugeMetricFamily("fastnode_workers_wanted", "Workers that there are to be.", value=hub.wanted)
