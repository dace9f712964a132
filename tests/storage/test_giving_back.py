"""Room of removed entries: counted, and given back by merging ranges of tables."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastnode.errors import DatabaseFull
from fastnode.storage import database as databases
from fastnode.storage import giving_back
from fastnode.storage.database import DatabaseMemory, SharedDatabase
from fastnode.storage.giving_back import GivingBack, ranges_of

KEY = b"\xffleft"
KEYS = 3000
VALUE_BYTES = 1000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables, ranges and what is worth merging, small."""
    monkeypatch.setattr(databases, "TABLE_BYTES", 256 << 10)
    monkeypatch.setattr(giving_back, "LEFT_BYTES_MIN", 100_000)
    monkeypatch.setattr(giving_back, "RANGE_BYTES", 500_000)


def opened(path: Path) -> SharedDatabase:
    return SharedDatabase.open(path / "database", create=True, memory=DatabaseMemory(1 << 20, 256 << 10))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SharedDatabase]:
    """Random values under consecutive keys, written in a random order."""
    shared, rng = opened(tmp_path), random.Random(1)
    numbers = list(range(KEYS))
    rng.shuffle(numbers)
    for first in range(0, KEYS, 100):
        shared.write([(b"k%06d" % number, rng.randbytes(VALUE_BYTES)) for number in numbers[first : first + 100]])
    yield shared
    shared.release()


def disk_bytes(shared: SharedDatabase) -> int:
    return sum(table.stat().st_size for table in shared.path.glob("*.ldb"))


def remove(shared: SharedDatabase, left: GivingBack, numbers: range) -> None:
    for first in range(0, len(numbers), 50):
        part = numbers[first : first + 50]
        shared.write([*((b"k%06d" % number, None) for number in part), left.entry(VALUE_BYTES * len(part))])
        left.count(VALUE_BYTES * len(part))


def merge_all(shared: SharedDatabase, left: GivingBack) -> int:
    steps = 0
    while left.merge_next() is not None:
        steps += 1
    shared.write([left.end()])
    return steps


def test_removed_entries_take_room_until_their_ranges_are_merged(database: SharedDatabase) -> None:
    left = GivingBack(database, KEY)
    assert not left.is_due
    remove(database, left, range(0, KEYS, 2))
    remove(database, left, range(1, KEYS, 4))
    assert left.is_due
    before = disk_bytes(database)
    assert merge_all(database, left) > 1, "in several steps"
    assert disk_bytes(database) < before / 2
    assert not left.is_due
    assert database.get(KEY) is None
    assert [number for number in range(KEYS) if database.get(b"k%06d" % number)] == list(range(3, KEYS, 4))


def test_little_is_not_worth_merging(database: SharedDatabase) -> None:
    left = GivingBack(database, KEY)
    remove(database, left, range(KEYS // 10))
    assert not left.is_due


def test_the_count_is_there_after_a_restart_and_after_a_kill_in_between(
    database: SharedDatabase, tmp_path: Path
) -> None:
    left = GivingBack(database, KEY)
    remove(database, left, range(KEYS // 2))
    assert left.merge_next() is not None
    again = GivingBack(database, KEY)  # what a process that was killed leaves
    assert again.left_bytes == left.left_bytes
    assert again.is_due
    assert not again.has_begun
    merge_all(database, again)
    assert GivingBack(database, KEY).left_bytes == 0


def test_entries_that_are_removed_while_ranges_are_merged_count_for_the_next_time(database: SharedDatabase) -> None:
    left = GivingBack(database, KEY)
    remove(database, left, range(KEYS // 2))
    assert left.merge_next() is not None
    remove(database, left, range(KEYS // 2, KEYS // 2 + 300))
    merge_all(database, left)
    assert GivingBack(database, KEY).left_bytes == left.left_bytes == 300 * VALUE_BYTES


def test_nothing_is_merged_on_a_full_disk(database: SharedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    left = GivingBack(database, KEY)
    remove(database, left, range(KEYS // 2))
    before = disk_bytes(database)
    monkeypatch.setattr(databases, "free_bytes", lambda _: databases.ROOM_BYTES + 1000)
    with pytest.raises(DatabaseFull):
        left.merge_next()
    monkeypatch.undo()
    assert left.has_begun
    assert merge_all(database, left) >= 1, "goes on when there is room"
    assert disk_bytes(database) < before


def test_ranges_cover_all_keys_and_follow_each_other(database: SharedDatabase) -> None:
    database.compact()
    ranges = ranges_of(database)
    assert len(ranges) > 2
    assert ranges[0][0] <= b"\0"
    assert ranges[-1][1] > b"\xff" * 32
    assert [last for _, last in ranges[:-1]] == [first for first, _ in ranges[1:]]
