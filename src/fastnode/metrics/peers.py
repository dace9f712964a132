"""Metrics of a node on the peer-to-peer network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fastnode.metrics.from_zero import from_zero

if TYPE_CHECKING:
    from fastnode.p2p.node.snapshot import NetworkSnapshot

__all__ = ["peer_metrics"]


def peer_metrics(network: NetworkSnapshot) -> Iterator[Metric]:
    """Labels are the network's own names: topics, verdicts, requests, answers."""
    from fastnode.p2p.node import counted  # of a node that has peers, whose packages are there

    peers = GaugeMetricFamily("fastnode_p2p_peers", "Connected peers, by who has dialled.", labels=["direction"])
    for direction, is_outbound in (("out", True), ("in", False)):
        peers.add_metric([direction], sum(peer.is_outbound is is_outbound for peer in network.peers))
    yield peers
    mesh = GaugeMetricFamily("fastnode_p2p_mesh_peers", "Peers in the mesh of a topic.", labels=["topic"])
    for topic, size in network.mesh.items():
        mesh.add_metric([topic], size)
    yield mesh
    if network.peers:
        lowest = min(peer.score for peer in network.peers)
        yield GaugeMetricFamily("fastnode_p2p_lowest_score", "Lowest gossip score of a connected peer.", value=lowest)
    text = "Messages of gossip, by topic and by what became of them."
    messages = CounterMetricFamily("fastnode_p2p_messages", text, labels=["topic", "outcome"])
    for (topic, outcome), count in from_zero(counted.MESSAGES, network.gossip).items():
        messages.add_metric([topic or "any", outcome], count)
    yield messages
    text = "Requests from peers (in) and to them (out), by the answer."
    requests = CounterMetricFamily("fastnode_p2p_requests", text, labels=["direction", "request", "status"])
    for labels, count in from_zero(counted.REQUESTS, network.requests).items():
        requests.add_metric(list(labels), count)
    yield requests
    text = "Blocks of proposals, by what became of them: stored, known, late, invalid, rejected, and others."
    proposed = CounterMetricFamily("fastnode_p2p_proposed_blocks", text, labels=["outcome"])
    for outcome, count in from_zero(counted.PROPOSED_BLOCKS, network.proposed_blocks).items():
        proposed.add_metric([outcome], count)
    yield proposed
    text = "What happened to connections: accepted, refused, dialled, lost, left and why, penalties."
    events = CounterMetricFamily("fastnode_p2p_events", text, labels=["event"])
    for event, count in from_zero(counted.EVENTS, network.events).items():
        events.add_metric([event], count)
    yield events
    yield GaugeMetricFamily(
        "fastnode_p2p_held_bytes", "Memory that is held for peers, of the one budget.", value=network.held_bytes
    )
