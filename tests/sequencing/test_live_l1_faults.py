"""Faults of L1 while a wallet's transaction waits: it is in the chain once, and no slot has two checkpoints."""

from __future__ import annotations

import gzip
import json
import lzma
import time
from collections.abc import Iterator

import pytest
from tests.conftest import NodeProcess
from tests.publishing.live_l1 import needs_anvil, test_key
from tests.publishing.recorded import DATA
from tests.publishing.slow_l1 import SlowL1, slow_l1
from tests.sequencing.network import (
    FINAL_BLOCKS,
    ProposingNetwork,
    checkpointed,
    send_nothing,
    tips,
    wait_until,
    warm_up,
)
from tests.sequencing.played import Played, published

from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED

pytestmark = [needs_anvil, pytest.mark.long]

#: Slots after a fault until all is well again.
SLOTS_MAX = 8
EXCESS_FOR_HUNDREDFOLD = 30_000_000  # e ** (excess / 5,007,716) = 400
PUBLISHER = test_key(0).address


class Faulty:
    """One proposer, and a transaction of a wallet that is sent in a slot of its own."""

    def __init__(self, network: ProposingNetwork, *flags: object) -> None:
        self.network, self.anvil = network, network.anvil
        warm_up(self.anvil)
        # It builds nothing before there is a transaction: this one can only be sent while there is no block.
        self.proposer: NodeProcess = network.node(
            "--sequencer", *flags, VALIDATOR_PRIVATE_KEYS="0x" + test_key(0).reveal().hex()
        )
        self.played = Played(network=network, nodes=[self.proposer])
        self.tx_hash = ""

    def send(self) -> None:
        """A wallet's transaction; it waits."""
        # The deployment of a test account, made by the published wallet on this network's genesis.
        transaction = json.loads(lzma.decompress((DATA / "genesis_tx.json.xz").read_bytes()))
        answer = self.proposer.call("node_sendTx", transaction)
        assert "error" not in answer, answer
        pending = self.proposer.call("node_getPendingTxs")["result"]
        self.tx_hash = pending[0].get("txHash") or pending[0]["hash"]

    def begin_slot_with_it(self) -> int:
        """A slot whose proposal, with the transaction, waits to be mined."""
        for _ in range(SLOTS_MAX):
            slot = self.network.begin_slot()
            self.played.wait(
                lambda slot=slot: (  # type: ignore[misc]
                    self.played.is_proposed(slot)
                    or bool(self.played.outcome(self.proposer, slot))
                    or self.network.slot > slot
                )
            )
            if self.played.is_proposed(slot) and self.status == "proposed":
                return slot
            self.anvil.mine(self.network.start_of(slot))
        raise AssertionError(self.network.log())

    @property
    def status(self) -> str:
        return str(self.proposer.call("node_getTxReceipt", self.tx_hash)["result"]["status"])

    def play_until_it_is_checkpointed(self) -> int:
        """Slots that it took."""
        for count in range(SLOTS_MAX):
            if self.status in ("checkpointed", "proven", "finalized"):
                return count
            self.played.play()
            wait_until(lambda: checkpointed(self.proposer) == self.network.pending, self.network.log)
        raise AssertionError(f"{self.status}: {self.network.log()}")

    def require_once(self) -> None:
        """The transaction, each slot and each checkpoint; and another node has the same chain."""
        wait_until(lambda: checkpointed(self.proposer) == self.network.pending, self.network.log)
        newest = tips(self.proposer)["checkpointed"]["block"]["number"]
        blocks = [self.proposer.call("node_getBlock", number)["result"] for number in range(1, newest + 1)]
        effects = [effect["txHash"] for block in blocks for effect in block["body"]["txEffects"]]
        assert effects.count(self.tx_hash) == 1
        logs = self.anvil.call(
            "eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest", "topics": [CHECKPOINT_PROPOSED]}
        )
        numbers = [int(log["topics"][1], 16) for log in logs]
        assert sorted(set(numbers)) == list(range(1, self.network.pending + 1))
        assert len(numbers) == len(set(numbers))
        mined = [(item.slot, item.archive) for item in published(self.network)]
        assert len({slot for slot, _archive in mined}) == len(set(mined))
        self.network.store_blobs()
        follower = self.network.node()
        wanted = tips(self.proposer)["checkpointed"]
        wait_until(lambda: tips(follower)["checkpointed"] == wanted, lambda: (wanted, tips(follower)))
        assert follower.call("node_getTxReceipt", self.tx_hash)["result"]["executionResult"] == "success"

    def restart_l1(self, excess_blob_gas: int | None = None) -> None:
        """Kill it, and restore what it had mined; ``excess_blob_gas`` of its newest block, as if all had been full."""
        state = self.anvil.call("anvil_dumpState")
        if excess_blob_gas is not None:
            document = json.loads(gzip.decompress(bytes.fromhex(state[2:])))
            newest = max(document["blocks"], key=lambda block: int(block["header"]["number"], 16))
            newest["header"]["excessBlobGas"] = hex(excess_blob_gas)
            state = "0x" + gzip.compress(json.dumps(document).encode()).hex()
        self.anvil.kill()
        self.anvil.start()
        warm_up(self.anvil)
        assert self.anvil.call("anvil_loadState", state)

    def base_fee(self) -> int:
        newest = self.anvil.call("eth_getBlockByNumber", "latest", False)
        return max(int(newest["baseFeePerGas"], 16), 10**9)


@pytest.fixture
def faulty(alone: ProposingNetwork) -> Faulty:
    return Faulty(alone)


def test_l1_is_killed_and_restored_while_a_proposal_waits(faulty: Faulty) -> None:
    faulty.send()
    faulty.begin_slot_with_it()
    faulty.restart_l1()
    faulty.play_until_it_is_checkpointed()
    faulty.require_once()


def test_a_reorg_of_three_blocks_takes_the_checkpoint_away(faulty: Faulty) -> None:
    faulty.send()
    slot = faulty.begin_slot_with_it()
    faulty.anvil.mine(faulty.network.start_of(slot))
    faulty.network.store_blobs()
    before = faulty.network.pending
    wait_until(lambda: checkpointed(faulty.proposer) == before, faulty.network.log)
    faulty.anvil.mine()
    faulty.anvil.mine()
    faulty.anvil.call("anvil_reorg", 3, [])
    assert faulty.network.pending == before - 1
    wait_until(lambda: checkpointed(faulty.proposer) == before - 1, faulty.network.log)
    faulty.play_until_it_is_checkpointed()
    faulty.require_once()


def test_the_base_fee_is_fifty_times_what_it_was(faulty: Faulty) -> None:
    faulty.send()
    slot = faulty.begin_slot_with_it()
    high = 50 * faulty.base_fee()
    for number in range(3):
        faulty.anvil.call("anvil_setNextBlockBaseFeePerGas", hex(high))
        faulty.anvil.mine(max(faulty.network.start_of(slot), faulty.anvil.timestamp + 4))
        assert number or faulty.network.pending == 0  # the price that it was sent with is too low
    faulty.play_until_it_is_checkpointed()
    faulty.require_once()


def test_the_fee_of_blobs_is_a_hundred_times_what_it_was(faulty: Faulty) -> None:
    faulty.send()
    faulty.begin_slot_with_it()
    faulty.restart_l1(EXCESS_FOR_HUNDREDFOLD)
    assert int(faulty.anvil.call("eth_blobBaseFee"), 16) >= 100
    faulty.play_until_it_is_checkpointed()
    faulty.require_once()


def test_the_account_has_no_eth_for_a_while(faulty: Faulty) -> None:
    balance = faulty.anvil.call("eth_getBalance", PUBLISHER, "latest")
    faulty.anvil.call("anvil_setBalance", PUBLISHER, "0x0")
    faulty.send()
    for _ in range(2):
        assert not faulty.played.play()
    assert "no account has ETH" in faulty.network.log()
    assert faulty.status == "pending"
    faulty.anvil.call("anvil_setBalance", PUBLISHER, balance)
    faulty.play_until_it_is_checkpointed()
    faulty.require_once()


def test_a_transaction_that_nothing_moves_costs_its_slot(faulty: Faulty) -> None:
    faulty.send()
    slot = faulty.begin_slot_with_it()
    faulty.anvil.call("evm_setBlockGasLimit", hex(50_000))  # no room for it
    faulty.anvil.mine(faulty.network.start_of(slot))
    while not faulty.played.outcome(faulty.proposer, slot):
        faulty.anvil.mine()
        assert faulty.anvil.timestamp < faulty.network.start_of(slot + 3), faulty.network.log()
        time.sleep(1.0)  # the publisher looks at what became of it
    assert faulty.network.pending == 0
    faulty.anvil.call("evm_setBlockGasLimit", hex(30_000_000))
    for _ in range(FINAL_BLOCKS):
        faulty.anvil.mine()
    faulty.play_until_it_is_checkpointed()
    faulty.require_once()


#: Longer than a node waits for L1, which is told it by a flag.
HELD_S, TIMEOUT_S = 6.0, 3


@pytest.fixture
def held(alone: ProposingNetwork) -> Iterator[tuple[SlowL1, Faulty]]:
    with slow_l1(alone.anvil.url) as slow:
        alone.l1_url = slow.url
        yield slow, Faulty(alone, "--l1-timeout-s", TIMEOUT_S)


def test_what_another_process_had_sent_before_is_gone(held: tuple[SlowL1, Faulty]) -> None:
    """The gap of nonces that it leaves is filled, and the checkpoint is in its slot."""
    slow, faulty = held
    foreign: list[str] = []

    def send_foreign() -> None:
        # The last question before the nonce.
        if not foreign:
            foreign.append(send_nothing(faulty.anvil, 0))

    slow.on_answer["eth_estimateGas"] = send_foreign
    faulty.send()
    slot = faulty.begin_slot_with_it()
    first, second = sorted(faulty.anvil.pool(), key=lambda waiting: int(waiting["nonce"], 16))
    assert first["hash"] == foreign[0]
    assert int(second["nonce"], 16) == int(first["nonce"], 16) + 1
    faulty.anvil.call("anvil_dropTransaction", foreign[0])
    wait_until(lambda: len(faulty.anvil.pool()) == 2, faulty.network.log)
    faulty.anvil.mine(faulty.network.start_of(slot))
    assert faulty.network.pending == 1, faulty.network.log()
    faulty.played.wait(lambda: bool(faulty.played.outcome(faulty.proposer, slot)))
    assert faulty.played.outcome(faulty.proposer, slot) == "proposed"
    faulty.require_once()


@pytest.mark.parametrize("which", ["before", "behind"])
def test_a_transaction_that_l1_answers_too_late_is_published_in_its_slot(
    held: tuple[SlowL1, Faulty], which: str
) -> None:
    slow, faulty = held
    getattr(slow, which)["eth_sendRawTransaction"] = HELD_S
    faulty.send()
    slot = faulty.begin_slot_with_it()
    faulty.anvil.mine(faulty.network.start_of(slot))
    assert faulty.network.pending == 1
    faulty.played.wait(lambda: bool(faulty.played.outcome(faulty.proposer, slot)))
    assert faulty.played.outcome(faulty.proposer, slot) == "proposed"
    assert faulty.status == "checkpointed"
    faulty.require_once()
