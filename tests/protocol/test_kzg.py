"""Commitments to blobs, against the ones that a network published."""

from __future__ import annotations

import json
import lzma
import random
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from py_arkworks_bls12381 import G1Point

from fastnode.protocol.blobs import checkpoint_blob_fields
from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.fields import field_from_int
from fastnode.protocol.kzg import (
    BLOB_BYTES,
    KnownSum,
    are_commitments,
    blob_commitment,
    blobs_hash,
    blobs_of_fields,
    versioned_hash,
)

#: The order of BLS12-381: the first number that is no field of a blob.
ORDER = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    path = Path(__file__).parents[1] / "data" / "l1_recorded.json.xz"
    checkpoints: list[dict[str, Any]] = json.loads(lzma.decompress(path.read_bytes()))["checkpoints"]
    return checkpoints


def test_the_blobs_of_a_network_have_the_hashes_that_it_published(recorded: list[dict[str, Any]]) -> None:
    for checkpoint in recorded:
        blobs = [bytes.fromhex(text[2:]) for text in checkpoint["blobs"]]
        hashes = ["0x" + versioned_hash(blob_commitment(blob)).hex() for blob in blobs]
        assert hashes == checkpoint["versionedHashes"]


def test_encoded_checkpoints_have_the_blobs_hash_of_their_headers(
    sample_checkpoints: list[PublishedCheckpoint],
) -> None:
    for published in sample_checkpoints[::4]:
        blobs = blobs_of_fields(checkpoint_blob_fields(published.checkpoint.blocks))
        hashes = [versioned_hash(blob_commitment(blob)) for blob in blobs]
        assert blobs_hash(hashes) == published.checkpoint.header.blobs_hash


def test_all_points_add_up_to_the_generator() -> None:
    # The Lagrange polynomials add up to one, whatever the secret of the ceremony was.
    assert blob_commitment(field_from_int(1) * 4096) == G1Point().to_compressed_bytes()


@pytest.mark.parametrize("known_fields", [1, 7, 40])
def test_a_sum_that_is_known_is_used_for_its_fields_alone(known_fields: int) -> None:
    chance = random.Random(known_fields)
    fields = [chance.randbytes(31).rjust(32, b"\0") for _ in range(40)]
    blob, beginning = b"".join(fields), b"".join(fields[:known_fields])
    known = KnownSum(known_fields, sha256(beginning).digest(), blob_commitment(beginning))
    assert blob_commitment(blob, known) == blob_commitment(blob)
    assert blob_commitment(blob[32:], known) == blob_commitment(blob[32:])
    # A sum that does not belong to the fields is not used; a wrong one gives a wrong commitment.
    wrong = known._replace(commitment=blob_commitment(fields[-1]))
    assert blob_commitment(blob[32:], wrong) == blob_commitment(blob[32:])
    assert (blob_commitment(blob, wrong) == blob_commitment(blob)) == (known_fields == len(fields))


def test_zeros_at_the_end_do_not_matter() -> None:
    blob = random.Random(1).randbytes(31).rjust(32, b"\0") * 5 + field_from_int(256)
    assert blob_commitment(blob) == blob_commitment(blob.ljust(BLOB_BYTES, b"\0")) == blob_commitment(blob[:-1])


def test_an_empty_blob_commits_to_nothing() -> None:
    assert blob_commitment(b"") == blob_commitment(bytes(BLOB_BYTES)) == (G1Point() - G1Point()).to_compressed_bytes()


def test_a_commitment_is_linear() -> None:
    three, four = (blob_commitment(bytes(64) + field_from_int(number)) for number in (3, 4))
    total = G1Point.from_compressed_bytes(three) + G1Point.from_compressed_bytes(four)
    assert total.to_compressed_bytes() == blob_commitment(bytes(64) + field_from_int(7))


def test_what_is_no_blob_is_refused() -> None:
    with pytest.raises(ValueError, match="131073 bytes"):
        blob_commitment(bytes(BLOB_BYTES) + b"\1")
    blob_commitment((ORDER - 1).to_bytes(32, "big"))
    with pytest.raises(ValueError, match="invalid"):
        blob_commitment(ORDER.to_bytes(32, "big"))


# ---- many together ----------------------------------------------------------------------------


def claims(count: int, seed: int = 1) -> list[tuple[bytes, bytes]]:
    """Commitments and blobs of several lengths, one of them of nothing."""
    chance = random.Random(seed)
    blobs = [b"".join(chance.randrange(ORDER).to_bytes(32, "big") for _ in range(7 * place)) for place in range(count)]
    return [(blob_commitment(blob), blob) for blob in blobs]


def test_the_blobs_of_a_network_hold_together(recorded: list[dict[str, Any]]) -> None:
    blobs = [bytes.fromhex(text[2:]) for checkpoint in recorded for text in checkpoint["blobs"]]
    assert are_commitments([(blob_commitment(blob), blob) for blob in blobs])


def test_blobs_hold_together_whatever_their_lengths() -> None:
    assert are_commitments([])
    for count in (1, 2, 5):
        assert are_commitments(claims(count))
    commitment, blob = claims(4)[3]
    assert are_commitments([(commitment, blob.ljust(BLOB_BYTES, b"\0")), *claims(2)])
    assert are_commitments([(commitment, blob)] * 3)
    full = field_from_int(1) * 4096
    assert are_commitments([(G1Point().to_compressed_bytes(), full), (commitment, blob)])


@pytest.mark.parametrize("seed", range(30))
def test_one_bit_in_one_of_many_is_found(seed: int) -> None:
    chance = random.Random(seed)
    bent = claims(4)
    place = chance.randrange(1, 4)
    parts = [bytearray(part) for part in bent[place]]
    part = chance.choice(parts)
    part[chance.randrange(len(part))] ^= 1 << chance.randrange(8)
    bent[place] = bytes(parts[0]), bytes(parts[1])
    assert not are_commitments(bent)


def test_wrong_ones_that_would_make_up_for_each_other_are_found() -> None:
    (_, _), (first, one), (second, two) = claims(3)
    assert not are_commitments([(first, two), (second, one)])
    point, other = G1Point.from_compressed_bytes(first), G1Point.from_compressed_bytes(second)
    shifted = [((point + G1Point()).to_compressed_bytes(), one), ((other - G1Point()).to_compressed_bytes(), two)]
    assert not are_commitments(shifted)


def test_a_field_that_is_the_same_below_the_order_is_no_field_of_a_blob() -> None:
    """A sum alone would not tell them apart."""
    blob = field_from_int(5)
    assert are_commitments([(blob_commitment(blob), blob)])
    assert not are_commitments([(blob_commitment(blob), (ORDER + 5).to_bytes(32, "big"))])
    assert not are_commitments([(blob_commitment(b""), ORDER.to_bytes(32, "big"))])


@pytest.mark.parametrize(
    "commitment",
    [
        b"",
        bytes(48),
        b"\xff" * 48,
        # On the curve, and not in the group.
        bytes.fromhex(
            "914fa87678633074b7970386fee29476311624273bfd1d338d0038ec42650644781f9c58d6645fa9e8a8529f035efa25"
        ),
        # The library takes it for the point of nothing.
        b"\xc0" + bytes(46) + b"\1",
    ],
    ids=["empty", "zeros", "ones", "outside the group", "nothing in another form"],
)
def test_what_is_no_commitment_holds_for_no_blob(commitment: bytes) -> None:
    assert not are_commitments([(commitment, b""), *claims(3)])


def test_what_is_longer_than_a_blob_holds_for_no_commitment() -> None:
    assert not are_commitments([(blob_commitment(b""), bytes(BLOB_BYTES + 32))])


def test_threads_get_the_same_commitments() -> None:
    fields = [field_from_int(number) for number in range(1, 600)]
    expected = blob_commitment(b"".join(fields))
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(blob_commitment(b"".join(fields)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_fields_are_cut_into_blobs_in_order() -> None:
    fields = b"".join(map(field_from_int, range(4096 + 2)))
    first, second = blobs_of_fields(fields)
    assert len(first) == BLOB_BYTES
    assert second == field_from_int(4096) + field_from_int(4097)
