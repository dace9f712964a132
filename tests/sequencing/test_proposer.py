"""Which slots a proposer looks at."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from fastnode.errors import DatabaseFull, UpstreamRejection, UpstreamUnavailable
from fastnode.loop import CLOCK, Clock
from fastnode.sequencing.l1_time import L1Time
from fastnode.sequencing.passed_slots import SLOTS_MAX
from fastnode.sequencing.proposer import Sequencer
from fastnode.sequencing.record import SlotOutcome
from fastnode.sequencing.timetable import Timetable

SLOT_S, L1_SLOT_S = 36, 12
OWN, OTHER = b"\1" * 20, b"\2" * 20


class Proposers:
    """An endpoint of L1 where this node proposes in even slots."""

    def __init__(self, slot_at: Callable[[int], int]) -> None:
        self._slot_at = slot_at

    def answers(self, calls: Sequence[tuple[str, list[Any]]]) -> list[str]:
        slots = [self._slot_at(int(call["data"][-64:], 16)) for _, [call, _] in calls]
        return ["0x" + bytes(12).hex() + (OTHER if slot % 2 else OWN).hex() for slot in slots]

    def read(self, *_: object) -> Any:
        raise UpstreamRejection(3, "execution reverted")  # no escape hatch


class Slots:
    """A sequencer on an L1 whose newest block is some seconds after the build start of slot 100."""

    def __init__(self, elapsed_s: float, *, begun: int = -1, clock: Clock = CLOCK) -> None:
        self.newest_timestamp = int(time.time())
        build_start = self.newest_timestamp - elapsed_s
        genesis = build_start + L1_SLOT_S - 100 * SLOT_S
        facts = SimpleNamespace(
            slot_at=lambda at: int(at - genesis) // SLOT_S,
            start_of_slot=lambda slot: int(genesis + slot * SLOT_S),
            target_committee_size=4,
            epoch_duration=4,
            rollup=bytes(20),
        )
        state = SimpleNamespace(pending=0, proven=0, can_prune=False)
        none = SimpleNamespace(number=0)
        tips = SimpleNamespace(checkpointed=SimpleNamespace(block=none, checkpoint=none))
        #: Checkpoints by slot that others have published.
        self.published: dict[int, int] = {}
        chain = SimpleNamespace(
            tips=tips, block_info=lambda number: None, checkpoint_number_by_slot=lambda slot: self.published.get(slot)
        )
        view = SimpleNamespace(chain=chain)
        parts: Any = SimpleNamespace(
            reader=SimpleNamespace(
                seen=lambda: (facts, state),
                newest_timestamp=self.newest_timestamp,
                newest_number=1,
                newest_block_may_be_old=False,
                slot_duration=L1_SLOT_S,
                clock=clock,
                run=lambda work: work(Proposers(facts.slot_at)),
            ),
            candidates=SimpleNamespace(notice=lambda: None, on_arrival=None),
            is_paused=lambda: False,
            is_ready=lambda: True,
            chain=SimpleNamespace(view=lambda: view),
            invalidation=SimpleNamespace(newest=None),
            guard=SimpleNamespace(newest=begun),
            door=SimpleNamespace(attesters=lambda: (OWN,)),
            publisher=SimpleNamespace(warm_up=lambda: None),
        )
        timetable = Timetable(slot_s=SLOT_S, publishing_s=L1_SLOT_S)
        options: Any = SimpleNamespace(timetable=timetable, poll_s=0.1, is_fisherman=False)
        self.parts, self.reader, self.state, self.chain = parts, parts.reader, state, parts.chain
        self.sequencer = Sequencer(parts, options)
        self.looked_at: list[int] = []

        def look_at(_facts: object, _state: object, slot: int, _clock: object) -> None:
            self.looked_at.append(slot)
            self.sequencer.record.note(slot, SlotOutcome.MISSED, "it is a test")

        self.sequencer._slot = look_at  # type: ignore[method-assign]

    def look(self) -> str | None:
        return self.sequencer._look()

    def noted(self) -> list[tuple[int, str, str]]:
        """Slots with outcome and reason, oldest first."""
        newest = self.sequencer.record.describe()["newest"]
        return [(each["slot"], each["outcome"], each["reason"]) for each in reversed(newest)]


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
        assert slots.look() == "waits until the chain is as new as L1"
    slots.reader.newest_number = 7
    slots.look()
    assert slots.sequencer.record.counts["proposed"] == 2


def test_a_slot_waits_for_the_last_l1_block_before_it() -> None:
    slots = Slots(elapsed_s=2)
    begin = slots.reader.newest_timestamp - 2
    now = begin + 1.0
    slots.sequencer._time = L1Time(lambda: slots.reader.newest_timestamp, L1_SLOT_S, wall=lambda: now)
    slots.reader.newest_timestamp = begin - L1_SLOT_S
    assert slots.look() is None
    assert slots.looked_at == []
    slots.reader.newest_timestamp = begin
    slots.look()
    assert slots.looked_at == [100]


def test_a_slot_begins_without_an_l1_block_that_is_missed() -> None:
    slots = Slots(elapsed_s=2)
    begin = slots.reader.newest_timestamp - 2
    now = begin + L1_SLOT_S / 2
    slots.sequencer._time = L1Time(lambda: slots.reader.newest_timestamp, L1_SLOT_S, wall=lambda: now)
    slots.reader.newest_timestamp = begin - L1_SLOT_S
    slots.look()
    assert slots.looked_at == [100]


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


# ---- slots that pass without an attempt -------------------------------------------------------------------------


class Passing(Slots):
    """Has looked at slot 100; slots pass by ``pass_to``."""

    def __init__(self) -> None:
        super().__init__(elapsed_s=2)
        self.begun = self.now = self.reader.newest_timestamp
        self.sequencer._time = L1Time(lambda: self.reader.newest_timestamp, L1_SLOT_S, wall=lambda: self.now)
        self.sequencer._turn()

    def pass_to(self, slot: int, *, l1_goes_on: bool = True) -> None:
        self.now = self.begun + (slot - 100) * SLOT_S
        if l1_goes_on:
            self.reader.newest_timestamp = self.now
        self.sequencer._turn()


def test_own_slots_that_pass_while_an_earlier_one_lasts_are_missed() -> None:
    slots = Passing()
    slots.pass_to(105)
    assert slots.looked_at == [100, 105]
    busy = "this node was busy with slot 100 until it was over"
    assert slots.noted() == [
        (100, "missed", "it is a test"),
        (102, "missed", busy),
        (104, "missed", busy),
        (105, "missed", "it is a test"),
    ]
    assert slots.sequencer.record.counts["missed"] == 4
    assert "the last 4 slots were missed; slot 105" in str(slots.sequencer.record.trouble)


def test_own_slots_that_pass_while_l1_is_silent_have_that_reason(caplog: pytest.LogCaptureFixture) -> None:
    slots = Passing()
    for slot in (102, 103, 104):
        slots.pass_to(slot, l1_goes_on=False)
    assert len(slots.noted()) == 1
    caplog.clear()
    slots.pass_to(106)
    late = "waits for L1, of which the newest blocks are missing"
    assert slots.noted()[1:] == [(102, "missed", late), (104, "missed", late), (106, "missed", "it is a test")]
    assert [record.message for record in caplog.records] == ["slot", "slot"]
    slots.pass_to(107)
    assert len(slots.noted()) == 5, "each is noted once"


def test_passed_slots_are_recorded_once_l1_answers() -> None:
    slots = Passing()
    run = slots.reader.run

    def fail(_work: object) -> None:
        raise UpstreamUnavailable("no endpoint answers")

    slots.reader.run = fail
    slots.pass_to(103)
    assert [slot for slot, *_ in slots.noted()] == [100, 103]
    slots.reader.run = run
    slots.pass_to(103)
    assert [slot for slot, *_ in slots.noted()] == [100, 102, 103]


def test_passed_slots_are_recorded_once_the_database_is_read() -> None:
    slots = Passing()
    chain = slots.chain.view().chain
    find = chain.checkpoint_number_by_slot

    def fail(slot: int) -> int | None:
        if slot == 104:
            raise DatabaseFull("the disk is full")
        return find(slot)

    chain.checkpoint_number_by_slot = fail
    slots.pass_to(105)
    assert [slot for slot, *_ in slots.noted()] == [100, 105]
    chain.checkpoint_number_by_slot = find
    slots.pass_to(105)
    assert [slot for slot, *_ in slots.noted()] == [100, 102, 104, 105], "each is noted once"


def test_early_slots_of_a_long_silence_are_logged_together(caplog: pytest.LogCaptureFixture) -> None:
    slots = Passing()
    slots.pass_to(101 + SLOTS_MAX + 10)
    assert slots.sequencer.record.counts["missed"] == 2 + SLOTS_MAX // 2
    together = [record for record in caplog.records if record.message == "slots passed without an attempt"]
    assert [vars(record)["facts"] for record in together] == [{"slots": 10, "first": 101}]


def test_a_fisherman_misses_no_slots() -> None:
    slots = Passing()
    slots.sequencer.options.is_fisherman = True  # type: ignore[misc]
    slots.pass_to(105)
    assert [slot for slot, *_ in slots.noted()] == [100, 105]


def test_own_slots_of_an_open_escape_hatch_are_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = Passing()
    monkeypatch.setattr(
        "fastnode.sequencing.passed_slots.is_hatch_open",
        lambda _endpoint, facts, slot: slot // facts.epoch_duration == 26,
    )
    slots.pass_to(109)
    assert [slot for slot, *_ in slots.noted()] == [100, 102, 108, 109]


def test_a_passed_slot_that_another_node_of_its_proposer_took_is_not_missed() -> None:
    slots = Passing()
    slots.published[102] = 7
    slots.pass_to(103)
    assert slots.noted()[1][:2] == (102, "yielded")


def test_slots_that_a_moved_clock_of_l1_leaves_out_are_nobodys() -> None:
    """A development chain whose time jumps: no block of L1 could have had their checkpoints."""
    slots = Passing()
    slots.reader.newest_timestamp += 10 * SLOT_S
    slots.sequencer._turn()
    assert [slot for slot, *_ in slots.noted()] == [100, 110]
