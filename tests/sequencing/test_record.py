"""What is told of slots."""

from __future__ import annotations

from fastnode.sequencing.record import KEPT_MAX, SlotOutcome, SlotRecord


def test_slots_are_counted_by_what_became_of_them() -> None:
    record = SlotRecord()
    record.note(5, SlotOutcome.PROPOSED, checkpoint=2, blocks=3, txs=7, seconds=1.25)
    record.note(6, SlotOutcome.OTHERS, "its proposer is 0x01")
    record.note(7, SlotOutcome.EMPTY, "no transactions")
    told = record.describe()
    assert told["slots"] == {"proposed": 1, "missed": 0, "yielded": 0, "empty": 1, "others": 1, "built": 0}
    assert (told["blocks"], told["txs"]) == (3, 7)
    assert [item["slot"] for item in told["newest"]] == [7, 6, 5]
    assert told["newest"][2]["seconds"] == 1.25


def test_one_missed_slot_is_no_trouble_and_two_in_a_row_are() -> None:
    record = SlotRecord()
    record.note(5, SlotOutcome.MISSED, "L1 is away")
    assert record.trouble is None
    record.note(6, SlotOutcome.OTHERS)
    record.note(7, SlotOutcome.MISSED, "no account has ETH")
    assert record.trouble == "the last 2 slots were missed; slot 7: no account has ETH"
    record.note(8, SlotOutcome.PROPOSED, checkpoint=1)
    assert record.trouble is None


def test_only_the_newest_slots_are_kept_one_by_one() -> None:
    record = SlotRecord()
    for slot in range(KEPT_MAX + 10):
        record.note(slot, SlotOutcome.EMPTY)
    assert len(record.describe()["newest"]) == KEPT_MAX
    assert record.counts["empty"] == KEPT_MAX + 10
