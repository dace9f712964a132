"""Compressed proofs of release 5.x: the digests are of what the program of 5.0.0 makes of the same bytes."""

from __future__ import annotations

import hashlib
import random

import pytest
from tests.protocol.releases.txs_5 import made_compressed_proof

from fastnode.errors import DecodeError
from fastnode.protocol.compressed_proofs import compressed_bytes, decompressed
from fastnode.protocol.fields import MODULUS
from fastnode.protocol.releases import FIVE

MADE = {
    (1, 0): "a2e11a83f182ba08ab0d832fdb59dcbca13120521a97ebc8c90caad7f5a503aa",
    (3, 1281): "9b1259eaec02ddf10780671ecb45c4a6c48f607a699352ab8c7aee7a146bb9ea",
}
#: Places of a point of BN254, one of Grumpkin, a scalar of each.
POINT, LONG_POINT, SCALAR, LONG_SCALAR = 28, 28 + 17 + 13 + 2, 0, 28 + 17 + 13 + 2 + 90


@pytest.mark.parametrize(("seed", "inputs"), MADE)
def test_a_proof_is_decompressed_as_the_program_of_its_release_does_it(seed: int, inputs: int) -> None:
    content = made_compressed_proof(random.Random(seed), inputs)
    assert len(content) == compressed_bytes(FIVE) + 32 * inputs
    fields = decompressed(content, FIVE)
    assert len(fields) == 32 * FIVE.proof_fields
    assert hashlib.sha256(fields).hexdigest() == MADE[seed, inputs]


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (POINT, 4, "not on the curve BN254"),
        (POINT, 1 << 255, "not on the curve BN254"),
        (POINT, (1 << 254) - 1, "point of BN254 that is out of range"),
        (LONG_POINT, 3, "not on the curve Grumpkin"),
        (LONG_POINT, MODULUS, "point of Grumpkin that is out of range"),
        (SCALAR, MODULUS, "scalar of BN254 that is out of range"),
        (LONG_SCALAR, 1 << 254, "scalar of Grumpkin that is out of range"),
    ],
)
def test_a_value_that_is_none_of_its_kind_is_refused(place: int, value: int, said: str) -> None:
    content = bytearray(compressed_bytes(FIVE))
    content[32 * place : 32 * place + 32] = value.to_bytes(32, "big")
    with pytest.raises(DecodeError, match=said):
        decompressed(bytes(content), FIVE)


@pytest.mark.parametrize("length", [0, 32, 23_168, 23_201])
def test_a_wrong_length_is_refused(length: int) -> None:
    with pytest.raises(DecodeError, match=f"a compressed proof of {length} bytes, expected 23200"):
        decompressed(bytes(length), FIVE)
