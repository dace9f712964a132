"""Which of the pool's transactions a block is built of: those that have been known for long enough."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clock import Clock
from tests.mempool.pools import Harness, entry

from fastnode.sequencing.candidates import SEEN_MIN, Candidates

AGE_S = 2.0


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Harness]:
    pool = Harness(tmp_path / "pool")
    yield pool
    pool.close()


@pytest.fixture
def time() -> Clock:
    return Clock()


@pytest.fixture
def candidates(pool: Harness, time: Clock) -> Candidates:
    return Candidates(pool.pool, age_s=AGE_S, clock=time)


def test_a_transaction_counts_once_it_has_been_noticed_for_long_enough(
    pool: Harness, candidates: Candidates, time: Clock
) -> None:
    pool.add(entry(1))
    candidates.notice()
    time.now += AGE_S / 2
    pool.add(entry(2))
    assert candidates.count() == 0
    time.now += AGE_S / 2
    assert candidates.count() == 1
    time.now += AGE_S / 2
    assert candidates.count() == 2


def test_a_transaction_of_a_block_that_is_taken_back_is_as_old_as_it_was(
    pool: Harness, candidates: Candidates, time: Clock
) -> None:
    one, before = entry(1), pool.ledger
    pool.add(one)
    candidates.notice()
    time.now += AGE_S
    pool.mine(one)
    assert candidates.count() == 0
    pool.undo_to(before)
    assert candidates.count() == 1


def test_what_the_pool_has_no_longer_is_forgotten(pool: Harness, candidates: Candidates, time: Clock) -> None:
    for number in range(1, SEEN_MIN + 2):
        one = entry(number)
        pool.add(one)
        candidates.notice()
        if number > 1:
            pool.pool.drop(one.hash, "a test")
    assert len(candidates._seen) <= SEEN_MIN
    time.now += AGE_S
    assert candidates.count() == 1
