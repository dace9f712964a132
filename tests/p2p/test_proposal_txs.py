"""Transactions of proposals: from the pool, beside it when they are sound, nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.mempool.made import made_txs
from tests.mempool.pools import Harness, word

from fastnode.http.allowance import MemoryBudget
from fastnode.mempool.clock import SlotClock
from fastnode.mempool.entries import PoolEntry, TxState
from fastnode.mempool.network import NetworkIdentity
from fastnode.mempool.validation import TxValidator, ValidationRules
from fastnode.p2p.judging.node_host import NodeHost
from fastnode.p2p.judging.proposal_txs import ProposalTxs
from fastnode.proofs.judge import open_judge
from fastnode.proofs.verdict import VALID, Verdict
from fastnode.protocol.contracts import INSTANCE_PUBLISHED_TAG
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import TxData
from fastnode.protocol.tx_layout import USUAL

#: All transactions here are of the network of this one.
MADE = Tx.from_json(next(made_txs(1)), FOUR)


def validator_of(tx: Tx) -> TxValidator:
    """Of the network that a transaction is of."""
    data = tx.data
    network = NetworkIdentity(data.chain_id, data.version, data.vk_tree_root, data.protocol_contracts_hash)
    rules = ValidationRules(network=network, setup_allow_list=(), release=FOUR)
    return TxValidator(rules, SlotClock(0, 36, 12, lambda: 0.0), open_judge(required=False))


class Judge:
    """Of proofs."""

    def __init__(self) -> None:
        self.verifies = True
        self.verdict = VALID
        self.asked = 0

    def judge(self, _tx: Tx, _client: str) -> Verdict:
        self.asked += 1
        return self.verdict


class Txs:
    """A pool that takes what ``takes`` says, and what is beside it."""

    def __init__(self, directory: Path, budget: int = 64 << 20) -> None:
        self.harness = Harness(directory)
        self.judge = Judge()
        self.takes = False
        self.budget = MemoryBudget(budget)
        self.mempool: Any = SimpleNamespace(pool=self.harness.pool, judge=self.judge, validator=validator_of(MADE))
        self.txs = ProposalTxs(self.mempool, self.offer, self.budget)

    def offer(self, tx: Tx, _peer: str) -> None:
        if self.takes:
            self.add(tx, proof_checked=True)

    def add(self, tx: Tx, *, proof_checked: bool) -> None:
        entry = PoolEntry.of(tx, FOUR)
        self.harness.ledger.blocks.add(entry.anchor_block_hash)
        self.harness.ledger.set_balance(entry.fee_payer, 1 << 100)
        self.harness.pool.add(tx, tx.to_json_bytes(), proof_checked=proof_checked)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Txs]:
    made = Txs(tmp_path / "pool")
    yield made
    made.harness.pool.close()


@pytest.fixture
def tx() -> Tx:
    return Tx.from_json(next(made_txs(1)), FOUR)


def test_what_the_pool_takes_is_not_kept_twice(made: Txs, tx: Tx) -> None:
    made.takes = True
    made.txs.take([tx.to_buffer()], "peer", {tx.hash})
    assert made.txs.missing([tx.hash]) == set()
    assert made.txs.buffer_of(tx.hash) == tx.to_buffer()
    found = made.txs.of([tx.hash])
    assert found is not None
    assert [item.hash for item in found] == [tx.hash]
    assert (made.judge.asked, made.budget.used_bytes) == (0, 0)


def test_what_the_pool_has_no_place_for_is_kept_beside_it_and_given_to_peers(made: Txs, tx: Tx) -> None:
    assert made.txs.of([tx.hash]) is None
    made.txs.take([tx.to_buffer()], "peer", {tx.hash})
    assert made.txs.missing([tx.hash]) == set()
    assert made.txs.buffer_of(tx.hash) == tx.to_buffer()
    found = made.txs.of([tx.hash])
    assert found is not None
    assert [item.hash for item in found] == [tx.hash]
    assert made.budget.used_bytes == len(tx.to_buffer())
    made.txs.close()
    assert made.budget.used_bytes == 0


def test_what_was_not_asked_for_or_is_not_what_it_says_is_kept_nowhere(made: Txs, tx: Tx) -> None:
    buffer = tx.to_buffer()
    made.txs.take([buffer, buffer[:100], b""], "peer", {bytes(32)})
    made.txs.take([bytes(32) + buffer[32:]], "peer", {tx.hash})  # says another hash
    made.judge.verdict = Verdict.invalid("Invalid proof")
    made.txs.take([buffer], "peer", {tx.hash})
    assert made.txs.missing([tx.hash]) == {tx.hash}
    assert made.txs.of([tx.hash]) is None


@pytest.mark.parametrize("place", [USUAL.chain_id, USUAL.version, USUAL.vk_tree_root, USUAL.protocol_contracts_hash])
def test_a_transaction_of_another_network_is_kept_nowhere_and_no_block_with_it_is_executed(
    made: Txs, tx: Tx, place: int
) -> None:
    """Its proof may be good: whoever holds another network's keys can make any number of them."""
    buffer = bytearray(tx.data.buffer)
    buffer[place : place + 32] = word(1)
    other = replace(tx, data=TxData.from_buffer(bytes(buffer)), claimed_hash=None)
    made.txs.take([other.to_buffer()], "peer", {other.hash})
    assert made.txs.missing([other.hash]) == {other.hash}
    assert made.txs.of([other.hash]) is None
    assert made.judge.asked == 0


def test_a_transaction_with_a_forged_instance_is_kept_nowhere(made: Txs, tx: Tx) -> None:
    buffer = bytearray(tx.data.buffer)
    logs = (USUAL.non_revertible if tx.data.is_public else USUAL.accumulated) + USUAL.private_logs
    log = (INSTANCE_PUBLISHED_TAG + word(0xADD2E55) + word(1)).ljust(16 * 32, b"\0") + (15).to_bytes(4, "big")
    buffer[logs : logs + len(log)] = log
    forged = replace(tx, data=TxData.from_buffer(bytes(buffer)), claimed_hash=None)
    made.txs.take([forged.to_buffer()], "peer", {forged.hash})
    assert made.txs.of([forged.hash]) is None
    assert made.judge.asked == 0


def test_without_memory_nothing_is_kept(tmp_path: Path, tx: Tx) -> None:
    made = Txs(tmp_path / "pool", budget=1000)
    made.txs.take([tx.to_buffer()], "peer", {tx.hash})
    assert made.txs.missing([tx.hash]) == {tx.hash}
    made.harness.pool.close()


def test_a_proof_that_nobody_here_has_checked_is_checked_before_its_block_is_executed(made: Txs, tx: Tx) -> None:
    made.add(tx, proof_checked=False)
    assert made.txs.of([tx.hash]) is None
    made.judge.verdict = Verdict.unknown("no verifier")
    made.txs.verify([tx.hash], "peer")
    assert made.txs.of([tx.hash]) is None
    made.judge.verdict = VALID
    made.txs.verify([tx.hash], "peer")
    made.txs.verify([tx.hash], "peer")
    assert made.txs.of([tx.hash]) is not None
    assert made.judge.asked == 2


def test_where_the_network_asks_for_no_proofs_none_is_checked(made: Txs, tx: Tx) -> None:
    made.judge.verifies = False
    made.add(tx, proof_checked=False)
    made.txs.verify([tx.hash], "peer")
    assert made.txs.of([tx.hash]) is not None
    assert made.judge.asked == 0


def test_what_a_proposal_has_is_not_evicted_before_its_slot_is_over(made: Txs) -> None:
    made.judge.verifies = False
    here, fetched, rich = (Tx.from_json(next(made_txs(1, priority_fee=fee)), FOUR) for fee in (0, 1, 9))
    pool = made.harness.pool
    pool.options = replace(pool.options, pending_max=2)
    made.add(here, proof_checked=True)
    node = NodeHost(
        "V", made.mempool, lambda: None, is_ready=lambda: True, old_spend_blocks=30, budget=MemoryBudget(64 << 20)
    )
    node.txs = made.txs
    made.takes = True
    node.fetch = lambda root, hashes, missing, peer: [fetched.to_buffer()]
    header = SimpleNamespace(hash=lambda: bytes(32))
    hashes = (here.hash, fetched.hash)
    block: Any = SimpleNamespace(header=header, tx_hashes=hashes, slot=7, archive_root=bytes(32), txs=None)
    assert node.has_txs(block, "peer")
    pool.options = replace(pool.options, pending_max=1)
    made.add(rich, proof_checked=True)
    pool.release_before(7)
    assert [pool.state_of(tx.hash) for tx in (here, fetched)] == [TxState.PROTECTED] * 2
    pool.release_before(8)
    assert pool.pending_hashes() == [rich.hash], "the limit holds again"
