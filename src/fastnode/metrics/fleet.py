"""Metrics of a fleet from each of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

__all__ = ["fleet_metrics"]

_COUNTS = {
    "received": "Messages that the bus pushed to this node.",
    "published": "Messages that this node stored on the bus.",
    "fetched": "Contents that were not pushed and had to be fetched.",
    "gaps": "Times that pushed messages were missed.",
    "reconnections": "Times that the connection to the bus came back.",
}


def fleet_metrics(fleet: Mapping[str, Any]) -> Iterator[Metric]:
    """``fleet`` as the fleet describes itself."""
    yield GaugeMetricFamily("fastnode_bus_connected", "1 while the bus answers.", value=fleet["connected"])
    for name, text in _COUNTS.items():
        if name in fleet:
            yield CounterMetricFamily(f"fastnode_bus_{name}", text, value=fleet[name])
    text = "Time from the commit of a block on its publisher until it could be read here."
    yield SummaryMetricFamily(
        "fastnode_bus_lag_seconds", text, count_value=fleet.get("lagCount", 0), sum_value=fleet.get("lagSum", 0.0)
    )
    text = "1 while this node is the one that hands transactions on."
    yield GaugeMetricFamily("fastnode_fleet_hands_on", text, value=fleet["handsOn"])
    txs = CounterMetricFamily(
        "fastnode_fleet_txs", "Transactions of the fleet, by what became of them.", labels=["what"]
    )
    for what in ("shared", "received", "handed_on", "refused"):
        txs.add_metric([what], fleet["transactions"].get(what, 0))
    yield txs
    if not fleet["nodes"]:
        return  # it has not asked for them
    nodes = GaugeMetricFamily("fastnode_fleet_nodes", "Nodes that tell of themselves on the bus.", labels=["role"])
    for role in ("publisher", "replica"):
        nodes.add_metric([role], sum(node.get("role") == role for node in fleet["nodes"]))
    yield nodes
