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


@pytest.mark.skipif(heap._libc() is None, reason="there is no glibc")
def test_a_burst_is_trimmed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "CHECK_INTERVAL_S", 0.001)
    budget = MemoryBudget()
    budget.take(64 * MIB)

    async def main() -> None:
        trimming = asyncio.ensure_future(heap.trim_after_bursts(budget))
        await asyncio.sleep(0.02)
        assert budget.peak_bytes == 64 * MIB  # it is not over
        budget.give_back(64 * MIB)
        while budget.peak_bytes:
            await asyncio.sleep(0.001)
        trimming.cancel()
        await asyncio.gather(trimming, return_exceptions=True)

    asyncio.run(asyncio.wait_for(main(), 30))
