"""kill -9 while leaves are made, fetched and made into trees: the next try goes on, and ends at true roots."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.snapshots.test_interruption import Killer, leftovers, tip_after_check

from fastnode.snapshots.leaf_restore import download_leaves, find_leaf_snapshots
from fastnode.snapshots.location import Location
from fastnode.snapshots.restore import choose_network, ignore_progress

IS_LONG = os.environ.get("FASTNODE_LONG") == "1"
TIP = 16
#: More than the steps of any command.
STEPS_MAX = 10_000
#: Moments at which each command is killed.
KILLS = 50 if IS_LONG else 2
#: Steps and seconds within which they lie.
STEPS, SECONDS = 110, 4.0
TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def killed() -> Iterator[Killer]:
    killer = Killer()
    yield killer
    killer.close()


def test_a_restore_killed_at_any_step_goes_on(killed: Killer, made_leaves: Path, tmp_path: Path) -> None:
    generator = random.Random(41)
    command = ("snapshot", "restore", f"file://{made_leaves}", "--leaves", "--unconfirmed", "--data-directory")
    for number in range(KILLS):
        directory = tmp_path / str(number)
        directory.mkdir()
        killed(generator.randrange(5, STEPS), "all", directory, *command, directory)
        killed(STEPS_MAX, "all", directory, *command, directory, "--replace")
        assert tip_after_check(directory) == TIP
        assert leftovers(directory) == []
        shutil.rmtree(directory)


def test_a_creation_killed_at_any_step_is_made_again(killed: Killer, long_directory: Path, tmp_path: Path) -> None:
    generator = random.Random(42)
    for number in range(KILLS):
        folder = tmp_path / str(number)
        directory = Path(shutil.copytree(long_directory, folder / "data"))
        url = f"file://{folder}/location"
        command = ("snapshot", "create", url, "--leaves", "--data-directory", directory)
        killed(generator.randrange(5, STEPS), "all", folder, *command)
        assert not killed(STEPS_MAX, "all", folder, *command)
        location = Location.to_read(url)
        network = choose_network(location)
        newest = find_leaf_snapshots(location, network)[0]
        if number == 0 or IS_LONG:
            download_leaves(folder / "part", location, network, newest, on_progress=ignore_progress)
        assert tip_after_check(directory) == TIP
        assert leftovers(directory) == []
        shutil.rmtree(folder)


@pytest.mark.skipif(not IS_LONG, reason="takes minutes: FASTNODE_LONG=1")
def test_a_restore_killed_at_any_moment_goes_on(made_leaves: Path, tmp_path: Path) -> None:
    """Also while another process makes the trees, which ends with the one that is killed."""
    generator = random.Random(43)
    directory = tmp_path / "data"
    command = [sys.executable, "-m", "fastnode", "snapshot", "restore", f"file://{made_leaves}", "--leaves"]
    command += ["--unconfirmed", "--data-directory", str(directory), "--replace"]
    for _ in range(KILLS):
        shutil.rmtree(directory, ignore_errors=True)
        for _ in range(2):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                process.wait(generator.uniform(0.3, SECONDS))
            except subprocess.TimeoutExpired:
                process.kill()
            process.wait(TIMEOUT_S)
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert done.returncode == 0, done.stderr
        assert tip_after_check(directory) == TIP
        assert leftovers(directory) == []
