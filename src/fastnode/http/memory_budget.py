"""The memory of requests: one total for bodies being read, answers being made, and answers not yet taken.

What a part needs it takes before it allocates, and gives back when it lets go.  A request that finds too little is
refused, and the client told to come again, while those under way are finished.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

from fastnode.errors import NodeBusy

__all__ = ["MemoryBudget", "default_budget"]

MIB: Final = 1 << 20
BUDGET_BYTES_MAX: Final = 1024 * MIB
#: The part of the machine's memory that requests may take by default.
MACHINE_SHARE: Final = 4


def default_budget() -> int:
    """Bytes: a quarter of the machine's memory, or of what the process may have of it; at most 1 GiB."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(BUDGET_BYTES_MAX, min(machine, _group_limit() or machine) // MACHINE_SHARE)


def _group_limit() -> int | None:
    """What a container may have; None if it may have all."""
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        return int(text) if text.isdigit() else None
    return None


class MemoryBudget:
    """``bytes_max`` None: no limit, and the same counting.  Safe for use by several threads."""

    def __init__(self, bytes_max: int | None = None) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        #: The most that was used since it was set back.
        self.peak_bytes = 0
        #: Requests that found too little.
        self.refused_count = 0
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """NodeBusy, and nothing is taken, if that would be too much."""
        with self._lock:
            used = self.used_bytes + count
            if self.bytes_max is not None and used > self.bytes_max:
                self.refused_count += 1
                raise NodeBusy(self.bytes_max)
            self.used_bytes = used
            self.peak_bytes = max(self.peak_bytes, used)

    def take_unasked(self, count: int) -> None:
        """For what has been allocated already; :attr:`excess_bytes` says what has to go."""
        with self._lock:
            self.used_bytes += count
            self.peak_bytes = max(self.peak_bytes, self.used_bytes)

    def give_back(self, count: int) -> None:
        with self._lock:
            self.used_bytes -= count
        assert self.used_bytes >= 0, "more was given back than taken"

    @property
    def excess_bytes(self) -> int:
        """How much more is used than may be."""
        return 0 if self.bytes_max is None else max(0, self.used_bytes - self.bytes_max)
