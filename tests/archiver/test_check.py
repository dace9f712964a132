"""``db check`` finds what was done to a database behind fastnode's back, whatever it was."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from fastnode.archiver import check, layout
from fastnode.archiver.check import CheckReport, check_database
from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.records import StoredTips
from fastnode.archiver.store import ArchiverStore

Contents = Callable[[ArchiverStore], dict[bytes, bytes]]

#: Without its schema key no database is opened, without its tips it holds no chain; the others most do not have.
OTHER_KINDS = (
    layout.KEY_SCHEMA,
    layout.KEY_UNDO,
    layout.KEY_TIPS,
    layout.KEY_OLDEST_BODY,
    layout.KEY_DROPPED,
    layout.KEY_NOT_PACKED,
)
#: Keys that every database has.
ENTRY_KINDS = [kind for kind in check._KINDS if kind not in OTHER_KINDS]
#: Parts of these are claims that nothing else in this database repeats.
NOT_COMPARABLE = (layout.KEY_CHAIN, layout.KEY_GENESIS)


def change(store: ArchiverStore, key: bytes, value: bytes | None) -> None:
    batch = store.write_batch()
    if value is None:
        batch.delete(key)
    else:
        batch.put(key, value)
    batch.commit()


def flip(value: bytes, position: int) -> bytes:
    """The value with another character there: a digit stays a digit, so that JSON stays JSON."""
    digits = b"0123456789abcdef"
    old = value[position : position + 1]
    new = b"%c" % digits[(digits.index(old) + 1) % 16] if old in digits else b"%c" % (old[0] ^ 1)
    return value[:position] + new + value[position + 1 :]


@pytest.fixture
def short_store(full_store: ArchiverStore, full_ingestor: Ingestor) -> ArchiverStore:
    """The first nine checkpoints: something of every kind, and a quick check."""
    full_ingestor.undo_above(19)
    return full_store


def test_a_whole_chain_is_clean(full_store: ArchiverStore) -> None:
    report = check_database(full_store)
    assert report == CheckReport(blocks=106, checkpoints=41, transactions=137, problems=[], notes=[])
    assert report.clean


def test_a_chain_without_blocks_is_clean(store: ArchiverStore) -> None:
    assert check_database(store) == CheckReport()


def test_a_database_without_a_chain_is_clean_and_says_so(tmp_path: Path) -> None:
    with ArchiverStore.open(tmp_path / "data") as store:
        report = check_database(store)
    assert report.clean
    assert report.notes == ["the database holds no chain yet"]


@pytest.mark.parametrize("block_number", [105, 104, 102, 50, 1])
def test_an_undone_chain_is_clean(full_store: ArchiverStore, full_ingestor: Ingestor, block_number: int) -> None:
    full_ingestor.undo_above(block_number)
    report = check_database(full_store)
    assert report.problems == []
    assert report.blocks == block_number


def test_progress_counts_blocks(full_store: ArchiverStore) -> None:
    said: list[tuple[int, int]] = []
    check_database(full_store, progress=lambda done, total: said.append((done, total)))
    assert said == [(number, 106) for number in range(1, 107)]


def test_the_check_reads_while_a_block_is_undone(full_store: ArchiverStore, full_ingestor: Ingestor) -> None:
    report = check_database(full_store, progress=lambda done, total: full_ingestor.undo_above(total - done) and None)
    assert report.problems == []
    assert report.blocks == 106


@pytest.mark.parametrize("kind", ENTRY_KINDS)
def test_a_missing_entry_of_any_kind_is_found(short_store: ArchiverStore, contents: Contents, kind: bytes) -> None:
    everything = contents(short_store)
    keys = [key for key in everything if key[:1] == kind]
    assert keys
    for key in random.Random(1).sample(keys, min(len(keys), 3)):
        change(short_store, key, None)
        assert check_database(short_store).problems, key
        change(short_store, key, everything[key])
    assert check_database(short_store).clean


@pytest.mark.parametrize("kind", [kind for kind in ENTRY_KINDS if kind not in NOT_COMPARABLE])
def test_a_changed_value_of_any_kind_is_found(short_store: ArchiverStore, contents: Contents, kind: bytes) -> None:
    everything = contents(short_store)
    keys = [key for key in everything if key[:1] == kind and everything[key]]
    moments = random.Random(2)
    for key in moments.sample(keys, min(len(keys), 5)):
        value = everything[key]
        position = moments.randrange(len(value))
        change(short_store, key, flip(value, position))
        assert check_database(short_store).problems, (key, position)
        change(short_store, key, value)
    assert check_database(short_store).clean


@pytest.mark.parametrize(
    "key",
    [
        layout.block_key(107),
        layout.effect_key(50, 9),
        layout.checkpoint_key(42),
        layout.slot_key(5),
        layout.BLOCK_BY_HASH + bytes(32),
        layout.BLOCK_BY_ARCHIVE + bytes(32),
        layout.TRANSACTION + bytes(32),
        layout.MESSAGE + bytes(32),
        layout.CLASS + bytes(32),
        b"?",
    ],
)
def test_an_entry_that_belongs_to_nothing_is_found(full_store: ArchiverStore, key: bytes) -> None:
    change(full_store, key, b"\x00\x00\x00\x01")
    report = check_database(full_store)
    assert len(report.problems) == 1
    assert report.problems[0].startswith("1 too many of the kind: ")


def test_keys_of_index_writers_are_left_to_them(full_store: ArchiverStore) -> None:
    change(full_store, b"\x80something", b"else")
    assert check_database(full_store).clean


@pytest.mark.parametrize(
    ("tips", "message"),
    [
        (StoredTips(106, 41, 42, 36), "the database cannot be read: the chain database lacks the key"),
        (StoredTips(106, 41, 20, 36), "the tips: finalized 36, proven 20, checkpointed 41 are not in order"),
        (StoredTips(106, 40, 39, 36), "1 too many of the kind: checkpoint record"),
        (StoredTips(105, 41, 39, 36), "checkpoint 41: archive is"),
        (StoredTips(107, 41, 39, 36), "the database cannot be read: the chain database lacks the key"),
    ],
)
def test_wrong_tips_are_found(full_store: ArchiverStore, tips: StoredTips, message: str) -> None:
    change(full_store, layout.KEY_TIPS, tips.encode())
    assert check_database(full_store).problems[0].startswith(message)


def test_an_interrupted_undo_is_noted_but_no_fault(full_store: ArchiverStore) -> None:
    change(full_store, layout.KEY_UNDO, layout.encode_number(50))
    report = check_database(full_store)
    assert report.clean
    assert report.notes == ["an undo was interrupted; the next start finishes it"]


def test_the_walk_ends_when_the_database_is_lost(
    full_store: ArchiverStore, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "PROBLEMS_MAX", 10)
    for key in contents(full_store):
        if key[:1] == layout.TRANSACTION:
            change(full_store, key, None)
    report = check_database(full_store)
    assert len(report.problems) == 10
    assert report.notes == ["stopped after 10 problems"]


def test_a_tip_that_cannot_be_read_is_a_problem_too(full_store: ArchiverStore) -> None:
    change(full_store, layout.block_key(106), b"{}")
    report = check_database(full_store)
    assert len(report.problems) == 1
    assert report.problems[0].startswith("the database cannot be read: ")


@pytest.mark.parametrize("part", [0.01, 0.3, 0.5, 0.7, 0.9])
def test_damage_on_the_disk_is_found(full_store: ArchiverStore, part: float) -> None:
    """A changed byte in a table file."""
    full_store._database.compact()
    full_store.close()
    tables = sorted(full_store.path.glob("*.ldb"), key=lambda path: path.stat().st_size)
    assert tables
    data = bytearray(tables[-1].read_bytes())
    data[int(len(data) * part)] ^= 0xFF
    tables[-1].write_bytes(data)
    with ArchiverStore.open(full_store.path.parent) as damaged:
        problems = check_database(damaged).problems
    assert problems
