"""The verifier program and its answers: which of them mean that a proof is false."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.proofs.conftest import MakeVerifier, files_left
from tests.proofs.programs import (
    VECTORS,
    libraries,
    real_binary,
    script,
    stand_in,
    statement,
    toy_keys,
    vector,
)  # fmt: skip

from fastnode.proofs.folder import CheckFolder, SetupFolder
from fastnode.proofs.inputs import Circuit, Statement
from fastnode.proofs.keys import VerificationKeys
from fastnode.proofs.program import INVALID_PROOF, CannotRun, VerifierProgram
from fastnode.proofs.verdict import VALID, Judgement, Verdict
from fastnode.protocol.fields import MODULUS
from fastnode.protocol.releases import FOUR

#: The parts of a proof in their order, in fields.
PART_FIELDS = {"mega": 435, "merge": 42, "eccvm": 608, "ipa": 64, "translator": 786}
INVALID = Verdict.invalid(INVALID_PROOF)


def _flip(content: bytes, byte: int) -> bytes:
    return content[:byte] + bytes([content[byte] ^ 1]) + content[byte + 1 :]


def damages(made: Statement, keys: VerificationKeys) -> Iterator[tuple[str, Statement, bytes]]:
    """(what, statement, key): 32 ways to be wrong, each of which must be refused."""
    key = keys.of(made.circuit)
    start = 0
    for part, count in PART_FIELDS.items():
        for where, field in (("first", 0), ("middle", count // 2), ("last", count - 1)):
            proof = _flip(made.proof, (start + field) * 32 + 31)
            yield f"one bit in the {where} field of {part}", replace(made, proof=proof), key
        start += count
    total = len(made.inputs) // 32
    named = {"archive root": 0, "chain id": 22, "tree of keys": 32, "contracts": 33, "first note hash": 34}
    for what, field in {**named, "second nullifier": 99, "fee payer": total - 2, "expiration": total - 1}.items():
        yield f"one bit of the {what}", replace(made, inputs=_flip(made.inputs, field * 32 + 31)), key
    yield "a proof of zeros", replace(made, proof=bytes(len(made.proof))), key
    other = Circuit.TO_ROLLUP if made.circuit is Circuit.TO_PUBLIC else Circuit.TO_PUBLIC
    yield "the other circuit's key", made, keys.of(other)
    yield "one bit of the key", made, _flip(key, 200 * 8 + 31)
    yield "a key cut short", made, key[:-32]
    yield "an empty key", made, b""
    raised = (int.from_bytes(made.proof[:32], "big") + MODULUS).to_bytes(32, "big")
    yield "a field above the modulus", replace(made, proof=raised + made.proof[32:]), key
    yield "a proof one field short", replace(made, proof=made.proof[:-32]), key
    yield "a proof one field long", replace(made, proof=made.proof + bytes(32)), key
    yield "one input missing", replace(made, inputs=made.inputs[32:]), key


class Checks:
    """The program on single statements, each with a key of its own."""

    def __init__(self, program: Path, setup: Path, folder: Path) -> None:
        self._program = VerifierProgram(program, setup)
        self._folder = CheckFolder(folder, toy_keys())
        self._key = folder / "key"

    def verdict(self, made: Statement, key: bytes) -> Verdict:
        if made.flaw(FOUR) is not None:
            return INVALID  # what the verifier says to it unread
        self._key.write_bytes(key)
        with self._folder.proof_file(made) as path:
            return self._program.check(path, self._key)


@pytest.mark.parametrize("name", VECTORS)
def test_recorded_proofs_hold_under_the_setup_that_they_were_made_with(
    name: str, toy_bb: Path, make_verifier: MakeVerifier
) -> None:
    assert make_verifier(toy_bb).judge(vector(name)) == VALID


def test_recorded_proofs_do_not_hold_under_the_real_setup(bb: Path, make_verifier: MakeVerifier) -> None:
    verifier = make_verifier(bb)
    assert [verifier.judge(vector(name)) for name in VECTORS] == [INVALID] * 3


@pytest.mark.parametrize("name", VECTORS)
def test_every_damage_is_refused_and_none_is_unknown(
    name: str, toy_bb: Path, setup_files: Path, tmp_path: Path
) -> None:
    checks = Checks(toy_bb, setup_files, tmp_path)
    made, keys = statement(name), toy_keys()
    verdicts = {what: checks.verdict(damaged, key) for what, damaged, key in damages(made, keys)}
    assert len(verdicts) == 32
    assert {what: verdict for what, verdict in verdicts.items() if verdict != INVALID} == {}
    assert checks.verdict(made, keys.of(made.circuit)) == VALID


# ---- what is no verdict ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        ("exit 2",),
        ("exit 101",),
        ("kill -9 $$",),
        ("kill -11 $$",),
        ("exit 1",),
        ('echo "something else" >&2; exit 1',),
        ('echo "HTTP request failed for a file" >&2; exit 1',),
        ('echo "verification failed at some step" >&2; echo "std::bad_alloc" >&2; exit 1',),
        ('echo "Unable to open file: proof" >&2; exit 1',),
    ],
)
def test_a_crash_or_a_trouble_is_no_refusal(lines: tuple[str, ...], tmp_path: Path) -> None:
    program = VerifierProgram(script(tmp_path / "program", *lines), tmp_path)
    verdict = program.check(tmp_path / "proof", tmp_path / "key")
    assert verdict.judgement is Judgement.UNKNOWN
    assert verdict.reason == "Proof cannot be verified: the proof verifier failed"


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (f"sleep 600 & echo $! > {tmp_path}/pid", f"mv {tmp_path}/pid {tmp_path}/child", "wait")
    program = VerifierProgram(script(tmp_path / "program", *lines), tmp_path)
    now = time.monotonic
    # Its time is over when it has a child, however long that takes.
    clock = SimpleNamespace(monotonic=lambda: now() + 1000 * (tmp_path / "child").exists())
    monkeypatch.setattr("fastnode.proofs.run.time", clock)
    verdict = program.check(tmp_path / "proof", tmp_path / "key")
    assert verdict == Verdict.unknown("Proof cannot be verified: the proof verifier did not end in time")
    child = Path(f"/proc/{int((tmp_path / 'child').read_text())}/stat")
    deadline = time.monotonic() + 30
    while child.exists() and child.read_text().rsplit(")", 1)[1].split()[0] != "Z":
        assert time.monotonic() < deadline, "the child lives on"
        time.sleep(0.01)


def test_a_program_that_never_stops_talking_takes_no_memory(tmp_path: Path) -> None:
    program = VerifierProgram(script(tmp_path / "program", "exec yes"), tmp_path, timeout_s=0.5)
    assert program.check(tmp_path / "proof", tmp_path / "key").judgement is Judgement.UNKNOWN


def test_a_program_whose_child_keeps_the_output_open_has_ended(tmp_path: Path) -> None:
    program = VerifierProgram(script(tmp_path / "program", "sleep 600 &", "exit 0"), tmp_path, timeout_s=20)
    assert program.check(tmp_path / "proof", tmp_path / "key") == VALID


def test_the_program_sees_none_of_the_nodes_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMIN_SECRET", "do not tell")
    seen = tmp_path / "seen"
    program = VerifierProgram(script(tmp_path / "program", f"env > {seen}", "exit 0"), tmp_path, threads=3)
    program.check(tmp_path / "proof", tmp_path / "key")
    text = seen.read_text()
    assert "do not tell" not in text
    assert f"CRS_PATH={tmp_path}\n" in text
    assert "HARDWARE_CONCURRENCY=3\n" in text


# ---- programs that do not run -------------------------------------------------------------------


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match="nowhere does not exist"):
        VerifierProgram(tmp_path / "nowhere", tmp_path).version()


def test_a_program_that_may_not_run_is_named(tmp_path: Path) -> None:
    path = stand_in(tmp_path / "program")
    path.chmod(0o644)
    with pytest.raises(CannotRun, match="may not be executed"):
        VerifierProgram(path, tmp_path).version()


def test_a_program_for_another_machine_is_named(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(b"\xcf\xfa\xed\xfe" + bytes(1000))
    path.chmod(0o755)
    with pytest.raises(CannotRun, match="is no program for this machine"):
        VerifierProgram(path, tmp_path).version()


def test_a_system_that_is_too_old_is_told_what_helps(tmp_path: Path) -> None:
    if libraries() is None:
        said = "version GLIBC_2.39 not found (required by bb), version GLIBCXX_3.4.32 not found"
        path = script(tmp_path / "program", f'echo "{said}" >&2; exit 1')
    else:
        path = real_binary()  # this system is too old itself
    with pytest.raises(CannotRun, match=r"needs newer system libraries \(GLIBCXX_.*GLIBC_2.39\).*--libraries"):
        VerifierProgram(path, tmp_path).version()


# ---- setup files ---------------------------------------------------------------------------------


def test_the_setup_is_derived_without_a_network(bb: Path, tmp_path: Path) -> None:
    setup = SetupFolder(tmp_path / "setup", FOUR)
    setup.write_generator()
    assert not setup.has_grumpkin()
    VerifierProgram(bb, setup.path).derive_setup(FOUR)
    assert setup.has_grumpkin()


def test_no_file_is_left_behind(make_verifier: MakeVerifier, toy_bb: Path, tmp_path: Path) -> None:
    verifier = make_verifier(toy_bb)
    verifier.judge(vector("private"))
    verifier.judge(vector("public"))
    assert files_left(tmp_path / "proofs") == []
    verifier.close()
    assert [path.name for path in (tmp_path / "proofs").iterdir()] == ["setup"]
