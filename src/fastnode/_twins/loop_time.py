"""What connections have used of the event loop, in plain Python.

The stub ``fastnode/_ext/loop_time.pyi`` says what everything does.
"""

from __future__ import annotations

__all__ = ["LoopTime", "Share"]


class Share:
    __slots__ = ("used_ns",)

    def __init__(self) -> None:
        self.used_ns = 0


class LoopTime:
    def __init__(self, slice_ns: int, round_ns: int) -> None:
        if not 0 < slice_ns <= round_ns:
            raise ValueError(f"a slice of {slice_ns} ns in a round of {round_ns} ns")
        self.slice_ns = slice_ns
        self.round_ns = round_ns
        self.spent_ns = 0
        self.is_crowded = False

    def charge(self, share: Share, elapsed_ns: int) -> None:
        share.used_ns += elapsed_ns
        self.spent_ns += elapsed_ns
        if self.spent_ns > self.round_ns:
            self.is_crowded = True
