"""Databases that were written without the indexes, or with others, are indexed at start."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.log_index.chain import Chain, hashed, private_log, public_log, raw_keys

from fastnode.log_index import indexes, layout
from fastnode.storage.database import WriteBatch

_COMMIT = WriteBatch.commit

PREFIXES = (*layout.LOG_PREFIXES, *layout.CONTRACT_PREFIXES)


def add_blocks(chain: Chain, count: int) -> None:
    for _ in range(count):
        number = len(chain.blocks)
        chain.add(
            [private_log(hashed("private", number % 3))],
            [public_log(hashed("contract"), hashed("public", number % 2), hashed(number))],
        )


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "BLOCKS_PER_BATCH", 4)
    monkeypatch.setattr(indexes, "KEYS_PER_BATCH", 3)


@pytest.mark.usefixtures("small_batches")
def test_blocks_stored_without_indexes_are_indexed_at_start(
    make_chain: Callable[..., Chain], caplog: pytest.LogCaptureFixture
) -> None:
    late, early = make_chain(indexed=False), make_chain()
    for chain in (late, early):
        add_blocks(chain, 11)
    assert not raw_keys(late.view, PREFIXES)
    late.reopen()
    assert late.caught_up == 11
    assert "indexing the logs and contracts of 11 stored blocks" in caplog.text
    assert raw_keys(late.view, PREFIXES) == raw_keys(early.view, PREFIXES)
    late.reopen()
    assert late.caught_up == 0


def test_blocks_stored_between_two_indexed_starts_are_added(make_chain: Callable[..., Chain]) -> None:
    chain, whole = make_chain(), make_chain()
    add_blocks(whole, 9)
    add_blocks(chain, 4)
    chain.reopen(indexed=False)
    add_blocks(chain, 5)
    chain.reopen()
    assert chain.caught_up == 5
    assert raw_keys(chain.view, PREFIXES) == raw_keys(whole.view, PREFIXES)


@pytest.mark.usefixtures("small_batches")
def test_an_index_of_blocks_that_are_gone_is_built_anew(
    make_chain: Callable[..., Chain], caplog: pytest.LogCaptureFixture
) -> None:
    for undone, added in ((3, 0), (3, 2), (3, 3), (3, 6)):
        chain = make_chain()
        add_blocks(chain, 8)
        chain.reopen(indexed=False)
        chain.undo(undone)
        add_blocks(chain, added)
        caplog.clear()
        chain.reopen()
        assert "the index of logs does not fit the chain; building it anew" in caplog.text
        built = raw_keys(chain.view, PREFIXES)
        batch = chain.store.write_batch()
        for key in built:
            batch.delete(key)
        batch.commit()
        chain.reopen()
        assert raw_keys(chain.view, PREFIXES) == built


def test_an_index_of_another_layout_is_built_anew(
    make_chain: Callable[..., Chain], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    chain = make_chain()
    add_blocks(chain, 4)
    before = raw_keys(chain.view, PREFIXES)
    monkeypatch.setattr("fastnode.log_index.head.LAYOUT_VERSION", 2)
    monkeypatch.setattr(layout, "LAYOUT_VERSION", 2)
    chain.reopen()
    assert chain.caught_up == 4
    assert caplog.text.count("building it anew") == 2
    after = raw_keys(chain.view, PREFIXES)
    for key in (layout.LOG_HEAD, layout.CONTRACT_HEAD):
        assert after.pop(key) != before.pop(key)
    assert after == before


@pytest.mark.usefixtures("small_batches")
def test_a_rebuild_that_was_cut_short_is_taken_up_again(
    make_chain: Callable[..., Chain], monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = make_chain()
    add_blocks(chain, 12)
    whole = raw_keys(chain.view, PREFIXES)
    for failing_batch in range(1, 12):
        # As if the process died at one of the batches of removing and building anew.
        commits = 0

        def commit(batch: object, *, at: int = failing_batch, do: Callable[..., None] = _COMMIT) -> None:
            nonlocal commits
            commits += 1
            if commits > at:
                raise KeyboardInterrupt
            do(batch)

        with monkeypatch.context() as patch:
            patch.setattr("fastnode.log_index.head.LAYOUT_VERSION", 10 + failing_batch)
            patch.setattr(layout, "LAYOUT_VERSION", 10 + failing_batch)
            patch.setattr("fastnode.storage.database.WriteBatch.commit", commit)
            with pytest.raises(KeyboardInterrupt):
                chain.reopen()
        chain.reopen()
        assert raw_keys(chain.view, PREFIXES) == whole


def test_a_store_without_a_chain_needs_no_index(make_chain: Callable[..., Chain]) -> None:
    chain = make_chain()
    assert chain.caught_up == 0
    assert raw_keys(chain.view, PREFIXES) == {}
