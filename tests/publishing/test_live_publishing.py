"""Checkpoints on a real L1 with the rollup's contracts, and what goes wrong there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.publishing.live_l1 import (
    L1_SLOT_S,
    LIMITS,
    PATIENCE_S,
    LiveL1,
    live_l1,
    needs_anvil,
    open_publishers,
    wait_for,
)
from tests.publishing.slow_l1 import slow_l1
from tests.sequencing.network import warm_up

from fastnode.errors import NoPublisher
from fastnode.outgoing.client import ClientLimits
from fastnode.publishing.account import AccountState
from fastnode.publishing.forwarding import forwarded
from fastnode.publishing.requests import OutcomeKind
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.endpoints import L1Client
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED
from fastnode.sources.l1.propose_calls import MULTICALL3

pytestmark = needs_anvil

HIGH = 50
#: forward(address,bytes) as the machine has it: data to memory, a call with them and the value, revert if it fails.
FORWARD = bytes.fromhex("60443580606460003760006000826000346004355af1601e5760006000fd5b00")
CALLS = {"tracer": "callTracer"}


def proposed_slots(l1: LiveL1) -> int:
    """Events of proposals in the whole chain."""
    return len(l1.anvil.call("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest", "topics": [CHECKPOINT_PROPOSED]}))


def base_fee(l1: LiveL1) -> int:
    return int(l1.anvil.call("eth_getBlockByNumber", "latest", False)["baseFeePerGas"], 16)


def raise_base_fee(l1: LiveL1, factor: int = HIGH) -> None:
    """A block whose base fee is so much higher that what waits is not in it."""
    l1.anvil.call("anvil_setNextBlockBaseFeePerGas", hex(max(base_fee(l1), 10**9) * factor))


def test_checkpoints_are_published_one_slot_after_the_other(l1: LiveL1) -> None:
    for number in range(1, 4):
        outcome = l1.publish(l1.next_slot)
        assert outcome.kind is OutcomeKind.PUBLISHED, outcome
        assert l1.tip() == number
        assert outcome.gas_used > 100_000
        assert outcome.fee_wei > 0
    assert not list(l1.directory.iterdir())
    assert l1.publishers.describe()[0]["outcomes"]["published"] == 3


def test_a_checkpoint_goes_through_a_contract_on_its_way(l1: LiveL1) -> None:
    forwarder = b"\x0f" * 20
    l1.anvil.call("anvil_setCode", hex_data(forwarder), hex_data(FORWARD))
    slot = l1.next_slot
    future = l1.start_publishing(forwarded(l1.request(slot), forwarder))
    (waiting,) = l1.anvil.pool()
    assert waiting["to"] == hex_data(forwarder)
    l1.anvil.mine(l1.start_of(slot))
    outcome = future.result(PATIENCE_S)
    assert outcome.is_published, outcome
    assert l1.tip() == 1
    # The trace of the transaction has what the chain is derived from.
    source = l1.client.run(lambda endpoint: endpoint.results([("debug_traceTransaction", [outcome.tx_hash, CALLS])])[0])
    assert source["calls"][0]["to"] == hex_data(MULTICALL3)
    # A refusal is explained by its calls, as without the contract.
    late = l1.next_slot
    future = l1.start_publishing(forwarded(replace(l1.request(late), give_up_at=None), forwarder))
    l1.anvil.mine(l1.start_of(late + 1))
    outcome = future.result(PATIENCE_S)
    assert outcome.kind is OutcomeKind.FAILED
    assert "its slot is not that of the L1 block" in outcome.reason


def test_one_that_is_mined_after_its_slot_is_refused_with_the_reason(l1: LiveL1) -> None:
    slot = l1.next_slot
    future = l1.start_publishing(replace(l1.request(slot), give_up_at=None))
    l1.anvil.mine(l1.start_of(slot + 1))
    outcome = future.result(PATIENCE_S)
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.reason == (
        f"checkpoint of slot {slot} was refused: its slot is not that of the L1 block "
        f"(HeaderLib__InvalidSlotNumber: expected {slot + 1}, given {slot})"
    )
    assert l1.tip() == 0
    assert l1.publish(l1.next_slot).is_published


def test_a_request_whose_slot_is_over_is_not_sent(l1: LiveL1) -> None:
    request = l1.request(l1.next_slot)
    assert request.slot_ends_at is not None
    l1.anvil.mine(request.slot_ends_at)
    outcome = l1.publishers.all[0].publish(request)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.NOT_SENT, "its slot is over")
    assert l1.anvil.pool() == []


def test_when_the_base_fee_grows_fiftyfold_the_price_follows(l1: LiveL1) -> None:
    slot = l1.next_slot
    future = l1.start_publishing(l1.request(slot))
    (first,) = l1.anvil.pool()
    raise_base_fee(l1)
    l1.anvil.mine(l1.start_of(slot))
    assert l1.tip() == 0
    wait_for(lambda: [tx for tx in l1.anvil.pool() if tx["hash"] != first["hash"]], "a higher price")
    (second,) = (tx for tx in l1.anvil.pool() if tx["hash"] != first["hash"])
    assert second["nonce"] == first["nonce"]
    assert int(second["maxPriorityFeePerGas"], 16) >= 2 * int(first["maxPriorityFeePerGas"], 16)
    assert int(second["maxFeePerBlobGas"], 16) == 2 * int(first["maxFeePerBlobGas"], 16)
    l1.anvil.mine()
    outcome = future.result(PATIENCE_S)
    assert outcome.is_published
    assert outcome.attempts == 2
    assert proposed_slots(l1) == 1


def test_a_transaction_that_no_price_moves_is_cancelled_and_another_account_goes_on(tmp_path: Path) -> None:
    with live_l1("without_committee", tmp_path / "kept", accounts=2) as l1:
        slot = l1.next_slot
        future = l1.start_publishing(l1.request(slot))
        high = max(base_fee(l1), 10**9) * 10**6  # beyond what the operator allows
        at = l1.start_of(slot)
        while not future.done():
            l1.anvil.call("anvil_setNextBlockBaseFeePerGas", hex(high))
            l1.anvil.mine(at)
            at += L1_SLOT_S
            looks = l1.client.all[0].call_count
            wait_for(lambda seen=looks: future.done() or l1.client.all[0].call_count > seen + 12, "a look")
        assert future.result().kind is OutcomeKind.GIVEN_UP
        assert at >= l1.start_of(slot + 1) - L1_SLOT_S
        first, second = l1.publishers.all
        assert l1.tip() == 0
        chosen = l1.publishers.choose()
        assert chosen is second
        # The fee falls, and what waits for the first account is mined: the cancellation, or nothing at all.
        l1.anvil.call("anvil_setNextBlockBaseFeePerGas", hex(10**9))
        slot = l1.next_slot
        sent = l1.executor.submit(second.publish, l1.request(slot))
        wait_for(lambda: any(tx["from"] == hex_data(second.address) for tx in l1.anvil.pool()), "the second one's")
        l1.anvil.call("anvil_setNextBlockBaseFeePerGas", hex(10**9))
        l1.anvil.mine(l1.start_of(slot))
        assert sent.result(PATIENCE_S).is_published
        wait_for(lambda: not first.in_flight, "the first one's transaction")
        assert proposed_slots(l1) == 1


def test_a_cancellation_is_mined_and_frees_the_account(l1: LiveL1) -> None:
    l1.publishers = open_publishers(
        l1.client, l1.door, [l1.publisher], l1.directory, limits=replace(LIMITS, attempts_max=1)
    )
    slot = l1.next_slot
    publisher = l1.publishers.all[0]
    future = l1.start_publishing(l1.request(slot))
    # Blocks are too small for it until the slot is over.
    l1.anvil.call("evm_setBlockGasLimit", hex(50_000))
    at = l1.start_of(slot)
    while not future.done():
        l1.anvil.mine(at)
        at += L1_SLOT_S
        looks = l1.client.all[0].call_count
        wait_for(lambda seen=looks: future.done() or l1.client.all[0].call_count > seen + 12, "a look")
    assert future.result(PATIENCE_S).kind is OutcomeKind.GIVEN_UP
    assert publisher.totals.cancellations == 1
    (waiting,) = l1.anvil.pool()
    assert (waiting["to"], waiting["value"], waiting["input"]) == (hex_data(l1.publisher), "0x0", "0x")
    l1.anvil.mine(at)
    wait_for(lambda: not publisher.in_flight, "the cancellation")
    l1.anvil.call("evm_setBlockGasLimit", hex(30_000_000))
    assert l1.tip() == 0
    assert not list(l1.directory.iterdir())
    assert l1.publish(l1.next_slot).is_published
    assert proposed_slots(l1) == 1


def test_a_transaction_that_l1_has_forgotten_is_sent_again(l1: LiveL1) -> None:
    slot = l1.next_slot
    future = l1.start_publishing(l1.request(slot))
    (waiting,) = l1.anvil.pool()
    l1.anvil.call("anvil_dropTransaction", waiting["hash"])
    wait_for(l1.anvil.pool, "the transaction")
    l1.anvil.mine(l1.start_of(slot))
    assert future.result(PATIENCE_S).is_published
    assert proposed_slots(l1) == 1


def test_l1_is_killed_and_restored_with_a_transaction_on_its_way(l1: LiveL1) -> None:
    slot = l1.next_slot
    future = l1.start_publishing(l1.request(slot))
    state = l1.anvil.call("anvil_dumpState")
    l1.anvil.kill()
    l1.anvil.start()
    l1.anvil.call("anvil_loadState", state)
    wait_for(l1.anvil.pool, "the transaction")
    l1.anvil.mine(l1.start_of(slot))
    assert future.result(PATIENCE_S).is_published
    assert l1.publish(l1.next_slot).is_published
    assert l1.tip() == 2


def test_a_reorg_takes_three_blocks_back_and_the_next_checkpoint_is_published(l1: LiveL1) -> None:
    assert l1.publish(l1.next_slot).is_published
    slot = l1.next_slot
    assert l1.publish(slot).is_published
    l1.anvil.mine()
    l1.anvil.mine()
    assert l1.tip() == 2
    l1.anvil.call("anvil_reorg", 3, [])
    assert l1.tip() == 1
    slot = max(l1.next_slot, slot + 1)
    assert l1.publish(slot).is_published
    assert l1.tip() == 2


def test_a_gap_before_the_nonce_is_filled(l1: LiveL1, tmp_path: Path) -> None:
    """Another process with the same key had sent, and what it sent is gone."""
    slot = l1.next_slot
    other = open_publishers(l1.client, l1.door, [l1.publisher], tmp_path / "other")
    try:
        l1.executor.submit(other.all[0].publish, l1.request(slot))
        (foreign,) = wait_for(l1.anvil.pool, "the other one's transaction")
        future = l1.start_publishing(l1.request(slot))
    finally:
        other.close()
    l1.anvil.call("anvil_dropTransaction", foreign["hash"])
    wait_for(
        lambda: len(l1.anvil.call("txpool_content")["pending"].get(_checksummed(l1), {})) == 2, "the gap's filling"
    )
    l1.anvil.mine(l1.start_of(slot))
    assert future.result(PATIENCE_S).is_published
    assert proposed_slots(l1) == 1


def test_a_node_that_takes_it_and_does_not_say_so_costs_no_nonce(l1: LiveL1, tmp_path: Path) -> None:
    """The next node says that the nonce is used: by this very transaction."""
    warm_up(l1.anvil)
    slot = l1.next_slot
    with slow_l1(l1.anvil.url) as slow:
        slow.on_answer["eth_sendRawTransaction"] = lambda: l1.anvil.mine(l1.start_of(slot))
        slow.behind["eth_sendRawTransaction"] = PATIENCE_S
        urls = [slow.url, l1.anvil.url]
        client = L1Client(urls, l1.network, limits=ClientLimits(request_time_s=5.0))
        publishers = open_publishers(client, l1.door, [l1.publisher], tmp_path / "both")
        before = _nonce(l1)
        try:
            outcome = publishers.all[0].publish(l1.request(slot))
        finally:
            slow.stop.set()
            publishers.close()
    assert outcome.is_published, outcome
    assert l1.tip() == 1
    assert _nonce(l1) == before + 1
    assert not l1.anvil.pool()


def _nonce(l1: LiveL1) -> int:
    return int(l1.anvil.call("eth_getTransactionCount", hex_data(l1.publisher), "pending"), 16)


def _checksummed(l1: LiveL1) -> str:
    """As the pool has the address."""
    pool: dict[str, Any] = l1.anvil.call("txpool_content")["pending"]
    return next((key for key in pool if key.lower() == hex_data(l1.publisher)), "")


def test_an_account_without_eth_is_not_chosen(tmp_path: Path) -> None:
    with live_l1("without_committee", tmp_path / "kept", accounts=2) as l1:
        first, second = l1.publishers.all
        l1.anvil.call("anvil_setBalance", hex_data(first.address), "0x0")
        assert l1.publishers.choose() is second
        l1.anvil.call("anvil_setBalance", hex_data(second.address), "0x0")
        with pytest.raises(NoPublisher, match=f"no account has ETH to pay with: {hex_data(first.address)}"):
            l1.publishers.choose()
        with pytest.raises(NoPublisher, match="no account is configured"):
            l1.publishers.choose([b"\1" * 20])
        l1.anvil.call("anvil_setBalance", hex_data(first.address), "0x64")
        outcome = l1.publishers.choose().publish(l1.request(l1.next_slot))
        assert outcome.kind is OutcomeKind.NOT_SENT
        assert "nsufficient funds" in outcome.reason
        assert "\n" not in outcome.reason
        assert not list(l1.directory.iterdir())
        l1.anvil.call("anvil_setBalance", hex_data(first.address), hex(10**18))
        assert l1.publish(l1.next_slot).is_published


def test_accounts_that_are_equal_take_turns(tmp_path: Path) -> None:
    with live_l1("without_committee", tmp_path / "kept", accounts=2) as l1:
        chosen = []
        for _ in range(4):
            slot = l1.next_slot
            for publisher in l1.publishers.all:
                l1.anvil.call("anvil_setBalance", hex_data(publisher.address), hex(10**20))
            publisher = l1.publishers.choose()
            chosen.append(publisher)
            future = l1.start_publishing(l1.request(slot), l1.publishers.all.index(publisher))
            l1.anvil.mine(l1.start_of(slot))
            assert future.result(PATIENCE_S).is_published
        assert chosen[0] is not chosen[1]
        assert chosen[2:] == chosen[:2]


def test_what_is_in_flight_at_a_stop_is_watched_after_the_next_start(l1: LiveL1) -> None:
    slot = l1.next_slot
    future = l1.start_publishing(l1.request(slot))
    l1.publishers.close()
    assert "the node stops" in future.result(PATIENCE_S).reason
    (waiting,) = l1.anvil.pool()
    # Not even L1 has it any more.
    l1.anvil.call("anvil_dropTransaction", waiting["hash"])
    l1.publishers = open_publishers(l1.client, l1.door, [l1.publisher], l1.directory)
    assert l1.publishers.start() == 1
    assert l1.publishers.all[0].is_busy
    wait_for(l1.anvil.pool, "the transaction")
    l1.anvil.mine(l1.start_of(slot))
    wait_for(lambda: not l1.publishers.all[0].in_flight, "the end")
    assert l1.publishers.all[0].state is AccountState.MINED
    assert l1.tip() == 1
    assert not list(l1.directory.iterdir())


def test_a_refused_price_is_not_remembered(l1: LiveL1) -> None:
    """The reference doubles the blob fee at every look when L1 refuses a retry."""
    slot = l1.next_slot
    publisher = l1.publishers.all[0]
    future = l1.start_publishing(l1.request(slot))
    (item,) = publisher.in_flight
    before = item.price
    l1.anvil.call("anvil_setBalance", hex_data(l1.publisher), hex(10**12))  # no higher price can be paid for
    at = l1.start_of(slot)
    for _ in range(6):
        l1.anvil.call("anvil_setNextBlockBaseFeePerGas", hex(10**14))
        l1.anvil.mine(at)
        at += L1_SLOT_S
        looks = l1.client.all[0].call_count
        wait_for(lambda seen=looks: l1.client.all[0].call_count > seen + 12, "a look")
    assert item.price == before
    assert len(item.attempts) == 1
    l1.anvil.call("anvil_setBalance", hex_data(l1.publisher), hex(10**20))
    while not future.done():
        l1.anvil.mine()
        looks = l1.client.all[0].call_count
        wait_for(lambda seen=looks: future.done() or l1.client.all[0].call_count > seen + 12, "a look")
    assert future.result(PATIENCE_S).kind in (OutcomeKind.PUBLISHED, OutcomeKind.GIVEN_UP)


def test_a_low_balance_is_told_of(l1: LiveL1, tmp_path: Path) -> None:
    publishers = open_publishers(
        l1.client, l1.door, [l1.publisher], tmp_path / "more", balance_min_wei=10**18, limits=LIMITS
    )
    publishers.read_balances()
    assert publishers.troubles()["publisher balance"] is None
    l1.anvil.call("anvil_setBalance", hex_data(l1.publisher), hex(10**17))
    publishers.read_balances()
    assert publishers.troubles()["publisher balance"] == (
        f"little ETH is left to publish with: {hex_data(l1.publisher)} 0.1 ETH"
    )
