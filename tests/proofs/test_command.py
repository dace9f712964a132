"""The operator's own verifier: who says yes, and what an external command may do to us."""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.proofs.programs import vector

from fastnode.errors import SettingError
from fastnode.proofs.command import CommandVerifier
from fastnode.proofs.program import FAILED, INVALID_PROOF, TOO_SLOW
from fastnode.proofs.queue import VERIFIER_BUSY
from fastnode.proofs.verdict import VALID, Verdict
from fastnode.protocol.tx import Tx


@pytest.fixture(scope="module")
def tx() -> Tx:
    return vector("private")


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.parametrize(
    ("exit_code", "verdict"),
    [
        (0, VALID),
        (1, Verdict.invalid(INVALID_PROOF)),
        (2, Verdict.unknown(FAILED)),
        (101, Verdict.unknown(FAILED)),
    ],
)
def test_the_exit_code_decides(exit_code: int, verdict: Verdict, tx: Tx) -> None:
    assert CommandVerifier(["sh", "-c", f"exit {exit_code}"]).judge(tx) == verdict


def test_it_gets_a_file_with_the_binary_form_that_is_removed(tx: Tx, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    code = f"import pathlib,sys; p=pathlib.Path(sys.argv[1]); q=pathlib.Path({str(copy)!r})\n"
    code += "q.write_bytes(p.read_bytes()); q.with_suffix('.path').write_text(str(p))"
    assert CommandVerifier.of_text(shlex.join(_python(code))).judge(tx) == VALID
    assert copy.read_bytes() == tx.to_buffer()
    assert not Path(copy.with_suffix(".path").read_text()).parent.exists()


def test_one_that_hangs_is_ended(tx: Tx) -> None:
    assert CommandVerifier(["sh", "-c", "sleep 600"], timeout_s=0.3).judge(tx) == Verdict.unknown(TOO_SLOW)


def test_one_that_vanishes_leaves_the_proof_unknown(tx: Tx, tmp_path: Path) -> None:
    assert CommandVerifier([str(tmp_path / "gone")]).judge(tx) == Verdict.unknown(FAILED)


def test_who_waits_too_long_for_a_turn_is_told_so(tx: Tx, tmp_path: Path) -> None:
    started, gate = tmp_path / "started", tmp_path / "gate"
    os.mkfifo(gate)
    verifier = CommandVerifier(["sh", "-c", f"touch {started}; cat {gate}"], processes_max=1, timeout_s=60)
    first = threading.Thread(target=verifier.judge, args=(tx,))
    first.start()
    deadline = time.monotonic() + 30
    while not started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    verifier._timeout_s = 0.1
    assert verifier.judge(tx) == Verdict.unknown(VERIFIER_BUSY)
    gate.write_text("go on")
    first.join()


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("nowhere-to-be-found --fast", "there is no program nowhere-to-be-found"),
        ("'open", "cannot be read"),
        ("", "is empty"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused_at_once(command: str, complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        CommandVerifier.of_text(command)


def test_a_verifier_that_crashes_has_not_judged(tx: Tx) -> None:
    for code in ("raise MemoryError", "import nothing_of_this_name", "1 / 0"):
        assert CommandVerifier(_python(code)).judge(tx) == Verdict.unknown(FAILED)
