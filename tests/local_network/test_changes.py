"""What a developer may do to the chain, and that it stays one that everything agrees on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import PATIENCE_S
from tests.local_network.local_chain import DAY, NOW, LocalChain, opened
from tests.small_disk import mounted

from fastnode.archiver.check import check_database
from fastnode.errors import Refused, ValueRefused
from fastnode.local_network.accounts import TEST_ACCOUNTS
from fastnode.local_network.chain_files import dump_chain, load_chain
from fastnode.local_network.kept_state import FILE_NAME, OpenMessage
from fastnode.local_network.messages import secret_hash_of
from fastnode.local_network.network import LocalNetwork
from fastnode.mempool.ledger import ViewLedger, balance_slot
from fastnode.protocol.constants import L1_TO_L2_MESSAGE_TREE_ID
from fastnode.protocol.fields import field_from_int
from fastnode.protocol.releases import FOUR
from fastnode.protocol.siloing import public_leaf_slot

ALICE = TEST_ACCOUNTS[0].address


def stored(chain: LocalChain, leaf_slot: bytes) -> int:
    state = chain.view.state
    assert state is not None
    return int.from_bytes(state.public_data_value(leaf_slot, state.tip.number), "big")


# ---- back ---------------------------------------------------------------------------------------------


def test_a_snapshot_brings_back_chain_clock_and_pool(quiet_chain: LocalChain) -> None:
    chain = quiet_chain
    waiting = chain.tx()
    chain.send(waiting)
    before = chain.hashes(), chain.network.clock.now()
    number = chain.changes.snapshot()
    other = chain.tx()
    chain.send(other)
    chain.changes.mine(2)
    chain.changes.warp(NOW + 1_000)
    assert chain.changes.revert(number) is True
    assert (chain.hashes(), chain.network.clock.now()) == before
    assert chain.pending == [waiting.hash]
    assert chain.changes.revert(number) is False, "it is gone"
    chain.changes.mine()
    assert chain.block_of(waiting) == 6
    assert chain.block_of(other) is None


def test_the_same_txs_go_in_again_after_a_revert(chain: LocalChain) -> None:
    txs = [chain.tx() for _ in range(3)]
    number = chain.changes.snapshot()
    for _ in range(2):
        for tx in txs:
            chain.send(tx)
        assert [chain.block_of(tx) for tx in txs] == [6, 7, 8]
        chain.changes.revert(number)
        assert chain.tip == 5
        number = chain.changes.snapshot()


def test_a_change_ends_with_a_node_that_stops_before_its_thread_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalNetwork, "run", lambda _: None)
    with LocalChain(tmp_path / "data") as chain, ThreadPoolExecutor() as threads:
        waits = threads.submit(chain.changes.mine, 1)
        chain.network.interrupt()
        with pytest.raises(Refused, match="is stopping"):
            waits.result(PATIENCE_S)


def test_nothing_after_a_snapshot_becomes_final(chain: LocalChain) -> None:
    chain.changes.snapshot()
    chain.changes.mine(5)
    assert chain.tip_numbers() == (10, 10, 10, 5)
    chain.changes.warp(NOW + 3 * DAY)
    assert chain.tip_numbers()[3] == 5


def test_going_back_behind_what_is_final_needs_force(chain: LocalChain) -> None:
    number = chain.changes.snapshot()
    chain.changes.mine(3)
    chain.changes.finalize(7)
    with pytest.raises(Refused, match="Block 7 is final"):
        chain.changes.revert(number)
    assert chain.tip == 8
    assert chain.changes.revert(number, force=True)
    assert chain.tip == 5


def test_a_snapshot_survives_a_restart(tmp_path: Path) -> None:
    for chain in opened(tmp_path):
        number = chain.changes.snapshot()
        chain.changes.mine(3)
    del chain
    for chain in opened(tmp_path):
        assert chain.tip == 8
        assert chain.changes.revert(number)
        assert chain.tip == 5


def test_a_revert_takes_later_snapshots_along(chain: LocalChain) -> None:
    first, second = chain.changes.snapshot(), chain.changes.snapshot()
    assert chain.changes.revert(first)
    assert not chain.changes.revert(second)


@pytest.mark.parametrize("keep_txs", [True, False])
def test_a_reorg_replaces_blocks_with_or_without_their_txs(chain: LocalChain, keep_txs: bool) -> None:
    chain.changes.snapshot()  # nothing final
    txs = [chain.tx() for _ in range(3)]
    for tx in txs:
        chain.send(tx)
    before = chain.hashes()
    assert chain.changes.reorg(2, keep_txs=keep_txs) == 8
    after = chain.hashes()
    assert after[:7] == before[:7]
    assert set(after[7:]).isdisjoint(before[7:])
    assert [chain.block_of(tx) for tx in txs] == ([6, 7, 8] if keep_txs else [6, None, None])
    assert chain.pending == []


def test_a_rollback_lets_txs_wait_again(quiet_chain: LocalChain) -> None:
    chain = quiet_chain
    tx = chain.tx()
    chain.send(tx)
    chain.changes.snapshot()
    chain.changes.mine()
    assert chain.changes.roll_back(1) == 5
    assert chain.pending == [tx.hash]


# ---- state --------------------------------------------------------------------------------------------


def test_a_balance_and_a_slot_can_be_set(chain: LocalChain) -> None:
    address = field_from_int(0xABC)
    assert chain.changes.set_fee_juice_balance(address, 10**20) == 6
    assert ViewLedger(chain.view).fee_juice_balance(address) == 10**20
    assert stored(chain, balance_slot(address, FOUR.addresses.fee_juice)) == 10**20
    contract, slot = field_from_int(77), field_from_int(3)
    assert chain.changes.set_public_storage(contract, slot, field_from_int(42)) == 7
    assert stored(chain, public_leaf_slot(contract, slot)) == 42


def test_what_was_set_is_a_block_like_any_other(chain: LocalChain, tmp_path: Path) -> None:
    chain.changes.set_fee_juice_balance(ALICE, 5)
    exported = dump_chain(chain.view.chain)
    chain.changes.mine(2)
    load_chain(chain.network, exported)
    assert chain.tip == 6
    assert check_database(chain.data.store).problems == []


def test_the_chain_of_another_network_is_refused(chain: LocalChain, tmp_path: Path) -> None:
    exported = dump_chain(chain.view.chain)
    other = LocalChain(tmp_path / "other")
    other.seed = "another"
    with other, pytest.raises(Refused, match="another network"):
        load_chain(other.network, exported)


# ---- messages -----------------------------------------------------------------------------------------


def test_a_message_is_in_its_place_when_the_call_returns(chain: LocalChain) -> None:
    message = OpenMessage(bytes(20), ALICE, field_from_int(1), field_from_int(2))
    sent = chain.changes.send_message(message)
    assert (sent.checkpoint_number, sent.leaf_index) == (6, 5 * 1024)
    state = chain.view.state
    assert state is not None
    assert state.append_only_leaf(L1_TO_L2_MESSAGE_TREE_ID, sent.leaf_index, state.tip.number) == sent.hash
    assert chain.ingestor.view.l1_to_l2_message_index(sent.hash) == sent.leaf_index


def test_messages_that_wait_are_in_the_next_block_together(quiet_chain: LocalChain) -> None:
    chain = quiet_chain
    messages = [OpenMessage(bytes(20), ALICE, field_from_int(number), field_from_int(2)) for number in range(3)]
    sent = [chain.changes.send_message(message, mine=False) for message in messages]
    assert chain.tip == 5
    chain.changes.mine()
    assert chain.ingestor.view.l1_to_l2_messages(6) == [item.hash for item in sent]
    chain.changes.mine()
    assert chain.ingestor.view.l1_to_l2_messages(7) == []


def test_a_message_is_not_taken_twice_after_a_crash(tmp_path: Path) -> None:
    """The block was stored, and the process ended before the file beside the chain said so."""
    message = OpenMessage(bytes(20), ALICE, field_from_int(1), field_from_int(2))
    for chain in opened(tmp_path, automine=False):
        chain.changes.send_message(message, mine=False)
        before = (tmp_path / FILE_NAME).read_bytes()
        chain.changes.mine()
        assert len(chain.ingestor.view.l1_to_l2_messages(6)) == 1
    del chain
    (tmp_path / FILE_NAME).write_bytes(before)
    for chain in opened(tmp_path, automine=False):
        chain.changes.mine()
        assert chain.ingestor.view.l1_to_l2_messages(7) == []


def test_a_deposit_can_be_claimed_with_its_secret(chain: LocalChain) -> None:
    bridged = chain.changes.bridge_fee_juice(ALICE, 10**18)
    assert bridged.amount == 10**18
    assert bridged.secret is not None
    assert secret_hash_of(bridged.secret) == bridged.secret_hash
    assert chain.ingestor.view.l1_to_l2_message_index(bridged.message.hash) == bridged.message.leaf_index


def test_a_message_to_l1_is_consumed_once(chain: LocalChain) -> None:
    assert chain.changes.consume_message(7, 2)
    assert not chain.changes.consume_message(7, 2)


# ---- time, prices, limits -----------------------------------------------------------------------------


def test_a_warp_builds_a_block_at_that_time(chain: LocalChain) -> None:
    assert chain.changes.warp(NOW + 5_000) == NOW + 5_000
    assert chain.changes.warp_by(100) == NOW + 5_100
    assert chain.changes.warp(NOW, only_forward=True) == NOW + 5_100
    assert chain.tip == 7
    tx = chain.tx()
    chain.send(tx)
    assert chain.block_of(tx) == 8


def test_the_price_is_that_of_the_model_unless_it_is_set(chain: LocalChain) -> None:
    modelled = chain.network.fees.current()
    chain.changes.set_min_fee(123_456)
    chain.changes.mine()
    assert chain.header().global_variables.gas_fees.fee_per_l2_gas == 123_456
    chain.changes.set_min_fee(None)
    assert chain.network.fees.current() == modelled
    chain.changes.set_l1_fees(10**9, 1)
    assert chain.network.fees.current().fee_per_l2_gas > modelled.fee_per_l2_gas


def test_a_coinbase_is_in_the_next_block(chain: LocalChain) -> None:
    chain.changes.set_coinbase(b"\x11" * 20)
    chain.changes.mine()
    assert chain.header().global_variables.coinbase == b"\x11" * 20


def test_what_makes_no_sense_is_refused_and_changes_nothing(chain: LocalChain) -> None:
    before = chain.hashes()
    for change in (
        lambda: chain.changes.mine(10_001),
        lambda: chain.changes.warp(NOW - 100),
        lambda: chain.changes.warp_by(0),
        lambda: chain.changes.reorg(6),
        lambda: chain.changes.set_fee_juice_balance(ALICE, 1 << 128),
        lambda: chain.changes.finalize(99),
    ):
        with pytest.raises(ValueRefused):
            change()
    assert chain.hashes() == before


def test_options_can_be_changed_for_the_next_block(tmp_path: Path) -> None:
    for chain in opened(tmp_path, automine=False):
        chain.network.options = replace(chain.network.options, fee_recipient=ALICE)
        chain.network.keep()
        chain.changes.mine()
        assert chain.header().global_variables.fee_recipient == ALICE


@pytest.fixture
def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary files lie on a file system of 16 kB."""
    with mounted(tmp_path / "disk", 16 << 10) as disk:
        monkeypatch.setattr("tempfile.tempdir", str(disk))
        yield


def test_a_state_that_the_disk_does_not_take_is_refused(quiet_chain: LocalChain, full_disk: None) -> None:
    for attempt in (
        lambda: dump_chain(quiet_chain.view.chain),
        lambda: load_chain(quiet_chain.network, bytes(1 << 20)),
    ):
        with pytest.raises(Refused, match=r"needs room for temporary files.*No space left") as refused:
            attempt()
        assert refused.value.data == {"code": "DISK_FULL"}
    assert quiet_chain.tip == 5
