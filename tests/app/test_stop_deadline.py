"""A stop that does not end: what the process says of itself, and how it exits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.app import stuck_node
from tests.conftest import PATIENCE_S, NodeProcess

ROOT = str(Path(__file__).parents[2])

STUCK_THREAD = """
import asyncio, logging, sys, threading
from fastnode.app.process.stop_deadline import StopDeadline
from fastnode import log
log.configure(level="info", as_json=True)
async def main():
    deadline = StopDeadline(0.2)
    deadline.watch_tasks_of(asyncio.get_running_loop())
    async def waits_for_nothing():
        await asyncio.Event().wait()
    task = asyncio.create_task(waits_for_nothing(), name="late task")
    await asyncio.to_thread(stands_here, deadline)
def stands_here(deadline):
    deadline.begin()
    deadline.begin()
    threading.Event().wait()
asyncio.run(main())
"""

HELD_INTERPRETER = """
import ctypes
from fastnode.app.process import stop_deadline
stop_deadline.STUCK_S = 0.2
deadline, library = stop_deadline.StopDeadline(0.1), ctypes.PyDLL(None)
library.sleep(0)
def holds_the_interpreter():
    deadline.begin()
    library.sleep(3600)
holds_the_interpreter()
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT)


def test_a_stop_past_its_deadline_logs_the_stacks_of_threads_and_tasks_and_exits_with_70() -> None:
    ended = run(STUCK_THREAD)
    assert ended.returncode == os.EX_SOFTWARE
    assert "stop timed out" in ended.stderr
    assert "stands_here" in ended.stderr
    assert "task late task" in ended.stderr
    assert "waits_for_nothing" in ended.stderr


def test_a_process_whose_interpreter_is_held_ends_too() -> None:
    ended = run(HELD_INTERPRETER)
    assert ended.returncode != 0
    assert "holds_the_interpreter" in ended.stderr


@pytest.mark.parametrize("stuck", ["node", "workers"])
def test_a_node_that_cannot_stop_exits_with_70_and_starts_again(
    tmp_path: Path, start_node: Callable[..., NodeProcess], short_chain: Path, stuck: str
) -> None:
    flags: tuple[object, ...] = (
        *("--data-directory", tmp_path / "data", "--chain-file", short_chain),
        *(["--workers=1"] if stuck == "workers" else []),
    )
    deadline = ("--shutdown-timeout-s=1", "--shutdown-grace-s=0")
    node = start_node(*flags, *deadline, module=stuck_node.MODULE, STUCK=stuck, PYTHONPATH=ROOT)
    node.wait_until_serving()
    assert node.stop() == os.EX_SOFTWARE
    entries = [entry for entry in node.entries() if entry["message"] == "stop timed out"]
    assert any("never_come_back" in entry.get("stack", "") for entry in entries)
    assert start_node(*flags).wait_until_serving().stop() == 0
