"""The time of the next block."""

from __future__ import annotations

import pytest

from fastnode.errors import ValueRefused
from fastnode.local_network.clock import TIMESTAMP_MAX, ChainClock, SlotTime

GENESIS = 1_000
WALL = 2_000


def clock_at(slot: int = 0, timestamp: int = 0, *, duration: int = 1) -> ChainClock:
    """The newest block is in this slot, and the wall says WALL."""
    return ChainClock(SlotTime(GENESIS, duration), lambda: (slot, timestamp), wall=lambda: float(WALL))


def test_a_block_is_in_the_slot_that_the_clock_is_in() -> None:
    assert clock_at().next_timestamp() == WALL
    assert clock_at(duration=36).next_slot() == (WALL - GENESIS) // 36


def test_no_block_is_in_the_slot_of_the_one_before_it() -> None:
    ahead = clock_at(1_500, GENESIS + 1_500)
    assert ahead.next_timestamp() == GENESIS + 1_501


def test_the_first_block_is_not_in_slot_0() -> None:
    early = ChainClock(SlotTime(GENESIS, 1), lambda: (0, 0), wall=lambda: float(GENESIS - 5))
    assert early.next_slot() == 1


def test_a_time_that_was_set_holds_for_one_block_and_the_clock_goes_on_from_it() -> None:
    clock = clock_at(1_000, WALL)
    clock.set_next(WALL + 500)
    assert clock.next_timestamp() == WALL + 500
    clock.on_block(WALL + 500)
    assert clock.now() == WALL + 500


def test_a_time_between_slots_means_the_next_one() -> None:
    clock = clock_at(10, GENESIS + 360, duration=36)
    clock.set_next(GENESIS + 361)
    assert clock.next_timestamp() == GENESIS + 11 * 36


def test_an_interval_takes_the_place_of_the_clock() -> None:
    clock = clock_at(1_000, WALL)
    clock.set_interval(60)
    assert clock.next_timestamp() == WALL + 60
    clock.set_interval(None)
    assert clock.next_timestamp() == WALL + 1


def test_moving_the_clock_moves_what_comes_after() -> None:
    clock = clock_at(1_000, WALL)
    assert clock.advance(100) == 100
    assert clock.next_timestamp() == WALL + 100
    clock.set(WALL + 50)
    assert clock.next_timestamp() == WALL + 50


def test_time_never_goes_back() -> None:
    clock = clock_at(1_000, WALL)
    with pytest.raises(ValueRefused, match="1999 is lower than previous block's timestamp"):
        clock.set(WALL - 1)
    with pytest.raises(ValueRefused, match="2000 is lower than"):
        clock.set_next(WALL)
    with pytest.raises(ValueRefused, match="must not be negative"):
        clock.advance(-1)
    with pytest.raises(ValueRefused, match="is above"):
        clock.set_next(TIMESTAMP_MAX + 1)


@pytest.mark.parametrize("duration", [1, 36, 1_000])
def test_no_time_leads_to_a_slot_that_cannot_be_stored(duration: int) -> None:
    clock = clock_at(duration=duration)
    latest = clock.slots.latest
    for change in (
        lambda: clock.set_next(latest + 1),
        lambda: clock.set(latest + 1),
        lambda: clock.advance(latest - WALL + 1),
        lambda: clock.set_interval(latest + 1),
    ):
        with pytest.raises(ValueRefused, match="the latest time of this network"):
            change()
    clock.set(latest)
    clock.set_interval(latest)
    assert clock.next_slot() < (1 << 32) - (1 << 23)
    far = ChainClock(clock.slots, lambda: (clock.next_slot(), latest), wall=lambda: 1e12)
    assert far.next_slot() == clock.next_slot() + 1
