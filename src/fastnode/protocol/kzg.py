"""KZG commitments of blobs (EIP-4844).

    commitment      = sum over i of field i of the blob * point i       48 bytes, a compressed point of BLS12-381
    versioned hash  = 0x01 | sha256(commitment)[1:]                     what transactions and events of L1 name
    blobs hash      = sha256_to_field(versioned hashes, joined)         ``blobsHash`` of a checkpoint header

The points are those of the ceremony of Ethereum's mainnet, which all networks use: the Lagrange points in the order
of a blob's fields (the order of the setup file with the 12 bits of each place reversed).  Each is unpacked when a
blob needs it first: fields that are zero cost nothing, and most blobs are short.

The sum is made outside Python's lock: call it in a thread, and the event loop goes on.  A full blob takes some
80 ms, one of 300 fields some 7 ms.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Final

from fastnode.protocol.constants import FIELDS_PER_BLOB
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.hashing import sha256_to_field

if TYPE_CHECKING:
    from py_arkworks_bls12381 import G1Point

__all__ = [
    "BLOB_BYTES",
    "COMMITMENT_BYTES",
    "blob_commitment",
    "blobs_hash",
    "blobs_of_fields",
    "versioned_hash",
]

BLOB_BYTES: Final = FIELDS_PER_BLOB * FIELD_BYTES
COMMITMENT_BYTES: Final = 48
_POINT_BYTES: Final = 48
_POINTS_FILE: Final = "kzg_lagrange_points.bin"
#: First byte of the hash of a blob that is committed to with KZG.
_VERSION: Final = b"\x01"
_NO_FIELDS_COMMITMENT: Final = b"\xc0" + bytes(COMMITMENT_BYTES - 1)


class _Points:
    """The first points, as many as have been needed.  Usable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unpacked: list[G1Point] = []
        self._packed: bytes | None = None

    def first(self, count: int) -> list[G1Point]:
        if len(self._unpacked) < count:
            with self._lock:
                self._unpack(count)
        return self._unpacked[:count]

    def _unpack(self, count: int) -> None:
        from py_arkworks_bls12381 import G1Point

        if self._packed is None:
            self._packed = (resources.files("fastnode") / "data" / _POINTS_FILE).read_bytes()
        for place in range(len(self._unpacked), count):
            packed = self._packed[place * _POINT_BYTES : (place + 1) * _POINT_BYTES]
            # Unchecked: the file is our own, and a test compares the sum of all points.
            self._unpacked.append(G1Point.from_compressed_bytes_unchecked(packed))


_points: Final = _Points()


def blob_commitment(blob: bytes) -> bytes:
    """The commitment (48 bytes) to a blob; zeros at its end may be left out.

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
    scalars = [Scalar.from_be_bytes(blob[at : at + FIELD_BYTES]) for at in range(0, len(blob), FIELD_BYTES)]
    return G1Point.multiexp_unchecked(_points.first(count), scalars).to_compressed_bytes()


def versioned_hash(commitment: bytes) -> bytes:
    """What L1 knows a blob by (32 bytes)."""
    return _VERSION + hashlib.sha256(commitment).digest()[1:]


def blobs_hash(versioned_hashes: Sequence[bytes]) -> bytes:
    """``blobsHash`` of a checkpoint header, from the hashes of its blobs in order."""
    return sha256_to_field(b"".join(versioned_hashes))


def blobs_of_fields(fields: bytes) -> list[bytes]:
    """The blobs of a checkpoint's fields, joined; zeros at the end of the last one are left out."""
    return [fields[at : at + BLOB_BYTES] for at in range(0, len(fields), BLOB_BYTES)]
