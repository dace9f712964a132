"""The pool's rules one by one."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.mempool.pools import ANCHOR, GENESIS, NOW, PAYER, Harness, entry, ledger, tx_json, word
from tests.mempool.recorded import hashes, recorded_tx

from fastnode.errors import DatabaseError, DataDirectoryError, Refused
from fastnode.mempool.entries import PoolEntry, TxState
from fastnode.mempool.pool import Added, Origin, TxPool
from fastnode.mempool.rules import Coverage, TxRejected, cover, minimum_bump
from fastnode.mempool.store import PoolStore, entry_key
from fastnode.mempool.validation import EXPIRED, UNKNOWN_ANCHOR
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx_data import Gas

OTHER_PAYER = word(0xABC)


@pytest.fixture
def make_pool(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    made: list[Harness] = []

    def make(**options: Any) -> Harness:
        made.append(Harness(tmp_path / f"p2p-{len(made)}", **options))
        return made[-1]

    yield make
    for harness in made:
        harness.close()


@pytest.fixture
def pool(make_pool: Callable[..., Harness]) -> Harness:
    return make_pool()


# ---- order and pages ----------------------------------------------------------------------------------


def test_pending_txs_stand_by_fee_then_by_hash(pool: Harness) -> None:
    for item in (entry(1, fee=5), entry(2, fee=7), entry(3, fee=5), entry(4)):
        assert pool.add(item) is Added.ACCEPTED
    assert pool.pending() == [2, 3, 1, 4]
    best = pool.pool.best()
    assert best is not None
    assert best.hash == word(2)
    assert (best.max_priority_fees.fee_per_da_gas, best.max_priority_fees.fee_per_l2_gas) == (8, 7)


def test_pages_start_after_a_pending_tx(pool: Harness) -> None:
    for number in range(1, 6):
        pool.add(entry(number))
    numbers = [int.from_bytes(tx_hash, "big") for tx_hash in pool.pool.pending_hashes(limit=2, after=word(4))]
    assert numbers == [3, 2]
    assert pool.pool.pending_hashes(limit=2, after=word(99)) == []
    assert pool.pool.pending_hashes(limit=2, after=word(1)) == []


def test_a_known_tx_is_known(pool: Harness) -> None:
    pool.add(entry(1))
    assert pool.add(entry(1)) is Added.KNOWN
    pool.mine(entry(1))
    assert pool.add(entry(1)) is Added.KNOWN
    assert pool.pool.events["known"] == 2


def test_of_those_that_come_together_each_has_its_own_outcome_and_one_write_takes_all(pool: Harness) -> None:
    pool.add(entry(1))
    rival = entry(3, nullifiers=(2,), fee=1)
    items = [entry(1), entry(2, nullifiers=(2,), fee=9), rival, entry(4, expiration=NOW - 1), entry(5)]
    written: list[int] = []
    pool.pool.database.watch_writes(lambda changes: written.append(len(changes)))
    outcomes = pool.pool.insert_all([(item, tx_json(item)) for item in items])
    assert isinstance(outcomes.pop(2), TxRejected)
    assert outcomes == [Added.KNOWN, Added.ACCEPTED, Added.IGNORED, Added.ACCEPTED]
    assert written == [5], "that one is ignored is written too"
    assert pool.pool.events == {"accepted": 3, "known": 1, "ignored": 1, "rejected NULLIFIER_CONFLICT": 1}
    pool.restart_after_a_crash()
    assert sorted(pool.pending()) == [1, 2, 5]


def test_a_disk_that_refuses_is_what_all_are_told_but_those_that_a_rule_refused(
    pool: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.add(entry(2, nullifiers=(2,), fee=9))
    failure = DatabaseError("the disk has gone")

    def fail(changes: object) -> None:
        raise failure

    monkeypatch.setattr(pool.pool.database, "write", fail)
    items = [entry(1), entry(3, nullifiers=(2,), fee=1)]
    accepted, refused = pool.pool.insert_all([(item, tx_json(item)) for item in items])
    assert accepted is failure
    assert isinstance(refused, TxRejected)
    monkeypatch.undo()


def test_a_cleared_pool_knows_nothing_and_says_so_for_each(pool: Harness, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "fastnode.mempool")
    pool.add(entry(1))
    pool.add(entry(2))
    pool.mine(entry(2))
    pool.pool.clear("forced rollback")
    assert [pool.pool.state_of(word(number)) for number in (1, 2)] == [None, None]
    assert pool.pool.pending_count == 0
    for number in (1, 2):
        assert f"tx 0x{word(number).hex()} leaves the pool: forced rollback" in caplog.text
    pool.restart()
    assert pool.pool.is_empty
    assert pool.add(entry(1)) is Added.ACCEPTED


# ---- rule 1: nullifiers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fee", "percentage", "minimum"), [(0, 10, 1), (5, 10, 6), (100, 10, 110), (105, 10, 116), (100, 0, 101)]
)
def test_a_bump_is_the_percentage_rounded_up_and_at_least_one(fee: int, percentage: int, minimum: int) -> None:
    assert minimum_bump(fee, percentage) == minimum


def test_a_conflicting_tx_must_bump_the_price(pool: Harness) -> None:
    pool.add(entry(1, fee=100, nullifiers=[7]))
    with pytest.raises(TxRejected) as caught:
        pool.add(entry(2, fee=109, nullifiers=[7, 8]))
    existing = "0x" + word(1).hex()
    message = f"Nullifier conflict with existing tx {existing}. Minimum required fee: 110, got: 109"
    assert caught.value.message == message
    assert caught.value.data == {
        "code": "NULLIFIER_CONFLICT",
        "message": message,
        "conflictingTxHash": existing,
        "minimumPriceBumpFee": "110",
        "txPriorityFee": "109",
    }
    assert pool.pending() == [1]
    assert pool.add(entry(3, fee=110, nullifiers=[7, 8])) is Added.ACCEPTED
    assert pool.pending() == [3]
    assert pool.pool.state_of(word(1)) is TxState.DELETED


def test_all_conflicting_txs_must_be_beaten(pool: Harness) -> None:
    pool.add(entry(1, fee=10, nullifiers=[1]))
    pool.add(entry(2, fee=50, nullifiers=[2]))
    with pytest.raises(TxRejected, match="Minimum required fee: 55, got: 20"):
        pool.add(entry(3, fee=20, nullifiers=[1, 2]))
    assert pool.pending() == [2, 1]
    pool.add(entry(4, fee=55, nullifiers=[1, 2]))
    assert pool.pending() == [4]


def test_another_nodes_tx_needs_a_higher_rank_only(pool: Harness) -> None:
    pool.add(entry(5, fee=100, nullifiers=[1]))
    with pytest.raises(TxRejected):
        pool.add(entry(4, fee=100, nullifiers=[1]), origin=Origin.NODE)
    assert pool.add(entry(6, fee=100, nullifiers=[1]), origin=Origin.NODE) is Added.ACCEPTED


# ---- rule 2: fee payers --------------------------------------------------------------------------------------


def test_a_payer_must_cover_all_its_txs_from_the_best_down(pool: Harness) -> None:
    pool.ledger.set_balance(PAYER, 250)
    pool.add(entry(1, fee=9))
    pool.add(entry(2, fee=8))
    with pytest.raises(TxRejected) as caught:
        pool.add(entry(3, fee=1))
    assert caught.value.data == {
        "code": "INSUFFICIENT_FEE_PAYER_BALANCE",
        "message": f"Fee payer 0x{PAYER.hex()} has insufficient balance. Balance at transaction: 50, required: 100",
        "currentBalance": "250",
        "availableBalance": "50",
        "feeLimit": "100",
    }
    assert pool.add(entry(4, fee=10)) is Added.ACCEPTED
    assert pool.pending() == [4, 1], "the worst of the payer is no longer covered"


def test_a_claim_pays_for_its_own_tx(pool: Harness) -> None:
    pool.ledger.set_balance(PAYER, 0)
    assert pool.add(entry(1, claim=150)) is Added.ACCEPTED
    with pytest.raises(TxRejected):
        pool.add(entry(3, fee=5))


def test_a_payer_that_can_pay_for_all_is_not_gone_through_for_each_newcomer(
    pool: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that many share, such as a sponsor, has thousands."""
    pool.ledger.set_balance(PAYER, 300)
    asked: list[int] = []

    def noting(entries: Iterable[PoolEntry], balance: int) -> Coverage:
        found = list(entries)
        asked.append(len(found))
        return cover(found, balance)

    monkeypatch.setattr("fastnode.mempool.admission.cover", noting)
    for number in (1, 2, 3):
        pool.add(entry(number, fee=number))
    assert asked == []
    with pytest.raises(TxRejected):
        pool.add(entry(4, fee=0))
    pool.mine(entry(1))
    pool.add(entry(5, fee=5))
    assert asked == [4]


def test_payers_do_not_pay_for_each_other(pool: Harness) -> None:
    pool.ledger.set_balance(PAYER, 100)
    pool.ledger.set_balance(OTHER_PAYER, 100)
    pool.add(entry(1))
    assert pool.add(entry(2, fee_payer=OTHER_PAYER)) is Added.ACCEPTED


# ---- rule 3: a full pool -------------------------------------------------------------------------------------


def test_a_full_pool_wants_more_than_its_lowest(make_pool: Callable[..., Harness]) -> None:
    pool = make_pool(pending_max=2)
    pool.add(entry(1, fee=100))
    pool.add(entry(2, fee=200))
    with pytest.raises(TxRejected) as caught:
        pool.add(entry(3, fee=109))
    assert caught.value.data == {
        "code": "LOW_PRIORITY_FEE",
        "message": "Tx does not meet minimum priority fee. Required: 110, got: 109",
        "minimumPriorityFee": "110",
        "txPriorityFee": "109",
    }
    pool.add(entry(4, fee=110))
    assert pool.pending() == [2, 4]


def test_zero_means_no_limit(make_pool: Callable[..., Harness]) -> None:
    pool = make_pool(pending_max=0)
    for number in range(50):
        pool.add(entry(number))
    assert pool.pool.pending_count == 50


def test_the_count_is_taken_before_other_evictions(make_pool: Callable[..., Harness]) -> None:
    pool = make_pool(pending_max=2)
    pool.add(entry(1, fee=1, nullifiers=[1]))
    pool.add(entry(2, fee=50))
    # It replaces 1 through the nullifier, and still has to beat the lowest, which is 1.
    pool.add(entry(3, fee=2, nullifiers=[1]))
    assert pool.pending() == [2, 3]
    # It replaces 2 through the nullifier; the lowest has to go as well.
    pool.add(entry(4, fee=60, nullifiers=[10_002]))
    assert pool.pending() == [4]


def test_the_rules_are_asked_in_order(make_pool: Callable[..., Harness]) -> None:
    pool = make_pool(pending_max=1)
    pool.ledger.set_balance(OTHER_PAYER, 0)
    pool.add(entry(1, fee=10, nullifiers=[1]))
    for item, rule in (
        (entry(2, fee=1, nullifiers=[1], fee_payer=OTHER_PAYER), "NULLIFIER_CONFLICT"),
        (entry(3, fee=1, fee_payer=OTHER_PAYER), "INSUFFICIENT_FEE_PAYER_BALANCE"),
        (entry(4, fee=1), "LOW_PRIORITY_FEE"),
    ):
        with pytest.raises(TxRejected) as caught:
            pool.add(item)
        assert caught.value.rule == rule
        assert pool.pool.events[f"rejected {rule}"] == 1


# ---- silently ignored ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "item",
    [
        entry(1, gas_limits=Gas(1_000, 1)),
        entry(1, gas_limits=Gas(1_000, 10**9)),
        entry(1, expiration=NOW - 1),
        entry(1, anchor_block_hash=word(0xDEAD)),
        entry(1, nullifiers=[5, 5]),
        entry(1, nullifiers=[0x5BE47]),
    ],
)
def test_what_no_block_can_include_is_ignored(item: PoolEntry, pool: Harness) -> None:
    pool.ledger.nullifiers.add(word(0x5BE47))
    assert pool.add(item) is Added.IGNORED
    assert pool.pending() == []
    assert pool.pool.state_of(item.hash) is None


@pytest.mark.parametrize("is_deleted", [False, True])
def test_what_comes_after_its_own_block_waits_again_when_that_is_taken_back(is_deleted: bool, tmp_path: Path) -> None:
    """A client may have it judged by a view without that block: it was taken, so it is not spent by another one."""
    with closing(Harness(tmp_path / "p2p", delete_after_reorg=is_deleted)) as pool:
        before, one = pool.ledger, entry(1)
        if is_deleted:
            pool.add(one)
            pool.pool.drop(one.hash, "refused upstream")
        pool.mine(one)
        assert pool.add(one) is Added.KNOWN
        for after in (lambda: None, pool.restart, pool.restart_after_a_crash):
            after()
            assert pool.pool.state_of(one.hash) is TxState.MINED
            assert pool.pool.departure_of(one.hash) == ""
            assert pool.pool.tx_json(one.hash) == tx_json(one)
            assert pool.add(one) is Added.KNOWN
        pool.undo_to(before)
        assert pool.pool.unforwarded_hashes() == ([] if is_deleted else [one.hash])
        assert pool.pool.departure_of(one.hash) == ("block undone" if is_deleted else "")


# ---- blocks ---------------------------------------------------------------------------------------------------


def test_mined_txs_leave_the_list_but_can_be_had_until_final(pool: Harness) -> None:
    pool.add(entry(1))
    pool.mine(entry(1))
    assert pool.pending() == []
    assert pool.pool.state_of(word(1)) is TxState.MINED
    assert pool.pool.is_waiting(word(1))
    assert pool.pool.tx_json(word(1)) == tx_json(entry(1))
    pool.pool.on_finalized(pool.ledger.head - 1)
    assert pool.pool.tx_json(word(1)) is not None
    pool.pool.on_finalized(pool.ledger.head)
    assert pool.pool.tx_json(word(1)) is None
    assert pool.pool.state_of(word(1)) is None
    assert pool.pool.is_empty


def test_a_block_drops_what_it_made_impossible(pool: Harness) -> None:
    pool.ledger.set_balance(OTHER_PAYER, 100)
    pool.add(entry(1, nullifiers=[5, 6]))
    pool.add(entry(2, expiration=NOW + 100))
    pool.add(entry(3, fee_payer=OTHER_PAYER))
    pool.add(entry(4))
    pool.now += 100
    pool.mine(nullifiers=[6], balances={OTHER_PAYER: 99})
    assert pool.pending() == [4]
    assert pool.pool.tx_json(word(1)) is None
    assert pool.pool.events["evicted nullifier mined"] == 1
    assert pool.pool.events["evicted expired"] == 1
    assert pool.pool.events["evicted insufficient fee payer balance"] == 1


def test_undone_txs_are_pending_again(pool: Harness) -> None:
    before = pool.ledger.copy()
    pool.add(entry(1, fee=3))
    pool.add(entry(2, fee=4))
    pool.mine(entry(1))
    pool.undo_to(before)
    assert pool.pending() == [2, 1]


def test_undone_txs_can_be_deleted_instead(make_pool: Callable[..., Harness]) -> None:
    pool = make_pool(delete_after_reorg=True)
    before = pool.ledger.copy()
    pool.add(entry(1))
    pool.mine(entry(1))
    pool.undo_to(before)
    assert pool.pending() == []
    assert pool.pool.state_of(word(1)) is TxState.DELETED


@pytest.mark.parametrize(("fee", "kept"), [(5, [1]), (50, [2])])
def test_an_undone_tx_and_a_newer_rival_are_compared_by_rank(fee: int, kept: list[int], pool: Harness) -> None:
    before = pool.ledger.copy()
    pool.add(entry(1, fee=20, nullifiers=[7]))
    pool.mine(entry(1, nullifiers=[]))  # a block whose effect hides the nullifier, so that a rival can come
    pool.add(entry(2, fee=fee, nullifiers=[7]))
    pool.undo_to(before)
    assert pool.pending() == kept


def test_a_vanished_anchor_takes_its_txs_along(pool: Harness) -> None:
    pool.ledger.blocks.add(word(0xA2))
    pool.add(entry(1, anchor_block_hash=word(0xA2)))
    pool.add(entry(2))
    before = pool.ledger.copy()
    before.blocks = {ANCHOR}
    pool.undo_to(before)
    assert pool.pending() == [2]


@pytest.mark.parametrize("seed", range(20))
def test_what_left_with_its_anchor_waits_again_when_that_block_is_back(seed: int, pool: Harness) -> None:
    """The blocks are stored again one by one, or are back all at once; the node may start anew meanwhile."""
    dice = random.Random(seed)
    hashes = [word(0xB10C0 + number) for number in range(4)]
    books = [pool.ledger]
    for block_hash in hashes:
        pool.mine(block_hash=block_hash)
        books.append(pool.ledger)
        pool.add(entry(dice.randrange(100), fee=dice.randrange(9), anchor_block_hash=block_hash))
    items = [held for tx_hash in pool.pool.pending_hashes() if (held := pool.pool.entry(tx_hash)) is not None]
    mined = dice.sample(items, 1) if dice.random() < 0.5 else []
    pool.mine(*mined)
    newest = pool.ledger
    for _ in range(dice.choice([1, 2])):
        kept = dice.randrange(len(hashes))
        pool.undo_to(books[kept])
        there = {ANCHOR, *hashes[:kept]}
        waiting = {item.hash for item in items if item.anchor_block_hash in there}
        assert set(pool.pool.pending_hashes()) == waiting
        for item in items:
            assert pool.pool.departure_of(item.hash) == ("" if item.hash in waiting else UNKNOWN_ANCHOR)
        if dice.random() < 0.5:
            pool.restart()
    if dice.random() < 0.5:
        pool.undo_to(newest)
        assert [pool.pool.state_of(item.hash) for item in mined] == [TxState.MINED] * len(mined)
        pool.undo_to(books[-1])
    else:
        for block_hash in hashes[kept:]:
            pool.mine(block_hash=block_hash)
    assert pool.pool.pending_hashes() == [item.hash for item in items]
    assert [pool.pool.tx_json(item.hash) for item in items] == [*map(tx_json, items)]


def test_what_left_with_its_anchor_is_forgotten_once_another_block_is_final_there(pool: Harness) -> None:
    before, newest = pool.ledger.copy(), word(0xB10C)
    pool.mine(block_hash=newest)
    pool.add(entry(1, anchor_block_hash=newest))
    pool.undo_to(before)
    pool.mine()
    pool.pool.on_finalized(pool.ledger.head)
    assert list(pool.pool._store.stored_hashes()) == []
    pool.ledger.blocks.add(newest)
    pool.mine()
    assert pool.pending() == []


def test_an_undo_that_empties_a_payer_drops_its_txs(pool: Harness) -> None:
    before = pool.ledger.copy()
    before.set_balance(PAYER, 150)
    pool.add(entry(1, fee=1))
    pool.add(entry(2, fee=2))
    pool.undo_to(before)
    assert pool.pending() == [2]


def test_a_deleted_tx_may_come_again(pool: Harness) -> None:
    pool.add(entry(1, nullifiers=[7]))
    pool.add(entry(2, fee=1, nullifiers=[7]))
    assert pool.pool.state_of(word(1)) is TxState.DELETED
    pool.pool.drop(word(2), "test")
    assert pool.add(entry(1, nullifiers=[7])) is Added.ACCEPTED
    assert pool.pending() == [1]


def test_what_stood_on_a_block_that_is_taken_back_is_counted_as_lost(pool: Harness) -> None:
    newest, other = word(0xB10C), ledger()
    pool.ledger.blocks.add(newest)
    pool.add(entry(1, anchor_block_hash=newest))
    pool.add(entry(2))
    pool.mine(entry(3))
    assert pool.pool.lost_count == 0
    pool.undo_to(other)
    assert (pool.pending(), pool.pool.lost_count) == ([2], 1)


# ---- proposals -----------------------------------------------------------------------------------------------


def test_protected_txs_wait_without_being_listed(pool: Harness) -> None:
    pool.add(entry(1))
    pool.add(entry(2))
    pool.pool.protect([word(1), word(99)], slot=7)
    assert pool.pending() == [2]
    assert pool.pool.is_waiting(word(1))
    assert pool.pool.tx_json(word(1)) is not None
    pool.pool.release_before(7)
    assert pool.pending() == [2]
    pool.pool.release_before(8)
    assert pool.pending() == [2, 1]


def test_a_protected_tx_is_given_back_after_a_restart_too(pool: Harness) -> None:
    pool.add(entry(1))
    pool.pool.protect([word(1)], slot=7)
    pool.restart()
    assert pool.pending() == []
    pool.pool.release_before(8)
    assert pool.pending() == [1]


def test_txs_of_several_slots_are_given_back_one_slot_after_the_other(pool: Harness) -> None:
    for number in (1, 2):
        pool.add(entry(number))
    pool.pool.protect([word(2)], slot=8)
    pool.pool.protect([word(1)], slot=7)
    pool.pool.release_before(8)
    assert pool.pending() == [1]
    pool.pool.release_before(9)
    assert pool.pending() == [2, 1]


def test_a_protected_tx_can_be_mined(pool: Harness) -> None:
    pool.add(entry(1))
    pool.pool.protect([word(1)], slot=7)
    pool.mine(entry(1))
    assert pool.pool.state_of(word(1)) is TxState.MINED


def test_a_protected_tx_that_was_mined_and_undone_stays_protected_until_its_slot_is_over(pool: Harness) -> None:
    before = pool.ledger
    for number in (1, 2):
        pool.add(entry(number))
    pool.pool.protect([word(1)], slot=7)
    pool.mine(entry(1), entry(2))
    pool.pool.protect([word(2)], slot=8)
    pool.undo_to(before)
    assert pool.pending() == []
    assert {pool.pool.state_of(word(number)) for number in (1, 2)} == {TxState.PROTECTED}
    pool.pool.release_before(8)
    assert pool.pending() == [1]
    pool.pool.release_before(9)
    assert pool.pending() == [2, 1]


def test_a_protected_tx_that_is_undone_after_its_slot_is_pending(pool: Harness) -> None:
    before = pool.ledger
    pool.add(entry(1))
    pool.pool.protect([word(1)], slot=7)
    pool.mine(entry(1))
    pool.pool.release_before(8)
    pool.undo_to(before)
    assert pool.pending() == [1]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_tx_that_was_protected_and_is_undone_after_a_restart_is_given_back(pool: Harness, is_restarted: bool) -> None:
    before = pool.ledger
    pool.add(entry(1))
    pool.pool.protect([word(1)], slot=7)
    pool.mine(entry(1))
    if is_restarted:
        pool.restart()
    pool.undo_to(before)
    assert pool.pool.state_of(word(1)) is TxState.PROTECTED
    pool.pool.release_before(8)
    assert pool.pending() == [1]


def test_a_tx_that_a_proposal_named_before_it_came_is_protected_whatever_its_rivals_pay(pool: Harness) -> None:
    pool.add(entry(1, fee=9, nullifiers=[7]))
    pool.pool.protect([word(2), word(3)], slot=7)
    with pytest.raises(TxRejected):
        pool.add(entry(4, fee=1, nullifiers=[7]))
    assert pool.pool.consider_entry(entry(2, fee=1, nullifiers=[7])) is Added.ACCEPTED
    assert pool.add(entry(2, fee=1, nullifiers=[7])) is Added.ACCEPTED
    assert pool.pending() == [1]
    assert pool.pool.state_of(word(2)) is TxState.PROTECTED
    pool.pool.release_before(8)
    assert pool.pool.state_of(word(2)) is TxState.DELETED, "its rival pays more"
    pool.add(entry(3))
    assert pool.pending() == [1, 3], "its slot is over"


def test_what_became_impossible_in_a_proposal_is_dropped_when_released(pool: Harness) -> None:
    pool.add(entry(1, nullifiers=[7]))
    pool.pool.protect([word(1)], slot=7)
    pool.mine(nullifiers=[7])
    pool.pool.release_before(8)
    assert pool.pending() == []
    assert pool.pool.state_of(word(1)) is TxState.DELETED


# ---- disk ----------------------------------------------------------------------------------------------------


def test_everything_survives_a_restart(pool: Harness) -> None:
    pool.add(entry(1, fee=5, nullifiers=[1, 2], claim=3))
    pool.add(entry(2, fee=9))
    pool.add(entry(3))
    pool.mine(entry(3))
    pool.add(entry(4, nullifiers=[44]))
    pool.pool.protect([word(4)], slot=9)
    pool.pool.drop(word(2), "test")
    states = {number: pool.pool.entry(word(number)) for number in (1, 2, 3, 4)}
    for restart in (pool.restart, pool.restart_after_a_crash):
        restart()
        assert {number: pool.pool.entry(word(number)) for number in (1, 2, 3, 4)} == states
        assert pool.pool.tx_json(word(1)) == tx_json(entry(1))
        assert pool.pool.tx_json(word(2)) is None
    with pytest.raises(TxRejected):
        pool.add(entry(5, nullifiers=[2]))


def test_a_restart_notices_what_the_chain_did_meanwhile(pool: Harness) -> None:
    for number in (1, 2, 3, 4):
        pool.add(entry(number))
    pool.mine(entry(4))
    book = pool.ledger.copy()
    book.txs = {word(1): 2}
    book.nullifiers = {word(10_002)}
    pool.ledger = book
    pool.restart()
    assert pool.pending() == [4, 3]
    assert pool.pool.state_of(word(1)) is TxState.MINED
    assert pool.pool.state_of(word(2)) is TxState.DELETED


def test_deleted_txs_are_remembered_up_to_a_bound(pool: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastnode.mempool.pool.DELETED_KEPT_MAX", 3)
    for number in range(6):
        pool.add(entry(number))
        pool.pool.drop(word(number), "test")
    assert [pool.pool.state_of(word(number)) for number in range(6)] == [None] * 3 + [TxState.DELETED] * 3
    pool.restart()
    assert len(list(pool.pool._store.entries())) == 3


# ---- what is said of those that left ---------------------------------------------------------------------------


def test_a_tx_that_left_has_its_reason_and_one_that_was_never_here_has_none(pool: Harness) -> None:
    pool.add(entry(1, nullifiers=[5]))
    pool.add(entry(2))
    pool.mine(nullifiers=[5])
    pool.pool.drop(word(2), "refused upstream: " + "x" * 600)
    assert pool.add(entry(3, expiration=NOW - 1)) is Added.IGNORED
    reasons = ["nullifier mined", "refused upstream: " + "x" * (500 - 18), EXPIRED, None]
    for after in (lambda: None, pool.restart, pool.restart_after_a_crash, lambda: pool.pool.on_finalized(9)):
        after()
        assert [pool.pool.departure_of(word(number)) for number in (1, 2, 3, 4)] == reasons
    assert [pool.pool.state_of(word(number)) for number in (1, 2)] == [None, None], "forgotten, but for the reason"


def test_a_tx_that_comes_back_has_no_reason_any_more(pool: Harness) -> None:
    pool.add(entry(1))
    pool.pool.drop(word(1), "test")
    assert pool.add(entry(1)) is Added.ACCEPTED
    pool.restart()
    assert pool.pool.departure_of(word(1)) == ""
    pool.mine(entry(1))
    pool.pool.on_finalized(pool.ledger.head)
    assert pool.pool.departure_of(word(1)) is None


def test_the_newest_reasons_are_kept(pool: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastnode.mempool.departures.DEPARTED_MAX", 3)
    for number in range(6):
        pool.add(entry(number))
        pool.pool.drop(word(number), "test")
    pool.pool.on_finalized(9)
    pool.restart()
    assert [pool.pool.departure_of(word(number)) for number in range(6)] == [None] * 3 + ["test"] * 3
    assert len(list(pool.pool._store.departed_rows())) == 3


def test_a_pool_of_another_chain_is_refused(pool: Harness) -> None:
    pool.close()
    with pytest.raises(DataDirectoryError, match="another chain"):
        PoolStore.open(pool.path, word(1))


def test_a_newer_schema_is_refused(pool: Harness) -> None:
    pool.pool._store._database.write([(b"\x00schema", (4).to_bytes(4, "big"))])
    pool.close()
    with pytest.raises(DataDirectoryError, match="has schema 4, newer than this fastnode's 3"):
        PoolStore.open(pool.path, GENESIS)


def test_a_pool_of_the_version_before_opens_with_all_its_transactions(pool: Harness) -> None:
    """Version 1 knew one flag of a record: whether the transaction is public."""
    pool.add(entry(1))
    pool.add(entry(2, is_public=True))
    database = pool.pool._store._database
    for number in (1, 2):
        record = database.get(entry_key(word(number)))
        assert record is not None
        database.write([(entry_key(word(number)), record[:1] + bytes([record[1] & 1]) + record[2:])])
    database.write([(b"\x00schema", (1).to_bytes(4, "big"))])

    pool.restart()
    assert sorted(pool.pending()) == [1, 2]
    by_hash = {item.hash: item for item in pool.pool._store.entries()}
    found = [by_hash[word(number)] for number in (1, 2)]
    assert [item.is_public for item in found] == [False, True]
    assert not any(item.forwarded or item.proof_checked for item in found)
    assert pool.pool._store._database.get(b"\x00schema") == (3).to_bytes(4, "big")


def test_a_foreign_database_is_refused(tmp_path: Path) -> None:
    store = PoolStore.open(tmp_path / "db", GENESIS)
    store._database.write([(b"\x00schema", None), (b"\x00chain", None), (b"x", b"y")])
    store.close()
    with pytest.raises(DataDirectoryError, match="no fastnode database of unmined transactions"):
        PoolStore.open(tmp_path / "db", GENESIS)


def test_a_damaged_record_is_named(pool: Harness) -> None:
    pool.pool._store._database.write([(b"\x01" + word(1), b"short")])
    with pytest.raises(DatabaseError, match=word(1).hex()):
        list(pool.pool._store.entries())


def test_a_closed_pool_takes_nothing(pool: Harness) -> None:
    pool.close()
    with pytest.raises(Refused, match="P2P client not ready"):
        pool.add(entry(1))


def test_without_a_ledger_the_pool_waits(pool: Harness) -> None:
    pool.add(entry(1))
    pool.close()
    pool.pool = TxPool.open(pool.path, None, pool.clock, genesis_hash=GENESIS, release=FOUR)
    assert pool.pending() == [1]
    with pytest.raises(Refused, match="P2P client not ready"):
        pool.add(entry(2))
    pool.undo_to(pool.ledger)
    assert pool.add(entry(2)) is Added.ACCEPTED


def test_an_entry_of_a_real_tx_is_what_its_data_says() -> None:
    for tx_hash in hashes("fresh")[:3]:
        tx = recorded_tx(tx_hash)
        item = PoolEntry.of(tx, FOUR)
        assert item.hash == tx.hash
        assert item.nullifiers == tx.data.nullifiers
        assert item.fee_limit == tx.data.gas_limits.l2_gas * tx.data.max_fees_per_gas.fee_per_l2_gas
        assert PoolEntry.decode(item.hash, item.encode()) == item


def test_many_threads_may_add_at_once(pool: Harness) -> None:
    outcomes: list[Added] = []

    def add(start: int) -> None:
        for number in range(start, start + 40):
            outcomes.append(pool.add(entry(number % 150)))

    threads = [threading.Thread(target=add, args=(30 * index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    accepted = outcomes.count(Added.ACCEPTED)
    assert (accepted, len(outcomes)) == (150, 240)
    pool.restart_after_a_crash()
    assert pool.pool.pending_count == 150
    assert pool.pool._store._overlay == {}
