"""The newest slot that was signed for, from one run to the next."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest
from tests.clock import Clock

from fastnode.errors import DataDirectoryError, SlotLost
from fastnode.sequencing.slot_guard import SlotGuard


def test_a_slot_is_entered_once_also_after_a_restart(tmp_path: Path) -> None:
    SlotGuard(tmp_path / "slot").enter(7, 0.0)
    again = SlotGuard(tmp_path / "slot")
    for slot in (6, 7):
        with pytest.raises(SlotLost, match="not signed again"):
            again.enter(slot, 0.0)
    again.enter(8, 0.0)
    assert SlotGuard(tmp_path / "slot").newest == 8


def test_without_a_file_nothing_has_been_signed_for(tmp_path: Path) -> None:
    assert SlotGuard(tmp_path / "slot").newest == SlotGuard(None).newest == -1


def test_the_file_of_an_older_node_counts(tmp_path: Path) -> None:
    (tmp_path / "slot").write_text("41\n")
    assert SlotGuard(tmp_path / "slot").newest == 41


@pytest.mark.parametrize("content", [b"", b"\n", b"12", b"x\n", b"-1\n", b"1_0\n", b"12 00000000\n", b"\xff\xfe\n"])
def test_a_damaged_file_is_refused_with_the_way_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "slot").write_bytes(content)
    with pytest.raises(DataDirectoryError, match=r"slot is damaged.*Remove it when that slot is over"):
        SlotGuard(tmp_path / "slot")


def test_a_slot_that_cannot_be_written_down_is_lost_and_a_fault_until_the_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, has_room = SlotGuard(tmp_path / "slot"), False

    def full(_path: Path, *_parts: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("fastnode.sequencing.slot_guard.has_room", lambda _path: has_room)
    with monkeypatch.context() as patch:
        patch.setattr("fastnode.sequencing.slot_guard.replace_file", full)
        with pytest.raises(SlotLost, match=r"cannot be written down in .*slot: No space left on device"):
            guard.enter(7, 0.0)
    assert guard.newest == -1
    assert "nothing is signed" in str(guard.fault)
    has_room = True
    assert guard.fault is None
    guard.enter(7, 0.0)
    assert SlotGuard(tmp_path / "slot").newest == 7


def test_a_disk_that_refuses_for_another_reason_is_a_fault_until_it_takes_a_slot(tmp_path: Path) -> None:
    folder = tmp_path / "publishing"
    guard = SlotGuard(folder / "slot")
    with pytest.raises(SlotLost):
        guard.enter(7, 0.0)
    assert "No such file or directory" in str(guard.fault)
    folder.mkdir()
    assert guard.fault is not None
    guard.enter(7, 0.0)
    assert guard.fault is None


def test_no_changed_bit_is_taken_for_another_slot(tmp_path: Path) -> None:
    SlotGuard(tmp_path / "slot").enter(123_456, 0.0)
    written = (tmp_path / "slot").read_bytes()
    for place in range(len(written) * 8):
        changed = bytearray(written)
        changed[place // 8] ^= 1 << place % 8
        (tmp_path / "slot").write_bytes(changed)
        with pytest.raises(DataDirectoryError):
            SlotGuard(tmp_path / "slot")


def test_a_file_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "slot").mkdir()
    with pytest.raises(DataDirectoryError, match="cannot be read"):
        SlotGuard(tmp_path / "slot")


@pytest.mark.parametrize("seed", range(20))
def test_no_slot_is_entered_in_two_lives_also_where_the_data_were_removed_between_them(
    tmp_path: Path, seed: int
) -> None:
    """Its operator removes them when a database is damaged, and starts it again in the same slot."""
    dice, clock, slot_s = random.Random(seed), Clock(0.0), 36.0
    path, entered, lost = tmp_path / "slot", list[int](), 0
    guard = SlotGuard(path, clock=clock)
    for _ in range(300):
        clock.now += dice.expovariate(1 / 20)
        slot, elapsed = divmod(clock.now, slot_s)
        kind = dice.choice(("sign", "sign", "killed", "removed"))
        if kind == "removed":
            path.unlink(missing_ok=True)
        if kind != "sign":
            guard = SlotGuard(path, clock=clock)
            continue
        try:
            guard.enter(int(slot), elapsed)
            entered.append(int(slot))
        except SlotLost:
            lost += 1
    assert len(set(entered)) == len(entered) > 20
    assert lost > 20
