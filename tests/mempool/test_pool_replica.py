"""A pool that follows another process's: what it remembers of the contents of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.mempool.pools import GENESIS, word

from fastnode.mempool.pool_replica import REMEMBERED_BYTES_MAX, CopiedPoolStore
from fastnode.mempool.store import POOL_DIRECTORY, PoolStore, is_json_key, json_key
from fastnode.workers.contents import ContentsReader, ContentsWriter

LONG = b"{" + b"7" * (8 * REMEMBERED_BYTES_MAX) + b"}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CopiedPoolStore]:
    """Over a copy that has transaction 1."""
    before = PoolStore.open(tmp_path / POOL_DIRECTORY, GENESIS)
    before.commit(before.stage([(json_key(word(1)), LONG)]))
    before.close()
    found = CopiedPoolStore(tmp_path, ContentsReader(tmp_path / "contents"))
    yield found
    found.close()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[ContentsWriter]:
    made = ContentsWriter(tmp_path / "contents", is_json_key)
    yield made
    made.close()


def test_what_is_written_once_for_all_is_read_and_is_in_no_copy(store: CopiedPoolStore, writer: ContentsWriter) -> None:
    store.remember(writer.refer([(json_key(word(2)), LONG)]))
    assert store.tx_json(word(2)) == LONG
    assert store.database.get(json_key(word(2))) is None


def test_what_has_left_is_gone_whether_the_copy_had_it_or_not_and_takes_no_memory(
    store: CopiedPoolStore, writer: ContentsWriter
) -> None:
    store.remember(writer.refer([(json_key(word(2)), LONG)]))
    for number in (1, 2):
        store.remember(writer.refer([(json_key(word(number)), None)]))
        assert store.tx_json(word(number)) is None
    assert list(store._overlay) == [json_key(word(1))]
    store.remember(writer.refer([(json_key(word(1)), LONG)]))
    assert store.tx_json(word(1)) == LONG


def test_a_content_that_came_with_its_batch_is_on_the_disk(store: CopiedPoolStore) -> None:
    store.remember([(json_key(word(2)), LONG)])
    assert (store.tx_json(word(2)), list(store._overlay)) == (LONG, [])
    store.remember([(json_key(word(2)), None)])
    assert store.tx_json(word(2)) is None
