"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from fastnode.cli import progress as module
from fastnode.cli.progress import progress


def test_plain_lines_come_at_intervals_and_not_at_every_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    with progress("importing x") as advance:
        for step in range(1, 13):
            now += 1.0
            advance(step, 12, f"block {step}")
    assert capsys.readouterr().err == "importing x: 41 %, block 5\nimporting x: 83 %, block 10, 0:02 left\n"


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("checking") as advance:
        advance(1, 1, "all")
    assert capsys.readouterr().err == ""


def test_work_of_unknown_size_is_shown_as_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_LINE_INTERVAL_S", 0.0)
    with progress("checking") as advance:
        advance(0, 0, "nothing")
    assert capsys.readouterr().err == "checking: 100 %, nothing\n"


def test_a_terminal_shows_a_bar_that_is_gone_afterwards(tmp_path: Path, short_chain: Path) -> None:
    """A process with a pseudo-terminal for standard error."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fastnode", "import", str(short_chain), "--data-directory", str(tmp_path)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100", "FASTNODE_NO_EXTENSIONS": "1"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # what Linux says when the other end of a terminal has closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert process.wait(60) == 0
    assert b"importing short.jsonl" in shown
    assert b"block " in shown
    assert b"%" in shown
