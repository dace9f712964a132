"""A verifier over a whole life: made ready, asked, failing, and ready again."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.clock import Clock
from tests.proofs.conftest import MakeVerifier, files_left, set_grumpkin
from tests.proofs.programs import made_statement, script, stand_in, statement, toy_keys, vector

from fastnode.proofs.judge import ProofJudge
from fastnode.proofs.keys import VerificationKeys
from fastnode.proofs.program import INVALID_PROOF
from fastnode.proofs.verdict import VALID, Judgement, Verdict
from fastnode.proofs.verifier import RETRY_S, BbOptions, BbVerifier, VerifierState, find_program

INVALID = Verdict.invalid(INVALID_PROOF)
REFUSES = ('echo "ChonkVerifier: verification failed at a step" >&2', "exit 1")


@pytest.fixture
def working_directory(tmp_path: Path) -> Path:
    """With setup files in place that nothing but their names is right about: only stand-ins run over them."""
    return tmp_path / "proofs"


@pytest.fixture
def grumpkin(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Bytes of stand-ins for the derived setup file."""
    return set_grumpkin(monkeypatch)


@pytest.fixture
def make(working_directory: Path, grumpkin: bytes) -> Iterator[MakeVerifier]:
    """Verifiers over stand-ins."""
    made: list[BbVerifier] = []

    def make(
        program: Path | None, *, clock: Clock | None = None, keys: VerificationKeys | None = None, **options: object
    ) -> BbVerifier:
        setup = working_directory / "setup"
        setup.mkdir(parents=True, exist_ok=True)
        file = setup / "grumpkin_g1.flat.dat"
        if not file.exists():
            file.write_bytes(grumpkin)
        all_options = BbOptions(working_directory=working_directory, binary_path=program, **options)  # type: ignore[arg-type]
        keys = keys or toy_keys()
        verifier = BbVerifier(all_options, tree_root=toy_keys().tree_root, keys=keys, clock=clock or Clock())
        made.append(verifier)
        return verifier

    yield make
    for verifier in made:
        verifier.close()


# ---- verdicts ---------------------------------------------------------------------------------------


def test_a_verdict_is_kept_for_the_same_inputs_and_proof(make: MakeVerifier, tmp_path: Path) -> None:
    count = tmp_path / "count"
    verifier = make(stand_in(tmp_path / "bb", f"echo x >> {count}", *REFUSES))
    assert verifier.prepare() is None
    made = made_statement(1)
    for _ in range(3):
        assert verifier.submit_statement(made).result(30) == INVALID
    assert verifier.submit_statement(replace(made, proof=bytes(31) + b"\1" + made.proof[32:])).result(30) == INVALID
    assert count.read_text() == "x\nx\n"
    assert verifier.kept_hits == 2
    assert verifier.checks[Judgement.INVALID] == 2


def test_kept_verdicts_are_bounded(make: MakeVerifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastnode.proofs.verifier.VERDICTS_KEPT_MAX", 2)
    verifier = make(stand_in(tmp_path / "bb", "exit 0"))
    assert verifier.prepare() is None
    for number in (1, 2, 3, 1):
        assert verifier.submit_statement(made_statement(number)).result(30) == VALID
    assert verifier.checks[Judgement.VALID] == 4


def test_an_unknown_proof_is_looked_at_again(make: MakeVerifier, tmp_path: Path) -> None:
    once = tmp_path / "once"
    verifier = make(stand_in(tmp_path / "bb", f"if [ ! -e {once} ]; then touch {once}; kill -9 $$; fi", "exit 0"))
    assert verifier.prepare() is None
    assert verifier.submit_statement(made_statement(1)).result(30).judgement is Judgement.UNKNOWN
    assert verifier.last_trouble == "Proof cannot be verified: the proof verifier failed"
    assert verifier.submit_statement(made_statement(1)).result(30) == VALID
    assert verifier.last_trouble is None


def test_what_is_no_encoding_of_a_proof_is_refused_without_the_program(make: MakeVerifier, tmp_path: Path) -> None:
    verifier = make(stand_in(tmp_path / "bb", "exit 0"))
    made = made_statement(1)
    assert verifier.submit_statement(replace(made, proof=b"\xff" * 32 + made.proof[32:])).result(0) == INVALID
    assert verifier.submit_statement(replace(made, proof=made.proof[32:])).result(0) == INVALID


def test_a_proof_that_comes_while_it_is_made_ready_waits(make: MakeVerifier, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    version = (f'if [ "$1" = --version ]; then cat {gate}; exit 0; fi',)
    verifier = make(
        script(tmp_path / "bb", *version, *stand_in(tmp_path / "rest", "exit 0").read_text().splitlines()[1:])
    )
    verifier.start()
    asked = verifier.submit_statement(made_statement(1))
    assert verifier.state is VerifierState.PREPARING
    assert verifier.limitation == "Proof cannot be verified: the proof verifier is being set up"
    gate.write_text("4.1.2\n")
    assert asked.result(30) == VALID
    assert verifier.limitation is None


@pytest.mark.parametrize(("takes_txs", "level"), [(True, "ERROR"), (False, "INFO")])
def test_a_missing_program_is_an_error_where_transactions_are_taken_only(
    takes_txs: bool, level: str, make: MakeVerifier, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    verifier = make(tmp_path / "missing")
    judge = ProofJudge(required=True, bb=verifier)
    if not takes_txs:
        judge.expect_no_transactions()
    assert verifier.prepare() is not None
    assert [record.levelname for record in caplog.records if "proofs cannot be verified" in record.message] == [level]


# ---- adversity --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("kill -9 $$",), "the proof verifier failed"),
        (("sleep 600",), "the proof verifier did not end in time"),
        (('rm "$0"; exit 3',), "the proof verifier failed"),
    ],
)
def test_a_program_that_fails_leaves_an_unknown_proof_and_no_file(
    lines: tuple[str, ...], reason: str, make: MakeVerifier, tmp_path: Path, working_directory: Path
) -> None:
    verifier = make(stand_in(tmp_path / "bb", *lines))
    assert verifier.prepare() is None
    if lines[0].startswith("sleep"):
        assert verifier._ready is not None
        verifier._ready.program._timeout_s = 0.3
    for number in (1, 2):
        verdict = verifier.submit_statement(made_statement(number)).result(30)
        assert verdict.judgement is Judgement.UNKNOWN
    assert files_left(working_directory) == []
    if "rm" not in lines[0]:
        assert verdict.reason == f"Proof cannot be verified: {reason}"


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        (None, "there is no verifier program (fastnode proofs install, --bb-binary-path)"),
        ("nowhere", "nowhere does not exist"),
        ("older", "is of release 4.0.0, the keys are of 4.1.2"),
        ("believer", "accepts a proof of zeros: it is no verifier"),
        ("broken", "fails on a first proof"),
    ],
)
def test_a_verifier_that_cannot_be_made_ready_says_why(
    program: str | None, complaint: str, make: MakeVerifier, tmp_path: Path, working_directory: Path
) -> None:
    stand_in(tmp_path / "older", version="4.0.0")
    script(tmp_path / "believer", 'if [ "$1" = --version ]; then echo 4.1.2; fi', "exit 0")
    script(tmp_path / "broken", 'if [ "$1" = --version ]; then echo 4.1.2; exit 0; fi', "exit 7")
    verifier = make(None if program is None else tmp_path / program)
    reason = verifier.prepare()
    assert reason is not None
    assert complaint in reason
    assert verifier.state is VerifierState.FAILED
    verdict = verifier.judge(vector("private"))
    assert verdict == Verdict.unknown(f"Proof cannot be verified: {reason}")
    assert verifier.limitation == verdict.reason
    assert list(working_directory.glob("checks-*")) == []


def test_a_network_of_another_release_is_not_judged(working_directory: Path) -> None:
    options = BbOptions(working_directory=working_directory)
    verifier = BbVerifier(options, tree_root=bytes(32))
    reason = verifier.prepare()
    assert reason is not None
    assert "of another release than the keys that come with the node (4.1.2)" in reason
    assert verifier.judge(vector("private")).judgement is Judgement.UNKNOWN
    verifier.close()


def test_a_program_that_is_put_in_its_place_later_is_found(make: MakeVerifier, working_directory: Path) -> None:
    clock = Clock()
    verifier = make(None, clock=clock)
    assert verifier.prepare() is not None
    installed = working_directory / "program" / "bb"
    installed.parent.mkdir()
    stand_in(installed, "exit 0")
    assert find_program(verifier.options) == installed
    assert verifier.submit_statement(made_statement(1)).result(30).judgement is Judgement.UNKNOWN
    clock.now += RETRY_S
    assert verifier.submit_statement(made_statement(1)).result(30) == VALID
    assert verifier.state is VerifierState.READY


def test_a_node_that_says_it_judges_nothing_tries_again_without_a_proof(make: MakeVerifier, tmp_path: Path) -> None:
    clock = Clock()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    verifier = make(script(tmp_path / "bb", "exit 3"), clock=clock)
    judge = ProofJudge(required=True, bb=verifier)
    assert verifier.prepare() is not None
    failure = judge.limitation
    assert failure is not None
    good = stand_in(tmp_path / "good", "exit 0")
    script(tmp_path / "bb", f'if [ "$1" = --version ]; then read line < {gate}; fi', f'exec {good} "$@"')
    assert judge.limitation == failure
    clock.now += RETRY_S
    assert judge.limitation == failure
    with gate.open("w") as opened:  # it is being asked for its version
        assert judge.limitation == failure
        opened.write("\n")
    verifier.wait_until_prepared(30)
    assert judge.limitation is None


def test_damaged_setup_files_are_noticed_before_a_proof_is_called_false(
    make: MakeVerifier, tmp_path: Path, working_directory: Path, grumpkin: bytes
) -> None:
    # The real program takes any content for right, and refuses every proof then.
    verifier = make(stand_in(tmp_path / "bb", *REFUSES))
    assert verifier.prepare() is None
    file = working_directory / "setup" / "grumpkin_g1.flat.dat"
    file.write_bytes(b"damaged")
    verdict = verifier.submit_statement(made_statement(1)).result(30)
    assert verdict.judgement is Judgement.UNKNOWN
    assert "its setup files were changed" in verdict.reason
    file.write_bytes(grumpkin)
    assert verifier.submit_statement(made_statement(1)).result(30) == INVALID


def test_a_damaged_setup_file_is_derived_again(
    make_verifier: MakeVerifier, toy_bb: Path, tmp_path: Path, bb: Path
) -> None:
    del bb
    verifier = make_verifier(toy_bb)
    file = tmp_path / "proofs" / "setup" / "grumpkin_g1.flat.dat"
    file.write_bytes(bytes(file.stat().st_size))
    assert verifier.judge(vector("private")).judgement is Judgement.UNKNOWN
    assert verifier.submit_statement(statement("private")).result(60) == VALID


def test_a_full_disk_leaves_the_proof_unknown(make: MakeVerifier, tmp_path: Path, working_directory: Path) -> None:
    verifier = make(stand_in(tmp_path / "bb", "exit 0"))
    assert verifier.prepare() is None
    shutil.rmtree(next(working_directory.glob("checks-*")))
    verdict = verifier.submit_statement(made_statement(1)).result(30)
    assert verdict == Verdict.unknown("Proof cannot be verified: No such file or directory")


def test_what_a_killed_node_left_behind_is_removed_and_a_living_ones_is_not(
    make: MakeVerifier, tmp_path: Path, working_directory: Path
) -> None:
    living = make(stand_in(tmp_path / "bb", "exit 0"))
    assert living.prepare() is None
    dead = working_directory / "checks-dead"
    dead.mkdir()
    (dead / "lock").write_bytes(b"")
    (dead / "1.proof").write_bytes(b"x")
    other = make(stand_in(tmp_path / "bb", "exit 0"))
    assert other.prepare() is None
    assert not dead.exists()
    assert len(list(working_directory.glob("checks-*"))) == 2
    assert living.submit_statement(made_statement(1)).result(30) == VALID


def test_closing_waits_for_what_runs(make: MakeVerifier, tmp_path: Path, working_directory: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    verifier = make(stand_in(tmp_path / "bb", f"echo > {started}", "exit 0"))
    assert verifier.prepare() is None
    asked = verifier.submit_statement(made_statement(1))
    closing = threading.Thread(target=verifier.close)
    started.read_text()
    closing.start()
    closing.join(30)
    assert asked.result(0) == VALID
    assert list(working_directory.glob("checks-*")) == []
