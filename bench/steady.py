"""Which figures may be held to those of an earlier run.

On a busy machine the least time of a few rounds says what else ran; that of 5,000 repeats to 3 %.  So
``--benchmark-compare-fail`` gives each benchmark five seconds instead of one, and judges those only that had 5,000
rounds in both runs; the others are named at the end.
"""

from __future__ import annotations

from typing import Any, Protocol

ROUNDS_MIN = 5_000
SECONDS_EACH = 5


class Check(Protocol):
    def fails(self, current: Any, compared: Any) -> str | None:
        """What is worse than it may be; None for nothing."""


class SteadyCheck:
    """A check of pytest-benchmark that passes over what had too few rounds; ``passed_over`` gets the names."""

    def __init__(self, check: Check, passed_over: set[str]) -> None:
        self._check = check
        self._passed_over = passed_over

    def fails(self, current: Any, compared: Any) -> str | None:
        if min(current["rounds"], compared["rounds"]) < ROUNDS_MIN:
            self._passed_over.add(compared["fullname"])
            return None
        return self._check.fails(current, compared)
