"""The clock of requests is the monotonic one, or stands where it is told."""

from __future__ import annotations

import time

from fastnode.kernels import clock


def test_it_is_the_monotonic_clock() -> None:
    before = time.monotonic_ns()
    assert before <= clock.now_ns() <= time.monotonic_ns()


def test_it_stands_where_it_is_told_until_it_runs_again() -> None:
    try:
        for moment in (1, 2**62, 5):
            clock.give(moment)
            assert [clock.now_ns(), clock.now_ns()] == [moment, moment]
    finally:
        clock.give(0)
    test_it_is_the_monotonic_clock()
