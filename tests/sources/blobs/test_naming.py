"""Blobs are named by their data: one by one, or many together where their commitments are known."""

from __future__ import annotations

import random

import pytest

from fastnode.protocol.kzg import BLS_ORDER, blob_commitment, versioned_hash
from fastnode.sources.blobs.naming import BlobNaming


def made(seed: int) -> bytes:
    chance = random.Random(seed)
    return b"".join(chance.randrange(BLS_ORDER).to_bytes(32, "big") for _ in range(20)).rstrip(b"\0")


def test_a_blob_is_named_by_its_commitment() -> None:
    assert BlobNaming(1).versioned_hash_of(made(1)) == versioned_hash(blob_commitment(made(1)))
    with pytest.raises(ValueError, match=r"."):
        BlobNaming(1).versioned_hash_of(b"\xff" * 32)


def test_those_that_hold_together_are_counted() -> None:
    naming = BlobNaming(1)
    claims = [(blob_commitment(made(seed)), made(seed)) for seed in range(3)]
    assert naming.are_commitments(claims)
    assert naming.together_count == 3
    assert not naming.are_commitments([*claims, (claims[0][0], made(1))])
    assert naming.together_count == 3
