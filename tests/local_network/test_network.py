"""When blocks are built, what is in them, and what becomes of what is not."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import orjson
import pytest
from tests.conftest import PATIENCE_S
from tests.local_network.local_chain import DAY, LIMITS, NOW, OPTIONS, SETUP, LocalChain, Wall, opened

from fastnode.errors import Refused
from fastnode.mempool.pool import Added
from fastnode.protocol.blobs import checkpoint_blob_fields, tx_blob_fields
from fastnode.protocol.fields import FIELD_BYTES, hex_text
from fastnode.protocol.kzg import KnownSum, blob_commitment, blobs_hash, blobs_of_fields, versioned_hash

KEEP_ALIVE_S = 43_200


def wait_until(condition: object, seconds: float = 30.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


# ---- the beginning --------------------------------------------------------------------------------


def test_a_new_network_has_the_recorded_set_up_under_headers_of_its_own(chain: LocalChain) -> None:
    assert chain.tip == 5
    for number, recorded in enumerate(SETUP.blocks, 1):
        block = chain.ingestor.view.load_block(number)
        assert block is not None
        assert block.body.tx_effects == recorded.effects
        assert block.header.total_mana_used == recorded.mana
        assert block.header.global_variables.slot_number == number
    assert chain.timestamp() == NOW - 1


def test_the_commitments_to_the_set_up_that_are_written_down_are_those_of_its_fields() -> None:
    for block in SETUP.blocks:
        fields = b"".join(tx_blob_fields(effect) for effect in block.effects)
        assert block.blob == KnownSum(len(fields) // FIELD_BYTES, sha256(fields).digest(), blob_commitment(fields))


def test_the_set_up_commits_to_all_of_its_blobs(chain: LocalChain) -> None:
    for number in range(1, len(SETUP.blocks) + 1):
        block, checkpoint = chain.ingestor.view.load_block(number), chain.ingestor.view.checkpoint(number)
        assert block is not None
        assert checkpoint is not None
        hashes = [versioned_hash(blob_commitment(blob)) for blob in blobs_of_fields(checkpoint_blob_fields([block]))]
        assert orjson.loads(checkpoint.header_json)["blobsHash"] == hex_text(blobs_hash(hashes))


def test_without_test_accounts_there_is_one_empty_block(tmp_path: Path) -> None:
    with LocalChain(tmp_path, test_accounts=False) as chain:
        assert chain.tip == 1
        assert chain.ingestor.view.block_info(1).tx_count == 0  # type: ignore[union-attr]


def test_a_network_goes_on_where_it_was(tmp_path: Path) -> None:
    with LocalChain(tmp_path) as chain:
        chain.send(chain.tx())
        before = chain.hashes()
    with LocalChain(tmp_path) as chain:
        assert chain.hashes() == before
        tx = chain.tx()
        tx = chain.tx()
        chain.send(tx)
        assert chain.block_of(tx) == 7


# ---- automine ---------------------------------------------------------------------------------------


def test_a_tx_is_in_a_checkpointed_block_when_its_sender_has_the_answer(chain: LocalChain) -> None:
    for number in (6, 7, 8):
        tx = chain.tx()
        assert chain.send(tx) is Added.ACCEPTED
        assert chain.block_of(tx) == number
        assert chain.tip_numbers() == (number, number, number, number - 2)
    assert chain.pending == []


def test_txs_that_come_together_share_blocks(chain: LocalChain) -> None:
    txs = [chain.tx() for _ in range(12)]
    senders = [threading.Thread(target=chain.send, args=(tx,)) for tx in txs]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    blocks = {chain.block_of(tx) for tx in txs}
    assert None not in blocks
    assert chain.tip == 5 + len(blocks)
    assert chain.tip < 5 + len(txs), "not a block for each"


def test_blocks_follow_each_other_in_time_however_fast_they_are(chain: LocalChain) -> None:
    for _ in range(3):
        chain.send(chain.tx())
    assert [chain.timestamp(number) for number in (6, 7, 8)] == [NOW, NOW + 1, NOW + 2]
    chain.wall.now += 100
    chain.send(chain.tx())
    assert chain.timestamp() == NOW + 100


def test_a_block_has_the_best_first(quiet_chain: LocalChain) -> None:
    chain = quiet_chain
    txs = [chain.tx(priority=priority) for priority in (0, 7, 0, 3)]
    for tx in txs:
        chain.send(tx)
    chain.changes.mine()
    ranked = sorted(txs, key=lambda tx: (tx.data.max_priority_fees_per_gas.fee_per_l2_gas, tx.hash), reverse=True)
    assert chain.ingestor.view.tx_hashes(6) == [tx.hash for tx in ranked]


def test_a_block_has_no_more_txs_than_it_may(tmp_path: Path) -> None:
    for chain in opened(tmp_path, automine=False, limits=replace(LIMITS, txs_per_block=2)):
        for _ in range(5):
            chain.send(chain.tx())
        chain.changes.mine(3)
        counts = [chain.ingestor.view.block_info(number).tx_count for number in (6, 7, 8)]  # type: ignore[union-attr]
        assert counts == [2, 2, 1]


def test_a_block_waits_for_as_many_txs_as_it_must_have(tmp_path: Path) -> None:
    for chain in opened(tmp_path, limits=replace(LIMITS, txs_per_block_min=3)):
        first = [chain.tx(), chain.tx()]
        for tx in first:
            chain.send(tx)
        assert chain.tip == 5
        last = chain.tx()
        chain.send(last)
        assert [chain.block_of(tx) for tx in (*first, last)] == [6, 6, 6]


def test_a_tx_below_the_price_waits_for_it_to_fall(chain: LocalChain) -> None:
    poor = chain.tx(max_fee=chain.network.fees.current().fee_per_l2_gas)
    chain.changes.set_automine(False)
    chain.send(poor)
    chain.changes.set_min_fee(10**8)
    chain.changes.set_automine(True)
    chain.send(chain.tx(max_fee=10**9))
    assert chain.block_of(poor) is None
    assert chain.pending == [poor.hash]
    chain.changes.set_min_fee(None)
    chain.send(chain.tx())
    assert chain.block_of(poor) is not None


def test_the_reason_why_a_tx_was_dropped_is_known(quiet_chain: LocalChain) -> None:
    chain = quiet_chain
    tx = chain.tx()
    chain.send(tx)
    chain.changes.set_fee_juice_balance(tx.data.fee_payer, 1)
    assert chain.pending == []
    late = chain.tx()
    with pytest.raises(Refused, match="Insufficient fee payer balance") as refusal:
        chain.send(late)
    # As for a payer that has too little for all of its transactions, so that a wallet tells one case.
    data = refusal.value.data
    assert (data["code"], data["currentBalance"], data["availableBalance"]) == (
        "INSUFFICIENT_FEE_PAYER_BALANCE",
        "1",
        "1",
    )
    assert int(data["feeLimit"]) > 1


def test_a_tx_that_expired_before_its_block_is_dropped_with_the_reason(quiet_chain: LocalChain) -> None:
    chain = quiet_chain
    tx = chain.tx()
    chain.send(tx)
    chain.changes.set_next_timestamp(NOW + 2 * DAY)
    chain.changes.mine()
    assert chain.block_of(tx) is None
    assert chain.network.notes.dropped_reason(tx.hash) == "Invalid expiration timestamp"


def test_only_block_1_takes_what_was_proven_against_the_genesis_block(tmp_path: Path) -> None:
    with LocalChain(tmp_path) as chain, pytest.raises(Refused, match="Invalid expiration timestamp"):
        chain.send(chain.tx(anchor=0))


# ---- intervals, by hand, and alone ------------------------------------------------------------------


def test_nothing_is_built_by_itself_without_mining(quiet_chain: LocalChain) -> None:
    tx = quiet_chain.tx()
    quiet_chain.send(tx)
    assert quiet_chain.tip == 5
    assert quiet_chain.changes.mine() == 6
    assert quiet_chain.block_of(tx) == 6


def test_a_network_that_is_held_builds_only_what_is_asked_for(chain: LocalChain) -> None:
    is_held = True
    chain.network.is_held = lambda: is_held
    tip, waiting, later = chain.tip, chain.tx(), chain.tx()
    chain.send(waiting)
    assert (chain.tip, chain.block_of(waiting)) == (tip, None)
    assert chain.changes.mine() == chain.block_of(waiting) == tip + 1
    chain.send(later)
    assert chain.tip == tip + 1
    is_held = False
    chain.network.wake()
    wait_until(lambda: chain.block_of(later) is not None)


def test_blocks_come_at_an_interval(tmp_path: Path) -> None:
    for chain in opened(tmp_path, automine=False, interval_s=0.05):
        tx = chain.tx()
        chain.send(tx)
        wait_until(lambda chain=chain: chain.tip >= 9)
        assert chain.block_of(tx) is not None


def test_an_interval_can_be_set_and_removed(chain: LocalChain) -> None:
    chain.changes.set_interval(0.05)
    assert not chain.network.is_automining
    wait_until(lambda: chain.tip >= 7)
    chain.changes.set_interval(0)
    assert chain.network.is_automining
    tip = chain.changes.mine()
    assert chain.changes.mine() == tip + 1


def test_an_idle_network_stays_usable(tmp_path: Path) -> None:
    """Transactions live for a day after the newest block; without a younger one none could be included ever again."""
    wall = Wall()
    with LocalChain(tmp_path, wall=wall) as chain:
        wall.now += KEEP_ALIVE_S + 10
        chain.network.wake()
        wait_until(lambda: chain.tip == 6)
        assert chain.timestamp() == NOW + KEEP_ALIVE_S + 10
        wall.now += 25 * 3600
    with LocalChain(tmp_path, wall=wall) as chain:
        wait_until(lambda: chain.tip == 7)
        tx = chain.tx()
        chain.send(tx)
        assert chain.block_of(tx) == 8


# ---- tips -------------------------------------------------------------------------------------------


def test_final_is_what_enough_blocks_follow(tmp_path: Path) -> None:
    for chain in opened(tmp_path, finality_lag=5):
        chain.changes.mine(4)
        assert chain.tip_numbers() == (9, 9, 9, 4)


def test_what_is_older_than_a_day_is_final_in_the_same_step(tmp_path: Path) -> None:
    for chain in opened(tmp_path, finality_lag=1000):
        chain.changes.mine(3)
        assert chain.tip_numbers()[3] == 0
        chain.changes.warp(NOW + 2 * DAY)
        assert chain.tip_numbers() == (9, 9, 9, 8)


def test_nothing_is_proven_by_itself_when_that_is_not_wanted(tmp_path: Path) -> None:
    for chain in opened(tmp_path, manual_proving=True):
        chain.send(chain.tx())
        assert chain.tip_numbers() == (6, 6, 0, 0)
        assert chain.changes.prove(4) == 4
        assert chain.tip_numbers() == (6, 6, 4, 4)
        assert chain.changes.prove() == 6


def test_a_network_with_nothing_to_do_rests_at_once_when_it_is_to_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastnode.local_network.network.KEEP_ALIVE_CHECK_S", 3600.0)
    for chain in opened(tmp_path):
        chain.send(chain.tx())  # it runs
        control = chain.network._control
        assert control.pause(PATIENCE_S)
        assert control.resume()
        chain.send(chain.tx())
        assert chain.tip_numbers()[0] == 7


def test_an_answer_waits_for_no_block_that_is_not_built(
    quiet_chain: LocalChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastnode.local_network.network.ANSWER_WAIT_S", 3600.0)
    quiet_chain.send(quiet_chain.tx())
    assert hex_text(quiet_chain.pending[0])
    assert OPTIONS.automine
