"""What connections have used of the event loop, in plain Python.

The stub ``fastnode/_ext/loop_time.pyi`` says what everything does.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LoopTime", "Share"]


#: Of a party that has had no turn: more than modest ones need.
UNKNOWN_TURN_NS: Final = 250_000


class Share:
    __slots__ = ("turn_ns", "used_ns")

    def __init__(self) -> None:
        self.used_ns = 0
        self.turn_ns = UNKNOWN_TURN_NS

    def charge(self, elapsed_ns: int) -> None:
        self.used_ns += elapsed_ns
        self.turn_ns += (elapsed_ns - self.turn_ns) // 4


class LoopTime:
    def __init__(self, slice_ns: int, round_ns: int) -> None:
        if not 0 < slice_ns <= round_ns:
            raise ValueError(f"a slice of {slice_ns} ns in a round of {round_ns} ns")
        self.slice_ns = slice_ns
        self.round_ns = round_ns
        self.spent_ns = 0
        self.is_crowded = False
        self._looked_at = 0.0

    def look(self, moment: float) -> None:
        if moment != self._looked_at:
            self._looked_at = moment
            self.spent_ns = 0

    def charge(self, share: Share, elapsed_ns: int) -> None:
        share.charge(elapsed_ns)
        self.spent_ns += elapsed_ns
        if self.spent_ns > self.round_ns:
            self.is_crowded = True
