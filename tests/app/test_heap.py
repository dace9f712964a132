"""Memory that goes back to the system when a burst is over."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from fastnode.app import heap
from fastnode.http.memory_budget import MemoryBudget

MIB = 1 << 20
CODE = """
import gc
from pathlib import Path
from fastnode.app import heap
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


@pytest.mark.skipif(heap._libc() is None, reason="there is no glibc")
def test_what_a_burst_needed_is_given_back() -> None:
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60)
    assert int(found.stdout) < 20 * MIB


UPLOADS = """
import resource
from fastnode.app import heap
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


@pytest.mark.skipif(heap._libc() is None, reason="there is no glibc")
def test_a_burst_is_trimmed_once_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    trims: list[int] = []
    resident_bytes = 100 * MIB

    class Library:
        def malloc_trim(self, pad: int) -> None:
            nonlocal resident_bytes
            trims.append(resident_bytes)
            resident_bytes = 110 * MIB

    monkeypatch.setattr(heap, "CHECK_INTERVAL_S", 0.001)
    monkeypatch.setattr(heap, "_libc", Library)
    monkeypatch.setattr(heap, "_resident_bytes", lambda: resident_bytes)
    budget = MemoryBudget()

    async def main() -> None:
        nonlocal resident_bytes
        trimming = asyncio.ensure_future(heap.trim_after_bursts(budget))
        await asyncio.sleep(0)
        budget.take(64 * MIB)
        resident_bytes = 400 * MIB
        await asyncio.sleep(0.02)
        assert trims == []  # it is not over
        budget.give_back(64 * MIB)
        while not trims:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        resident_bytes = 120 * MIB
        await asyncio.sleep(0.02)
        trimming.cancel()
        await asyncio.gather(trimming, return_exceptions=True)

    asyncio.run(asyncio.wait_for(main(), 30))
    assert trims == [400 * MIB]
