"""Transactions anchored at blocks that peers have and this node does not, or not yet the other way round.

One that is anchored at a block that has just come waits until peers have that block too; who sends one that is anchored
at a block that was taken back here, or was proposed and is not stored, loses nothing.
"""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import Any

import pytest
from tests.mempool.made import made_txs

from fastnode.errors import UpstreamUndecided
from fastnode.http.allowance import MemoryBudget
from fastnode.mempool.handover import Given
from fastnode.mempool.rules import Added
from fastnode.mempool.validation import DUPLICATE_NULLIFIER, EXISTING_NULLIFIER, UNKNOWN_ANCHOR, TxValidationResult
from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.judging.node_host import NodeHost
from fastnode.p2p.judging.standing import Penalty
from fastnode.p2p.node import gossip_sink
from fastnode.p2p.node.gossip_sink import GossipSink
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.view import Committed


def host(*stored: bytes, reasons: tuple[str, ...] = (), behind: int | None = None) -> NodeHost:
    """``stored``: blocks that L1 does not have, at the start; ``reasons``: what is wrong with every transaction;
    ``behind``: blocks by which what it has is behind those that the made transactions are anchored at."""
    anchor = Tx.from_json(next(made_txs(1)), FOUR).data.anchor_block_header.global_variables.block_number
    published = 0 if behind is None else anchor - behind
    pool = SimpleNamespace(release=FOUR, is_waiting=lambda tx_hash: False, protect=lambda hashes, slot: None)
    result = TxValidationResult("invalid" if reasons else "valid", reasons, ())
    judge = SimpleNamespace(verifies=False)
    mempool: Any = SimpleNamespace(judge=judge, pool=pool, validate=lambda tx, view, may_wait_for_price, client: result)
    chain = SimpleNamespace(
        tips=SimpleNamespace(checkpointed=SimpleNamespace(block=SimpleNamespace(number=published))),
        tip_number=published + len(stored),
        tx_location=lambda tx_hash: None,
        block_info=lambda number: SimpleNamespace(hash=stored[number - published - 1]),
    )
    view: Any = SimpleNamespace(chain=chain, state=object())
    return NodeHost(
        "V", mempool, lambda: view, is_ready=lambda: True, old_spend_blocks=30, budget=MemoryBudget(1 << 20)
    )


def committed(*hashes: bytes, published: int = 0, undone: range = range(0)) -> Committed:
    """Blocks number 1; ``published``: the newest that is on L1."""
    blocks: Any = tuple(SimpleNamespace(hash=lambda found=found: found, number=1) for found in hashes)
    tips = SimpleNamespace(checkpointed=SimpleNamespace(block=SimpleNamespace(number=published)))
    view: Any = SimpleNamespace(chain=SimpleNamespace(tips=tips))
    return Committed(view, blocks, undone)


def test_only_the_block_that_has_just_come_is_waited_for(monkeypatch: Any) -> None:
    node, now = host(), 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    tx = Tx.from_json(next(made_txs(1)), FOUR)
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
    tx = Tx.from_json(next(made_txs(1)), FOUR)
    assert sink.forward(tx.to_json_bytes())
    assert done == [0.7, tx.to_buffer()]


def test_what_clients_send_is_not_published_when_it_has_left_the_pool_while_it_waited(monkeypatch: Any) -> None:
    waiting, published = {b"tx"}, list[bytes]()
    monkeypatch.setattr(gossip_sink.time, "sleep", lambda _: waiting.clear())  # type: ignore[attr-defined]
    payload = next(made_txs(1))
    for given in (Given.UNTAKEN, Given.TAKEN):
        upstreams: Any = SimpleNamespace(give=lambda _, given=given: given)
        sink = GossipSink(upstreams)
        network: Any = SimpleNamespace(publish=lambda _, tx: published.append(tx))
        sink.network = network
        assert sink.forward(Tx.from_json(payload, FOUR).to_json_bytes(), lambda: bool(waiting)) == (
            given is Given.TAKEN
        )
    assert published == []


def test_what_an_upstream_has_already_is_not_published() -> None:
    """It may be in a block that this node has not seen, and peers have."""
    published = list[bytes]()
    for given in (Given.KNOWN, Given.TAKEN):
        upstreams: Any = SimpleNamespace(give=lambda _, given=given: given)
        sink = GossipSink(upstreams)
        network: Any = SimpleNamespace(publish=lambda _, tx: published.append(tx))
        sink.network = network
        tx = Tx.from_json(next(made_txs(1)), FOUR)
        assert sink.forward(tx.to_json_bytes())
        assert len(published) == (given is Given.TAKEN)


@pytest.mark.parametrize("peers", [0, 1])
def test_what_upstreams_cannot_decide_is_published(peers: int) -> None:
    def give(_: bytes) -> Given:
        raise UpstreamUndecided("a node refuses it, and none says whether it is known")

    upstreams: Any = SimpleNamespace(give=give)
    sink = GossipSink(upstreams)
    network: Any = SimpleNamespace(publish=lambda *_: peers)
    sink.network = network
    tx_json = Tx.from_json(next(made_txs(1)), FOUR).to_json_bytes()
    if peers:
        assert sink.forward(tx_json)
    else:
        with pytest.raises(UpstreamUndecided):
            sink.forward(tx_json)


def test_what_peers_send_is_handed_on_only_while_it_waits_for_a_block() -> None:
    waiting: set[bytes] = set()
    node, tx = host(), Tx.from_json(next(made_txs(1)), FOUR)
    pool: Any = node._mempool.pool
    pool.add = lambda taken, *_, **__: waiting.add(taken.hash) or Added.ACCEPTED
    pool.waits_for_block = waiting.__contains__
    judgement = node.judge(Topic.TX, tx.to_buffer(), "peer")
    assert judgement.verdict is Verdict.ACCEPT
    assert judgement.is_wanted()
    waiting.clear()
    assert not judgement.is_wanted()


def test_who_sends_what_stands_on_a_block_that_was_taken_back_loses_nothing(monkeypatch: Any) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    tx = Tx.from_json(next(made_txs(1)), FOUR)
    anchor, payload = tx.data.anchor_block_hash, tx.to_buffer()

    def judged(node: NodeHost) -> tuple[Verdict, Penalty | None]:
        judgement = node.judge(Topic.TX, payload, "peer")
        return judgement.verdict, judgement.penalty

    ignored, rejected = (Verdict.IGNORE, None), (Verdict.REJECT, Penalty.HIGH_TOLERANCE)
    node = host(reasons=(UNKNOWN_ANCHOR,))
    assert judged(node) == rejected
    node.on_committed(committed(anchor))
    assert judged(node) == rejected, "it is not taken back"
    node.on_committed(committed(bytes(32), undone=range(1, 2)))
    assert judged(node) == ignored
    now += 599
    assert judged(node) == ignored
    now += 1
    assert judged(node) == rejected, "by now everybody knows that it was taken back"

    before_start = host(anchor, reasons=(UNKNOWN_ANCHOR,))
    before_start.on_committed(committed(undone=range(1, 2)))
    assert judged(before_start) == ignored
    worse = host(anchor, reasons=(UNKNOWN_ANCHOR, DUPLICATE_NULLIFIER))
    worse.on_committed(committed(undone=range(1, 2)))
    assert judged(worse) == rejected, "nobody can have thought that right"


def test_who_sends_what_stands_on_a_proposed_block_that_is_not_stored_loses_nothing() -> None:
    tx = Tx.from_json(next(made_txs(1)), FOUR)
    node = host(reasons=(UNKNOWN_ANCHOR,))
    header: Any = SimpleNamespace(hash=lambda: tx.data.anchor_block_hash)
    block: Any = SimpleNamespace(header=header, tx_hashes=(), slot=1, txs=None, archive_root=bytes(32))
    assert node.has_txs(block, "peer")
    judgement = node.judge(Topic.TX, tx.to_buffer(), "peer")
    assert (judgement.verdict, judgement.penalty) == (Verdict.IGNORE, None)


def test_who_sends_what_stands_on_a_block_that_did_not_come_yet_loses_nothing() -> None:
    """As after a start in the midst of a slot, whose blocks others have heard of, also where others have their numbers
    here: only what is on L1 is the same everywhere."""
    payload = Tx.from_json(next(made_txs(1)), FOUR).to_buffer()
    for stored, (behind, expected) in itertools.product(
        (0, 1, 3),
        (
            (0, (Verdict.REJECT, Penalty.HIGH_TOLERANCE)),
            (1, (Verdict.IGNORE, None)),
            (32, (Verdict.IGNORE, None)),
            (33, (Verdict.REJECT, Penalty.HIGH_TOLERANCE)),
        ),
    ):
        blocks = [bytes([number]) * 32 for number in range(stored)]
        judgement = host(*blocks, reasons=(UNKNOWN_ANCHOR,), behind=behind).judge(Topic.TX, payload, "peer")
        assert (judgement.verdict, judgement.penalty) == expected


def test_a_spent_transaction_costs_who_sends_it_little_unless_it_was_spent_long_ago() -> None:
    """As published nodes have it: who was parted from others hands it on without knowing better."""
    payload, tip = Tx.from_json(next(made_txs(1)), FOUR).to_buffer(), 100
    for age, penalty in ((0, Penalty.HIGH_TOLERANCE), (29, Penalty.HIGH_TOLERANCE), (30, Penalty.LOW_TOLERANCE)):
        node = host(reasons=(EXISTING_NULLIFIER,))
        view: Any = node.view()
        place = (7, tip - age)
        view.state = SimpleNamespace(
            tip=SimpleNamespace(number=tip), find_leaves=lambda tree, leaves, at, place=place: [None, place]
        )
        view.chain.tip_number = tip
        judgement = node.judge(Topic.TX, payload, "peer")
        assert (judgement.verdict, judgement.penalty) == (Verdict.REJECT, penalty)


def test_who_sends_what_is_in_a_new_block_here_loses_nothing_though_it_was_never_pooled() -> None:
    """Who does not have that block yet, or no longer, knows no better; nobody needs to be told of it by this node."""
    tx, tip = Tx.from_json(next(made_txs(1)), FOUR), 100
    for age, expected in (
        (0, (Verdict.IGNORE, None)),
        (29, (Verdict.IGNORE, None)),
        (30, (Verdict.REJECT, Penalty.LOW_TOLERANCE)),
        (None, (Verdict.ACCEPT, None)),
    ):
        place = None if age is None else tip - age
        node = host(reasons=() if place is None else (EXISTING_NULLIFIER,))
        node._mempool.pool.add = lambda *_, **__: Added.ACCEPTED  # type: ignore[method-assign]
        view: Any = node.view()
        view.chain.tip_number = tip
        view.chain.tx_location = lambda tx_hash, place=place: (
            SimpleNamespace(block_number=place) if place is not None and tx_hash == tx.hash else None
        )
        view.state = SimpleNamespace(
            tip=SimpleNamespace(number=tip), find_leaves=lambda tree, leaves, at, place=place: [(7, place)]
        )
        judgement = node.judge(Topic.TX, tx.to_buffer(), "peer")
        assert (judgement.verdict, judgement.penalty) == expected


def test_of_blocks_that_were_taken_back_the_newest_are_remembered() -> None:
    node = host()
    for number in range(2000):
        node.on_committed(committed(number.to_bytes(32, "big")))
        node.on_committed(committed(undone=range(1, 2)))
    tx = Tx.from_json(next(made_txs(1)), FOUR)
    for number, is_known in ((1999, True), (1488, True), (1487, False)):
        anchored: Any = SimpleNamespace(data=SimpleNamespace(anchor_block_hash=number.to_bytes(32, "big")))
        assert node._is_excused(anchored) == is_known
    assert not node._is_excused(tx)
