"""The call meter counts calls by the time that they took."""

from __future__ import annotations

import pytest

from fastnode.kernels import call_meter as kernel
from fastnode.kernels import clock

SECOND = 1_000_000_000
BOUNDS = [SECOND, 10 * SECOND, 100 * SECOND]
NAMES = ["a", "b"]


def test_a_call_is_counted_in_the_bucket_of_its_time() -> None:
    meter = kernel.CallMeter(NAMES, BOUNDS)
    for age_s in (0, 5, 50, 500, 5):
        meter.finish("a", clock.now_ns() - age_s * SECOND, None)
    counts, sum_ns = meter.histogram("a")
    assert counts == [1, 2, 1, 1]
    assert 560 * SECOND <= sum_ns < 565 * SECOND
    assert meter.histogram("b") == ([0, 0, 0, 0], 0)


def test_a_time_in_the_future_counts_as_none() -> None:
    meter = kernel.CallMeter(NAMES, BOUNDS)
    meter.finish("a", clock.now_ns() + 50 * SECOND, None)
    assert meter.histogram("a") == ([1, 0, 0, 0], 0)


def test_an_unknown_name_counts_as_another_one() -> None:
    meter = kernel.CallMeter(NAMES, BOUNDS)
    meter.reject("x" * 100_000, -32601)
    meter.reject("y", -32601)
    assert meter.errors(None) == {-32601: 2}
    with pytest.raises(KeyError):
        meter.histogram("y")
    with pytest.raises(KeyError):
        meter.errors("y")


@pytest.mark.parametrize(("names", "bounds"), [(["a", "a"], [1]), (["a"], [2, 2]), (["a"], [3, 2]), (["a"], [-1])])
def test_names_that_repeat_and_bounds_that_do_not_rise_are_refused(names: list[str], bounds: list[int]) -> None:
    with pytest.raises(ValueError, match=r"twice|rise"):
        kernel.CallMeter(names, bounds)


def test_calls_under_another_name_are_counted_together() -> None:
    meter = kernel.CallMeter(["node_a", "node_b"], [10])
    meter.add_alias("aztec_a", "node_a")
    for name in ("node_a", "aztec_a"):
        meter.finish(name, clock.now_ns() + 10**9, -32000)
    assert meter.histogram("node_a") == ([2, 0], 0)
    assert meter.errors("node_a") == {-32000: 2}
    assert meter.histogram(None)[0] == meter.histogram("node_b")[0] == [0, 0]
    with pytest.raises(KeyError):
        meter.add_alias("x", "node_c")
    with pytest.raises(ValueError, match="twice"):
        meter.add_alias("node_b", "node_a")
