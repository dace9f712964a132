"""KZG commitments of blobs (EIP-4844).

    commitment      = sum over i of field i of the blob * point i       48 bytes, a compressed point of BLS12-381
    versioned hash  = 0x01 | sha256(commitment)[1:]                     what transactions and events of L1 name
    blobs hash      = sha256_to_field(versioned hashes, joined)         ``blobsHash`` of a checkpoint header

The points are those of the ceremony of Ethereum's mainnet, which all networks use.  The file ``kzg_trusted_setup.bin``
has the numbers of its ``trusted_setup.txt`` in the same order, as bytes.  Point i is the Lagrange point of that file at
the place i with its 12 bits reversed.  Each is unpacked when a blob needs it first: fields that are zero cost nothing,
and most blobs are short.

The sum is made outside Python's lock: call it in a thread, and the event loop goes on.  A full blob takes some
80 ms, one of 300 fields some 7 ms.

Commitments that somebody claims are verified together, by one sum for all: for random numbers r,

    sum of r * commitment = commitment to the sum of r * blob, field by field
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Final, NamedTuple

from fastnode.protocol.constants import FIELDS_PER_BLOB
from fastnode.protocol.fields import FIELD_BYTES, split_fields
from fastnode.protocol.hashing import sha256_to_field

if TYPE_CHECKING:
    from py_arkworks_bls12381 import G1Point

__all__ = [
    "BLOB_BYTES",
    "BLS_ORDER",
    "COMMITMENT_BYTES",
    "KnownSum",
    "TrustedSetup",
    "are_commitments",
    "blob_commitment",
    "blobs_hash",
    "blobs_of_fields",
    "trusted_setup",
    "versioned_hash",
]

BLOB_BYTES: Final = FIELDS_PER_BLOB * FIELD_BYTES
COMMITMENT_BYTES: Final = 48
#: The order of the scalar field of BLS12-381, below which each field of a blob is.
BLS_ORDER: Final = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
_POINT_BYTES: Final = 48
_LAGRANGE_BYTES: Final = FIELDS_PER_BLOB * _POINT_BYTES
_G2_BYTES: Final = 65 * 96
_PLACE_BITS: Final = 12
#: First byte of the hash of a blob that is committed to with KZG.
_VERSION: Final = b"\x01"
#: Bits of a random number: so unlikely is it that wrong commitments are taken for right ones.
_CHANCE_BITS: Final = 128
#: Bytes for a sum of many products of a field and such a number.
_SLOT_BYTES: Final = 2 * FIELD_BYTES
_ORDER: Final = BLS_ORDER.to_bytes(FIELD_BYTES, "big")
_NO_FIELD: Final = bytes(FIELD_BYTES)
_NO_FIELDS_COMMITMENT: Final = b"\xc0" + bytes(COMMITMENT_BYTES - 1)


class KnownSum(NamedTuple):
    """The commitment (48 bytes) to the first fields of a blob, worked out before: only what follows them is added."""

    fields: int
    #: sha256 of these fields, so that it is never taken for that of others.
    digest: bytes
    commitment: bytes

    def is_of(self, blob: bytes) -> bool:
        return hashlib.sha256(blob[: self.fields * FIELD_BYTES]).digest() == self.digest


class TrustedSetup(NamedTuple):
    """Compressed points: 4096 of G1, 65 of G2, and 4096 of G1."""

    lagrange: bytes
    g2: bytes
    monomial: bytes


def trusted_setup() -> TrustedSetup:
    content = (resources.files("fastnode") / "data" / "kzg_trusted_setup.bin").read_bytes()
    g2_end = _LAGRANGE_BYTES + _G2_BYTES
    return TrustedSetup(content[:_LAGRANGE_BYTES], content[_LAGRANGE_BYTES:g2_end], content[g2_end:])


class _Points:
    """The points by their places, those that have been needed.  Usable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unpacked: dict[int, G1Point] = {}
        self._packed: bytes | None = None

    def between(self, start: int, stop: int) -> list[G1Point]:
        found = [self._unpacked.get(place) for place in range(start, stop)]
        points = [point for point in found if point is not None]
        if len(points) < stop - start:
            with self._lock:
                self._unpack(start, stop)
            points = [self._unpacked[place] for place in range(start, stop)]
        return points

    def _unpack(self, start: int, stop: int) -> None:
        from py_arkworks_bls12381 import G1Point

        if self._packed is None:
            self._packed = trusted_setup().lagrange
        for place in range(start, stop):
            if place not in self._unpacked:
                at = _POINT_BYTES * int(f"{place:0{_PLACE_BITS}b}"[::-1], 2)
                packed = self._packed[at : at + _POINT_BYTES]
                # Unchecked: the file is our own, and a test compares the sum of all points.
                self._unpacked[place] = G1Point.from_compressed_bytes_unchecked(packed)


_points: Final = _Points()


def blob_commitment(blob: bytes, known: KnownSum | None = None) -> bytes:
    """The commitment (48 bytes) to a blob; zeros at its end may be left out.  ``known`` is used where it fits.

    ValueError when it is longer than a blob or a field is not below the order of BLS12-381.
    """
    from py_arkworks_bls12381 import G1Point, Scalar

    if len(blob) > BLOB_BYTES:
        raise ValueError(f"a blob of {len(blob)} bytes, at most {BLOB_BYTES} fit")
    blob = blob.rstrip(b"\0")
    count = -(-len(blob) // FIELD_BYTES)
    if count == 0:
        return _NO_FIELDS_COMMITMENT
    blob = blob.ljust(count * FIELD_BYTES, b"\0")
    start = known.fields if known is not None and known.fields < count and known.is_of(blob) else 0
    places = range(start * FIELD_BYTES, len(blob), FIELD_BYTES)
    scalars = [Scalar.from_be_bytes(blob[at : at + FIELD_BYTES]) for at in places]
    total = G1Point.multiexp_unchecked(_points.between(start, count), scalars)
    if start:
        assert known is not None
        total += G1Point.from_compressed_bytes_unchecked(known.commitment)
    return total.to_compressed_bytes()


def are_commitments(claims: Sequence[tuple[bytes, bytes]]) -> bool:
    """Verify many (commitment of 48 bytes, blob) in little more time than one takes; zeros at the ends of blobs may be
    left out.  True if each is the commitment to its blob.
    """
    from py_arkworks_bls12381 import G1Point, Scalar

    if not claims:
        return True
    points, factors = [], []
    total = 0
    count = -(-max(len(blob) for _, blob in claims) // FIELD_BYTES)
    for commitment, blob in claims:
        try:
            point = G1Point.from_compressed_bytes(commitment)
            fields = _far_apart(blob, count)
        except ValueError:
            return False
        if point.to_compressed_bytes() != commitment:
            return False  # that of nothing may be written in several ways
        factor = secrets.randbits(_CHANCE_BITS)
        points.append(point)
        factors.append(Scalar.from_be_bytes(factor.to_bytes(FIELD_BYTES, "big")))
        total += factor * fields
    combined = _near_again(total, count)
    return G1Point.multiexp_unchecked(points, factors).to_compressed_bytes() == blob_commitment(combined)


def _far_apart(blob: bytes, count: int) -> int:
    """One number with ``count`` fields, a blob and zeros, so far apart that products of them do not meet.

    ValueError as of :func:`blob_commitment`.
    """
    if len(blob) > BLOB_BYTES:
        raise ValueError(f"a blob of {len(blob)} bytes, at most {BLOB_BYTES} fit")
    fields = split_fields(blob.ljust(-(-len(blob) // FIELD_BYTES) * FIELD_BYTES, b"\0"))
    if max(fields, default=b"") >= _ORDER:
        raise ValueError("a field that is not below the order")
    slots = b"".join([_NO_FIELD + field for field in fields])
    return int.from_bytes(slots.ljust(count * _SLOT_BYTES, b"\0"), "big")


def _near_again(number: int, count: int) -> bytes:
    """A blob of the ``count`` fields in a number, each reduced."""
    slots = number.to_bytes(count * _SLOT_BYTES, "big")
    values = [int.from_bytes(slots[at : at + _SLOT_BYTES], "big") for at in range(0, len(slots), _SLOT_BYTES)]
    return b"".join([(value % BLS_ORDER).to_bytes(FIELD_BYTES, "big") for value in values])


def versioned_hash(commitment: bytes) -> bytes:
    """L1's name for a blob (32 bytes)."""
    return _VERSION + hashlib.sha256(commitment).digest()[1:]


def blobs_hash(versioned_hashes: Sequence[bytes]) -> bytes:
    """``blobsHash`` of a checkpoint header, from the hashes of its blobs in order."""
    return sha256_to_field(b"".join(versioned_hashes))


def blobs_of_fields(fields: bytes) -> list[bytes]:
    """The blobs of a checkpoint's fields, joined; zeros at the end of the last one are left out."""
    return [fields[at : at + BLOB_BYTES] for at in range(0, len(fields), BLOB_BYTES)]
