"""Databases of the version before are read as ever, and their texts are packed step by step while the node serves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fastnode.archiver import layout, packing
from fastnode.archiver.check import check_database
from fastnode.archiver.packing import packing_step
from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.chain_data import ChainData
from fastnode.errors import DatabaseUnreadable
from fastnode.kernels import stored_text
from fastnode.log_index import layout as log_layout
from fastnode.log_index.check import check_indexes
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file

Entries = dict[bytes, bytes]


@pytest.fixture(scope="module")
def new(sample_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded chain as this version stores it."""
    path = tmp_path_factory.mktemp("new") / "data"
    with ChainData.open(path) as data:
        adopt_chain_file(data.store, sample_path)
        import_chain_file(data.open_ingestor(verify=False), sample_path)
    return path


@pytest.fixture(scope="module")
def texts(new: Path) -> Entries:
    """Everything that is to be read."""
    with ArchiverStore.open(new, create=False) as store, store.open_view() as view:
        return read(view)


@pytest.fixture(scope="module")
def packed(new: Path) -> Entries:
    """Texts as this version stores them."""
    with ArchiverStore.open(new, create=False) as store, store.open_view() as view:
        return stored(view)


@pytest.fixture
def old(new: Path, texts: Entries, tmp_path: Path) -> Path:
    """The same in the form of version 2: nothing is packed."""
    path = Path(shutil.copytree(new, tmp_path / "data", ignore=shutil.ignore_patterns("LOCK")))
    with ArchiverStore.open(path, create=False) as store:
        store.database.write(texts.items())
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
    old: Path, packed: Entries, texts: Entries
) -> None:
    counts = []
    is_left = True
    while is_left:
        # As after a kill between two steps, of which each is one batch.
        with ArchiverStore.open(old, create=False) as store, store.open_view() as view:
            assert read(view) == texts
            counts.append(packed_count(view))
            is_left = packing_step(store, view)
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert len(set(counts)) > 3
    with ArchiverStore.open(old, create=False) as store, store.open_view() as view:
        assert stored(view) == packed
        assert read(view) == texts
        assert view.get(layout.KEY_NOT_PACKED) is None
        assert check_database(store).clean
        assert check_indexes(view) == ([], [])
        assert store.giving_back.left_bytes == sum(len(texts[key]) for key in packed)


def test_blocks_come_and_go_while_half_of_the_texts_are_packed(old: Path, sample_path: Path, texts: Entries) -> None:
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
        assert read(ingestor.view) == texts
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
