"""Remains of a last write in a log after a power cut, which LevelDB takes for damage."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from fastnode.errors import DataDirectoryError
from fastnode.storage import torn_write
from fastnode.storage.database import SharedDatabase
from fastnode.storage.log_length import WRITTEN_FILE
from fastnode.storage.seal import SEAL_FILE

PAGE: Final = 4096
BLOCK: Final = 32 << 10


def log_of(path: Path) -> Path:
    return max(path.glob("*.log"))


class Torn:
    """A database whose process ended inside its last write, as the disk may have it: ``length`` bytes were synced."""

    def __init__(self, path: Path, last: int, *, is_noted: bool = True) -> None:
        database = SharedDatabase.open(path, create=True)
        for number in range(20):
            database.write([(b"key %d" % number, b"%d" % number * 700)])
        self.length = log_of(path).stat().st_size
        note = (path / WRITTEN_FILE).read_bytes()
        database.write([(b"last", b"\x07" * last)])
        self.path = path.with_name("torn")
        shutil.copytree(path, self.path)
        (self.path / WRITTEN_FILE).write_bytes(note if is_noted else b"")
        self.log = log_of(self.path)
        self.whole = self.log.read_bytes()
        database.release()

    def require(self, *, has_last: bool = False) -> None:
        database = SharedDatabase.open(self.path, create=False)
        assert [database.get(b"key %d" % number) for number in range(20)] == [b"%d" % n * 700 for n in range(20)]
        assert (database.get(b"last") is not None) is has_last
        database.write([(b"more", b"")])
        database.release()


@pytest.mark.parametrize("last", [100, 3 * PAGE, 3 * BLOCK])
@pytest.mark.parametrize("is_noted", [True, False])
def test_a_last_write_that_a_power_cut_has_torn_is_cut_off(tmp_path: Path, last: int, is_noted: bool) -> None:
    torn = Torn(tmp_path / "database", last, is_noted=is_noted)
    size, ends = len(torn.whole), [torn.length + 1, torn.length + 60, (torn.length + len(torn.whole)) // 2]
    for place in ends:
        for content in (
            torn.whole[:place],
            torn.whole[:place] + bytes(size - place),
            torn.whole[:place] + bytes(min(PAGE, size - place)) + torn.whole[place + PAGE :],
            torn.whole[: torn.length] + bytes(place - torn.length) + torn.whole[place:],
        ):
            shutil.rmtree(tmp_path / "tried", ignore_errors=True)
            shutil.copytree(torn.path, tmp_path / "tried")
            (tmp_path / "tried" / torn.log.name).write_bytes(content)
            tried = Torn.__new__(Torn)
            tried.path = tmp_path / "tried"
            tried.require()


def test_a_last_write_that_is_whole_stays_though_nobody_was_told_of_it(tmp_path: Path) -> None:
    Torn(tmp_path / "database", 3 * BLOCK).require(has_last=True)


# ---- the manifest ---------------------------------------------------------------------------------------


def manifest_of(path: Path) -> Path:
    return path / (path / "CURRENT").read_text().strip()


class TornChange:
    """A database whose process ended while it noted a new table, as the disk may have it."""

    def __init__(self, path: Path) -> None:
        database = SharedDatabase.open(path, create=True)
        database.write([(b"first", bytes(100))])
        database.compact()
        database.write([(b"last", b"\x07" * 100)])
        self.path = path.with_name("torn")
        shutil.copytree(path, self.path)
        self.length = manifest_of(path).stat().st_size
        database.compact()
        self.whole = manifest_of(path).read_bytes()
        #: After the change the log before it goes, and a table that was merged.
        self.after = path.with_name("after")
        shutil.copytree(path, self.after)
        database.release()

    def require(self) -> None:
        database = SharedDatabase.open(self.path, create=False)
        assert [database.get(b"first"), database.get(b"last")] == [bytes(100), b"\x07" * 100]
        database.write([(b"more", b"")])
        database.compact()
        database.release()
        reopened = SharedDatabase.open(self.path, create=False)
        assert reopened.get(b"more") == b""
        reopened.release()


def torn_changes(torn: TornChange) -> list[bytes]:
    size, ends = len(torn.whole), [torn.length + 3, torn.length + 9, (torn.length + len(torn.whole)) // 2]
    return [
        content
        for place in ends
        for content in (
            torn.whole[:place],
            torn.whole[:place] + bytes(size - place),
            torn.whole[: torn.length] + bytes(place - torn.length) + torn.whole[place:],
        )
    ]


def test_a_change_of_the_tables_that_a_power_cut_has_torn_is_cut_off(tmp_path: Path) -> None:
    torn = TornChange(tmp_path / "database")
    before = shutil.copytree(torn.path, tmp_path / "before")
    for content in torn_changes(torn):
        shutil.rmtree(torn.path)
        shutil.copytree(before, torn.path)
        manifest_of(torn.path).write_bytes(content)
        torn.require()


def test_a_damaged_change_is_damage_where_something_is_gone_since_or_another_one_follows(tmp_path: Path) -> None:
    torn = TornChange(tmp_path / "database")
    for place in (torn.length + 20, len(torn.whole) - 1):
        content = bytearray(torn.whole)
        content[place] ^= 1
        manifest_of(torn.after).write_bytes(content)
        with pytest.raises(DataDirectoryError, match="is damaged"):
            SharedDatabase.open(torn.after, create=False)
        assert manifest_of(torn.after).read_bytes() == content


def test_a_damaged_beginning_of_a_manifest_is_damage(tmp_path: Path) -> None:
    """Before the first change that names a log no manifest is used."""
    path = tmp_path / "database"
    database = SharedDatabase.open(path, create=True)
    database.write([(b"key", b"")])
    database.release()
    SharedDatabase.open(path, create=False).release()
    (path / SEAL_FILE).unlink()
    content = bytearray(manifest_of(path).read_bytes())
    content[-1] ^= 1
    manifest_of(path).write_bytes(content)
    with pytest.raises(DataDirectoryError, match="is damaged"):
        SharedDatabase.open(path, create=False)
    assert manifest_of(path).read_bytes() == content


def test_a_damaged_change_of_a_closed_database_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "database"
    database = SharedDatabase.open(path, create=True)
    database.write([(b"key", b"")])
    database.release()
    content = bytearray(manifest_of(path).read_bytes())
    content[-1] ^= 1
    manifest_of(path).write_bytes(content)
    with pytest.raises(DataDirectoryError, match="is damaged"):
        SharedDatabase.open(path, create=False)
    assert manifest_of(path).read_bytes() == content


FIRST: Final = "MANIFEST-000001"


def in_creation(path: Path, content: bytes) -> Path:
    """A database with ten keys in its log, as a disk may have it that has not taken the new name of its manifest."""
    database = SharedDatabase.open(path, create=True)
    database.write([(b"key %d" % number, b"%d" % number) for number in range(10)])
    torn = Path(shutil.copytree(path, path.with_name("torn")))
    database.release()
    (torn / (torn / "CURRENT").read_text().strip()).unlink()
    (torn / "CURRENT").write_text(f"{FIRST}\n")
    (torn / FIRST).write_bytes(content)
    return torn


def test_a_creation_that_a_power_cut_has_torn_is_finished(tmp_path: Path) -> None:
    """LevelDB does not wait for the first manifest to be on the disk."""
    whole = torn_write._FIRST_CONTENT
    for length in range(len(whole) + 1):
        for content in (whole[:length], whole[:length] + bytes(len(whole) - length)):
            torn = in_creation(tmp_path / "database", content)
            database = SharedDatabase.open(torn, create=False)
            assert [database.get(b"key %d" % number) for number in range(10)] == [b"%d" % n for n in range(10)]
            database.release()
            for folder in (torn, torn.with_name("database")):
                shutil.rmtree(folder)


def test_a_first_manifest_with_anything_else_in_it_is_refused(tmp_path: Path) -> None:
    whole = torn_write._FIRST_CONTENT
    torn = in_creation(tmp_path / "database", whole[:20] + b"?" + whole[21:])
    with pytest.raises(DataDirectoryError, match="is damaged"):
        SharedDatabase.open(torn, create=False)
