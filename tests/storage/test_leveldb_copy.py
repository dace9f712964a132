"""Copies of a LevelDB that is open and compacts meanwhile."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import plyvel
import pytest

from fastnode.errors import DatabaseError
from fastnode.storage import leveldb_copy
from fastnode.storage.database_files import DATABASE_FILE
from fastnode.storage.leveldb_copy import copy_leveldb, settle_copy


@pytest.fixture
def database(tmp_path: Path) -> Any:
    """Open, with some tables and something in its log; it has nothing left to compact."""
    options = {"write_buffer_size": 64 << 10, "max_file_size": 64 << 10}
    opened = plyvel.DB(str(tmp_path / "source"), create_if_missing=True, **options)
    for number in range(4000):
        opened.put(b"key%d" % number, os.urandom(60))
    opened.compact_range()
    for number in range(4000, 4100):
        opened.put(b"key%d" % number, os.urandom(60))
    yield opened
    opened.close()


def content(path: Path) -> dict[bytes, bytes]:
    opened = plyvel.DB(str(path))
    found = dict(opened)
    opened.close()
    return found


def test_a_copy_has_every_key_and_links_its_tables(database: Any, tmp_path: Path) -> None:
    copy_leveldb(tmp_path / "source", tmp_path / "copy")
    tables = list((tmp_path / "copy").glob("*.ldb"))
    assert tables
    assert all(table.stat().st_nlink == 2 for table in tables)
    settle_copy(tmp_path / "copy")
    assert all(DATABASE_FILE.fullmatch(entry.name) for entry in (tmp_path / "copy").iterdir())
    assert content(tmp_path / "copy") == dict(database)


def test_writing_to_a_copy_leaves_the_source_alone(database: Any, tmp_path: Path) -> None:
    before = dict(database)
    copy_leveldb(tmp_path / "source", tmp_path / "copy")
    other = plyvel.DB(str(tmp_path / "copy"))
    for key in before:
        other.put(key, b"changed")
    other.compact_range()
    other.close()
    database.compact_range()
    assert dict(database) == before


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP])
def test_without_hard_links_tables_are_copied(
    database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    copy_leveldb(tmp_path / "source", tmp_path / "copy")
    assert content(tmp_path / "copy") == dict(database)


def test_a_full_disk_is_not_taken_for_a_lack_of_links(
    database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(OSError, match="No space left"):
        copy_leveldb(tmp_path / "source", tmp_path / "copy")


def test_copies_made_during_compactions_are_whole(database: Any, tmp_path: Path) -> None:
    """Compactions add and delete tables under the copy; what is in the database stays the same."""
    expected = dict(database)
    done = threading.Event()

    def compact() -> None:
        while not done.wait(0.001):
            database.compact_range(start=b"key1", stop=b"key7")
            database.compact_range()

    compacting = threading.Thread(target=compact)
    compacting.start()
    try:
        for number in range(20):
            copy_leveldb(tmp_path / "source", tmp_path / f"copy{number}")
            settle_copy(tmp_path / f"copy{number}")
    finally:
        done.set()
        compacting.join()
    for number in range(20):
        assert content(tmp_path / f"copy{number}") == expected
    assert dict(database) == expected


def test_a_table_that_is_being_written_stays_as_it_is(database: Any, tmp_path: Path) -> None:
    """The copy does not know of it and gives its number to a table of its own."""
    database.compact_range()
    database.put(b"in the log", b"value")
    expected = dict(database)
    database.close()  # at the end of a compaction it removes tables that it does not know
    numbers = [int(file.stem) for file in (tmp_path / "source").iterdir() if file.suffix in (".ldb", ".log")]
    unfinished = [tmp_path / "source" / f"{max(numbers) + ahead:06d}.ldb" for ahead in range(1, 5)]
    for file in unfinished:
        file.write_bytes(b"half a table")
    copy_leveldb(tmp_path / "source", tmp_path / "copy")
    settle_copy(tmp_path / "copy")
    assert [file.read_bytes() for file in unfinished] == [b"half a table"] * len(unfinished)
    assert content(tmp_path / "copy") == expected


def test_a_table_that_vanishes_is_copied_again(database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links = 0
    link = os.link

    def vanish_once(source: Any, target: Any) -> None:
        nonlocal links
        links += 1
        if links == 1:
            raise FileNotFoundError(source)
        link(source, target)

    monkeypatch.setattr(os, "link", vanish_once)
    copy_leveldb(tmp_path / "source", tmp_path / "copy")
    assert content(tmp_path / "copy") == dict(database)


def test_a_database_that_lacks_a_table_is_not_copied(database: Any, tmp_path: Path) -> None:
    database.compact_range()
    table = next((tmp_path / "source").glob("*.ldb"))
    table.rename(tmp_path / "elsewhere")
    with pytest.raises(DatabaseError, match=f"source is damaged: table {table.stem} is missing"):
        copy_leveldb(tmp_path / "source", tmp_path / "copy")
    (tmp_path / "elsewhere").rename(table)


def test_a_database_with_a_damaged_manifest_is_not_copied(database: Any, tmp_path: Path) -> None:
    source = tmp_path / "source"
    manifest = source / (source / "CURRENT").read_text().strip()
    whole = manifest.read_bytes()
    manifest.write_bytes(b"nonsense" * 10_000)
    with pytest.raises(DatabaseError, match="source is damaged: a fragment of kind 115 in its manifest"):
        copy_leveldb(source, tmp_path / "copy")
    manifest.write_bytes(whole)


def test_a_manifest_that_grows_makes_the_copy_begin_again(
    database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables that the manifest names are replaced after it was read and before they are listed."""
    source = tmp_path / "source"
    listed = []
    iterdir = Path.iterdir

    def grow_then_list(path: Path) -> Any:
        if path == source:
            listed.append(path)
            if len(listed) == 1:
                database.put(b"one more", b"value")
                database.compact_range()
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", grow_then_list)
    copy_leveldb(source, tmp_path / "copy")
    assert len(listed) == 2
    assert content(tmp_path / "copy") == dict(database)


def test_a_database_that_never_rests_is_given_up(
    database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leveldb_copy, "_RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr(leveldb_copy, "_try_to_copy", lambda *_: False)
    with pytest.raises(DatabaseError, match="change all the time"):
        copy_leveldb(tmp_path / "source", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_damaged_copy_is_found(database: Any, tmp_path: Path) -> None:
    copy_leveldb(tmp_path / "source", tmp_path / "copy")
    next((tmp_path / "copy").glob("MANIFEST-*")).write_bytes(b"nonsense" * 100)
    with pytest.raises(DatabaseError, match="is damaged"):
        settle_copy(tmp_path / "copy")
