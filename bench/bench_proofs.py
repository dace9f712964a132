"""Proofs: one check, many at once, and what fastnode adds to the verifier program.

Baseline of the same run: the bare program, started by hand on files that are there.  The proofs are three recorded ones
under a test setup; a check costs the same under the real one.  Skipped where the program cannot be had.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from itertools import count
from pathlib import Path

import pytest
from bench.proof_flood import connect, request_of, running_node, send, wait_until_ready
from pytest_benchmark.fixture import BenchmarkFixture
from tests.proofs.programs import real_program, statement, toy_keys, toy_program, vector, vector_json

from fastnode.proofs.folder import CheckFolder, SetupFolder
from fastnode.proofs.inputs import Statement
from fastnode.proofs.program import VerifierProgram
from fastnode.proofs.verdict import VALID, Verdict
from fastnode.proofs.verifier import BbOptions, BbVerifier

NAMES = ("private", "public", "mixed")
ROUNDS = 10
#: Checks of a round of many.
CHECKS = 12


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    real_program()
    return toy_program(tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="module")
def working_directory(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("proofs")
    setup = SetupFolder(folder / "setup")
    setup.write_generator()
    VerifierProgram(program, setup.path).derive_setup()
    return folder


def _verifier(program: Path, working_directory: Path, checks_max: int) -> BbVerifier:
    keys = toy_keys()
    options = BbOptions(working_directory=working_directory, binary_path=program, checks_max=checks_max)
    verifier = BbVerifier(options, tree_root=keys.tree_root, keys=keys)
    assert verifier.prepare() is None
    return verifier


@pytest.fixture(scope="module")
def verifier(program: Path, working_directory: Path) -> Iterator[BbVerifier]:
    made = _verifier(program, working_directory, 1)
    yield made
    made.close()


def _forget(verifier: BbVerifier) -> None:
    verifier._kept.clear()


@pytest.mark.parametrize("name", NAMES)
def test_bare_program(name: str, benchmark: BenchmarkFixture, program: Path, working_directory: Path) -> None:
    folder = CheckFolder(working_directory, toy_keys())
    made = statement(name)
    environment = {
        "CRS_PATH": str(working_directory / "setup"),
        "HARDWARE_CONCURRENCY": "1",
        "PATH": os.environ["PATH"],
    }
    with folder.proof_file(made) as path:
        command = [program, "verify", "--scheme", "chonk", "-p", path, "-k", folder.key_path(made.circuit)]
        run = lambda: subprocess.run(command, env=environment, capture_output=True, check=True)  # noqa: E731
        benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    folder.close()


@pytest.mark.parametrize("name", NAMES)
def test_one_check(name: str, benchmark: BenchmarkFixture, verifier: BbVerifier) -> None:
    tx = vector(name)

    def check() -> Verdict:
        _forget(verifier)
        return verifier.judge(tx)

    assert benchmark.pedantic(check, rounds=ROUNDS, warmup_rounds=1) == VALID


def test_a_refusal_at_the_first_step(benchmark: BenchmarkFixture, verifier: BbVerifier) -> None:
    made = statement("private")
    damaged = Statement(made.circuit, made.inputs, made.proof[:31] + bytes([made.proof[31] ^ 1]) + made.proof[32:])

    def check() -> Verdict:
        _forget(verifier)
        return verifier.submit_statement(damaged).result()

    assert benchmark.pedantic(check, rounds=ROUNDS, warmup_rounds=1) != VALID


@pytest.mark.parametrize("name", NAMES)
def test_a_verdict_that_was_kept(name: str, benchmark: BenchmarkFixture, verifier: BbVerifier) -> None:
    """Inputs cut out, every field looked at, the digest made: all that a proof costs the node itself."""
    tx = vector(name)
    verifier.judge(tx)
    assert benchmark(verifier.judge, tx) == VALID


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_many_checks(at_once: int, benchmark: BenchmarkFixture, program: Path, working_directory: Path) -> None:
    verifier = _verifier(program, working_directory, at_once)
    statements = [statement(name) for name in NAMES]

    def check_all() -> None:
        _forget(verifier)
        # The digest is what makes two the same: here each is another one.
        asked = [verifier._queue.submit(statements[n % 3], n.to_bytes(32, "big"), "") for n in range(CHECKS)]
        wait(asked)
        assert all(result.result() == VALID for result in asked)

    benchmark.pedantic(check_all, rounds=3, warmup_rounds=1)
    benchmark.extra_info["checks_per_second"] = round(CHECKS / benchmark.stats.stats.min, 1)
    verifier.close()


@pytest.mark.parametrize("method", ["node_sendTx", "node_isValidTx"])
def test_transactions_over_http(
    method: str, benchmark: BenchmarkFixture, working_directory: Path, tmp_path: Path
) -> None:
    """From a request to its answer, of the three transactions one after the other; each round a node of its own."""
    bodies = [request_of(vector_json(name), method) for name in NAMES]
    folders = (tmp_path / str(number) for number in count())
    with ExitStack() as nodes:

        def start() -> tuple[tuple[HTTPConnection], dict[str, object]]:
            nodes.close()
            port, _ = nodes.enter_context(running_node(next(folders), setup=working_directory / "setup"))
            wait_until_ready(port)
            return (nodes.enter_context(closing(connect(port))),), {}

        def ask(connection: HTTPConnection) -> list[str]:
            return [send(connection, body) for body in bodies]

        assert benchmark.pedantic(ask, setup=start, rounds=5) == ["accepted"] * 3
    benchmark.extra_info["ms_each"] = round(benchmark.stats.stats.median / len(NAMES) * 1000)
