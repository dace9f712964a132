"""Returns memory to the system after a burst of requests.

glibc keeps what was freed: in an arena for each thread, and of blocks below a threshold that grows with the largest
that was freed.  Few arenas and a fixed threshold bound what is kept; trimming gives the rest back.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import sys
from pathlib import Path
from typing import Final

from fastnode.http.memory_budget import MemoryBudget

__all__ = ["bound_heap", "settle_memory", "trim_after_bursts"]

MIB: Final = 1 << 20
ARENAS_MAX: Final = 2
#: Larger blocks come from the system and go back to it one by one.
LARGE_BLOCK_BYTES: Final = 1 * MIB
#: Freed memory is kept up to this between two trimmings.  With glibc's 128 KiB each upload's pages would go back to
#: the system and be asked for again with the next one, at a microsecond or more a page.
KEPT_BYTES_MAX: Final = 32 * MIB
#: While requests need more than this at once, they would ask for again what is trimmed.
BURST_BYTES_MIN: Final = 16 * MIB
#: By how much the process has to have grown since it was trimmed.
GROWTH_BYTES_MIN: Final = 16 * MIB
CHECK_INTERVAL_S: Final = 1.0
#: Objects made and not freed before the collector looks at them, and how many such looks before it looks further.
COLLECTOR_THRESHOLDS: Final = (10_000, 20, 20)

#: Of mallopt (malloc.h).
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


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
    options = {_M_ARENA_MAX: ARENAS_MAX, _M_MMAP_THRESHOLD: LARGE_BLOCK_BYTES, _M_TRIM_THRESHOLD: KEPT_BYTES_MAX}
    return all(library.mallopt(*option) for option in options.items())


def settle_memory() -> None:
    """Objects that exist after the start stay alive: exclude them from garbage collection.

    It is not looked at even once: a start leaves a thousand objects behind at most, and the look would hold up the
    first requests for tens of milliseconds.  Afterwards it looks at what is new, and rarely at all the rest: with
    Python's own thresholds the requests of a burst were looked at dozens of times a second, 10 to 30 ms each time.
    """
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


async def trim_after_bursts(budget: MemoryBudget) -> None:
    """Never returns.  Trims when the process has grown and requests have needed little for a moment."""
    library = _libc()
    settled_bytes = _resident_bytes() if library is not None else 0
    while library is not None:
        await asyncio.sleep(CHECK_INTERVAL_S)
        peak_bytes, budget.peak_bytes = budget.peak_bytes, budget.used_bytes
        settled_bytes = min(settled_bytes, _resident_bytes())
        if peak_bytes < BURST_BYTES_MIN and _resident_bytes() > settled_bytes + GROWTH_BYTES_MIN:
            # Small objects lie in pages of many: what the collector has not looked at yet holds on to all of them.
            gc.collect()
            await asyncio.to_thread(library.malloc_trim, 0)
            settled_bytes = _resident_bytes()


def _resident_bytes() -> int:
    return int(_STATM.read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
