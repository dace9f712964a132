"""Snapshots whose disk becomes full while they are made, uploaded or restored: a reason, and nothing is left behind."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.small_disk import mounted
from tests.snapshots.test_commands import run
from tests.snapshots.test_restore import newest_block

from fastnode.errors import SnapshotError
from fastnode.snapshots.create import create_snapshot
from fastnode.snapshots.location import Location
from fastnode.snapshots.startup import start_from_snapshot
from fastnode.storage import database
from fastnode.storage.database import free_bytes

SIZE = 16 << 20


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One of which no node needs any room for itself."""
    monkeypatch.setattr(database, "ROOM_BYTES", 0)
    with mounted(tmp_path / "disk", SIZE) as disk:
        yield disk


def fill(disk: Path) -> None:
    with (disk / "filling").open("ab") as file:
        file.write(bytes(free_bytes(disk)))


def content(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.name != "filling"}


def test_a_copy_that_has_no_room_is_one_line_and_exit_code_1(disk: Path, short_directory: Path) -> None:
    directory = Path(shutil.copytree(short_directory, disk / "data"))
    before = content(disk)
    fill(disk)
    done = run("create", f"file://{disk}/location", "--data-directory", directory)
    assert done.returncode == 1
    assert done.stderr == f"fastnode: error: the databases of {directory} cannot be copied: No space left on device\n"
    assert content(disk) - before <= {"location"}


def test_a_location_that_becomes_full_has_no_half_of_an_archive(disk: Path, short_directory: Path) -> None:
    location = Location.to_write(f"file://{disk}/location")
    with pytest.raises(SnapshotError, match=r"cannot be written: .*No space left on device"):
        create_snapshot(short_directory, location, nullcontext(), on_progress=lambda done, total: fill(disk))
    assert [name for name in content(disk) if name.endswith((".tar", ".json"))] == []
    (disk / "filling").unlink()
    create_snapshot(short_directory, location, nullcontext())
    assert len([name for name in content(disk) if name.endswith(".tar")]) == 2


def test_a_node_whose_disk_becomes_full_while_it_fetches_starts_without_a_snapshot(
    disk: Path, made_snapshot: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = disk / "data"

    def start() -> bool:
        urls = [f"file://{made_snapshot}"]
        return start_from_snapshot("snapshot", urls, directory, learn_network=lambda: None, is_stopped=becomes_full)

    def becomes_full() -> bool:
        if is_filled and list(directory.rglob("*.ldb")):
            fill(disk)
        return False

    is_filled = True
    assert not start()
    assert "No space left on device" in str([vars(record) for record in caplog.records])
    assert content(directory) == {"fastnode.lock"}
    is_filled = False
    (disk / "filling").unlink()
    assert start()
    assert newest_block(directory) == 16
