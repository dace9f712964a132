"""Proof verifiers: who says yes, and what an external command may do to us."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.mempool.recorded import hashes, recorded_tx

from fastnode.errors import SettingError
from fastnode.mempool.proofs import (
    INVALID_PROOF,
    NO_VERIFIER,
    VERIFIER_BUSY,
    VERIFIER_FAILED,
    CommandVerifier,
    NoVerifier,
    ProofsNotVerified,
    choose_verifier,
)
from fastnode.proofs.verdict import VALID, Verdict
from fastnode.protocol.tx import Tx


@pytest.fixture(scope="module")
def tx() -> Tx:
    return recorded_tx(hashes("fresh")[0])


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_networks_without_real_proofs_do_not_verify(tx: Tx) -> None:
    verifier = choose_verifier(real_proofs=False, command=None)
    assert isinstance(verifier, ProofsNotVerified)
    assert verifier.judge(tx) == VALID


def test_networks_with_real_proofs_refuse_without_a_verifier(tx: Tx) -> None:
    verifier = choose_verifier(real_proofs=True, command=None)
    assert isinstance(verifier, NoVerifier)
    assert verifier.judge(tx) == Verdict.unknown(NO_VERIFIER)


@pytest.mark.parametrize(
    ("exit_code", "verdict"),
    [
        (0, VALID),
        (1, Verdict.invalid(INVALID_PROOF)),
        (2, Verdict.unknown(VERIFIER_FAILED)),
        (101, Verdict.unknown(VERIFIER_FAILED)),
    ],
)
def test_the_exit_code_of_the_command_decides(exit_code: int, verdict: Verdict, tx: Tx) -> None:
    assert CommandVerifier(_python(f"raise SystemExit({exit_code})")).judge(tx) == verdict


def test_the_command_gets_a_file_with_the_binary_form_that_is_removed(tx: Tx, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    code = f"import pathlib,sys; p=pathlib.Path(sys.argv[1]); q=pathlib.Path({str(copy)!r})\n"
    code += "q.write_bytes(p.read_bytes()); q.with_suffix('.path').write_text(str(p))"
    assert choose_verifier(real_proofs=True, command=shlex.join(_python(code))).judge(tx) == VALID
    assert copy.read_bytes() == tx.to_buffer()
    assert not Path(copy.with_suffix(".path").read_text()).parent.exists()


def test_a_command_that_hangs_is_ended(tx: Tx) -> None:
    verifier = CommandVerifier(_python("import time; time.sleep(60)"), timeout_s=0.3)
    started = time.monotonic()
    assert verifier.judge(tx) == Verdict.unknown(VERIFIER_FAILED)
    assert time.monotonic() - started < 30


def test_what_a_hanging_command_started_ends_with_it(tx: Tx, tmp_path: Path) -> None:
    trace = tmp_path / "child"
    child = f"import pathlib,time\nwhile True: pathlib.Path({str(trace)!r}).touch(); time.sleep(0.01)"
    script = f"{shlex.join([sys.executable, '-c', child])} & wait"
    assert CommandVerifier(["sh", "-c", script], timeout_s=2).judge(tx) == Verdict.unknown(VERIFIER_FAILED)
    trace.unlink()
    time.sleep(0.2)
    assert not trace.exists()


def test_a_command_that_is_missing_or_dies_verifies_nothing(tx: Tx) -> None:
    assert CommandVerifier(["/nowhere/verifier"]).judge(tx) == Verdict.unknown(VERIFIER_FAILED)
    suicide = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert CommandVerifier(_python(suicide)).judge(tx) == Verdict.unknown(VERIFIER_FAILED)


def test_only_so_many_run_at_a_time(tx: Tx, tmp_path: Path) -> None:
    release = tmp_path / "release"
    running = tmp_path / "running"
    code = f"import pathlib,time\npathlib.Path({str(running)!r}).touch()\n"
    code += f"while not pathlib.Path({str(release)!r}).exists(): time.sleep(0.01)"
    verifier = CommandVerifier(_python(code), processes_max=1, timeout_s=60)
    verdicts: list[Verdict] = []
    first = threading.Thread(target=lambda: verdicts.append(verifier.judge(tx)))
    first.start()
    while not running.exists():
        time.sleep(0.001)
    verifier._timeout_s = 0.05
    assert verifier.judge(tx) == Verdict.unknown(VERIFIER_BUSY)
    release.touch()
    first.join()
    assert verdicts == [VALID]


@pytest.mark.parametrize("command", ["", "'open quote"])
def test_an_unreadable_command_stops_the_start(command: str) -> None:
    with pytest.raises(SettingError):
        choose_verifier(real_proofs=True, command=command)


@pytest.mark.parametrize("program", ["/nowhere/verifier", "no-such-verifier-of-proofs", "/etc/passwd"])
def test_a_command_without_a_program_stops_the_start(program: str) -> None:
    with pytest.raises(SettingError, match=f"there is no program {program} that may be run"):
        choose_verifier(real_proofs=False, command=f"{program} --fast")
