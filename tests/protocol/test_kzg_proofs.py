"""Proofs about blobs: openings against what the reference computed, and at the roots themselves."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fastnode.protocol.kzg import BLOB_BYTES, BLS_ORDER, blob_commitment, trusted_setup
from fastnode.protocol.kzg_proofs import blob_proof, cell_proofs, opening_at

DATA = Path(__file__).parents[1] / "data"
NOTHING = b"\xc0" + bytes(47)


def test_the_setup_is_the_one_of_the_ceremony() -> None:
    """The numbers of trusted_setup.txt, as it comes with c-kzg-4844, one a line."""
    setup = trusted_setup()
    lines = ["4096", "65"]
    for points, width in ((setup.lagrange, 48), (setup.g2, 96), (setup.monomial, 48)):
        lines += [points[at : at + width].hex() for at in range(0, len(points), width)]
    digest = hashlib.sha256(("\n".join(lines) + "\n").encode()).hexdigest()
    assert digest == "d39b9f2d047cc9dca2de58f264b6a09448ccd34db967881a6713eacacf0f26b7"


def test_an_opening_is_the_one_of_the_reference() -> None:
    """Epochs of one checkpoint with one blob: what was submitted is the opening of that blob."""
    recorded = json.loads(lzma.decompress((DATA / "l1_recorded.json.xz").read_bytes()))["checkpoints"]
    count = 0
    for line in gzip.decompress((DATA / "publishing" / "batched_blob.jsonl.gz").read_bytes()).splitlines():
        row = json.loads(line)
        inputs = bytes.fromhex(row["inputs"][2:])
        if len(row["checkpoints"]) != 1:
            continue
        (text,) = recorded[row["checkpoints"][0]]["blobs"]
        blob = bytes.fromhex(text[2:])
        z, y, commitment, proof = inputs[32:64], inputs[64:96], inputs[96:144], inputs[144:]
        assert blob_commitment(blob) == commitment
        assert opening_at(blob, int.from_bytes(z, "big")) == (proof, int.from_bytes(y, "big"))
        count += 1
    assert count >= 1


def test_at_a_root_the_value_is_the_field_itself() -> None:
    blob = b"".join(number.to_bytes(32, "big") for number in range(7, 7 + 4096))
    assert opening_at(blob, 1)[1] == 7
    assert opening_at(blob, BLS_ORDER - 1)[1] == 8


def test_a_constant_has_no_quotient() -> None:
    blob = (5).to_bytes(32, "big") * 4096
    assert opening_at(blob, 99) == (NOTHING, 5)
    assert set(cell_proofs(blob)) == {NOTHING}
    assert blob_proof(blob, blob_commitment(blob)) == NOTHING


def test_what_is_no_blob_no_place_and_no_commitment_is_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        opening_at(bytes(BLOB_BYTES + 1), 1)
    with pytest.raises(ValueError, match="refuses"):
        opening_at(b"\xff" * 32, 1)
    with pytest.raises(ValueError, match="refuses"):
        opening_at(b"", BLS_ORDER)
    with pytest.raises(ValueError, match="refuses"):
        blob_proof(b"", bytes(48))
    with pytest.raises(ValueError, match="refuses"):
        cell_proofs(b"\xff" * BLOB_BYTES)


def test_other_threads_run_while_proofs_are_made() -> None:
    blob = b"".join(number.to_bytes(32, "big") for number in range(1, 4097))
    cell_proofs(blob)
    interval = sys.getswitchinterval()
    steps, is_begun, is_done = 0, threading.Event(), threading.Event()

    def prove() -> None:
        is_begun.set()
        cell_proofs(blob)
        is_done.set()

    try:
        sys.setswitchinterval(1e-5)
        worker = threading.Thread(target=prove)
        worker.start()
        while not is_done.is_set():
            steps += is_begun.is_set()
    finally:
        sys.setswitchinterval(interval)
        worker.join()
    # With Python's lock kept there would be the few steps before it is taken and after it is given back.
    assert steps > 2000


def test_library_and_setup_are_loaded_when_a_proof_is_due() -> None:
    code = "import sys, fastnode.app.roles.l1_writer, fastnode.protocol.kzg_proofs; assert 'ckzg' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
