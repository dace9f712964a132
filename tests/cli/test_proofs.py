"""``fastnode proofs``: a proof checked by hand, and the program installed."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import clean_environment
from tests.proofs.programs import RECORDED, libraries, real_binary, real_program, script, stand_in, vector_json

TX = RECORDED / "tx_private.json.gz"
TX_HASH = "0x021cbf05a7c4d917722e2c1de0af84b686bb549944a636c0b4bcaa3c648fa1a4"


def _run(*arguments: object, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fastnode", "proofs", *map(str, arguments)],
        input=stdin.decode(),
        capture_output=True,
        text=True,
        env=clean_environment(**environment),
        timeout=120,
    )


def test_a_program_is_installed_and_a_proof_is_checked_with_it(tmp_path: Path) -> None:
    real_program()
    newer = libraries()
    more = [] if newer is None else ["--libraries", newer]
    installed = _run("install", real_binary(), "--data-directory", tmp_path, *more)
    assert installed.stdout == f"{tmp_path}/proofs/program/bb: release 4.1.2, ready\n"
    assert installed.stderr == ""
    # The recorded proof was made with a test setup: under the real one it is false.
    checked = _run("check", TX, "--data-directory", tmp_path)
    assert checked.stdout.startswith(f"transaction {TX_HASH}, private only\ninvalid: Invalid proof (")
    assert checked.returncode == 1


def test_a_transaction_comes_as_a_file_or_a_request_on_standard_input(tmp_path: Path) -> None:
    request = json.dumps({"method": "node_sendTx", "params": [vector_json("public")]}).encode()
    checked = _run("check", "-", "--data-directory", tmp_path, stdin=request)
    assert "with public calls\nunknown: there is no verifier program (fastnode proofs install" in checked.stdout
    assert checked.returncode == 3


def test_a_valid_proof_for_other_keys_is_not_called_valid(tmp_path: Path) -> None:
    # A stand-in that accepts what is no zeros: the setup file that it does not derive is made by the real one.
    setup = tmp_path / "proofs" / "setup"
    setup.mkdir(parents=True)
    real = real_program()
    import fastnode.proofs.folder as folder
    from fastnode.proofs.program import VerifierProgram
    from fastnode.protocol.releases import FOUR

    made = folder.SetupFolder(setup, FOUR)
    made.write_generator()
    VerifierProgram(real, setup).derive_setup(FOUR)
    checked = _run("check", TX, "--data-directory", tmp_path, "--bb-binary-path", stand_in(tmp_path / "bb", "exit 0"))
    assert "but for verification keys of another network or release" in checked.stdout
    assert checked.returncode == 1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"{", "is no JSON"),
        (b"[]", "is no transaction"),
        (b'{"data":"00"}', "is no transaction"),
        (gzip.compress(b"{}", mtime=0), "is no transaction"),
    ],
)
def test_what_is_no_transaction_is_named(content: bytes, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "tx.json"
    file.write_bytes(content)
    checked = _run("check", file, "--data-directory", tmp_path)
    assert complaint in checked.stderr
    assert checked.returncode == 1


def test_a_place_to_work_is_asked_for(tmp_path: Path) -> None:
    assert "no directory to work in: add --data-directory" in _run("check", TX).stderr
    assert "does not exist" in _run("install", tmp_path / "none", "--data-directory", tmp_path).stderr


def test_a_program_that_derives_no_setup_is_not_installed(tmp_path: Path) -> None:
    derive = f'if [ "$1" = msgpack ]; then cp {tmp_path}/derived "$CRS_PATH/grumpkin_g1.flat.dat"; exit 0; fi'
    program = script(tmp_path / "bb", 'if [ "$1" = --version ]; then echo 4.1.2; exit 0; fi', derive, "exit 1")
    (tmp_path / "derived").write_bytes(b"wrong")
    refused = _run("install", program, "--data-directory", tmp_path)
    assert "did not derive its setup file" in refused.stderr
