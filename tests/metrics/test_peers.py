"""Metrics of the peer-to-peer network."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

import fastnode.p2p
from fastnode.metrics.collector import render
from fastnode.metrics.peers import peer_metrics
from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.node.counted import EVENTS, MESSAGES, PROPOSED_BLOCKS
from fastnode.p2p.node.snapshot import NetworkSnapshot, PeerSnapshot

PEER = PeerSnapshot(
    peer_id="one",
    host="10.0.0.1",
    port=40400,
    is_outbound=True,
    agent="",
    since_s=1,
    score=-3.5,
    application_score=0,
    latest_block=7,
    is_protected=False,
    bytes_in=1,
    bytes_out=2,
    held_bytes=3,
)
NETWORK = NetworkSnapshot(
    peer_id="mine",
    version="V",
    port=40400,
    peers=(PEER, replace(PEER, peer_id="two", is_outbound=False, score=4.0)),
    mesh={"tx": 2},
    gossip={("tx", "accept"): 5, ("", "broken promises"): 1},
    requests={("in", "ping", "success"): 9},
    events={"accepted": 4},
    held_bytes=1000,
)


def text_of(network: NetworkSnapshot) -> str:
    class Peers(Collector):
        def collect(self):  # type: ignore[no-untyped-def]
            return peer_metrics(network)

    registry = CollectorRegistry()
    registry.register(Peers())
    return render(registry).decode()


def test_peers_meshes_messages_and_requests_are_counted() -> None:
    lines = text_of(NETWORK).splitlines()
    for line in (
        'fastnode_p2p_peers{direction="out"} 1.0',
        'fastnode_p2p_peers{direction="in"} 1.0',
        'fastnode_p2p_mesh_peers{topic="tx"} 2.0',
        "fastnode_p2p_lowest_score -3.5",
        'fastnode_p2p_messages_total{outcome="accept",topic="tx"} 5.0',
        'fastnode_p2p_messages_total{outcome="broken promises",topic="any"} 1.0',
        'fastnode_p2p_requests_total{direction="in",request="ping",status="success"} 9.0',
        'fastnode_p2p_events_total{event="accepted"} 4.0',
        "fastnode_p2p_held_bytes 1000.0",
    ):
        assert line in lines


def test_counters_are_there_before_anything_is_counted() -> None:
    lines = text_of(NetworkSnapshot(peer_id="mine", version="V", port=1)).splitlines()
    for line in (
        'fastnode_p2p_messages_total{outcome="reject",topic="checkpoint_proposal"} 0.0',
        'fastnode_p2p_requests_total{direction="out",request="block_txs",status="timeout"} 0.0',
        'fastnode_p2p_events_total{event="left banned"} 0.0',
        'fastnode_p2p_proposed_blocks_total{outcome="invalid"} 0.0',
    ):
        assert line in lines


def test_everything_that_is_counted_has_its_name_in_the_list() -> None:
    events, messages, proposed = set(), set(), set()
    for path in Path(fastnode.p2p.__file__).parent.rglob("*.py"):
        text = path.read_text()
        plain = set(re.findall(r'counts\["([^"]+)"\] \+=', text))
        if path.stem == "proposed_blocks":
            proposed |= plain | set(re.findall(r'_drop\(proposal, "([^"]+)"', text))
        else:
            events |= plain
        messages |= set(re.findall(r'counts\[.*, "([^"]+)"\] \+=', text)) if path.stem == "router" else set()
        messages |= set(re.findall(r'_spread\(.*"(\w+)"\)', text))
    assert proposed == set(PROPOSED_BLOCKS)
    assert events <= set(EVENTS)
    assert {event for event in EVENTS if not event.startswith(("left ", "penalty "))} <= events
    assert messages | {verdict.value for verdict in Verdict} == {outcome for _, outcome in MESSAGES}


def test_without_peers_there_is_no_lowest_score() -> None:
    assert "lowest_score" not in text_of(replace(NETWORK, peers=()))
