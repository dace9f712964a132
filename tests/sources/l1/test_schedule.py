"""When L1 is asked for its next block."""

from __future__ import annotations

import pytest

from fastnode.sources.l1.schedule import BlockSchedule

SLOT = 12
START = 1_200_000


class Clock:
    now = float(START)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def schedule(clock: Clock) -> BlockSchedule:
    """It has seen two blocks a slot apart."""
    schedule = BlockSchedule(1.0, waits_for_blocks=True, clock=clock)
    schedule.note(1, START - SLOT, SLOT)
    schedule.note(2, START, SLOT)
    return schedule


def test_the_next_block_is_asked_for_when_it_is_due(schedule: BlockSchedule, clock: Clock) -> None:
    clock.now = START + 2.0
    assert SLOT - 2.0 < schedule.seconds_until_next(SLOT) < SLOT - 1.0
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


def test_a_chain_whose_clock_is_another_one_is_asked_every_second(schedule: BlockSchedule, clock: Clock) -> None:
    clock.now = START + 1_000_000.0
    assert schedule.seconds_until_next(SLOT) == 1.0


def test_an_interval_that_was_given_is_kept(clock: Clock) -> None:
    schedule = BlockSchedule(3.0, waits_for_blocks=False, clock=clock)
    schedule.note(1, START - SLOT, SLOT)
    schedule.note(2, START, SLOT)
    assert schedule.seconds_until_next(SLOT) == 3.0
