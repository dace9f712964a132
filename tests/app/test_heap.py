"""Memory that goes back to the system when a burst is over."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from weakref import finalize

import pytest

from fastnode.app.ground import heap
from fastnode.http.allowance import MemoryBudget
from fastnode.http.limits import Limits

MIB = 1 << 20
CODE = """
import gc
from pathlib import Path
from fastnode.app.ground import heap
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
assert heap.bound_heap()
before = resident()
held = [bytes(60_000) for _ in range(2_000)]
keep = held[-1]
del held
kept = resident() - before
heap._libc().malloc_trim(0)
print(resident() - before)
"""


def test_no_body_is_so_large_that_each_takes_new_pages_from_the_system() -> None:
    assert Limits().body_bytes_max + sys.getsizeof(b"") < heap.LARGE_BLOCK_BYTES


@pytest.mark.skipif(heap._libc() is None, reason="there is no glibc")
def test_what_a_burst_needed_is_given_back() -> None:
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60)
    assert int(found.stdout) < 20 * MIB


UPLOADS = """
import resource
from fastnode.app.ground import heap
assert heap.bound_heap()
source = bytearray(250_000)
bytes(source)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(200):
    bytes(source)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(heap._libc() is None, reason="there is no glibc")
def test_the_pages_of_one_upload_serve_the_next() -> None:
    found = subprocess.run([sys.executable, "-c", UPLOADS], capture_output=True, text=True, check=True, timeout=60)
    assert int(found.stdout) < 1_000  # of 12,000


class Process:
    """One whose resident memory is what is said; trimming leaves 110 MiB."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resident_bytes = 100 * MIB
        self.trims: list[int] = []
        monkeypatch.setattr(heap, "CHECK_INTERVAL_S", 0.001)
        monkeypatch.setattr(heap, "BURST_CHECK_INTERVAL_S", 0.001)
        monkeypatch.setattr(heap, "_libc", lambda: self)
        monkeypatch.setattr(heap, "resident_bytes", lambda: self.resident_bytes)

    def malloc_trim(self, pad: int) -> None:
        self.trims.append(self.resident_bytes)
        self.resident_bytes = 110 * MIB


def watch(budget: MemoryBudget, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        trimming = asyncio.ensure_future(heap.trim_after_bursts(budget))
        await asyncio.sleep(0)
        await story()
        trimming.cancel()
        await asyncio.gather(trimming, return_exceptions=True)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_burst_is_trimmed_once_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    process, budget = Process(monkeypatch), MemoryBudget()

    async def story() -> None:
        budget.take(264 * MIB)
        process.resident_bytes = 380 * MIB
        await asyncio.sleep(0.02)
        assert process.trims == []  # it is not over
        budget.give_back(264 * MIB)
        while not process.trims:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        process.resident_bytes = 115 * MIB
        await asyncio.sleep(0.02)

    watch(budget, story)
    assert process.trims == [380 * MIB]


def test_a_burst_is_looked_at_more_often_than_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    process, budget = Process(monkeypatch), MemoryBudget()
    looks: list[float] = []
    sleep = asyncio.sleep

    async def noted_sleep(seconds: float) -> None:
        looks.append(seconds)
        await sleep(0.001)

    async def story() -> None:
        monkeypatch.setattr(heap, "BURST_CHECK_INTERVAL_S", 0.002)
        monkeypatch.setattr(heap.asyncio, "sleep", noted_sleep)
        budget.take(64 * MIB)
        while looks.count(0.002) < 4:
            await sleep(0.001)

    watch(budget, story)
    assert process.trims == []


def test_what_is_kept_far_above_what_a_burst_needs_is_trimmed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    process, budget = Process(monkeypatch), MemoryBudget()

    async def story() -> None:
        budget.take(64 * MIB)
        process.resident_bytes = 100 * MIB + 64 * MIB + heap.EXCESS_BYTES_MAX
        await asyncio.sleep(0.02)
        assert process.trims == []
        process.resident_bytes += 1
        while not process.trims:
            await asyncio.sleep(0.001)

    watch(budget, story)
    assert len(process.trims) == 1


def test_what_trimming_cannot_free_is_not_trimmed_at_each_check(monkeypatch: pytest.MonkeyPatch) -> None:
    process, budget = Process(monkeypatch), MemoryBudget()
    left = 100 * MIB + 64 * MIB + 2 * heap.EXCESS_BYTES_MAX

    def trim_in_vain(_pad: int) -> None:
        process.trims.append(process.resident_bytes)

    monkeypatch.setattr(process, "malloc_trim", trim_in_vain)

    async def story() -> None:
        budget.take(64 * MIB)
        process.resident_bytes = left
        await asyncio.sleep(0.05)
        assert process.trims == [left]
        process.resident_bytes += heap.EXCESS_BYTES_MAX // 2 + 1
        await asyncio.sleep(0.05)
        assert process.trims == [left, left + heap.EXCESS_BYTES_MAX // 2 + 1]
        process.resident_bytes = 100 * MIB + 64 * MIB  # freed after all
        await asyncio.sleep(0.05)
        process.resident_bytes = left
        await asyncio.sleep(0.05)

    watch(budget, story)
    assert process.trims == [left, left + heap.EXCESS_BYTES_MAX // 2 + 1, left]


class Node:
    """A member of a reference cycle."""


@pytest.fixture
def settled(thaws: None) -> Iterator[None]:
    """The collector as a node that serves has it."""
    heap.settle_memory()
    yield
    gc.unfreeze()
    gc.enable()


def cycle(gone: list[int]) -> Node:
    """``gone`` gets an item when it is collected."""
    node = Node()
    node.itself = node  # type: ignore[attr-defined]
    finalize(node, gone.append, 1)
    return node


@pytest.mark.usefixtures("settled")
def test_the_collector_looks_at_what_is_new_when_requests_need_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not while they need much: it would look at all that their bodies were parsed into."""
    process, budget = Process(monkeypatch), MemoryBudget()
    gone: list[int] = []
    cycle(gone)

    async def story() -> None:
        budget.take(64 * MIB)
        made: list[list[int]] = [[] for _ in range(heap.UNSEEN_MAX // 2)]
        await asyncio.sleep(0.02)
        assert gone == []
        budget.give_back(64 * MIB)
        while not gone:
            await asyncio.sleep(0.001)
        assert len(made) > heap.LOOKED_AT_MIN

    watch(budget, story)
    assert process.trims == []


@pytest.mark.usefixtures("settled")
def test_the_collector_looks_also_while_requests_need_much_when_very_much_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budget, gone = MemoryBudget(), list[int]()
    Process(monkeypatch)
    cycle(gone)

    async def story() -> None:
        budget.take(64 * MIB)
        made: list[list[int]] = [[] for _ in range(2 * heap.UNSEEN_MAX)]
        while not gone:
            await asyncio.sleep(0.001)
        made.clear()

    watch(budget, story)


@pytest.mark.usefixtures("settled")
def test_what_has_outlived_a_first_look_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    Process(monkeypatch)
    gone: list[int] = []
    made = cycle(gone)
    gc.collect(0)
    del made

    async def story() -> None:
        for _ in range(heap.LOOKS_MAX):
            gc.collect(0)
        while not gone:
            await asyncio.sleep(0.001)

    watch(MemoryBudget(), story)
