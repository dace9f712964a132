"""When L1 is asked for its next block."""

from __future__ import annotations

import pytest
from tests.clock import Clock

from fastnode.sources.l1.schedule import BlockSchedule

SLOT = 12
START = 1_200_000


@pytest.fixture
def clock() -> Clock:
    return Clock(float(START))


@pytest.fixture
def schedule(clock: Clock) -> BlockSchedule:
    """It has seen two blocks a slot apart."""
    schedule = BlockSchedule(1.0, waits_for_blocks=True, clock=clock)
    clock.now = START - SLOT + 1.0
    schedule.note(1, START - SLOT, SLOT)
    clock.now = START + 1.0
    schedule.note(2, START, SLOT)
    return schedule


def test_the_next_block_is_asked_for_when_it_is_due(schedule: BlockSchedule, clock: Clock) -> None:
    clock.now = START + 2.0
    assert SLOT - 2.0 < schedule.seconds_until_next(SLOT) <= SLOT - 1.0
    assert schedule.expected_timestamp(SLOT) == START + SLOT


def test_a_question_that_came_too_early_makes_the_next_ones_come_later(schedule: BlockSchedule, clock: Clock) -> None:
    clock.now = START + 1.0
    first = schedule.seconds_until_next(SLOT)
    clock.now += first
    late = schedule.seconds_until_next(SLOT)  # the block is not there yet
    assert 1.0 < late < 2.0
    clock.now += late
    schedule.note(3, START + SLOT, SLOT)
    second = schedule.seconds_until_next(SLOT)
    assert clock.now + second - (START + 2 * SLOT) > 1.0 + first - SLOT


def test_a_slot_without_a_block_costs_three_questions(schedule: BlockSchedule, clock: Clock) -> None:
    questions = 0
    while clock.now < START + 2 * SLOT:
        clock.now += schedule.seconds_until_next(SLOT)
        questions += clock.now < START + 2 * SLOT
    assert questions == 3
    schedule.note(3, START + 2 * SLOT, SLOT)
    assert schedule.seconds_until_next(SLOT) > SLOT - 2


def test_where_blocks_come_at_no_regular_times_every_second_is_asked(schedule: BlockSchedule, clock: Clock) -> None:
    schedule.note(3, START + 5, SLOT)
    clock.now = START + 5.0
    assert schedule.seconds_until_next(SLOT) == 1.0
    assert schedule.expected_timestamp(SLOT) == START + 5


def test_a_chain_that_stands_still_is_asked_every_second(schedule: BlockSchedule, clock: Clock) -> None:
    clock.now = START + 1_000_000.0
    assert schedule.seconds_until_next(SLOT) == 1.0


@pytest.mark.parametrize("ahead", [-500.0, -20.0, 20.0, 500.0])
def test_a_chain_whose_clock_differs_from_ours_is_asked_when_its_blocks_come(clock: Clock, ahead: float) -> None:
    """By our clock a block comes 1.5 seconds after its time, plus what the clocks differ by."""
    schedule = BlockSchedule(1.0, waits_for_blocks=True, clock=clock)
    timestamp, questions, lag = START, 0, 0.0
    clock.now = START + 1.5 - ahead
    schedule.note(0, timestamp, SLOT)
    for number in range(1, 41):
        seen_at = timestamp + SLOT + 1.5 - ahead
        while clock.now < seen_at:
            clock.now += schedule.seconds_until_next(SLOT)
            questions += number > 20
        timestamp += SLOT
        schedule.note(number, timestamp, SLOT)
        lag = max(lag, clock.now - seen_at) if number > 20 else 0.0
    assert questions <= 30
    assert lag < 2.5


def test_a_jump_of_the_chains_clock_does_not_hold_the_questions_up(schedule: BlockSchedule, clock: Clock) -> None:
    """As on test networks, which move time ahead."""
    schedule.note(3, START + 100 * SLOT, SLOT)
    assert schedule.seconds_until_next(SLOT) <= SLOT
    clock.now += SLOT
    schedule.note(4, START + 101 * SLOT, SLOT)
    assert schedule.seconds_until_next(SLOT) <= SLOT


def test_an_interval_that_was_given_is_kept(clock: Clock) -> None:
    schedule = BlockSchedule(3.0, waits_for_blocks=False, clock=clock)
    schedule.note(1, START - SLOT, SLOT)
    schedule.note(2, START, SLOT)
    assert schedule.seconds_until_next(SLOT) == 3.0
