"""The process's memory goes back to the system when a burst of requests is over.

glibc keeps what was freed: in an arena for each thread, and of blocks below a threshold that grows with the largest
that was freed.  Few arenas and a fixed threshold bound what is kept; trimming gives the rest back.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
from typing import Final

from fastnode.http.memory_budget import MemoryBudget

__all__ = ["bound_heap", "trim_after_bursts"]

MIB: Final = 1 << 20
ARENAS_MAX: Final = 2
#: Larger blocks come from the system and go back to it one by one.
LARGE_BLOCK_BYTES: Final = 1 * MIB
#: A burst is worth trimming when requests used more than this at once.
BURST_BYTES_MIN: Final = 16 * MIB
CHECK_INTERVAL_S: Final = 1.0

#: Of mallopt (malloc.h).
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8


def _libc() -> ctypes.CDLL | None:
    """None where there is no glibc."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


def bound_heap() -> bool:
    """Bound what the process keeps of freed memory; False where that cannot be asked for."""
    library = _libc()
    if library is None:
        return False
    return bool(library.mallopt(_M_ARENA_MAX, ARENAS_MAX) and library.mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES))


async def trim_after_bursts(budget: MemoryBudget) -> None:
    """Never returns.  Trims, in a thread, when requests use far less than a moment ago."""
    library = _libc()
    while library is not None:
        await asyncio.sleep(CHECK_INTERVAL_S)
        if budget.peak_bytes > BURST_BYTES_MIN and budget.used_bytes < budget.peak_bytes // 4:
            budget.peak_bytes = budget.used_bytes
            await asyncio.to_thread(library.malloc_trim, 0)
