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

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fastnode.protocol.constants import FIELDS_PER_BLOB
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.kzg import BLOB_BYTES, sum_of_points
from fastnode.protocol.kzg_cell_points import CELLS_PER_BLOB, FIELDS_PER_CELL, cell_points
from fastnode.protocol.kzg_transforms import BLS_ORDER, bits_reversed, roots_in_order, scalar_of, transform

if TYPE_CHECKING:
    from py_arkworks_bls12381 import Scalar

__all__ = ["BLS_ORDER", "CELLS_PER_BLOB", "blob_proof", "cell_proofs", "opening_at"]

_CHALLENGE_MARK: Final = b"FSBLOBVERIFY_V1_" + FIELDS_PER_BLOB.to_bytes(16, "big")


def blob_proof(blob: bytes, commitment: bytes) -> bytes:
    """The proof (48 bytes) that goes with a blob of 131,072 bytes in the older form of a transaction."""
    challenge = hashlib.sha256(_CHALLENGE_MARK + blob + commitment).digest()
    return opening_at(blob, int.from_bytes(challenge, "big") % BLS_ORDER)[0]


def opening_at(blob: bytes, z: int) -> tuple[bytes, int]:
    """Proof (48 bytes) and value of a blob's polynomial at ``z``; zeros at the blob's end may be left out.

    ValueError when it is longer than a blob.
    """
    values, roots = _values_of(blob), roots_in_order(FIELDS_PER_BLOB)
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
    from py_arkworks_bls12381 import G1Point

    coefficients = transform([scalar_of(value) for value in bits_reversed(_values_of(blob))], inverse=True)
    # One circulant product for each place within a cell, all in the transformed domain.
    columns = [transform(_toeplitz(coefficients, offset)) for offset in range(FIELDS_PER_CELL)]
    points = cell_points()
    spread = []
    for place in range(CELLS_PER_BLOB):
        spread.append(G1Point.multiexp_unchecked(list(points[place]), [column[place] for column in columns]))
    sums = transform(spread, inverse=True)[: CELLS_PER_BLOB // 2]
    sums += [G1Point.identity()] * (CELLS_PER_BLOB - len(sums))
    return tuple(point.to_compressed_bytes() for point in bits_reversed(transform(sums)))


def _toeplitz(coefficients: Sequence[Scalar], offset: int) -> list[Scalar]:
    """First column of the circulant matrix that holds the Toeplitz matrix of one place within a cell."""
    column = [scalar_of(0)] * CELLS_PER_BLOB
    column[0] = coefficients[FIELDS_PER_BLOB - 1 - offset]
    shares = coefficients[2 * FIELDS_PER_CELL - offset - 1 :: FIELDS_PER_CELL]
    first = CELLS_PER_BLOB // 2 + 2
    for place, share in zip(range(first, CELLS_PER_BLOB), shares, strict=False):
        column[place] = share
    return column


# ---- the scalar field ---------------------------------------------------------------------------


def _values_of(blob: bytes) -> list[int]:
    if len(blob) > BLOB_BYTES:
        raise ValueError(f"a blob of {len(blob)} bytes, at most {BLOB_BYTES} fit")
    blob = blob.ljust(BLOB_BYTES, b"\0")
    return [int.from_bytes(blob[at : at + FIELD_BYTES], "big") for at in range(0, BLOB_BYTES, FIELD_BYTES)]


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
