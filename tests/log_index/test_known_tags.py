"""The filter of known tags: how it is filled, kept in a file, and that no tag ever gets lost."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.log_index.chain import Chain, hashed, private_log, public_log

from fastnode.log_index import known_tags
from fastnode.log_index.known_tags import KnownTags, tag_keys_of_block

CONTRACT = hashed("contract")


@pytest.fixture(autouse=True)
def few_tags_are_worth_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_tags, "TAGS_WORTH_A_FILE", 1)


def add_blocks(chain: Chain, count: int) -> None:
    for _ in range(count):
        number = len(chain.blocks)
        chain.add([private_log(hashed("private", number)), public_log(CONTRACT, hashed("public", number))])


def assert_all_are_known(chain: Chain) -> None:
    tags = chain.indexes.known_tags
    assert tags.reader_filter is not None
    for block in chain.blocks:
        keys = tag_keys_of_block(block)
        assert len(keys) == 2
        assert not any(tags.is_unknown(key) for key in keys)
    assert tags.is_unknown(hashed("never"))


def saved(chain: Chain) -> Path:
    path = chain.directory / "tag_filter"
    assert chain.indexes.save_filter(chain.view, path)
    return path


def no_scan(*_: object) -> None:
    raise AssertionError("the tags are read from the database")


def test_until_it_is_filled_every_tag_may_be_known() -> None:
    tags = KnownTags(64)
    assert tags.reader_filter is None
    assert not tags.is_unknown(hashed("any"))


def test_it_is_filled_from_the_database(chain: Chain) -> None:
    add_blocks(chain, 30)
    chain.reopen()
    assert_all_are_known(chain)
    assert chain.indexes.known_tags.tag_count == 60


def test_a_new_tag_is_known_before_its_block_can_be_read(chain: Chain) -> None:
    seen: list[bool] = []
    block = chain.build([private_log(hashed("new"))])
    tags = chain.indexes.known_tags
    chain.ingestor._on_commit = lambda _view: seen.append(tags.is_unknown(hashed("new")))
    assert tags.is_unknown(hashed("new"))
    chain.ingestor.add_block(block)
    assert seen == [False]


def test_an_undone_tag_may_stay_known_and_a_later_one_is_not_lost(chain: Chain) -> None:
    add_blocks(chain, 3)
    chain.undo(2)
    add_blocks(chain, 4)
    assert_all_are_known(chain)


def test_a_saved_filter_is_loaded_without_reading_the_database(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    add_blocks(chain, 20)
    path = saved(chain)
    monkeypatch.setattr(KnownTags, "_fill_from_database", no_scan)
    chain.reopen(filter_file=path)
    assert_all_are_known(chain)
    assert chain.indexes.known_tags.tag_count == 40


def test_blocks_stored_after_the_file_was_written_are_added(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    add_blocks(chain, 5)
    path = saved(chain)
    add_blocks(chain, 5)
    monkeypatch.setattr(KnownTags, "_fill_from_database", no_scan)
    chain.reopen(filter_file=path)
    assert_all_are_known(chain)


def test_a_file_far_behind_the_chain_is_not_used(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    add_blocks(chain, 2)
    path = saved(chain)
    add_blocks(chain, 5)
    monkeypatch.setattr(known_tags, "CATCH_UP_BLOCKS_MAX", 4)
    chain.reopen(filter_file=path)
    assert_all_are_known(chain)
    assert chain.indexes.known_tags.tag_count == 14


def test_a_file_of_a_block_that_is_gone_is_not_used(chain: Chain) -> None:
    add_blocks(chain, 4)
    path = saved(chain)
    chain.undo(2)
    add_blocks(chain, 4)
    chain.reopen(filter_file=path)
    assert_all_are_known(chain)


def test_a_file_of_another_size_is_not_used(chain: Chain) -> None:
    add_blocks(chain, 4)
    path = saved(chain)
    chain.close()
    chain.open()
    other = KnownTags(1 << 13)
    other.fill(chain.view, path)
    assert other.size == 1 << 13
    assert not any(other.is_unknown(key) for block in chain.blocks for key in tag_keys_of_block(block))


@pytest.mark.parametrize("position", [0, 8, 12, 44, 52, 60, 64, 1000, -1])
def test_a_damaged_file_is_told_and_not_used(chain: Chain, position: int, caplog: pytest.LogCaptureFixture) -> None:
    add_blocks(chain, 4)
    path = saved(chain)
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    chain.reopen(filter_file=path)
    assert "is damaged; reading the tags from the database" in caplog.text
    assert_all_are_known(chain)


@pytest.mark.parametrize("length", [0, 10, 63, 64, 65, 4000])
def test_a_cut_file_is_told_and_not_used(chain: Chain, length: int, caplog: pytest.LogCaptureFixture) -> None:
    add_blocks(chain, 4)
    path = saved(chain)
    path.write_bytes(path.read_bytes()[:length])
    chain.reopen(filter_file=path)
    assert "is damaged" in caplog.text
    assert_all_are_known(chain)


def test_a_missing_file_is_nothing_to_speak_of(chain: Chain, caplog: pytest.LogCaptureFixture) -> None:
    add_blocks(chain, 4)
    chain.reopen(filter_file=chain.directory / "nowhere")
    assert "tag" not in caplog.text
    assert_all_are_known(chain)


def test_few_tags_are_not_worth_a_file(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_tags, "TAGS_WORTH_A_FILE", 9)
    add_blocks(chain, 4)
    path = chain.directory / "tag_filter"
    assert not chain.indexes.save_filter(chain.view, path)
    assert not path.exists()


def test_a_filter_that_is_too_small_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    tags = KnownTags(64)
    for number in range(200):
        tags.add(hashed(number))
    assert caplog.text.count("raise --tag-filter-mb") == 1


def test_no_tag_is_lost_while_filling_runs_beside_the_writer(chain: Chain) -> None:
    add_blocks(chain, 50)
    path = saved(chain)
    for file in (path, None):
        tags = KnownTags(1 << 12)
        chain.indexes.writers[0]._known_tags = tags  # type: ignore[union-attr]
        view = chain.store.open_view()
        filling = threading.Thread(target=tags.fill, args=(view, file))
        filling.start()
        add_blocks(chain, 20)
        filling.join()
        view.close()
        assert not any(tags.is_unknown(key) for block in chain.blocks for key in tag_keys_of_block(block))
