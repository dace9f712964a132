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
from collections import deque
from typing import Final

from fastnode.http.allowance import MemoryBudget

__all__ = ["bound_heap", "resident_bytes", "settle_memory", "trim_after_bursts"]

MIB: Final = 1 << 20
ARENAS_MAX: Final = 2
#: Larger blocks come from the system and go back to it one by one, with a page fault for each page.  A body of the
#: largest size would hold up the event loop for ten times as long as its copy takes.
LARGE_BLOCK_BYTES: Final = 5 * MIB // 4
#: Freed memory is kept up to this between two trimmings.  With glibc's 128 KiB each upload's pages would go back to
#: the system and be asked for again with the next one, at a microsecond or more a page.
KEPT_BYTES_MAX: Final = 32 * MIB
#: While requests need more than this at once, they would ask for again what is trimmed.
BURST_BYTES_MIN: Final = 16 * MIB
#: By how much the process has to have grown since it was trimmed.
GROWTH_BYTES_MIN: Final = 16 * MIB
CHECK_INTERVAL_S: Final = 0.25
#: The same while requests need much.  Small results are joined to large answers, and what they lay in is kept: half of
#: a budget in a few tenths of a second.
BURST_CHECK_INTERVAL_S: Final = 0.03
#: So many times little has to have been needed.
QUIET_CHECKS: Final = 4
#: Bytes that may be kept above what requests need, while they need much.
EXCESS_BYTES_MAX: Final = 16 * MIB
#: First looks of the collector, after which it looks a second time at what they left.
LOOKS_MAX: Final = 5
#: Containers made and not freed that are worth a look when there is time, and that are not left alone any longer.
LOOKED_AT_MIN: Final = 1_000
UNSEEN_MAX: Final = 200_000

#: Options of mallopt (malloc.h).
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_STATM: Final = "/proc/self/statm"
_STATM_BYTES_MAX: Final = 256
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

    The start's own garbage is not looked for: it is a thousand objects at most, and the look would hold up the first
    requests for tens of milliseconds.  Afterwards the collector looks when :func:`trim_after_bursts` has it look, not
    when objects are made: what large bodies are parsed into is in no cycle, but all of it would be looked at while it
    is there, for five to twenty milliseconds in the middle of anything.
    """
    gc.freeze()
    gc.disable()


async def trim_after_bursts(budget: MemoryBudget) -> None:
    """Never returns.  When requests have needed little for a moment, it lets the collector look at what is new, and
    trims if the process has grown.  Meanwhile it does so only if very much is new, or far more is kept than needed."""
    library = _libc()
    settled_bytes = resident_bytes() if library is not None else 0
    left_bytes = 0  # above what requests need, after the last trimming
    peaks: deque[int] = deque(maxlen=QUIET_CHECKS)
    while True:
        is_burst = budget.used_bytes >= BURST_BYTES_MIN
        await asyncio.sleep(BURST_CHECK_INTERVAL_S if is_burst else CHECK_INTERVAL_S)
        peaks.append(budget.peak_bytes)
        budget.peak_bytes = budget.used_bytes
        is_quiet = len(peaks) == QUIET_CHECKS and max(peaks) < BURST_BYTES_MIN
        _look_for_cycles(is_quiet=is_quiet)
        if library is None:
            continue
        now_bytes = resident_bytes()
        settled_bytes = min(settled_bytes, now_bytes)
        if is_quiet and now_bytes > settled_bytes + GROWTH_BYTES_MIN:
            # Small objects lie in pages of many: what the collector has not looked at yet holds on to all of them.
            gc.collect()
            await asyncio.to_thread(library.malloc_trim, 0)
            settled_bytes = resident_bytes() - budget.used_bytes
            left_bytes = 0
            peaks.clear()
            continue
        excess_bytes = now_bytes - settled_bytes - budget.used_bytes
        left_bytes = min(left_bytes, excess_bytes)
        # Pages that the last trimming could not free are not looked through again at each check.
        if excess_bytes > max(EXCESS_BYTES_MAX, left_bytes + EXCESS_BYTES_MAX // 2):
            await asyncio.to_thread(library.malloc_trim, 0)
            left_bytes = resident_bytes() - settled_bytes - budget.used_bytes


def _look_for_cycles(*, is_quiet: bool) -> None:
    new, looks, _ = gc.get_count()
    if is_quiet and looks >= LOOKS_MAX:
        gc.collect(1)
    elif new >= (LOOKED_AT_MIN if is_quiet else UNSEEN_MAX):
        gc.collect(0)


def resident_bytes() -> int:
    """Memory of this process; 0 where the system has no /proc."""
    try:
        file = os.open(_STATM, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        return int(os.read(file, _STATM_BYTES_MAX).split()[1]) * _PAGE_BYTES
    finally:
        os.close(file)
