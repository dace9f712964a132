"""A log that lost acknowledged writes is read up to the first one that is missing, and no further."""

from __future__ import annotations

import logging
import os
import random
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from fastnode.storage.database import DatabaseMemory, SharedDatabase
from fastnode.storage.leveldb_log import log_records
from fastnode.storage.log_length import WRITTEN_FILE, noted
from fastnode.storage.log_recovery import recover_logs
from fastnode.storage.seal import SEAL_FILE

WRITES: Final = 60
BLOCK: Final = 32 << 10
TIP: Final = b"tip"
MESSAGE: Final = "database recovered: its log lost acknowledged writes"


def log_of(path: Path) -> Path:
    return max(path.glob("*.log"), key=lambda file: int(file.stem))


def write(database: SharedDatabase, numbers: range, dice: random.Random) -> None:
    for number in numbers:
        value = dice.randbytes(dice.choice([1, 300, 3000, 40_000]))
        database.write([(b"key %d" % number, value), (TIP, number.to_bytes(4, "big") + bytes(12))])


def open_counted(path: Path, *, create: bool = False) -> SharedDatabase:
    return SharedDatabase.open(path, create=create, height_key=TIP)


@pytest.fixture(params=["closed", "killed"])
def directory(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A database whose first twenty writes are in tables, the others in the log."""
    path, dice = tmp_path / "made", random.Random(7)
    database = open_counted(path, create=True)
    write(database, range(1, 21), dice)
    database.compact()
    write(database, range(21, WRITES + 1), dice)
    if request.param == "killed":
        shutil.copytree(path, tmp_path / "database")
        database.release()
    else:
        # A longer log would be put into a table.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fastnode.storage.database.LOG_LEFT_BYTES_MAX", 64 << 20)
            database.release()
        path.rename(tmp_path / "database")
    assert (tmp_path / "database" / SEAL_FILE).exists() is (request.param == "closed")
    return tmp_path / "database"


def require_prefix(path: Path) -> int:
    """The database holds the writes up to one of them, none behind it, and takes more; returns that one's number."""
    database = open_counted(path)
    value = database.get(TIP)
    assert value is not None
    height = int.from_bytes(value[:4], "big")
    assert [database.get(b"key %d" % number) is not None for number in range(1, WRITES + 1)] == [
        number <= height for number in range(1, WRITES + 1)
    ]
    write(database, range(height + 1, WRITES + 1), random.Random(8))
    database.release()
    assert recover_logs(path) is None
    database = open_counted(path)
    assert database.get(b"key %d" % WRITES) is not None
    database.release()
    return height


def cut(content: bytes, dice: random.Random) -> bytes:
    return content[: dice.randrange(len(content))]


def cut_little(content: bytes, dice: random.Random) -> bytes:
    return content[: -dice.randint(1, 700)]


def clear_end(content: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(len(content))
    return content[:place] + bytes(len(content) - place)


def clear_block(content: bytes, dice: random.Random) -> bytes:
    """From one record to the next block: LevelDB skips that without a word."""
    places = [record.end for record in log_records(content)][:-1]
    place = dice.choice([0, *places])
    length = BLOCK - place % BLOCK
    return (content[:place] + bytes(length) + content[place + length :])[: len(content)]


def clear_page(content: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(0, len(content), 4096)
    return (content[:place] + bytes(4096) + content[place + 4096 :])[: len(content)]


def flip(content: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << dice.randrange(8)]) + content[place + 1 :]


@pytest.mark.parametrize("damage", [cut, cut_little, clear_end, clear_block, clear_page, flip])
def test_a_log_is_read_up_to_the_first_write_that_is_lost(
    directory: Path,
    damage: Callable[[bytes, random.Random], bytes],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for number in range(5):
        dice = random.Random(f"{damage.__name__} {number}")
        path = Path(shutil.copytree(directory, tmp_path / str(number)))
        log = log_of(path)
        log.write_bytes(damage(log.read_bytes(), dice))
        caplog.clear()
        with caplog.at_level(logging.WARNING, "fastnode"):
            height = require_prefix(path)
        if height == WRITES:  # the damage was in what is not read: nothing was lost
            assert MESSAGE not in caplog.messages
            continue
        assert height >= 20
        (record,) = [record for record in caplog.records if record.message == MESSAGE]
        facts = record.facts  # type: ignore[attr-defined]
        assert (facts["block"], facts["blocks_lost"]) == (height, WRITES - height)
        assert facts["file"] == log.name
        shutil.rmtree(path)


def test_a_log_that_is_missing_leaves_what_the_tables_have(directory: Path) -> None:
    log_of(directory).unlink()
    assert require_prefix(directory) == 20


def test_the_log_of_another_database_is_not_read(directory: Path, tmp_path: Path) -> None:
    """Its records are whole and continue the sequence: only the head tells."""
    other, dice = tmp_path / "other", random.Random(9)
    database = open_counted(other, create=True)
    write(database, range(1, 21), dice)
    database.compact()
    write(database, range(21, WRITES + 1), dice)
    shutil.copy(log_of(other), log_of(directory))
    database.release()
    assert require_prefix(directory) == 20


def two_logs(path: Path) -> Path:
    """A database that was killed while the first of two logs was being written into a table."""
    database = SharedDatabase.open(
        path, create=True, height_key=TIP, memory=DatabaseMemory(write_buffer_bytes=64 << 10)
    )
    first, dice, number = log_of(path), random.Random(5), 1
    while log_of(path) == first:
        shutil.rmtree(path.with_name("before"), ignore_errors=True)
        shutil.copytree(path, path.with_name("before"))
        write(database, range(number, number + 1), dice)
        number += 1
    killed = path.with_name("before")
    newer = log_of(path)
    shutil.copy(newer, killed / newer.name)
    shutil.copy(path / WRITTEN_FILE, killed / WRITTEN_FILE)
    database.release()
    return killed


@pytest.mark.parametrize("loss", ["none", "end", "record", "all", "newer"])
def test_nothing_is_read_behind_a_gap_between_two_logs(tmp_path: Path, loss: str) -> None:
    path = two_logs(tmp_path / "database")
    first, newer = sorted(path.glob("*.log"))
    records = list(log_records(first.read_bytes()))
    count = len(records)
    if loss == "end":
        first.write_bytes(first.read_bytes()[:-1])
    elif loss == "record":
        first.write_bytes(first.read_bytes()[: records[-2].end])
    elif loss == "all":
        first.unlink()
    elif loss == "newer":
        newer.unlink()
    expected = {"none": count + 1, "end": count - 1, "record": count - 1, "all": 0, "newer": count}[loss]
    database = SharedDatabase.open(path, create=False, height_key=TIP)
    found = [number for number in range(1, count + 2) if database.get(b"key %d" % number) is not None]
    assert found == list(range(1, expected + 1))
    database.release()


def test_a_recovery_that_was_interrupted_is_done_again(tmp_path: Path) -> None:
    path = two_logs(tmp_path / "database")
    first, newer = sorted(path.glob("*.log"))
    content = first.read_bytes()
    first.write_bytes(content[: list(log_records(content))[-2].end])
    newer_content = newer.read_bytes()
    assert recover_logs(path) is not None
    newer.write_bytes(newer_content)
    lost = recover_logs(path)
    assert lost is not None
    assert lost.height == noted(path).height  # type: ignore[union-attr]
    assert not newer.exists() or not newer.stat().st_size


def test_the_note_of_an_older_version_is_read(directory: Path) -> None:
    log = log_of(directory)
    facts = struct.pack(">QQ", int(log.stem), log.stat().st_size)
    (directory / WRITTEN_FILE).write_bytes(facts + struct.pack(">I", zlib.crc32(facts)))
    (directory / SEAL_FILE).unlink(missing_ok=True)
    records = list(log_records(log.read_bytes()))
    log.write_bytes(log.read_bytes()[: records[-2].end])
    lost = recover_logs(directory)
    assert lost is not None
    assert (lost.log, lost.height) == (log.name, 0)
    assert require_prefix(directory) == WRITES - 1


def test_a_loss_that_is_found_after_a_failed_write_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk took back what it had acknowledged, and then refused a write: the database is reopened while it runs."""
    path = tmp_path / "database"
    database = open_counted(path, create=True)
    write(database, range(1, 5), random.Random(3))
    records = list(log_records(log_of(path).read_bytes()))
    os.truncate(log_of(path), records[-2].end)
    database._failure = "cannot write"
    with caplog.at_level(logging.WARNING, "fastnode"):
        database.reopen()
    (record,) = [record for record in caplog.records if record.message == MESSAGE]
    assert record.facts["blocks_lost"] == 1  # type: ignore[attr-defined]
    assert (database.get(b"key 3") is not None, database.get(b"key 4")) == (True, None)
    database.release()
