"""A transaction anchored at a block that has just come waits until peers have that block too."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from tests.mempool.made import made_txs

from fastnode.http.allowance import MemoryBudget
from fastnode.p2p import gossip_sink
from fastnode.p2p.gossip_sink import GossipSink
from fastnode.p2p.node_host import NodeHost
from fastnode.protocol.tx import Tx
from fastnode.view import Committed


def host() -> NodeHost:
    nothing: Any = SimpleNamespace(judge=None, pool=None)
    return NodeHost(
        "V", nothing, lambda: None, is_ready=lambda: True, old_spend_blocks=30, budget=MemoryBudget(1 << 20)
    )


def committed(*hashes: bytes, published: int = 0) -> Committed:
    """Blocks number 1; ``published``: the newest that is on L1."""
    blocks: Any = tuple(SimpleNamespace(hash=lambda found=found: found, number=1) for found in hashes)
    tips = SimpleNamespace(checkpointed=SimpleNamespace(block=SimpleNamespace(number=published)))
    view: Any = SimpleNamespace(chain=SimpleNamespace(tips=tips))
    return Committed(view, blocks)


def test_only_the_block_that_has_just_come_is_waited_for(monkeypatch: Any) -> None:
    node, now = host(), 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    tx = Tx.from_json(next(made_txs(1)))
    assert node.settling_s(tx.to_buffer()) == 0.0, "nothing has come: all that is here is old"
    node.on_committed(committed(bytes(32)))
    assert node.settling_s(tx.to_buffer()) == 0.0
    node.on_committed(committed(tx.data.anchor_block_hash))
    assert node.settling_s(tx.to_buffer()) == 1.5
    now += 1
    assert node.settling_s(tx.to_buffer()) == 0.5
    node.on_committed(committed())
    now += 1
    assert node.settling_s(tx.to_buffer()) == 0.0
    node.on_committed(committed(tx.data.anchor_block_hash, published=1))
    assert node.settling_s(tx.to_buffer()) == 4.0, "others have not heard of it as a proposal"


def test_what_clients_send_waits_before_it_is_published(monkeypatch: Any) -> None:
    done: list[object] = []
    network: Any = SimpleNamespace(publish=lambda topic, payload: done.append(payload) or 1)
    monkeypatch.setattr(gossip_sink.time, "sleep", done.append)  # type: ignore[attr-defined]
    sink = GossipSink()
    sink.network = network
    sink.settling_s = lambda tx: 0.7
    tx = Tx.from_json(next(made_txs(1)))
    assert sink.forward(tx.to_json_bytes())
    assert done == [0.7, tx.to_buffer()]
