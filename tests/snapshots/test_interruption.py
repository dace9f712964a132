"""kill -9 before each step of creating and of restoring: nothing old is lost, nothing half new is believed."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.effort import tries

from fastnode.chain_data import ChainData
from fastnode.data_check import check_data
from fastnode.snapshots.location import Location
from fastnode.snapshots.restore import choose_network, download, find_snapshots

KILLER = Path(__file__).with_name("killed_at.py")
TIMEOUT_S = 120.0

OLD_TIP, NEW_TIP = 3, 16

#: More than the steps of any command.
STEPS_MAX = 400
#: The default run tries every so manieth step, beginning with another one in each test.
STRIDE = tries(13, 1)
#: The same of a creation, which is checked and done once more after each.
CREATION_STRIDE = tries(40, 1)


class Killer:
    """Runs commands in forks of one process that has loaded their code (killed_at.py)."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(KILLER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, step: int, events: str, folder: Path, *command: object) -> bool:
        """Whether the command was killed at that step; otherwise it must have succeeded."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        watch = threading.Timer(TIMEOUT_S, self.process.kill)
        watch.start()
        try:
            self.process.stdin.write(json.dumps([step, events, str(folder), *map(str, command)]) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        finally:
            watch.cancel()
        assert answer, "the command takes too long"
        code, errors = json.loads(answer)
        if code == -signal.SIGKILL:
            return True
        assert code == 0, errors
        return False

    def close(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT_S)


@pytest.fixture(scope="module")
def killed() -> Iterator[Killer]:
    killer = Killer()
    yield killer
    killer.close()


def tip_after_check(directory: Path) -> int:
    with ChainData.open(directory, create=False) as data:
        report = check_data(data)
        assert (report.problems, report.notes) == ([], [])
        return report.blocks


def leftovers(directory: Path) -> list[str]:
    return [entry.name for entry in directory.iterdir() if entry.name.startswith(("snapshot-", "restore."))]


@pytest.mark.parametrize(("events", "stride"), [("all", STRIDE), ("moves", 1)])
def test_a_restore_killed_at_any_step_leaves_the_old_chain_or_the_new_one(
    killed: Killer, made_snapshot: Path, short_directory: Path, tmp_path: Path, events: str, stride: int
) -> None:
    found: dict[int, int] = {}
    for step in range(1, STEPS_MAX, stride):
        directory = Path(shutil.copytree(short_directory, tmp_path / f"data{step}"))
        (directory / "p2p").mkdir()
        command = ("snapshot", "restore", f"file://{made_snapshot}", "--data-directory", directory, "--replace")
        was_killed = killed(step, events, directory, *command)
        found[step] = tip_after_check(directory)  # opening it finishes what was begun
        assert leftovers(directory) == []
        assert (directory / "p2p").exists() == (found[step] == OLD_TIP)
        shutil.rmtree(directory)
        if not was_killed:
            break
    else:
        pytest.fail("the command never came to its end")
    tips = list(found.values())
    assert tips == sorted(tips)
    assert set(tips) == {OLD_TIP, NEW_TIP}


def test_a_creation_killed_at_any_step_leaves_what_was_there(
    killed: Killer, long_directory: Path, tmp_path: Path
) -> None:
    for step in range(2, STEPS_MAX, CREATION_STRIDE):
        folder = tmp_path / str(step)
        directory = Path(shutil.copytree(long_directory, folder / "data"))
        url = f"file://{folder}/location"
        command = ("snapshot", "create", url, "--data-directory", directory)
        was_killed = killed(step, "all", directory, *command)
        assert tip_after_check(directory) == NEW_TIP
        assert leftovers(directory) == []
        assert not killed(STEPS_MAX, "all", directory, *command)
        location = Location.to_read(url)
        network = choose_network(location)
        snapshots = find_snapshots(location, network)
        assert snapshots
        for number, item in enumerate(snapshots):
            download(folder / f"part{number}", location, network, item)
        shutil.rmtree(folder)
        if not was_killed:
            break
    else:
        pytest.fail("the command never came to its end")
