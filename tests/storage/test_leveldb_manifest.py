"""Manifests that LevelDB wrote."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

import plyvel
import pytest

from fastnode.storage.leveldb_manifest import live_tables


def manifest_of(path: Path) -> bytes:
    return (path / (path / "CURRENT").read_text().strip()).read_bytes()


def tables_in(path: Path) -> set[int]:
    return {int(file.stem) for file in path.glob("*.ldb")}


def fragment(record: bytes, kind: int = 1) -> bytes:
    return bytes(4) + len(record).to_bytes(2, "little") + bytes([kind]) + record


@pytest.fixture(scope="module")
def long_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed database whose tables came and went, with keys so long that records cross the blocks of the manifest."""
    path = tmp_path_factory.mktemp("leveldb") / "database"
    opened = plyvel.DB(str(path), create_if_missing=True, write_buffer_size=64 << 10)
    for number in range(600):
        opened.put(b"key%d" % (number * 7919 % 1000) + b"k" * 5000, os.urandom(1000))
        if number % 200 == 150:
            opened.compact_range()
    opened.compact_range()
    opened.close()
    return path


def test_a_new_database_has_no_tables(tmp_path: Path) -> None:
    plyvel.DB(str(tmp_path / "new"), create_if_missing=True).close()
    assert live_tables(manifest_of(tmp_path / "new")) == set()


def test_the_tables_of_a_manifest_are_those_that_leveldb_asks_for(long_one: Path, tmp_path: Path) -> None:
    manifest = manifest_of(long_one)
    assert len(manifest) > 3 * 32 * 1024, "several blocks"
    live = live_tables(manifest)
    assert live
    for without in [None, *live]:
        copy = tmp_path / f"without {without}"
        shutil.copytree(long_one, copy)
        for number in tables_in(copy) - live | {without} - {None}:
            (copy / f"{number:06d}.ldb").unlink()
        if without is None:
            plyvel.DB(str(copy), create_if_missing=False).close()
        else:
            with pytest.raises(plyvel.Error, match="missing files"):
                plyvel.DB(str(copy), create_if_missing=False)


def test_a_record_that_is_being_written_does_not_count(long_one: Path) -> None:
    """However far the writer has come; the tables named are those of a moment before."""
    manifest = manifest_of(long_one)
    seen = [live_tables(manifest[:end]) for end in range(0, len(manifest), 499)]
    assert seen[0] == set()
    assert all(len(before - after) + len(after - before) < 200 for before, after in itertools.pairwise(seen)), (
        "a change at a time"
    )


@pytest.mark.parametrize("left", range(7))
def test_what_is_left_of_a_block_is_filling(left: int) -> None:
    length = 32 * 1024 - left - 7 - 4  # of a text with its tag and its length before it
    text = b"\x01" + bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14]) + b"c" * length
    table = b"\x07\x00\x05\x10\x01a\x01z"
    assert live_tables(fragment(text) + bytes(left) + fragment(table)) == {5}


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (b"\x08\x01", "a field of tag 8"),
        (b"\x02", "a record that ends too early"),
        (b"\x02\xff", "a record that ends too early"),
        (b"\x01\x05abc", "a record that ends too early"),
        (b"\x07\x00\x05\x10\x01k", "a record that ends too early"),
    ],
)
def test_what_is_no_record_is_refused(record: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        live_tables(fragment(record))


def test_a_fragment_of_no_known_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="a fragment of kind 9"):
        live_tables(fragment(b"", 9))


def test_random_bytes_are_read_or_refused_and_nothing_else(long_one: Path) -> None:
    manifest = bytearray(manifest_of(long_one)[:4000])
    for place in range(0, len(manifest), 13):
        damaged = bytes(manifest[:place]) + os.urandom(3) + bytes(manifest[place + 3 :])
        try:
            live_tables(damaged)
        except ValueError:
            continue


def test_a_table_that_is_named_twice_is_refused() -> None:
    """LevelDB would read it as often as it is named: a small archive would keep it busy for hours."""
    table = lambda level, number, first: b"\x07" + bytes([level, number, 0x10]) + b"\x01" + first + b"\x01z"  # noqa: E731
    for record in (
        fragment(table(0, 5, b"a") + table(0, 5, b"b")),
        fragment(table(0, 5, b"a")) + fragment(table(0, 5, b"b")),
        fragment(table(0, 5, b"a")) + fragment(table(1, 5, b"a")),
    ):
        with pytest.raises(ValueError, match="table 5 twice"):
            live_tables(record)
    moved = fragment(table(0, 5, b"a")) + fragment(b"\x06\x00\x05" + table(1, 5, b"a"))
    assert live_tables(moved) == {5}
