"""All blobs of an epoch, opened at one point: what the rollup contract checks on L1 instead of each blob.

    F     hash of a checkpoint's blob fields          C_i, Q_i, y_i    commitment of blob i, its opening at z
    z_i = H(F, first 31 bytes of C_i, last 17)        z = z_1, then z = H(z, z_i)
    e_i = H(limbs of y_i: 120, 120, 16 bits, the low ones first)
    g   = e_1, then g = H(g, e_i), at last g = H(g, z)
    y = sum g^(i-1) y_i,   C = sum g^(i-1) C_i,   Q = sum g^(i-1) Q_i

H is Poseidon2, sums are of the scalar field and the group of BLS12-381.  From release 5.x on each of the five H has a
separator of its own before its inputs: of a challenge, of two challenges, of a value, of two values, of the factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fastnode.kernels import poseidon2
from fastnode.protocol.blobs import BlobSponge
from fastnode.protocol.fields import FIELD_BYTES, field_from_int
from fastnode.protocol.hashing import sha256_to_field
from fastnode.protocol.kzg import BLS_ORDER, blob_commitment, blobs_of_fields, versioned_hash
from fastnode.protocol.kzg_proofs import opening_at
from fastnode.protocol.releases import BlobSeparators
from fastnode.records import dataclass

if TYPE_CHECKING:
    from py_arkworks_bls12381 import G1Point

__all__ = ["BatchedBlob", "batch"]

#: A commitment does not fit a field: it is cut here.
_COMMITMENT_CUT: Final = 31
_LIMB_BITS: Final = 120


@dataclass(frozen=True, slots=True)
class BatchedBlob:
    """``commitments_hash``: over all commitments in order, as L1 keeps it for the last checkpoint (32 bytes)."""

    commitments_hash: bytes
    z: bytes
    y: bytes
    commitment: bytes
    proof: bytes

    @property
    def inputs(self) -> bytes:
        """For the precompile of L1: versioned hash 32 | z 32 | y 32 | commitment 48 | proof 48."""
        return versioned_hash(self.commitment) + self.z + self.y + self.commitment + self.proof


def batch(checkpoints: Sequence[bytes], separators: BlobSeparators) -> BatchedBlob:
    """Batch the blob fields of each checkpoint of an epoch, joined, with their end markers.

    ``separators``: of the chain's release.

    Takes some 0.1 s for each blob: not for the event loop.
    """
    blobs: list[bytes] = []
    commitments: list[bytes] = []
    challenges: list[bytes] = []
    for fields in checkpoints:
        fields_hash = BlobSponge().absorb(fields).squeeze()
        for blob in blobs_of_fields(fields):
            commitment = blob_commitment(blob)
            blobs.append(blob)
            commitments.append(commitment)
            cut = (commitment[:_COMMITMENT_CUT], commitment[_COMMITMENT_CUT:])
            parts = (part.rjust(FIELD_BYTES, b"\0") for part in cut)
            challenges.append(_hash(separators.challenge, fields_hash, *parts))
    z = _chain(challenges, separators.challenges)
    openings = [opening_at(blob, int.from_bytes(z, "big")) for blob in blobs]
    values = [value for _, value in openings]
    joined = _chain([_hash(separators.value, *_limbs(value)) for value in values], separators.values)
    factor = int.from_bytes(_hash(separators.factor, joined, z), "big")
    factors = [pow(factor, power, BLS_ORDER) for power in range(len(blobs))]
    return BatchedBlob(
        commitments_hash=_commitments_hash(commitments),
        z=z,
        y=_element(sum(power * value for power, value in zip(factors, values, strict=True))),
        commitment=_combine(commitments, factors),
        proof=_combine([proof for proof, _ in openings], factors),
    )


def _element(value: int) -> bytes:
    """An element of BLS12-381's scalar field, which is larger than the field of most hashes here."""
    return (value % BLS_ORDER).to_bytes(FIELD_BYTES, "big")


def _hash(*fields: bytes) -> bytes:
    return poseidon2.hash_fields(b"".join(fields))


def _chain(fields: Sequence[bytes], separator: bytes) -> bytes:
    first, *others = fields
    for field in others:
        first = _hash(separator, first, field)
    return first


def _limbs(value: int) -> tuple[bytes, bytes, bytes]:
    mask = (1 << _LIMB_BITS) - 1
    low, middle, high = value & mask, value >> _LIMB_BITS & mask, value >> 2 * _LIMB_BITS
    return field_from_int(low), field_from_int(middle), field_from_int(high)


def _commitments_hash(commitments: Sequence[bytes]) -> bytes:
    first, *others = commitments
    digest = sha256_to_field(first)
    for commitment in others:
        digest = sha256_to_field(digest + commitment)
    return digest


def _combine(points: Sequence[bytes], factors: Sequence[int]) -> bytes:
    from py_arkworks_bls12381 import G1Point, Scalar

    unpacked: list[G1Point] = [G1Point.from_compressed_bytes_unchecked(point) for point in points]
    scalars = [Scalar.from_be_bytes(factor.to_bytes(FIELD_BYTES, "big")) for factor in factors]
    return bytes(G1Point.multiexp_unchecked(unpacked, scalars).to_compressed_bytes())
