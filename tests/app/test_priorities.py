"""Who has a processor first."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.app.turns import turn_ns

from fastnode.app.ground.priorities import (
    MERGING_NICENESS,
    PRIMARY_NICENESS,
    TURN_NS,
    answer_soon,
    come_last,
    wake_on_time,
)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has turns")
def test_a_thread_that_answers_soon_has_short_turns_and_those_that_it_begins_have_usual_ones() -> None:
    turns: list[int] = []

    def ask() -> None:
        before = turn_ns()
        if not answer_soon() or not before:
            pytest.skip("the system has no turns of a thread's own")
        inner = threading.Thread(target=lambda: turns.append(turn_ns()))
        inner.start()
        inner.join()
        turns.append(turn_ns())

    raised: list[BaseException] = []

    def run() -> None:
        try:
            ask()
        except BaseException as error:  # noqa: BLE001 - a skip is one too
            raised.append(error)

    # A thread of its own, so that nothing else of this process changes.
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    usual_ns, own_ns = turns
    assert own_ns == TURN_NS
    assert usual_ns > own_ns


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux is late on purpose")
def test_a_thread_that_wakes_on_time_and_those_that_it_begins_are_not_late_on_purpose() -> None:
    get_timer_slack, found = 30, list[int]()
    system = ctypes.CDLL(None)

    def look() -> None:
        found.append(system.prctl(get_timer_slack, 0, 0, 0, 0))

    def run() -> None:
        wake_on_time()
        look()
        inner = threading.Thread(target=look)
        inner.start()
        inner.join()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [1, 1]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere priority is of the whole process")
def test_the_thread_that_applies_blocks_and_those_that_it_begins_interrupt_no_other() -> None:
    found: list[tuple[int, int]] = []

    def look() -> None:
        found.append((os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)))

    def run() -> None:
        come_last()
        look()
        inner = threading.Thread(target=look)
        inner.start()
        inner.join()

    look()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    look()
    (policy, nice), own, inner, after = found
    assert own == inner == (os.SCHED_BATCH, nice)
    assert after == (policy, nice)


def test_the_process_that_writes_comes_after_others() -> None:
    program = (
        "import os; from fastnode.app.ground.priorities import leave_to_requests as leave; leave(); print(os.nice(0))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert int(told) == min(19, os.nice(0) + PRIMARY_NICENESS)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere priority is of the whole process")
def test_what_merges_tables_comes_last_whoever_needs_it(tmp_path: Path) -> None:
    program = f"""
import contextlib, os, pathlib, time
import plyvel
from fastnode.app.ground.priorities import merge_last

def threads():
    found = {{}}
    for task in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(ProcessLookupError):  # it has ended
            found[task] = (os.sched_getscheduler(task), os.getpriority(os.PRIO_PROCESS, task))
    return found

merge_last(pathlib.Path({str(tmp_path / "merging")!r}))
while len(before := threads()) > 2:  # what began it is about to leave
    time.sleep(0.001)
database = plyvel.DB({str(tmp_path / "database")!r}, create_if_missing=True)
database.put(b"key", b"value")
database.compact_range(start=b"a", stop=b"z")
assert threads() == before, "another thread merges"
print(*before.pop(os.getpid()), *before.popitem()[1])
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    nice = os.nice(0)
    assert list(map(int, told.split())) == [os.SCHED_OTHER, nice, os.SCHED_BATCH, max(nice, MERGING_NICENESS)]
    assert not (tmp_path / "merging").exists()
