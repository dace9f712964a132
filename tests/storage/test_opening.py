"""Databases that another thread opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastnode.errors import DataDirectoryError
from fastnode.storage.database import SharedDatabase
from fastnode.storage.opening import OpeningDatabase


def opening(path: Path, *, create: bool = True) -> OpeningDatabase:
    return OpeningDatabase(lambda: SharedDatabase.open(path, create=create))


def test_who_takes_it_owns_it(tmp_path: Path) -> None:
    with_another_thread = opening(tmp_path / "one")
    database = with_another_thread.take()
    with_another_thread.close()
    database.write([(b"key", b"value")])
    assert database.get(b"key") == b"value"
    database.release()


def test_what_nothing_takes_is_closed(tmp_path: Path) -> None:
    never_taken = opening(tmp_path / "one")
    never_taken.close()
    never_taken.close()
    SharedDatabase.open(tmp_path / "one", create=False).release()


def test_its_error_comes_when_it_is_taken(tmp_path: Path) -> None:
    missing = opening(tmp_path / "one", create=False)
    with pytest.raises(DataDirectoryError, match="holds no fastnode database"):
        missing.take()
    missing.close()
