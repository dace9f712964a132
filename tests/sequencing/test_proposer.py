"""Which slots a proposer looks at."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from fastnode.errors import DatabaseFull
from fastnode.loop import CLOCK, Clock
from fastnode.sequencing.proposer import Sequencer
from fastnode.sequencing.record import SlotOutcome
from fastnode.sequencing.timetable import Timetable

SLOT_S, L1_SLOT_S = 36, 12


class Slots:
    """A sequencer on an L1 whose newest block is some seconds after the build start of slot 100."""

    def __init__(self, elapsed_s: float, *, begun: int = -1, clock: Clock = CLOCK) -> None:
        self.newest_timestamp = int(time.time())
        build_start = self.newest_timestamp - elapsed_s
        genesis = build_start + L1_SLOT_S - 100 * SLOT_S
        facts = SimpleNamespace(
            slot_at=lambda at: int(at - genesis) // SLOT_S, start_of_slot=lambda slot: int(genesis + slot * SLOT_S)
        )
        state = SimpleNamespace(pending=0, proven=0, can_prune=False)
        none = SimpleNamespace(number=0)
        tips = SimpleNamespace(checkpointed=SimpleNamespace(block=none, checkpoint=none))
        view = SimpleNamespace(chain=SimpleNamespace(tips=tips, block_info=lambda number: None))
        parts: Any = SimpleNamespace(
            reader=SimpleNamespace(
                seen=lambda: (facts, state),
                newest_timestamp=self.newest_timestamp,
                newest_number=1,
                newest_block_may_be_old=False,
                slot_duration=L1_SLOT_S,
                clock=clock,
            ),
            candidates=SimpleNamespace(notice=lambda: None, on_arrival=None),
            is_paused=lambda: False,
            is_ready=lambda: True,
            chain=SimpleNamespace(view=lambda: view),
            invalidation=SimpleNamespace(newest=None),
            guard=SimpleNamespace(newest=begun),
        )
        options: Any = SimpleNamespace(timetable=Timetable(slot_s=SLOT_S, publishing_s=L1_SLOT_S), poll_s=0.1)
        self.reader, self.state, self.chain = parts.reader, state, parts.chain
        self.sequencer = Sequencer(parts, options)
        self.looked_at: list[int] = []

        def look_at(_facts: object, _state: object, slot: int, _clock: object) -> None:
            self.looked_at.append(slot)
            self.sequencer.record.note(slot, SlotOutcome.MISSED, "it is a test")

        self.sequencer._slot = look_at  # type: ignore[method-assign]

    def look(self) -> None:
        self.sequencer._look()


def test_a_slot_that_had_begun_long_before_the_start_is_not_this_nodes_to_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = Slots(elapsed_s=30)
    slots.look()
    assert slots.looked_at == []
    assert slots.sequencer.record.counts["missed"] == 0
    assert slots.sequencer.state == "slot 100 had begun before the start"
    slots.reader.newest_timestamp += SLOT_S  # late again, and now it was there
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + SLOT_S)
    slots.sequencer._time = None
    slots.look()
    assert slots.looked_at == [101]


def test_a_slot_that_has_just_begun_is_the_first() -> None:
    slots = Slots(elapsed_s=2)
    slots.look()
    slots.look()
    assert slots.looked_at == [100]


def test_a_slot_that_was_begun_before_a_restart_is_left_alone() -> None:
    slots = Slots(elapsed_s=2, begun=100)
    slots.look()
    assert slots.looked_at == []


def test_a_slot_that_the_disk_refused_is_missed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither storing its blocks nor taking them back found room."""
    slots = Slots(elapsed_s=2)

    def full() -> None:
        raise DatabaseFull("the disk is full")

    attempts: list[int] = []

    def attempt(_parts: object, _options: object, _facts: object, _state: object, slot: int, *_more: object) -> Any:
        attempts.append(slot)
        return SimpleNamespace(run=full, published_in=0, reason=None, vote_alone=lambda: None)

    monkeypatch.setattr("fastnode.sequencing.proposer._Attempt", attempt)
    slots.chain.without_own, slots.chain.is_taken = full, lambda _slot: False
    del slots.sequencer._slot  # type: ignore[attr-defined]
    with pytest.raises(DatabaseFull):
        slots.look()
    slots.look()
    assert attempts == [100]
    assert slots.sequencer.record.counts["missed"] == 1
    assert slots.sequencer.record.describe()["newest"][0]["reason"] == "the disk is full"


def test_a_slot_that_a_bug_has_ended_is_missed_and_its_blocks_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = Slots(elapsed_s=2)
    taken_back: list[int] = []

    def fail() -> None:
        raise ZeroDivisionError("secret")

    attempt = SimpleNamespace(run=fail, published_in=0, reason=None, vote_alone=lambda: None)
    monkeypatch.setattr("fastnode.sequencing.proposer._Attempt", lambda *_parts: attempt)
    slots.chain.without_own, slots.chain.is_taken = lambda: taken_back.append(1), lambda _slot: False
    del slots.sequencer._slot  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        slots.look()
    assert taken_back == [1]
    assert slots.sequencer.record.describe()["newest"][0]["reason"] == "ZeroDivisionError; the log has the cause"
    assert slots.sequencer.record.counts["missed"] == 1
    slots.look()
    assert slots.sequencer.record.counts["missed"] == 1


def test_the_next_slot_waits_until_the_own_checkpoint_was_read_from_l1(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = Slots(elapsed_s=2)
    drafted = SimpleNamespace(draft=SimpleNamespace(number=1, blocks=[None]), tx_count=0)
    run = lambda: (SlotOutcome.PROPOSED, drafted)  # noqa: E731
    attempt = SimpleNamespace(run=run, published_in=7, reason=None, vote_alone=lambda: None)
    monkeypatch.setattr("fastnode.sequencing.proposer._Attempt", lambda *_parts: attempt)
    del slots.sequencer._slot  # type: ignore[attr-defined]
    slots.look()
    assert slots.sequencer.record.counts["proposed"] == 1
    slots.reader.newest_timestamp += SLOT_S
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + SLOT_S)
    slots.sequencer._time = None
    for head in (1, 6):  # without the block of L1 that has the checkpoint the chain only seems to be as new
        slots.reader.newest_number = head
        slots.look()
        assert slots.sequencer.state == "waits until the chain is as new as L1"
    slots.reader.newest_number = 7
    slots.look()
    assert slots.sequencer.record.counts["proposed"] == 2


def test_a_reorg_of_l1_behind_the_own_checkpoint_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = Slots(elapsed_s=2)
    slots.sequencer._published_in = 7
    slots.reader.newest_number = 7
    slots.look()
    slots.reader.newest_number = 5
    slots.reader.newest_timestamp += SLOT_S
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + SLOT_S)
    slots.sequencer._time = None
    slots.look()
    assert slots.looked_at == [100, 101]
