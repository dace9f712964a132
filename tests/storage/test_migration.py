"""Databases of older layouts, brought up to date."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fastnode.errors import DataDirectoryError
from fastnode.storage.database import SharedDatabase
from fastnode.storage.migration import Batch, Migration, bring_up_to_date, version_after

VERSION_KEY = b"version"


def record(version: int) -> tuple[bytes, bytes]:
    return VERSION_KEY, b"%d" % version


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SharedDatabase]:
    database = SharedDatabase.open(tmp_path / "database", create=True)
    database.write([record(1), (b"a", b"1"), (b"b", b"2")])
    yield database
    database.release()


def doubled(key: bytes) -> Migration:
    """A step that may be begun twice: it knows what it has done already."""

    def step(database: SharedDatabase) -> Iterator[Batch]:
        value = database.get(key)
        assert value is not None
        if len(value) % 2:
            yield [(key, value * 2)]
        yield [(b"doubled " + key, b"")]

    return step


def test_an_older_database_takes_every_step_in_order(database: SharedDatabase) -> None:
    migrations = (doubled(b"a"), doubled(b"b"))
    assert version_after(migrations) == 3
    bring_up_to_date(database, 1, migrations, record)
    assert [database.get(key) for key in (VERSION_KEY, b"a", b"b")] == [b"3", b"11", b"22"]


def test_a_database_of_this_version_stays_as_it_is(database: SharedDatabase) -> None:
    bring_up_to_date(database, 3, (doubled(b"a"), doubled(b"b")), record)
    assert [database.get(key) for key in (VERSION_KEY, b"a")] == [b"1", b"1"]


def test_a_step_without_anything_to_write_still_names_its_version(database: SharedDatabase) -> None:
    bring_up_to_date(database, 1, (lambda _database: (),), record)
    assert database.get(VERSION_KEY) == b"2"


@pytest.mark.parametrize("writes", [0, 1, 2, 3])
def test_a_migration_that_is_interrupted_goes_on_with_the_next_start(database: SharedDatabase, writes: int) -> None:
    migrations = (doubled(b"a"), doubled(b"b"))

    class Stopping:
        """The same database, which is lost after some writes."""

        path = database.path
        get = staticmethod(database.get)
        left = writes

        def write(self, changes: Batch) -> None:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            database.write(changes)

    with pytest.raises(KeyboardInterrupt):
        bring_up_to_date(Stopping(), 1, migrations, record)  # type: ignore[arg-type]
    reached = int(database.get(VERSION_KEY) or b"0")
    assert reached == 1 + writes // 2
    bring_up_to_date(database, reached, migrations, record)
    assert [database.get(key) for key in (VERSION_KEY, b"a", b"b")] == [b"3", b"11", b"22"]


@pytest.mark.parametrize(("found", "reason"), [(4, "newer than this fastnode's 3"), (0, "which no fastnode wrote")])
def test_an_unknown_version_is_refused(database: SharedDatabase, found: int, reason: str) -> None:
    with pytest.raises(DataDirectoryError, match=f"has schema {found}, {reason}"):
        bring_up_to_date(database, found, (doubled(b"a"), doubled(b"b")), record)
    assert database.get(b"a") == b"1"
