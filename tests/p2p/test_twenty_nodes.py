"""Twenty nodes on one machine: what one publishes reaches all in time, also when five of them are gone."""

from __future__ import annotations

import random
import time

import pytest
from tests.p2p.nodes import Node, running

from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.gossip.wire import GossipOptions

NODES = 20
#: Bytes of a transaction with a proof, and of a proposal.
TX_BYTES, PROPOSAL_BYTES = 100_515, 1000


@pytest.mark.long
def test_a_transaction_reaches_all_within_a_second_and_a_proposal_within_half_of_one() -> None:
    dice = random.Random(7)
    with running() as start:
        nodes: list[Node] = []
        for _ in range(NODES):
            dialled = dice.sample(nodes, min(4, len(nodes)))
            nodes.append(start(*dialled, gossip=GossipOptions()))
        for node in nodes:
            node.wait_for_mesh(3)
        _spread(nodes, dice)
        for node in dice.sample(nodes, 5):
            node.network.stop()
            nodes.remove(node)
        _spread(nodes, dice)


def _spread(nodes: list[Node], dice: random.Random) -> None:
    for topic, size, limit_s in ((Topic.TX, TX_BYTES, 1.0), (Topic.BLOCK_PROPOSAL, PROPOSAL_BYTES, 0.5)):
        times, cpu, sent = [], time.process_time(), _bytes_out(nodes)
        for _ in range(10):
            author, payload = dice.choice(nodes), dice.randbytes(size)
            began = time.monotonic()
            author.network.publish(topic, payload)
            times.append(max(node.host.wait_for(payload) for node in nodes if node is not author) - began)
        cpu = (time.process_time() - cpu) / 10 / len(nodes)
        time.sleep(0.2)
        sent = (_bytes_out(nodes) - sent) / 10 / len(nodes)
        print(
            f"{len(nodes)} nodes, {topic.value}: last after {max(times) * 1000:.0f} ms, "
            f"{cpu * 1000:.1f} ms CPU and {sent / 1000:.0f} kB a node and message"
        )
        assert max(times) < limit_s


def _bytes_out(nodes: list[Node]) -> int:
    return sum(peer.bytes_out for node in nodes for peer in node.network.snapshot.peers)
