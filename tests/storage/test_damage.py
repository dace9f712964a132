"""Damage to the files of a database is seen: before it is opened, and at the read that meets it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from fastnode.errors import DatabaseUnreadable, DatabaseUnwritable, DataDirectoryError
from fastnode.storage.database import (
    DatabaseMemory,
    SharedDatabase,
    databases_without_seal,
    end_databases,
    open_leveldb,
)
from fastnode.storage.database_files import fault_of_files
from fastnode.storage.log_length import WRITTEN_FILE, noted
from fastnode.storage.seal import SEAL_FILE, check_seal
from fastnode.storage.table_files import damaged_tables

REMEDY = "throw it away"
KEYS = [b"%05d" % number for number in range(2000)]


def value_of(key: bytes) -> bytes:
    return Random(key).randbytes(100)


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A database with one table and a log that holds one more key."""
    path = tmp_path / "database"
    database = SharedDatabase.open(path, create=True)
    database.write([(key, value_of(key)) for key in KEYS])
    database.compact()
    database.write([(b"newest", b"value")])
    database.release()
    return path


def table_of(path: Path) -> Path:
    """The one with the keys."""
    return max(path.glob("*.ldb"), key=lambda file: file.stat().st_size)


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def reopened(path: Path) -> SharedDatabase:
    return SharedDatabase.open(path, create=False, remedy=REMEDY)


# ---- a block --------------------------------------------------------------------------------------------


def read_by_get(database: SharedDatabase) -> list[bytes | None]:
    return [database.get(key) for key in KEYS]


def read_by_snapshot(database: SharedDatabase) -> list[bytes | None]:
    snapshot = database.snapshot()
    try:
        return [snapshot.get(key) for key in KEYS]
    finally:
        snapshot.close()


def read_by_iterator(database: SharedDatabase) -> list[bytes | None]:
    snapshot = database.snapshot()
    try:
        with snapshot.iterator(prefix=b"0") as pairs:
            return [value for _, value in pairs]
    finally:
        snapshot.close()


def read_by_seeks(database: SharedDatabase) -> list[bytes | None]:
    snapshot = database.snapshot()
    try:
        seeks = snapshot.raw_iterator()
        values: list[bytes | None] = []
        for key in KEYS:
            found = seeks.first(key)
            values.append(None if found is None else found[1])
        seeks.close()
        return values
    finally:
        snapshot.close()


@pytest.mark.parametrize("read", [read_by_get, read_by_snapshot, read_by_iterator, read_by_seeks])
def test_a_flipped_bit_is_an_error_of_every_kind_of_read(
    closed: Path, read: Callable[[SharedDatabase], list[bytes | None]], caplog: pytest.LogCaptureFixture
) -> None:
    database = reopened(closed)
    assert read(database) == [value_of(key) for key in KEYS]
    assert database.fault is None
    database.release()
    table = table_of(closed)
    flip(table, table.stat().st_size // 2)
    database = reopened(closed)
    with caplog.at_level(logging.ERROR, "fastnode"), pytest.raises(DatabaseUnreadable, match=r"is damaged .*; throw"):
        read(database)
    assert database._damage.wait(60)
    assert database.fault is not None
    assert f"the database {closed} is damaged in the table {table.name}: the checksum of the block" in database.fault
    assert database.fault.endswith(REMEDY)
    (line,) = caplog.messages
    assert table.name in line
    database.release()


def test_what_lies_in_other_blocks_is_still_read(closed: Path) -> None:
    table = table_of(closed)
    flip(table, table.stat().st_size // 2)
    database = reopened(closed)
    found = 0
    for key in KEYS:
        try:
            assert database.get(key) == value_of(key)
            found += 1
        except DatabaseUnreadable:
            pass
    assert len(KEYS) - 20 < found < len(KEYS)
    database.release()


def test_a_bit_that_flips_while_the_database_is_open_is_found_too(closed: Path) -> None:
    database = reopened(closed)
    assert read_by_get(database) == [value_of(key) for key in KEYS]
    table = table_of(closed)
    with table.open("r+b") as file:
        file.seek(table.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(DatabaseUnreadable):
        read_by_get(database)
    database.release()


def test_a_write_behind_a_compaction_that_met_damage_says_that_it_is_damaged(closed: Path) -> None:
    """And not that the disk cannot be written, which would have an operator look for room."""
    table = table_of(closed)
    flip(table, table.stat().st_size // 2)
    database = reopened(closed)
    database.write([(KEYS[0], b"another value")])
    database.compact()
    with pytest.raises(DatabaseUnwritable, match=rf"which is damaged .*checksum mismatch.*; {REMEDY}"):
        database.write([(b"newest", b"another value")])
    assert database._damage.wait(60)
    assert database.fault is not None
    assert f"is damaged in the table {table.name}" in database.fault
    database.release()


def test_the_search_for_damaged_tables_names_all_of_them(closed: Path) -> None:
    assert damaged_tables(closed) == {}
    table = table_of(closed)
    flip(table, 7)
    assert damaged_tables(closed) == {table.name: "the checksum of the block at byte 0 is wrong"}


def test_a_table_that_is_being_written_is_not_damaged(closed: Path) -> None:
    """LevelDB merges tables of a database that was opened a moment ago."""
    (closed / "000099.ldb").write_bytes(table_of(closed).read_bytes()[:-5])
    assert damaged_tables(closed) == {}
    manifest_of(closed).unlink()  # nobody knows which tables count
    assert "there is no footer" in damaged_tables(closed)["000099.ldb"]


# ---- the files ------------------------------------------------------------------------------------------


def manifest_of(path: Path) -> Path:
    return path / (path / "CURRENT").read_text().strip()


def log_of(path: Path) -> Path:
    """The newest one."""
    return max(path.glob("*.log"), key=lambda file: int(file.stem))


def remove_current(path: Path) -> str:
    (path / "CURRENT").unlink()
    return "CURRENT is missing"


def empty_current(path: Path) -> str:
    (path / "CURRENT").write_bytes(b"")
    return "CURRENT names no manifest"


def clear_current(path: Path) -> str:
    (path / "CURRENT").write_bytes(bytes(16))
    return "CURRENT names no manifest"


def remove_manifest(path: Path) -> str:
    manifest = manifest_of(path)
    manifest.unlink()
    return f"{manifest.name} is missing"


def remove_table(path: Path) -> str:
    table = table_of(path)
    table.unlink()
    return f"{table.name} is missing"


def cut_table(path: Path) -> str:
    table = table_of(path)
    size = table.stat().st_size
    table.write_bytes(table.read_bytes()[:-1])
    return f"{table.name} has {size - 1} bytes instead of {size}"


def forge_footer(path: Path) -> str:
    """An index of four exabytes: taking that much memory would end the process."""
    table = table_of(path)
    content = bytearray(table.read_bytes())
    content[-48:-8] = b"\0\0\0" + b"\xff" * 8 + b"\x3f" + bytes(28)
    table.write_bytes(content)
    return f"{table.name} has no footer that makes sense"


@pytest.mark.parametrize("is_sealed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize(
    "damage",
    [remove_current, empty_current, clear_current, remove_manifest, remove_table, cut_table, forge_footer],
)
def test_a_database_with_a_damaged_file_is_refused_and_left_as_it_is(
    closed: Path, damage: Callable[[Path], str], is_sealed: bool
) -> None:
    if not is_sealed:
        (closed / SEAL_FILE).unlink()
    what = damage(closed)
    before = {file.name: file.read_bytes() for file in closed.iterdir()}
    for create in (False, True):
        with pytest.raises(DataDirectoryError) as refusal:
            SharedDatabase.open(closed, create=create, remedy=REMEDY)
        assert str(refusal.value) == f"the database {closed} is damaged: {what}; {REMEDY}"
    assert {file.name: file.read_bytes() for file in closed.iterdir()} == before


def test_a_log_that_a_crash_cut_off_is_read_as_far_as_it_goes(closed: Path) -> None:
    (closed / SEAL_FILE).unlink()
    (closed / WRITTEN_FILE).unlink()  # a write that was not on disk was not noted
    log = log_of(closed)
    log.write_bytes(log.read_bytes()[:-3])
    database = reopened(closed)
    assert database.get(b"newest") is None
    assert database.get(KEYS[0]) == value_of(KEYS[0])
    database.release()


def test_a_note_that_is_damaged_says_nothing(closed: Path) -> None:
    (closed / SEAL_FILE).unlink()
    flip(closed / WRITTEN_FILE, 12)
    log = log_of(closed)
    log.write_bytes(log.read_bytes()[:-3])
    reopened(closed).release()


def test_a_log_that_follows_a_full_one_is_the_one_that_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "database"
    database = SharedDatabase.open(path, create=True, memory=DatabaseMemory(write_buffer_bytes=64 << 10))
    first = log_of(path)
    while log_of(path) == first:
        database.write([(b"key", bytes(4096))])
    while first.exists():  # a thread of LevelDB writes its table and removes it, maybe while the folder is copied
        time.sleep(0.01)
    found = noted(path)
    assert found is not None
    log = log_of(path)
    assert (found.number, found.length) == (int(log.stem), log.stat().st_size)
    database.release()


def test_a_creation_that_was_cut_short_is_taken_up_again(tmp_path: Path) -> None:
    path = tmp_path / "database"
    path.mkdir()
    (path / "MANIFEST-000001").write_bytes(b"half")
    (path / "LOCK").touch()
    database = SharedDatabase.open(path, create=True)
    assert database.is_empty()
    database.release()


# ---- the seal -------------------------------------------------------------------------------------------


def test_a_database_that_is_ended_is_sealed_under_its_readers(closed: Path) -> None:
    database = reopened(closed)
    database.acquire()
    snapshot = database.snapshot()
    assert closed in databases_without_seal()
    end_databases(closed.parent)
    assert (closed / SEAL_FILE).is_file()
    assert closed not in databases_without_seal()
    with pytest.raises(RuntimeError):
        snapshot.get(KEYS[0])
    snapshot.close()
    database.release()
    database.release()
    reopened(closed).release()


def test_an_open_database_is_not_sealed(closed: Path) -> None:
    assert (closed / SEAL_FILE).is_file()
    assert check_seal(closed).fault is None
    database = reopened(closed)
    assert not (closed / SEAL_FILE).exists()
    database.release()
    assert check_seal(closed).fault is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"files":{"000099.log":{"bytes":1}},"crc32":1}'])
def test_a_damaged_seal_says_nothing(closed: Path, content: bytes) -> None:
    (closed / SEAL_FILE).write_bytes(content)
    assert check_seal(closed).fault is None
    reopened(closed).release()


def test_a_database_that_was_damaged_while_it_was_open_is_not_sealed(closed: Path) -> None:
    flip(table_of(closed), 7)
    database = reopened(closed)
    with pytest.raises(DatabaseUnreadable):
        database.get(KEYS[0])
    database.release()
    assert not (closed / SEAL_FILE).exists()


def test_a_folder_without_a_database_has_no_fault(tmp_path: Path) -> None:
    assert fault_of_files(tmp_path) is None
    assert fault_of_files(tmp_path / "not there") is None
    with pytest.raises(DataDirectoryError, match="holds no fastnode database"):
        open_leveldb(tmp_path / "not there", create=False)
