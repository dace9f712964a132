"""Write transactions, shared ownership, and a disk that refuses."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastnode.errors import DatabaseError, DatabaseFull
from fastnode.storage.database import (
    LOG_LEFT_BYTES_MAX,
    ROOM_BYTES,
    SharedDatabase,
    WriteBatch,
    log_bytes,
    open_leveldb,
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SharedDatabase]:
    path = tmp_path / "database"
    shared = SharedDatabase(open_leveldb(path, create=True), path)
    yield shared
    if not shared.closed:
        shared.release()


def test_only_the_transaction_itself_sees_its_changes(database: SharedDatabase) -> None:
    database.write([(b"kept", b"1"), (b"dropped", b"2")])
    batch = WriteBatch(database)
    batch.put(b"new", b"3")
    batch.delete(b"dropped")
    assert [batch.get(key) for key in (b"kept", b"dropped", b"new")] == [b"1", None, b"3"]
    assert [database.get(key) for key in (b"kept", b"dropped", b"new")] == [b"1", b"2", None]
    batch.commit()
    assert [database.get(key) for key in (b"kept", b"dropped", b"new")] == [b"1", None, b"3"]


def test_the_last_change_of_a_key_wins(database: SharedDatabase) -> None:
    batch = WriteBatch(database)
    batch.put(b"a", b"1")
    batch.delete(b"a")
    batch.delete(b"b")
    batch.put(b"b", b"2")
    batch.commit()
    assert (database.get(b"a"), database.get(b"b")) == (None, b"2")


def test_the_last_owner_closes(database: SharedDatabase) -> None:
    database.acquire()
    database.release()
    assert not database.closed
    database.release()
    assert database.closed
    with pytest.raises(DatabaseError, match="is closed"):
        database.acquire()


def test_a_long_log_is_not_left_to_the_next_start(database: SharedDatabase) -> None:
    written = [(number.to_bytes(4), bytes([number % 251]) * 1000) for number in range(1000)]
    database.write(written[:100])
    database.write(written[100:])
    assert log_bytes(database.path) > 1_000_000
    database.release()
    assert log_bytes(database.path) == 0
    again = SharedDatabase.open(database.path, create=False)
    assert [again.get(key) for key, _ in written] == [value for _, value in written]
    again.release()


def test_a_short_log_is_left_as_it_is(database: SharedDatabase) -> None:
    database.write([(b"key", b"value")])
    database.release()
    assert 0 < log_bytes(database.path) < LOG_LEFT_BYTES_MAX
    again = SharedDatabase.open(database.path, create=False)
    assert again.get(b"key") == b"value"
    again.release()


def test_an_empty_database_is_told_from_one_with_a_key(database: SharedDatabase) -> None:
    assert database.is_empty()
    database.write([(b"key", b"")])
    assert not database.is_empty()


FILE_BYTES_MAX = 300_000

WRITE_UNTIL_REFUSED = textwrap.dedent(
    """
    import resource, signal, sys
    from pathlib import Path
    from fastnode.storage.database import SharedDatabase, open_leveldb
    from fastnode.errors import DatabaseError, DatabaseFull

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    path, limit = Path(sys.argv[1]), int(sys.argv[2])
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))
    database = SharedDatabase(open_leveldb(path, create=True), path)
    written = 0
    try:
        while True:
            database.write([(b"%08d" % written, bytes(10_000))])
            written += 1
    except DatabaseError as error:
        first = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)  # there is room again, but the log may end in half a record
    try:
        database.write([(b"small", b"")])
    except DatabaseError as error:
        assert str(error) == first
        print(written)
        print(first)
    database.release()
    """
)


def test_after_a_write_that_the_disk_refused_nothing_is_written_any_more(tmp_path: Path) -> None:
    """The limit stands in for a full disk; each refusal must be seen, and what was written before must be whole."""
    path = tmp_path / "database"
    result = subprocess.run(
        [sys.executable, "-c", WRITE_UNTIL_REFUSED, str(path), str(FILE_BYTES_MAX)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    written, message = result.stdout.splitlines()
    assert message.startswith(f"cannot write the database {path}: ")
    assert "File too large" in message
    database = SharedDatabase(open_leveldb(path, create=False), path)
    assert [database.get(b"%08d" % number) for number in range(int(written))] == [bytes(10_000)] * int(written)
    assert database.get(b"small") is None
    database.release()


# ---- no room -------------------------------------------------------------------------------------------


def test_nothing_is_begun_without_room_and_all_goes_on_when_there_is_some(
    database: SharedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LevelDB itself does not recover from a write that the disk refused."""
    database.write([(b"before", b"1")])
    monkeypatch.setattr("fastnode.storage.database.free_bytes", lambda path: ROOM_BYTES + 100)
    with pytest.raises(DatabaseFull, match=f"the disk of {database.path} is full: .* make room"):
        database.write([(b"large", bytes(1000))])
    database.write([(b"small", b"2")])
    assert database.fault is None
    monkeypatch.setattr("fastnode.storage.database.free_bytes", lambda path: 0)
    with pytest.raises(DatabaseFull):
        database.write([(b"lost", b"3")])
    assert database.fault is not None
    assert "is full: 513 MiB more must be free" in database.fault
    assert [database.get(key) for key in (b"before", b"small", b"lost")] == [b"1", b"2", None]
    monkeypatch.undo()
    assert database.fault is None
    database.write([(b"after", b"4")])
    assert database.get(b"after") == b"4"
