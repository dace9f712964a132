"""When what happens in a slot, as release 4.1.2 divides it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fastnode.config.settings import Settings
from fastnode.sequencing.timetable import Timetable

#: Mainnet's slots, with blocks of 6 seconds.
MAINNET = Timetable.of(replace(Settings(), block_duration_ms=6_000), slot_s=72, l1_slot_s=12, chain_id=1)
#: A development chain with short slots.
SHORT = Timetable.of(Settings(), slot_s=36, l1_slot_s=4, chain_id=31_337)


def test_blocks_have_their_parts_of_the_slot_one_after_the_other() -> None:
    assert MAINNET.blocks_max == 8  # (72 - 1 - 6 - (1 + 2 * 2 + 12)) / 6
    assert [MAINNET.block_ends_s(index, 0.0) for index in range(3)] == [7.0, 13.0, 19.0]


def test_a_block_that_is_begun_late_still_has_the_time_that_a_block_takes_at_least() -> None:
    assert MAINNET.block_ends_s(0, 6.5) == 8.5


def test_the_only_block_of_a_slot_takes_half_of_what_is_left_of_it() -> None:
    assert SHORT.blocks_max == 1
    assert SHORT.block_ends_s(0, 0.0) == pytest.approx((36 - 1.5) / 2)
    assert SHORT.block_ends_s(0, 20.0) == pytest.approx(20 + (36 - 1.5 - 20) / 2)


def test_a_slot_is_given_up_when_no_block_could_be_built_and_checked_any_more() -> None:
    latest = 72 - (1 + 2 * 2 + 1 + 2 * 2 + 12)
    assert not MAINNET.is_too_late(latest)
    assert MAINNET.is_too_late(latest + 0.1)
    assert not replace(MAINNET, is_enforced=False).is_too_late(latest + 0.1)


def test_attestations_are_collected_until_the_last_l1_block_of_the_slot_can_just_have_them() -> None:
    # That block's time is 72 s after the build start.  Blocks end as if publishing took a whole slot of L1.
    assert MAINNET.attestations_end_s == 72 - 4
    assert MAINNET.end_s == 1 + 2 * 2 + 12
    assert SHORT.attestations_end_s == 36 - 1
    asked = replace(Settings(), l1_publishing_time=20)
    assert Timetable.of(asked, slot_s=72, l1_slot_s=12, chain_id=1).attestations_end_s == 52


def test_a_slot_too_short_for_its_blocks_has_one() -> None:
    short = replace(Settings(), block_duration_ms=30_000)
    assert Timetable.of(short, slot_s=36, l1_slot_s=12, chain_id=1).blocks_max == 1
