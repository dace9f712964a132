"""Blobs are named by their data, whatever a source says of them."""

from __future__ import annotations

import functools
import random

import pytest

from fastnode.protocol.kzg import blob_commitment, versioned_hash
from fastnode.protocol.kzg_proofs import BLS_ORDER, blob_proof
from fastnode.sources.blobs import naming
from fastnode.sources.blobs.base import GivenBlob
from fastnode.sources.blobs.naming import BlobNaming


@functools.cache
def made(seed: int) -> GivenBlob:
    """A short blob with its commitment and its proof."""
    chance = random.Random(seed)
    data = b"".join(chance.randrange(BLS_ORDER).to_bytes(32, "big") for _ in range(20)).rstrip(b"\0")
    commitment = blob_commitment(data)
    return GivenBlob(data, commitment, blob_proof(data.ljust(131_072, b"\0"), commitment))


def name_of(blob: GivenBlob) -> bytes:
    return versioned_hash(blob_commitment(blob.data))


@pytest.fixture
def proving(monkeypatch: pytest.MonkeyPatch) -> BlobNaming:
    """One that looks at proofs from the first blob on."""
    monkeypatch.setattr(naming, "_BYTES_FIRST", 0)
    return BlobNaming(1)


def test_a_blob_whose_proof_holds_is_named_without_its_commitment_being_computed(
    proving: BlobNaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = made(1)
    name = name_of(blob)
    monkeypatch.setattr(naming, "blob_commitment", None)
    assert proving.versioned_hash_of(blob, [name], near_tip=False) == name
    assert proving.proof_count == 1


def bent(chance: random.Random) -> GivenBlob:
    """A blob of which something is not what it was."""
    blob, other = made(1), made(2)
    assert blob.commitment is not None
    assert blob.proof is not None
    flipped = bytearray(blob.data)
    flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
    points = [
        None,
        b"",
        bytes(48),
        b"\xc0" + bytes(47),
        b"\xff" * 48,
        chance.randbytes(48),
        chance.randbytes(chance.randrange(100)),
        blob.commitment,
        blob.proof,
        other.commitment,
        other.proof,
    ]
    data = chance.choice([blob.data, bytes(flipped), other.data, b"\xff" * 32, b"", bytes(131_073)])
    return GivenBlob(data, chance.choice(points), chance.choice(points))


@pytest.mark.parametrize("seed", range(200))
def test_nothing_that_a_source_says_gives_a_blob_another_name(proving: BlobNaming, seed: int) -> None:
    """Names of both blobs are asked for, so that claims about each of them are looked at."""
    blob, wanted = bent(random.Random(seed)), [name_of(made(1)), name_of(made(2))]
    try:
        name = name_of(blob)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            proving.versioned_hash_of(blob, wanted, near_tip=False)
        return
    assert proving.versioned_hash_of(blob, wanted, near_tip=False) == name


@pytest.mark.parametrize("lacks", ["commitment", "proof"])
def test_a_blob_without_a_proof_is_named_by_its_commitment(proving: BlobNaming, lacks: str) -> None:
    blob = made(1)._replace(**{lacks: None})
    assert proving.versioned_hash_of(blob, [name_of(blob)], near_tip=False) == name_of(blob)
    assert proving.proof_count == 0


def test_proofs_are_not_looked_at_near_the_tip(proving: BlobNaming) -> None:
    blob = made(1)
    assert proving.versioned_hash_of(blob, [name_of(blob)], near_tip=True) == name_of(blob)
    assert proving.proof_count == 0


def test_the_setup_is_loaded_when_enough_came_to_pay_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    blob = made(1)
    monkeypatch.setattr(naming, "_BYTES_FIRST", 3 * len(blob.data))
    names = BlobNaming(1)
    counts = []
    for _ in range(5):
        names.versioned_hash_of(blob, [name_of(blob)], near_tip=False)
        counts.append(names.proof_count)
    assert counts == [0, 0, 0, 1, 2]
