"""Databases of older versions are read as ever, and brought to the form of this one in steps while a node serves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.log_index.chain import older_form

from fastnode.archiver import layout, packing
from fastnode.archiver.check import check_database
from fastnode.archiver.packing import packing_step
from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.chain_data import ChainData
from fastnode.errors import DatabaseUnreadable
from fastnode.kernels import stored_text
from fastnode.log_index import ChainIndexes
from fastnode.log_index import layout as log_layout
from fastnode.log_index.check import check_indexes
from fastnode.log_index.known_tags import KnownTags
from fastnode.log_index.range_queries import AnswerLimits, find_class_logs, find_public_logs, span_of_blocks
from fastnode.log_index.tag_queries import private_logs_by_tags, public_logs_by_tags
from fastnode.sources.chain_import import import_chain_file

Entries = dict[bytes, bytes]

#: Entries of the log index that are rewritten.
LOGS = b"".join((log_layout.PRIVATE_PAGE, log_layout.PUBLIC_PAGE, log_layout.PUBLIC_LOG, log_layout.CLASS_LOG))


@pytest.fixture(scope="module")
def new(chain_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded chain as this version stores it."""
    path = tmp_path_factory.mktemp("new") / "data"
    return Path(shutil.copytree(chain_directory, path))


@pytest.fixture(scope="module")
def texts(new: Path) -> Entries:
    """Everything that is to be read."""
    with ArchiverStore.open(new, create=False) as store, store.open_view() as view:
        return read(view)


@pytest.fixture(scope="module")
def answered(new: Path) -> list[object]:
    with ArchiverStore.open(new, create=False) as store, store.open_view() as view:
        return answers(view)


@pytest.fixture(scope="module")
def packed(new: Path) -> Entries:
    """Texts as this version stores them."""
    with ArchiverStore.open(new, create=False) as store, store.open_view() as view:
        return stored(view)


@pytest.fixture
def old(new: Path, texts: Entries, tmp_path: Path) -> Path:
    """The same in the form of version 2: nothing is packed, and the index of logs has the logs."""
    path = Path(shutil.copytree(new, tmp_path / "data", ignore=shutil.ignore_patterns("LOCK")))
    with ArchiverStore.open(path, create=False) as store:
        with store.open_view() as view:
            logs = older_form(view)
        store.database.write(texts.items())
        store.database.write(logs.items())
        store.database.write([(layout.KEY_SCHEMA, layout.SCHEMA_NAME + b"2")])
    return path


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "TEXTS_PER_STEP", 100)


def read(view: ChainView) -> Entries:
    """All entries but the marks of the database itself, and both ways of reading one give the same."""
    found = {}
    for key, text in view.scan():
        if key not in (layout.KEY_SCHEMA, layout.KEY_NOT_PACKED, layout.KEY_DROPPED):
            found[key] = text
            assert view.get(key) == text
    return found


def answers(view: ChainView) -> list[object]:
    """Everything that is not an entry of the log index, and all logs by tag and by position."""
    found: list[object] = [(key, text) for key, text in read(view).items() if key[0] not in LOGS]
    known = KnownTags(1 << 16)
    for key, value in view.scan(log_layout.PRIVATE_COUNT, log_layout.after_prefix(log_layout.PUBLIC_COUNT)):
        tag_key = log_layout.tag_key_of_count(key)
        for page in range(-(-log_layout.TagCount.decode(value).logs // log_layout.LOGS_PER_PAGE)):
            if len(tag_key) == log_layout.TAG_BYTES:
                found.append(private_logs_by_tags(view, known, tag_key, page))
            else:
                contract, tag = tag_key[: log_layout.TAG_BYTES], tag_key[log_layout.TAG_BYTES :]
                found.append(public_logs_by_tags(view, known, contract, tag, page))
    span = span_of_blocks(0, view.tip_number + 1)
    limits = AnswerLimits(1 << 30, 1 << 40)
    return [*found, find_public_logs(view, span, limits).logs, find_class_logs(view, span, limits).logs]


def stored(view: ChainView) -> Entries:
    """Texts as they lie on the disk."""
    return {key: value for key, value in view.scan_stored(b"", None) if key[0] in layout.TEXTS}


def packed_count(view: ChainView) -> int:
    return sum(value.startswith(stored_text.MARK) for value in stored(view).values())


def test_json_and_records_with_json_are_texts() -> None:
    of_index = {log_layout.PRIVATE_PAGE, log_layout.PUBLIC_PAGE, log_layout.PUBLIC_LOG}
    of_chain = {layout.BLOCK, layout.CHECKPOINT, layout.EFFECT, layout.TRANSACTION}
    assert {bytes([kind]) for kind in layout.TEXTS} == of_index | of_chain


def test_what_is_stored_takes_less_than_half_of_the_text(packed: Entries, texts: Entries) -> None:
    assert all(stored_text.unpack(value) == texts[key] for key, value in packed.items())
    assert sum(map(len, packed.values())) < sum(len(texts[key]) for key in packed) / 2


def test_a_database_of_the_version_before_is_packed_in_steps_that_any_start_goes_on_with(
    old: Path, packed: Entries, texts: Entries, answered: list[object]
) -> None:
    counts = []
    is_left = True
    while is_left:
        # As after a kill between two steps, of which each is one batch.
        with ArchiverStore.open(old, create=False) as store, store.open_view() as view:
            assert answers(view) == answered
            counts.append(packed_count(view))
            is_left = packing_step(store, view, ChainIndexes(filter_bytes=1 << 12).writers)
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert len(set(counts)) > 3
    with ArchiverStore.open(old, create=False) as store, store.open_view() as view:
        assert stored(view) == packed
        assert read(view) == texts
        assert view.get(layout.KEY_NOT_PACKED) is None
        assert check_database(store).clean
        assert check_indexes(view) == ([], [])
        assert store.giving_back.left_bytes > sum(len(texts[key]) for key in packed)


def test_class_logs_of_the_version_before_are_read_and_give_way(
    new: Path, texts: Entries, answered: list[object], tmp_path: Path
) -> None:
    path = Path(shutil.copytree(new, tmp_path / "data", ignore=shutil.ignore_patterns("LOCK")))
    with ArchiverStore.open(path, create=False) as store:
        with store.open_view() as view:
            logs = {key: value for key, value in older_form(view).items() if key.startswith(log_layout.CLASS_LOG)}
        assert logs
        store.database.write([*logs.items(), (layout.KEY_SCHEMA, layout.SCHEMA_NAME + b"4")])
    is_left = True
    while is_left:
        with ArchiverStore.open(path, create=False) as store, store.open_view() as view:
            assert answers(view) == answered
            is_left = packing_step(store, view, ChainIndexes(filter_bytes=1 << 12).writers)
    with ArchiverStore.open(path, create=False) as store, store.open_view() as view:
        assert read(view) == texts
        assert check_indexes(view) == ([], [])


def test_blocks_come_and_go_while_half_of_the_texts_are_packed(
    old: Path, sample_path: Path, texts: Entries, answered: list[object]
) -> None:
    with ChainData.open(old, create=False) as data:
        ingestor = data.open_ingestor(verify=False)
        ingestor.catch_up()
        tip = ingestor.view.tip_number
        with ingestor.between_blocks():
            assert ingestor.pack_texts()
        ingestor.undo_above(tip - 10)
        with ingestor.between_blocks():
            assert ingestor.pack_texts()
        import_chain_file(ingestor, sample_path)
        assert answers(ingestor.view) == answered
        with ingestor.between_blocks():
            while ingestor.pack_texts():
                pass
        assert read(ingestor.view) == texts


def test_a_new_database_has_nothing_to_pack(new: Path) -> None:
    with ChainData.open(new, create=False) as data:
        ingestor = data.open_ingestor(verify=False)
        assert not ingestor.pack_texts()


def test_a_text_that_is_none_is_damage_and_says_so(new: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(new, tmp_path / "data", ignore=shutil.ignore_patterns("LOCK")))
    with ArchiverStore.open(path, create=False) as store:
        store.database.write([(layout.effect_key(5, 0), stored_text.MARK + b"\xff")])
    with ArchiverStore.open(path, create=False) as store, store.open_view() as view:
        with pytest.raises(DatabaseUnreadable, match=r"is damaged \(a packed text of 2 bytes"):
            view.get(layout.effect_key(5, 0))
        assert store.fault is not None
