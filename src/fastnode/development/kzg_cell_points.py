"""Makes ``data/kzg_cell_points.bin`` from the points of blobs: what proofs of cells need, worked out once.

    python -m fastnode.development.kzg_cell_points FILE       takes about a minute

For each place i within a cell the points [tau^(4096 - 65 - i - 64 j)], j below 63, then 65 times nothing, are
transformed; the file has for each of 128 places of the domain its 64 points, one for each i, compressed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from fastnode.protocol import kzg, kzg_proofs
from fastnode.protocol.constants import FIELDS_PER_BLOB

__all__ = ["make"]

_FIELDS_PER_CELL: Final = FIELDS_PER_BLOB * 2 // kzg_proofs.CELLS_PER_BLOB


def make() -> bytes:
    """The content of the file."""
    from py_arkworks_bls12381 import G1Point

    lagrange = kzg_proofs._bits_reversed(kzg._points.between(0, FIELDS_PER_BLOB))
    # [tau^j] = sum over i of root^(ij) times the Lagrange point i: a transform.
    powers = kzg_proofs._transform_points(lagrange)
    columns = []
    for offset in range(_FIELDS_PER_CELL):
        last = FIELDS_PER_BLOB - _FIELDS_PER_CELL - 1 - offset
        column = powers[last::-_FIELDS_PER_CELL][: kzg_proofs.CELLS_PER_BLOB // 2 - 1]
        column += [G1Point.identity()] * (kzg_proofs.CELLS_PER_BLOB - len(column))
        columns.append(kzg_proofs._transform_points(column))
    return b"".join(
        column[place].to_compressed_bytes() for place in range(kzg_proofs.CELLS_PER_BLOB) for column in columns
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(make())
