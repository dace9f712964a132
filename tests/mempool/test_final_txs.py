"""Final transactions that are kept: which, how many, and over restarts."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.mempool.pools import GENESIS, Harness, entry, tx_json

from fastnode.mempool.check import check_pool
from fastnode.mempool.final_txs import KEEP_NONE, KeepLimit
from fastnode.protocol.releases import FOUR

MakeHarness = Callable[..., Harness]


@pytest.fixture
def make(tmp_path: Path) -> MakeHarness:
    return lambda keep: Harness(tmp_path / "p2p", keep=keep)


def finish(harness: Harness, numbers: range) -> list[bytes]:
    """Add, mine and finalize a transaction of each number."""
    items = [entry(number, nullifiers=(10_000 + number,)) for number in numbers]
    for item in items:
        harness.add(item)
    harness.mine(*items)
    harness.pool.on_finalized(harness.ledger.head)
    return [item.hash for item in items]


def test_nothing_is_kept_unless_asked_for(make: MakeHarness) -> None:
    harness = make(KEEP_NONE)
    (tx_hash,) = finish(harness, range(1, 2))
    assert harness.pool.known_tx_json(tx_hash) is None
    assert (harness.pool.kept_count, harness.pool.kept_bytes) == (0, 0)


def test_the_newest_final_transactions_are_kept_by_number(make: MakeHarness) -> None:
    harness = make(KeepLimit(txs=3))
    first = finish(harness, range(1, 3))
    second = finish(harness, range(3, 6))
    assert [harness.pool.known_tx_json(tx_hash) is not None for tx_hash in first + second] == [False] * 2 + [True] * 3
    assert harness.pool.tx_json(second[0]) is None  # it does not wait any more
    assert harness.pool.state_of(second[0]) is None


def test_they_are_kept_by_size(make: MakeHarness) -> None:
    size = len(tx_json(entry(1)))
    harness = make(KeepLimit(bytes=2 * size + size // 2))
    hashes = finish(harness, range(1, 4))
    assert [harness.pool.known_tx_json(tx_hash) is not None for tx_hash in hashes] == [False, True, True]
    assert harness.pool.kept_bytes <= 2 * size + size // 2


def test_they_are_there_after_a_restart_and_a_lower_limit_lets_go_of_the_oldest(make: MakeHarness) -> None:
    harness = make(KeepLimit(txs=10))
    hashes = finish(harness, range(1, 6))
    harness.restart_after_a_crash()
    assert [harness.pool.known_tx_json(tx_hash) is not None for tx_hash in hashes] == [True] * 5
    harness.pool.close()
    lower = make(KeepLimit(txs=2))
    assert [lower.pool.known_tx_json(tx_hash) is not None for tx_hash in hashes] == [False] * 3 + [True] * 2
    lower.pool.close()
    nothing = make(KEEP_NONE)
    assert not any(nothing.pool.known_tx_json(tx_hash) for tx_hash in hashes)


def test_a_dropped_transaction_is_not_kept(make: MakeHarness) -> None:
    harness = make(KeepLimit(txs=10))
    item = entry(1)
    harness.add(item)
    harness.pool.drop(item.hash, "asked for")
    harness.pool.on_finalized(harness.ledger.head)
    assert harness.pool.kept_count == 0


@pytest.mark.parametrize("seed", range(5))
def test_what_is_kept_is_the_newest_within_the_limit_after_any_history(make: MakeHarness, seed: int) -> None:
    source = random.Random(seed)
    limit = source.randrange(1, 6)
    harness, order = make(KeepLimit(txs=limit)), []
    number = 1
    for _ in range(20):
        count = source.randrange(4)
        order += finish(harness, range(number, number + count))
        number += count
        if source.random() < 0.3:
            harness.restart_after_a_crash()
        kept = [tx_hash for tx_hash in order if harness.pool.known_tx_json(tx_hash) is not None]
        assert sorted(kept) == sorted(order[-limit:])
    harness.pool.close()
    assert all("cannot be decoded" in problem for problem in check_pool(harness.path, GENESIS, FOUR))


def test_a_check_of_the_database_finds_a_kept_transaction_that_is_gone(make: MakeHarness) -> None:
    harness = make(KeepLimit(txs=3))
    (tx_hash,) = finish(harness, range(1, 2))
    harness.pool.database.write([(b"\x02" + tx_hash, None)])
    harness.pool.close()
    assert check_pool(harness.path, GENESIS, FOUR) == [f"kept transaction 0x{tx_hash.hex()}: it is missing"]
