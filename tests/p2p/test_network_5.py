"""Nodes of release 5.x among themselves, over sockets: what differs from those of 4.x."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.p2p.nodes import FakeHost, Node, running
from tests.p2p.test_messages_5 import Slot

from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.node.request_limits import Request
from fastnode.protocol.releases import FIVE

Start = Callable[..., Node]
V = "00-1-35b22e09-4248422647-2c075866-2b3b6ea4"


@pytest.fixture
def start() -> Iterator[Start]:
    with running() as started:
        yield lambda *dialled, **options: started(*dialled, host=FakeHost(V), release=FIVE, **options)


def test_messages_of_every_topic_go_through_a_node_that_takes_them(start: Start) -> None:
    middle = start()
    one, other = start(middle), start(middle)
    for node in (one, other):
        node.wait_for_mesh(1)
    middle.wait_for_mesh(2)
    slot = Slot(0)
    messages = {
        Topic.TX: slot.txs[0],
        Topic.BLOCK_PROPOSAL: slot.block_proposal(brings=True),
        Topic.CHECKPOINT_PROPOSAL: slot.checkpoint_proposal(has_last=True),
        Topic.CHECKPOINT_ATTESTATION: slot.attestation(),
    }
    for topic, payload in messages.items():
        one.network.publish(topic, payload)
    for payload in messages.values():
        other.host.wait_for(payload)


def test_missing_transactions_of_a_block_are_fetched_by_places_and_by_hashes(start: Start) -> None:
    holder = start()
    asker = start(holder)
    asker.wait_for_mesh(1)
    slot = Slot(2)
    root, txs = slot.roots[0], slot.txs[:8]
    hashes = [tx[:32] for tx in txs]
    holder.host.txs = dict(zip(hashes[:6], txs[:6], strict=True))
    for known in (hashes, hashes[::-1], None):  # the block, another one with the same archive root, none
        if known is None:
            del holder.host.blocks[root]
        else:
            holder.host.blocks[root] = known
        found = asker.network.fetch_txs(root, hashes, set(hashes[2:]), None, 10)
        assert sorted(found) == sorted(txs[2:6])
    (peer,) = asker.peers()
    assert Request.BLOCK.protocol not in peer.protocols
    assert {Request.TX.protocol, Request.BLOCK_TXS.protocol, Request.STATUS.protocol} <= set(peer.protocols)
    snapshot = asker.network.snapshot
    assert not any(key[1] == "tx" for key in snapshot.requests), "all by block_txs"
    assert [peer.application_score for peer in snapshot.peers] == [0]
