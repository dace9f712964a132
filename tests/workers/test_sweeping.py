"""Folders of supervisors that were killed are removed by the next one, and nobody else's."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import PATIENCE_S, NodeProcess
from tests.workers.nodes import until

from fastnode.workers.supervisor import sweep

LONG_AGO = 1_000_000_000


def made(directory: Path, kind: str, number: int) -> tuple[Path, socket.socket | None]:
    folder = directory / f"fastnode-workers-{number}"
    if kind == "link":
        (directory / f"elsewhere-{number}").mkdir()
        folder.symlink_to(directory / f"elsewhere-{number}")
        return folder, None
    folder.mkdir(mode=0o700)
    listener = None
    if kind != "empty":
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(folder / "primary"))
        listener.listen(1)
    if kind == "killed":
        assert listener is not None
        listener.close()
        listener = None
    if kind != "young":
        os.utime(folder, (LONG_AGO, LONG_AGO))
    return folder, listener


@pytest.mark.parametrize("seed", range(5))
def test_only_what_a_killed_supervisor_has_left_is_removed(seed: int) -> None:
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        directory, listeners, kept, gone = Path(name), [], [], []
        (directory / "fastnode-proof-x").mkdir()
        for number in range(20):
            kind = dice.choice(["killed", "empty", "listening", "young", "link"])
            folder, listener = made(directory, kind, number)
            listeners.append(listener)
            (gone if kind in ("killed", "empty") else kept).append(folder)
        sweep(directory)
        assert [folder for folder in gone if folder.exists()] == []
        assert all(folder.exists() for folder in kept)
        assert (directory / "fastnode-proof-x").is_dir()
        for listener in listeners:
            if listener is not None:
                listener.close()


def test_the_folder_of_a_supervisor_that_was_killed_is_gone_after_the_next_start(
    start_node: Callable[..., NodeProcess], chain_directory: Path, tmp_path: Path
) -> None:
    with tempfile.TemporaryDirectory() as name:
        flags = ("--workers=1", f"--data-directory={shutil.copytree(chain_directory, tmp_path / 'data')}")
        first = start_node(*flags, TMPDIR=name).wait_until_serving()
        (folder,) = Path(name).glob("fastnode-workers-*")
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(PATIENCE_S)
        os.utime(folder, (LONG_AGO, LONG_AGO))
        until(lambda: not _is_listened_to(folder / "primary"), "its children are still there")
        second = start_node(*flags, TMPDIR=name).wait_until_serving()
        assert not folder.exists()
        assert len(list(Path(name).glob("fastnode-workers-*"))) == 1
        assert second.stop() == 0
        assert list(Path(name).glob("fastnode-workers-*")) == []


def _is_listened_to(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        try:
            caller.connect(str(address))
        except OSError:
            return False
    return True
