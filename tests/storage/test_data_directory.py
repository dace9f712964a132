"""The data directory: one user at a time, and one sentence when it cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastnode.errors import DataDirectoryError
from fastnode.storage.data_directory import LOCK_FILE, DataDirectory


def test_a_data_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    with DataDirectory.open(tmp_path / "a" / "b", create=True) as directory:
        assert directory.path.is_dir()
        assert not directory.is_temporary
        assert (directory.path / LOCK_FILE).read_text() == f"{os.getpid()}\n"


def test_a_missing_data_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataDirectoryError, match=f"there is no data directory {tmp_path}/a"):
        DataDirectory.open(tmp_path / "a", create=False)


def test_a_second_user_is_told_the_process_of_the_first(tmp_path: Path) -> None:
    with (
        DataDirectory.open(tmp_path, create=True),
        pytest.raises(DataDirectoryError, match=f"{tmp_path} is in use by fastnode process {os.getpid()}$"),
    ):
        DataDirectory.open(tmp_path, create=True)


def test_a_lock_without_a_process_id_is_still_a_lock(tmp_path: Path) -> None:
    with DataDirectory.open(tmp_path, create=True):
        (tmp_path / LOCK_FILE).write_text("")
        with pytest.raises(DataDirectoryError, match="in use by another fastnode process"):
            DataDirectory.open(tmp_path, create=True)


def test_a_closed_data_directory_can_be_used_again(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path, create=True)
    directory.close()
    directory.close()
    DataDirectory.open(tmp_path, create=False).close()


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from fastnode.storage.data_directory import DataDirectory;"
        "DataDirectory.open(Path(sys.argv[1]), create=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False).returncode == -9
    assert (tmp_path / LOCK_FILE).exists()
    DataDirectory.open(tmp_path, create=True).close()


def test_a_file_in_the_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataDirectoryError, match=f"{tmp_path}/file cannot be used: it is a file"):
        DataDirectory.open(tmp_path / "file", create=True)
    with pytest.raises(DataDirectoryError, match="cannot be used: Not a directory"):
        DataDirectory.open(tmp_path / "file" / "below", create=True)


def test_a_temporary_directory_is_gone_after_its_use() -> None:
    with DataDirectory.temporary() as directory:
        (directory.path / "archiver").mkdir()
        assert directory.is_temporary
    assert not directory.path.exists()
