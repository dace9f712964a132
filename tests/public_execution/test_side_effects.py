"""Limits of what a transaction does, and what a checkpoint brings back."""

from __future__ import annotations

import pytest

from fastnode.errors import TxExecutionError
from fastnode.protocol.effects import PublicDataWrite, PublicLog
from fastnode.protocol.fields import field_from_int
from fastnode.protocol.releases import FIVE, FOUR
from fastnode.public_execution.side_effects import STORAGE_SLOTS_MAX, SideEffects

ONE, TWO = field_from_int(1), field_from_int(2)


def log_of(size: int) -> PublicLog:
    return PublicLog(ONE, (TWO,) * size)


def slots(count: int) -> list[bytes]:
    return [field_from_int(1000 + number) for number in range(count)]


def test_logs_share_4096_fields_of_which_each_takes_two_more_than_it_has() -> None:
    effects = SideEffects()
    assert effects.has_room_for_public_log(4094)
    assert not effects.has_room_for_public_log(4095)
    effects.add_public_log(log_of(2000))
    assert effects.has_room_for_public_log(2092)
    assert not effects.has_room_for_public_log(2093)


def test_logs_that_are_undone_give_their_fields_back() -> None:
    effects = SideEffects()
    mark = effects.mark()
    effects.add_public_log(log_of(4094))
    assert not effects.has_room_for_public_log(0)
    effects.rollback(mark)
    assert effects.has_room_for_public_log(4094)
    assert effects.public_logs == []


def test_slots_that_are_undone_are_cold_and_may_be_others() -> None:
    effects = SideEffects()
    first, *others = slots(STORAGE_SLOTS_MAX + 1)
    effects.add_write(first, ONE)
    mark = effects.mark()
    for slot in others[:-1]:
        effects.add_write(slot, ONE)
    assert effects.is_written(others[0])
    assert not effects.may_write(others[-1])
    assert effects.may_write(first), "a slot that is written already takes no other place"
    effects.rollback(mark)
    assert effects.is_written(first)
    assert not effects.is_written(others[0])
    assert effects.may_write(others[-1])


def test_a_slot_stands_where_it_was_first_written_with_what_was_last_written() -> None:
    effects = SideEffects()
    first, second = slots(2)
    effects.add_write(first, ONE)
    effects.add_write(second, ONE)
    mark = effects.mark()
    effects.add_write(first, TWO)
    assert effects.public_data_writes() == (PublicDataWrite(first, TWO), PublicDataWrite(second, ONE))
    effects.rollback(mark)
    assert effects.public_data_writes() == (PublicDataWrite(first, ONE), PublicDataWrite(second, ONE))


def test_the_fee_takes_a_place_of_the_effect_but_none_of_the_contracts() -> None:
    effects = SideEffects()
    *written, free, payer = slots(STORAGE_SLOTS_MAX + 1)
    for slot in written:
        effects.add_write(slot, ONE)
    effects.add_fee_write(payer, ONE)
    effects.check_final_counts(FOUR.machine.written_slots)
    assert effects.may_write(free)
    effects.add_write(free, ONE)
    text = "Too many side effects. Note hashes: 0, Nullifiers: 0, L2 to L1 messages: 0, Storage writes: 64"
    with pytest.raises(TxExecutionError, match=f"^{text}$"):
        effects.check_final_counts(FOUR.machine.written_slots)
    effects.check_final_counts(FIVE.machine.written_slots)
