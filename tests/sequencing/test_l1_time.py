"""The time of L1, in step with the clock on the wall or not."""

from __future__ import annotations

import random

import pytest
from tests.clock import Clock

from fastnode.sequencing.l1_time import L1Time


class Clocks:
    def __init__(self) -> None:
        self.newest = 1_000
        self.wall = Clock(1_003.0)
        self.monotonic = Clock(50.0)

    def time(self, *, may_stand_still: bool = True) -> L1Time:
        return L1Time(
            lambda: self.newest, 12, may_stand_still=may_stand_still, wall=self.wall, monotonic=self.monotonic
        )


def test_between_two_blocks_the_clock_on_the_wall_tells_the_time() -> None:
    clocks = Clocks()
    assert clocks.time().now() == 1_003.0
    assert clocks.time().next_block() == 1_015


def test_an_l1_that_has_stopped_has_the_time_of_its_newest_block() -> None:
    clocks = Clocks()
    clocks.wall.now = 1_000 + 4 * 12 + 1
    assert clocks.time().now() == 1_000
    assert not clocks.time().is_in_step


@pytest.mark.parametrize("seed", range(20))
def test_an_l1_that_may_not_stand_still_is_late_and_slots_pass_without_it(seed: int) -> None:
    """Others count them by the clock on the wall, and a proposal for one that has passed costs its sender points."""
    dice, clocks = random.Random(seed), Clocks()
    time = clocks.time(may_stand_still=False)
    for _ in range(50):
        clocks.wall.now += dice.uniform(0, 40)
        if dice.random() < 0.3:
            clocks.newest = int(clocks.wall.now) - dice.randrange(300)
        begin = dice.uniform(clocks.newest - 100, clocks.wall.now)
        assert time.now() == max(clocks.newest, clocks.wall.now)
        assert time.since(begin) == clocks.wall.now - begin
        assert time.is_late == (clocks.wall.now - clocks.newest > 48)


def test_an_l1_whose_clock_was_moved_has_its_own_time() -> None:
    clocks = Clocks()
    clocks.newest = 90_000
    assert clocks.time().next_block() == 90_012


def test_a_clock_that_is_a_little_behind_l1_does_not_bring_its_time_back() -> None:
    clocks = Clocks()
    clocks.wall.now = 995.0
    assert clocks.time().now() == 1_000


def test_where_time_stands_still_a_slot_counts_from_the_first_look_at_it() -> None:
    clocks = Clocks()
    clocks.newest = 90_000
    time = clocks.time()
    assert time.since(89_000) == 0.0
    clocks.monotonic.now += 3
    assert time.since(89_000) == 3.0
    assert time.since(89_100) == 0.0


def test_in_step_a_slot_counts_from_its_begin() -> None:
    assert Clocks().time().since(1_001.0) == 2.0
