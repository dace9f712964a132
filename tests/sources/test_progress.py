"""What catching up says of itself, on a terminal and in a log."""

from __future__ import annotations

import io
import logging
import math

import pytest

from fastnode.sources import progress
from fastnode.sources.progress import WIDTH, CatchUpProgress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_log_gets_a_line_every_few_seconds_with_rate_and_rest(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    catching_up = CatchUpProgress()
    for tip in range(0, 1100, 10):
        catching_up.note(tip, 2000)
        clock[0] += 0.1
    lines = [record.facts for record in caplog.records]  # type: ignore[attr-defined]
    assert len(lines) == 2
    assert catching_up.describe() == {"blocksPerSecond": 100.0, "etaSeconds": 9}
    assert lines[0] == {"tip": 510, "of": 2000, "lag": 1490, "blocks_per_s": 100.0, "eta_s": 15}


def test_following_block_by_block_says_nothing(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    catching_up = CatchUpProgress()
    for tip in range(100):
        catching_up.note(tip, tip)
        clock[0] += 4.0
    assert caplog.records == []
    assert catching_up.describe() is None


def test_a_terminal_has_one_line_that_is_wiped_in_the_end(clock: list[float]) -> None:
    terminal = io.StringIO()
    catching_up = CatchUpProgress(terminal)
    for tip in range(0, 90, 10):
        catching_up.note(tip, 100)
        clock[0] += 0.125
    assert "block 40 of 100, 80/s, 0:01 left" in terminal.getvalue()
    assert "\n" not in terminal.getvalue()
    catching_up.note(100, 100)
    assert terminal.getvalue().endswith("\r" + " " * WIDTH + "\r")


def test_a_measurement_that_was_begun_goes_on_through_a_pause(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    catching_up = CatchUpProgress(unit="checkpoint", quiet_s=math.inf)
    catching_up.begin(10)
    assert catching_up.eta_s is None
    clock[0] += 6.0
    catching_up.note(22, 82, blobs=12)
    assert catching_up.eta_s == 30
    [line] = [record.facts for record in caplog.records]  # type: ignore[attr-defined]
    assert line == {"tip": 22, "of": 82, "lag": 60, "blobs": 12, "checkpoints_per_s": 2.0, "eta_s": 30}
