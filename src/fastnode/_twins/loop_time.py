"""What connections have used of the event loop, in plain Python.

The stub ``fastnode/_ext/loop_time.pyi`` says what everything does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["LoopTime", "Share"]


#: Of a party that has had no turn: more than modest ones need.
UNKNOWN_TURN_NS: Final = 150_000
#: Of a round, above which its end has to be looked for.
NOTED_PART: Final = 4
#: Of a turn, above which it may have waited for the interpreter or a processor.
DOUBTED_NS: Final = 100_000


class Share:
    __slots__ = ("group", "period", "served_ns", "turn_ns", "used_ns")

    def __init__(self) -> None:
        self.used_ns = 0
        self.turn_ns = UNKNOWN_TURN_NS
        self.served_ns = 0
        self.period = 0
        self.group: Share | None = None

    def charge(self, elapsed_ns: int) -> None:
        self.add(elapsed_ns)
        self._learn(elapsed_ns)
        if self.group is not None:
            self.group._learn(elapsed_ns)

    def _learn(self, elapsed_ns: int) -> None:
        self.turn_ns += (min(elapsed_ns, 2 * self.turn_ns + 1) - self.turn_ns) // 4

    def add(self, elapsed_ns: int) -> None:
        self.used_ns += elapsed_ns
        if self.group is not None:
            self.group.used_ns += elapsed_ns


class LoopTime:
    def __init__(self, slice_ns: int, round_ns: int, on_use: Callable[[], None] | None = None) -> None:
        if not 0 < slice_ns <= round_ns:
            raise ValueError(f"a slice of {slice_ns} ns in a round of {round_ns} ns")
        self.slice_ns = slice_ns
        self.round_ns = round_ns
        self.spent_ns = 0
        self.is_crowded = False
        self._is_noted = False
        self._on_use = on_use
        self._cpu_then_ns = time.thread_time_ns()
        self._charged_since_ns = 0

    def begin_round(self) -> None:
        self.spent_ns = 0
        self._is_noted = False
        self._cpu_then_ns = time.thread_time_ns()
        self._charged_since_ns = 0

    def charge(self, share: Share, elapsed_ns: int) -> None:
        share.charge(elapsed_ns if elapsed_ns <= DOUBTED_NS else self._worked_ns(elapsed_ns))
        self._charged_since_ns += min(elapsed_ns, DOUBTED_NS)
        self._spend(elapsed_ns)

    def _worked_ns(self, elapsed_ns: int) -> int:
        now_ns = time.thread_time_ns()
        most_ns = now_ns - self._cpu_then_ns - self._charged_since_ns
        self._cpu_then_ns = now_ns
        self._charged_since_ns = -DOUBTED_NS  # this one is behind the clock that was read
        return min(elapsed_ns, max(most_ns, DOUBTED_NS))

    def add(self, share: Share, elapsed_ns: int) -> None:
        share.add(elapsed_ns)
        self._spend(elapsed_ns)

    def _spend(self, elapsed_ns: int) -> None:
        self.spent_ns += elapsed_ns
        if self.spent_ns > self.round_ns:
            self.is_crowded = True
        if self.spent_ns > self.round_ns // NOTED_PART and not self._is_noted:
            self._is_noted = True
            if self._on_use is not None:
                self._on_use()
