"""How often a followed node is asked: often while blocks come, and never more than it bears."""

from __future__ import annotations

import pytest
from tests.clock import Clock

from fastnode.sources.pace import MOVING_SLOTS, RESTS_PER_LOOK, PollPace


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pace(clock: Clock) -> PollPace:
    return PollPace(longest_s=0.5, shortest_s=0.05, slot_s=36, now=clock)


def test_before_the_first_look_it_rests_as_long_as_allowed(pace: PollPace) -> None:
    assert pace.rest_s() == 0.5


def test_a_node_that_answers_fast_is_asked_at_the_shortest_interval(pace: PollPace) -> None:
    pace.on_look(0.002, has_blocks=False)
    assert pace.rest_s() == 0.05


def test_a_far_node_is_asked_less_often(pace: PollPace) -> None:
    pace.on_look(0.03, has_blocks=False)
    assert pace.rest_s() == pytest.approx(RESTS_PER_LOOK * 0.03)
    for _ in range(50):
        pace.on_look(2.0, has_blocks=False)
    assert pace.rest_s() == 0.5, "never longer than allowed"


def test_fetching_blocks_says_nothing_of_how_long_a_look_takes(pace: PollPace) -> None:
    pace.on_look(0.002, has_blocks=False)
    pace.on_look(30.0, has_blocks=True)
    assert pace.rest_s() == 0.05


def test_a_chain_that_stands_is_asked_rarely_until_a_block_comes(pace: PollPace, clock: Clock) -> None:
    pace.on_look(0.002, has_blocks=True)
    clock.now += MOVING_SLOTS * 36
    pace.on_look(0.002, has_blocks=False)
    assert pace.rest_s() == 0.05
    clock.now += 1
    pace.on_look(0.002, has_blocks=False)
    assert pace.rest_s() == 0.5
    pace.on_look(0.02, has_blocks=True)
    assert pace.rest_s() == 0.05


def test_the_operators_longest_rest_goes_first(pace: PollPace) -> None:
    pace.on_look(0.002, has_blocks=False)
    pace.longest_s = 0.01
    assert pace.rest_s() == 0.01
