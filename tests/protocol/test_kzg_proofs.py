"""Proofs about blobs: openings against what the reference computed, and at the roots themselves."""

from __future__ import annotations

import gzip
import json
import lzma
import random
from pathlib import Path

import pytest

from fastnode.protocol.kzg import BLOB_BYTES, blob_commitment
from fastnode.protocol.kzg_proofs import BLS_ORDER, cell_proofs, opening_at
from fastnode.protocol.kzg_transforms import roots_in_order

DATA = Path(__file__).parents[1] / "data"


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
    """And the proof commits to the same quotient as near it: p(X) = w - X has the quotient -1 everywhere."""
    roots = roots_in_order(4096)
    place = random.Random(7).randrange(4096)
    blob = b"".join(((roots[place] - root) % BLS_ORDER).to_bytes(32, "big") for root in roots)
    proof, y = opening_at(blob, roots[place])
    assert y == 0
    assert proof == blob_commitment((BLS_ORDER - 1).to_bytes(32, "big") * 4096)
    assert opening_at(blob, 12345) == (proof, (roots[place] - 12345) % BLS_ORDER)


@pytest.mark.usefixtures("kept_cell_points")
def test_a_constant_has_no_quotient() -> None:
    blob = (5).to_bytes(32, "big") * 4096
    nothing = b"\xc0" + bytes(47)
    assert opening_at(blob, 99) == (nothing, 5)
    assert set(cell_proofs(blob)) == {nothing}


def test_more_than_a_blob_is_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        opening_at(bytes(BLOB_BYTES + 1), 1)
