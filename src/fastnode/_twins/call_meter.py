"""Counts and times of calls in plain Python: the readable form of the call_meter kernel.

The stub ``fastnode/_ext/wire/call_meter.pyi`` says what everything does.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

__all__ = ["CallMeter", "Traffic", "now_ns"]


def now_ns() -> int:
    return time.monotonic_ns()


class Traffic:
    def __init__(self) -> None:
        self.received_bytes = self.sent_bytes = 0
        self.rejected: Counter[str] = Counter()


class _Row:
    """What is kept of one name."""

    __slots__ = ("counts", "errors", "sum_ns")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.sum_ns = 0
        self.errors: Counter[int] = Counter()


class CallMeter:
    def __init__(self, names: Sequence[str], bounds_ns: Sequence[int]) -> None:
        if len(set(names)) != len(names):
            raise ValueError("a name is given twice")
        if any(bound <= before for before, bound in zip((-1, *bounds_ns), bounds_ns, strict=False)):
            raise ValueError("the bounds must rise")
        self._bounds = list(bounds_ns)
        self._rows = {name: _Row(len(bounds_ns) + 1) for name in names}
        self._other = _Row(len(bounds_ns) + 1)

    def add_alias(self, alias: str, name: str) -> None:
        if alias in self._rows:
            raise ValueError("a name is given twice")
        self._rows[alias] = self._rows[name]

    def finish(self, name: object, started_ns: int, error_code: int | None) -> None:
        elapsed = max(0, now_ns() - started_ns)
        row = self._row_of(name)
        row.counts[bisect_left(self._bounds, elapsed)] += 1
        row.sum_ns += elapsed
        if error_code is not None:
            row.errors[error_code] += 1

    def reject(self, name: object, error_code: int) -> None:
        self._row_of(name).errors[error_code] += 1

    def histogram(self, name: str | None) -> tuple[list[int], int]:
        row = self._other if name is None else self._rows[name]
        return list(row.counts), row.sum_ns

    def errors(self, name: str | None) -> dict[int, int]:
        return dict((self._other if name is None else self._rows[name]).errors)

    def _row_of(self, name: object) -> _Row:
        return self._rows.get(name, self._other) if type(name) is str else self._other
