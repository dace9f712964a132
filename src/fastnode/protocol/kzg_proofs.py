"""KZG proofs about blobs (EIP-4844, EIP-7594): what a blob is at a point, and that its cells are what they are.

A blob is a polynomial of degree below 4096 by its values p_i at w_i, the 4096th roots of one, in the order of their
places' reversed bits.

    opening at z      y = p(z),  proof = commitment to q,  q_i = (p_i - y) / (w_i - z)
    proof of a blob   the opening at z = sha256("FSBLOBVERIFY_V1_" | 4096 in 16 bytes | blob | commitment)
    proof of a cell   the commitment to the quotient by X^64 - h^64 for each of 128 cosets h: all at once by
                      Feist and Khovratovich (FK20), with points that depend on the setup alone

The large sums are made outside Python's lock.  A blob's proof takes some 0.1 s, those of its cells 1 s: in a thread.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Final, TypeVar

from fastnode.protocol.constants import FIELDS_PER_BLOB
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.kzg import BLOB_BYTES, sum_of_points

if TYPE_CHECKING:
    from py_arkworks_bls12381 import G1Point

__all__ = ["BLS_ORDER", "CELLS_PER_BLOB", "blob_proof", "cell_proofs", "opening_at"]

BLS_ORDER: Final = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
CELLS_PER_BLOB: Final = 128
_FIELDS_PER_CELL: Final = 64
_GENERATOR: Final = 7  # of the scalar field's multiplicative group
_CHALLENGE_MARK: Final = b"FSBLOBVERIFY_V1_" + FIELDS_PER_BLOB.to_bytes(16, "big")
_CELL_POINTS_FILE: Final = "kzg_cell_points.bin"
_POINT_BYTES: Final = 48

T = TypeVar("T")


def blob_proof(blob: bytes, commitment: bytes) -> bytes:
    """The proof (48 bytes) that goes with a blob of 131,072 bytes in the older form of a transaction."""
    challenge = hashlib.sha256(_CHALLENGE_MARK + blob + commitment).digest()
    return opening_at(blob, int.from_bytes(challenge, "big") % BLS_ORDER)[0]


def opening_at(blob: bytes, z: int) -> tuple[bytes, int]:
    """Proof (48 bytes) and value of a blob's polynomial at ``z``; zeros at the blob's end may be left out.

    ValueError when it is longer than a blob.
    """
    values, roots = _values_of(blob), _roots_in_order(FIELDS_PER_BLOB)
    if z in roots:
        return _opening_at_root(values, roots, roots.index(z))
    inverses = _inverses([(z - root) % BLS_ORDER for root in roots])
    # The barycentric formula: one sum for the value at z.
    total = sum(
        value * root % BLS_ORDER * inverse for value, root, inverse in zip(values, roots, inverses, strict=True)
    )
    y = (pow(z, FIELDS_PER_BLOB, BLS_ORDER) - 1) * pow(FIELDS_PER_BLOB, -1, BLS_ORDER) * total % BLS_ORDER
    quotient = [(y - value) * inverse % BLS_ORDER for value, inverse in zip(values, inverses, strict=True)]
    return sum_of_points(quotient), y


def _opening_at_root(values: Sequence[int], roots: Sequence[int], place: int) -> tuple[bytes, int]:
    """Where ``z`` is the root at ``place`` its own share of the quotient follows from all others."""
    z, y = roots[place], values[place]
    differences = [(root - z) % BLS_ORDER for root in roots]
    differences[place] = 1
    quotient = [
        (value - y) * inverse % BLS_ORDER for value, inverse in zip(values, _inverses(differences), strict=True)
    ]
    quotient[place] = 0
    total = sum(share * root for share, root in zip(quotient, roots, strict=True))
    quotient[place] = -total * pow(z, -1, BLS_ORDER) % BLS_ORDER
    return sum_of_points(quotient), y


def cell_proofs(blob: bytes) -> tuple[bytes, ...]:
    """The 128 proofs (48 bytes each) that go with a blob in the newer form of a transaction, in the cells' order."""
    from py_arkworks_bls12381 import G1Point, Scalar

    coefficients = _transform(_bits_reversed(_values_of(blob)), inverse=True)
    # One circulant product for each place within a cell, all in the transformed domain.
    columns = [_transform(_toeplitz(coefficients, offset)) for offset in range(_FIELDS_PER_CELL)]
    points = _cell_points()
    spread = []
    for place in range(CELLS_PER_BLOB):
        scalars = [Scalar.from_be_bytes(column[place].to_bytes(FIELD_BYTES, "big")) for column in columns]
        spread.append(G1Point.multiexp_unchecked(list(points[place]), scalars))
    sums = _transform_points(spread, inverse=True)[: CELLS_PER_BLOB // 2]
    sums += [G1Point.identity()] * (CELLS_PER_BLOB - len(sums))
    return tuple(point.to_compressed_bytes() for point in _bits_reversed(_transform_points(sums)))


def _toeplitz(coefficients: Sequence[int], offset: int) -> list[int]:
    """First column of the circulant matrix that holds the Toeplitz matrix of one place within a cell."""
    column = [0] * CELLS_PER_BLOB
    column[0] = coefficients[FIELDS_PER_BLOB - 1 - offset]
    shares = coefficients[2 * _FIELDS_PER_CELL - offset - 1 :: _FIELDS_PER_CELL]
    first = CELLS_PER_BLOB // 2 + 2
    for place, share in zip(range(first, CELLS_PER_BLOB), shares, strict=False):
        column[place] = share
    return column


@functools.cache
def _cell_points() -> tuple[tuple[G1Point, ...], ...]:
    """By place of the transformed domain, then by place within a cell.  Half a second when it is asked for first."""
    from py_arkworks_bls12381 import G1Point

    packed = (resources.files("fastnode") / "data" / _CELL_POINTS_FILE).read_bytes()
    # Unchecked: the file is our own, and a test compares the proofs that come of it.
    points = [
        G1Point.from_compressed_bytes_unchecked(packed[at : at + _POINT_BYTES])
        for at in range(0, len(packed), _POINT_BYTES)
    ]
    return tuple(tuple(points[at : at + _FIELDS_PER_CELL]) for at in range(0, len(points), _FIELDS_PER_CELL))


# ---- the scalar field ---------------------------------------------------------------------------


def _values_of(blob: bytes) -> list[int]:
    if len(blob) > BLOB_BYTES:
        raise ValueError(f"a blob of {len(blob)} bytes, at most {BLOB_BYTES} fit")
    blob = blob.ljust(BLOB_BYTES, b"\0")
    return [int.from_bytes(blob[at : at + FIELD_BYTES], "big") for at in range(0, BLOB_BYTES, FIELD_BYTES)]


@functools.cache
def _roots(size: int) -> tuple[int, ...]:
    """The roots of one of an order, a power of two, as powers of the first."""
    first = pow(_GENERATOR, (BLS_ORDER - 1) // size, BLS_ORDER)
    found = [1]
    for _ in range(size - 1):
        found.append(found[-1] * first % BLS_ORDER)
    return tuple(found)


@functools.cache
def _roots_in_order(size: int) -> tuple[int, ...]:
    return tuple(_bits_reversed(_roots(size)))


def _bits_reversed(items: Sequence[T]) -> list[T]:
    bits = len(items).bit_length() - 1
    return [items[int(f"{place:0{bits}b}"[::-1], 2)] for place in range(len(items))]


def _inverses(values: Sequence[int]) -> list[int]:
    """Of all at once: one inversion, three products for each."""
    products = [1]
    for value in values:
        products.append(products[-1] * value % BLS_ORDER)
    inverse, found = pow(products[-1], -1, BLS_ORDER), []
    for value, before in zip(reversed(values), reversed(products[:-1]), strict=True):
        found.append(inverse * before % BLS_ORDER)
        inverse = inverse * value % BLS_ORDER
    return found[::-1]


def _transform(values: Sequence[int], *, inverse: bool = False) -> list[int]:
    """The discrete Fourier transform over the scalar field; the length is a power of two."""
    size = len(values)
    out, roots = _bits_reversed(values), _roots(size)
    half = 1
    while half < size:
        step = size // (2 * half)
        for start in range(0, size, 2 * half):
            for place in range(half):
                low, high = start + place, start + place + half
                turned = out[high] * roots[-place * step if inverse else place * step] % BLS_ORDER
                out[high] = (out[low] - turned) % BLS_ORDER
                out[low] = (out[low] + turned) % BLS_ORDER
        half *= 2
    if not inverse:
        return out
    share = pow(size, -1, BLS_ORDER)
    return [value * share % BLS_ORDER for value in out]


def _transform_points(points: Sequence[G1Point], *, inverse: bool = False) -> list[G1Point]:
    """The same over points of the curve."""
    from py_arkworks_bls12381 import Scalar

    size = len(points)
    out = _bits_reversed(points)
    roots = [Scalar.from_be_bytes(root.to_bytes(FIELD_BYTES, "big")) for root in _roots(size)]
    half = 1
    while half < size:
        step = size // (2 * half)
        for start in range(0, size, 2 * half):
            for place in range(half):
                low, high = start + place, start + place + half
                turned = out[high] * roots[-place * step if inverse else place * step] if place else out[high]
                out[high] = out[low] - turned
                out[low] = out[low] + turned
        half *= 2
    if not inverse:
        return out
    share = Scalar.from_be_bytes(pow(size, -1, BLS_ORDER).to_bytes(FIELD_BYTES, "big"))
    return [point * share for point in out]
