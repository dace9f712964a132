"""Kept of what comes over the bus: contents until they are asked for, and how long blocks were on their way."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any, Final

__all__ = ["ContentCache", "Lags"]

LAGS_MAX: Final = 2048


class ContentCache:
    """Contents by their subjects, at most ``bytes_max`` of them, the newest.  Usable from any thread."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._contents: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def invariant(self) -> None:
        """AssertionError unless the count of bytes is right, and within its limit."""
        with self._lock:
            assert self._bytes == sum(map(len, self._contents.values())) <= self._bytes_max

    def keep(self, subject: str, data: bytes) -> None:
        with self._lock:
            self._bytes += len(data) - len(self._contents.pop(subject, b""))
            self._contents[subject] = data
            while self._bytes > self._bytes_max:
                _, gone = self._contents.popitem(last=False)
                self._bytes -= len(gone)

    def found(self, subjects: Iterable[str]) -> dict[str, bytes]:
        """Contents of these subjects that are here."""
        with self._lock:
            return {subject: self._contents[subject] for subject in subjects if subject in self._contents}

    def forget(self, subjects: Iterable[str]) -> None:
        with self._lock:
            for subject in subjects:
                self._bytes -= len(self._contents.pop(subject, b""))

    def clear(self) -> None:
        with self._lock:
            self._contents.clear()
            self._bytes = 0


class Lags:
    """Seconds from the commit on the publisher until a block could be read here; noted by one thread."""

    def __init__(self) -> None:
        self._newest: deque[float] = deque(maxlen=LAGS_MAX)
        self._count, self._sum = 0, 0.0

    def note(self, lag_s: float) -> None:
        self._count += 1
        self._sum += lag_s
        self._newest.append(lag_s)

    def describe(self) -> dict[str, Any]:
        """For status reports: of the newest ones in milliseconds, of all in seconds."""
        lags = sorted(self._newest)
        return {
            "lagMs": None if not lags else round(lags[len(lags) // 2] * 1000, 1),
            "lagP99Ms": None if not lags else round(lags[len(lags) * 99 // 100] * 1000, 1),
            "lagCount": self._count,
            "lagSum": self._sum,
        }
