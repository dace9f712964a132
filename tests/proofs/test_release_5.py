"""Proofs of release 5.x: what its program is given of each form.  ``FASTNODE_TEST_BB_5`` names the real program."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.proofs.conftest import set_grumpkin
from tests.proofs.programs import stand_in
from tests.protocol.releases import txs_5

from fastnode.proofs.inputs import Statement
from fastnode.proofs.keys import VerificationKeys
from fastnode.proofs.program import INVALID_PROOF
from fastnode.proofs.verdict import VALID, Verdict
from fastnode.proofs.verifier import BbOptions, BbVerifier
from fastnode.protocol.compressed_proofs import decompressed
from fastnode.protocol.releases import FIVE
from fastnode.protocol.tx import Tx

INVALID = Verdict.invalid(INVALID_PROOF)
(VERSION,) = FIVE.verifiers


@pytest.fixture(scope="module")
def tx() -> Tx:
    return txs_5.made_txs(random.Random(1))[0]


@pytest.fixture(scope="module")
def packed(tx: Tx) -> Tx:
    """With a proof that can be decompressed, and proves nothing."""
    return replace(tx, proof=b"", compressed_proof=txs_5.made_compressed_proof(random.Random(2)))


@pytest.fixture
def verifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BbVerifier]:
    """Over a program that takes any proof for valid, and keeps a copy of the last one."""
    setup = tmp_path / "proofs" / "setup"
    setup.mkdir(parents=True)
    (setup / FIVE.circuits["setup"]["file"]).write_bytes(set_grumpkin(monkeypatch))
    program = stand_in(tmp_path / "bb", f'cp "$5" {tmp_path}/given', "exit 0", version=VERSION)
    options = BbOptions(working_directory=tmp_path / "proofs", binary_path=program)
    verifier = BbVerifier(options, tree_root=FIVE.vk_tree_root)
    assert verifier.prepare() is None
    yield verifier
    verifier.close()


def test_the_keys_of_the_release_are_ready_with_its_program(verifier: BbVerifier) -> None:
    assert verifier.limitation is None
    assert VerificationKeys.of_release(FIVE).programs == (VERSION,)


def test_a_proof_is_given_with_the_public_inputs_in_front(verifier: BbVerifier, tx: Tx, tmp_path: Path) -> None:
    assert verifier.judge(tx) == VALID
    assert (tmp_path / "given").read_bytes() == Statement.of_tx(tx).inputs + tx.proof


def test_a_compressed_proof_is_given_as_its_fields(verifier: BbVerifier, packed: Tx, tmp_path: Path) -> None:
    assert verifier.judge(packed) == VALID
    fields = decompressed(packed.compressed_proof, FIVE)
    assert (tmp_path / "given").read_bytes() == Statement.of_tx(packed).inputs + fields


def test_without_a_proof_or_with_one_that_cannot_be_decompressed_it_is_invalid(
    verifier: BbVerifier, packed: Tx, tmp_path: Path
) -> None:
    damaged = bytearray(packed.compressed_proof)
    damaged[28 * 32 : 29 * 32] = (4).to_bytes(32, "big")  # a point that is not on the curve
    for false in (replace(packed, compressed_proof=bytes(damaged)), replace(packed, compressed_proof=b"")):
        assert verifier.judge(false) == INVALID
    assert not (tmp_path / "given").exists()


def test_the_verdict_on_a_proof_is_not_that_on_the_same_bytes_compressed(verifier: BbVerifier, tx: Tx) -> None:
    """1,270 fields are as long as a compressed proof with 545 public inputs."""
    as_compressed = replace(tx, proof=b"", compressed_proof=tx.proof)
    assert verifier.judge(tx) == VALID
    assert verifier.judge(as_compressed) == INVALID


def test_the_program_of_the_release_refuses_each_form(tmp_path: Path, tx: Tx, packed: Tx) -> None:
    path = os.environ.get("FASTNODE_TEST_BB_5", "")
    if not path:
        pytest.skip("no verifier program of 5.x (FASTNODE_TEST_BB_5=/path names one)")
    options = BbOptions(working_directory=tmp_path / "proofs", binary_path=Path(path))
    verifier = BbVerifier(options, tree_root=FIVE.vk_tree_root)
    try:
        assert verifier.prepare() is None
        for false in (tx, packed, replace(tx, proof=bytes(len(tx.proof)))):
            assert verifier.judge(false) == INVALID
    finally:
        verifier.close()
