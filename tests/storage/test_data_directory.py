"""The data directory: one user at a time, and one sentence when it cannot be used."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import NodeProcess

from fastnode.errors import DataDirectoryError
from fastnode.storage.data_directory import LOCK_FILE, TEMPORARY_FILE, DataDirectory, sweep


def test_a_data_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    with DataDirectory.open(tmp_path / "a" / "b", create=True) as directory:
        assert directory.path.is_dir()
        assert not directory.is_temporary
        assert (directory.path / LOCK_FILE).read_text() == f"{os.getpid()}\n"


def test_a_data_directory_is_not_for_other_users(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with DataDirectory.open(tmp_path / "data", create=True) as directory:
            assert directory.path.stat().st_mode & 0o777 == 0o750
    finally:
        os.umask(before)
    (tmp_path / "chosen").mkdir(mode=0o755)
    (tmp_path / "chosen").chmod(0o755)
    with DataDirectory.open(tmp_path / "chosen", create=True) as directory:
        assert directory.path.stat().st_mode & 0o777 == 0o755


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


# ---- directories of killed processes ----------------------------------------------------------------


def made(directory: Path, kind: str, number: int) -> tuple[Path, DataDirectory | None]:
    """A directory of the kind, and who holds it."""
    path = directory / f"fastnode-{number}"
    if kind == "link":
        elsewhere = directory / f"elsewhere-{number}"
        killed(elsewhere)
        path.symlink_to(elsewhere)
        return path, None
    if kind in ("killed", "named later"):
        killed(path)
    if kind == "without a lock":
        path.mkdir()
        (path / TEMPORARY_FILE).touch()
    if kind == "marked by a link":
        DataDirectory.open(path, create=True).close()
        (path / TEMPORARY_FILE).symlink_to(path / LOCK_FILE)
    if kind in ("named", "named later"):
        DataDirectory.open(path, create=True).close()
    holder = None
    if kind in ("used", "handed over"):
        holder = DataDirectory.open(path, create=True)
        holder.is_temporary = True
    if kind == "handed over" and holder is not None:
        # The process that goes on with it has not begun yet.
        holder.is_temporary = False
        holder.close()
        holder = None
    return path, holder


def killed(path: Path) -> None:
    """Leave what a killed process does that had a temporary directory."""
    holder = DataDirectory.open(path, create=True)
    (path / "archiver").mkdir()
    (path / "archiver" / "CURRENT").touch()
    holder.close()
    (path / TEMPORARY_FILE).touch()


KINDS = ("killed", "used", "named", "named later", "handed over", "link", "without a lock", "marked by a link")


@pytest.mark.parametrize("seed", range(5))
def test_only_what_killed_processes_have_left_is_removed(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    kinds = [*KINDS, *(dice.choice(KINDS) for _ in range(10))]
    there = [(kind, *made(tmp_path, kind, number)) for number, kind in enumerate(kinds)]
    sweep(tmp_path)
    assert {kind for kind, path, _ in there if not path.exists()} == {"killed"}
    assert not [path for kind, path, _ in there if kind == "killed" and path.exists()]
    assert all((path / "archiver").is_dir() for kind, path, _ in there if kind in ("named later", "link"))
    for kind, path, holder in there:
        if holder is not None:
            holder.close()
            assert path.exists() == (kind != "used"), "its own process removes it"


def test_a_directory_whose_mark_cannot_be_changed_is_not_kept_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(DataDirectoryError, match="Operation not permitted"):
            DataDirectory.open(tmp_path, create=False)
    DataDirectory.open(tmp_path, create=False).close()


def test_the_temporary_chain_of_a_killed_node_is_gone_after_the_next_start(
    start_node: Callable[..., NodeProcess], tmp_path: Path, short_chain: Path
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    first = start_node("--chain-file", short_chain, TMPDIR=str(folder)).wait_until_serving()
    other = start_node("--chain-file", short_chain, TMPDIR=str(folder)).wait_until_serving()
    assert len(list(folder.glob("fastnode-*"))) == 2
    first.stop(signal.SIGKILL)
    third = start_node("--chain-file", short_chain, TMPDIR=str(folder)).wait_until_serving()
    left = {int((path / LOCK_FILE).read_text()) for path in folder.glob("fastnode-*")}
    assert left == {other.process.pid, third.process.pid}
    for node in (other, third):
        assert "result" in node.call("node_getBlockNumber")
        assert node.stop() == 0
    assert list(folder.glob("fastnode-*")) == []
