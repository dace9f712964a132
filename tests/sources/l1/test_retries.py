"""Pauses between passes over L1 that fail."""

from __future__ import annotations

import pytest

from fastnode.errors import UpstreamFault
from fastnode.sources.l1.retries import PAUSE_MAX_S, PassRetries


class Passes:
    """Passes that all fail, on a clock set by hand; who made a pass notes its failure, and who ordered it does."""

    def __init__(self) -> None:
        self.now = 0.0
        self.made: list[float] = []
        self.retries = PassRetries(1.0, lambda: self.now)

    def order(self, situation: int) -> None:
        try:
            self.retries.check(situation)
            self.made.append(self.now)
            error = UpstreamFault("as before")
            self.retries.on_failure(error, situation)
            raise error
        except UpstreamFault as error:
            self.retries.on_failure(error, situation)


@pytest.mark.parametrize("interval_s", [0.25, 0.5, 1.0])
def test_a_pass_is_repeated_when_its_pause_is_over_however_often_it_is_ordered(interval_s: float) -> None:
    """An order within the pause, which gets the last error again, begins no new pause."""
    passes = Passes()
    while passes.now < 40.0:
        passes.order(1)
        passes.now += interval_s
    assert passes.made == [0.0, 1.0, 3.0, 7.0, 15.0, 15.0 + PAUSE_MAX_S, 15.0 + 2 * PAUSE_MAX_S, 15.0 + 3 * PAUSE_MAX_S]


def test_another_situation_is_a_reason_to_look_at_once_and_pauses_begin_anew() -> None:
    passes = Passes()
    for now, situation in ((0.0, 1), (1.0, 1), (1.25, 2), (2.0, 2), (2.25, 2)):
        passes.now = now
        passes.order(situation)
    assert passes.made == [0.0, 1.0, 1.25, 2.25]
