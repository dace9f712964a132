"""The points that proofs of cells need (EIP-7594): worked out from the setup once, and kept in a file.

For each place i within a cell the points [tau^(4096 - 65 - i - 64 j)], j below 63, then 65 times nothing, are
transformed.  There are 64 of them, one for each i, at each of the 128 places of the domain.

They take some 8 s of a processor, and half a second when they come from the file (393,216 bytes, each point
compressed).  The setup is the same for everybody and so are they: a file with other content is made anew.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastnode.log import log_facts
from fastnode.protocol.constants import FIELDS_PER_BLOB
from fastnode.protocol.kzg import points_of_blobs
from fastnode.protocol.kzg_transforms import bits_reversed, transform

if TYPE_CHECKING:
    from py_arkworks_bls12381 import G1Point

__all__ = ["CELLS_PER_BLOB", "FIELDS_PER_CELL", "cell_points", "keep_cell_points_in", "make_cell_points"]

logger = logging.getLogger(__name__)

CELLS_PER_BLOB: Final = 128
FIELDS_PER_CELL: Final = 64
_FILE: Final = "kzg-cell-points"
_POINT_BYTES: Final = 48
_SHA256: Final = bytes.fromhex("f47d9c4219933d2c072db52f44b84ab3c92bbad08746fcb42bff8b47f5d2bf8f")


class _Kept:
    """Where the points are kept; None: nowhere, they are made by each process that needs them."""

    folder: Path | None = None


_kept: Final = _Kept()
_lock: Final = threading.Lock()


def keep_cell_points_in(folder: Path) -> None:
    """Keep the points of this process in a folder, which must exist.  Before they are needed first."""
    _kept.folder = folder


def cell_points() -> tuple[tuple[G1Point, ...], ...]:
    """By place of the transformed domain, then by place within a cell.  Usable from any thread; who asks while they are
    made waits for them.
    """
    with _lock:
        return _points()


@functools.cache
def _points() -> tuple[tuple[G1Point, ...], ...]:
    from py_arkworks_bls12381 import G1Point

    path = None if _kept.folder is None else _kept.folder / _FILE
    packed = None if path is None else _read(path)
    if packed is None:
        logger.info("the points for proofs of cells are made, once", extra=log_facts(path=path))
        packed = make_cell_points()
        assert hashlib.sha256(packed).digest() == _SHA256
        if path is not None:
            _write(path, packed)
    # Unchecked: the digest says what they are.
    points = [
        G1Point.from_compressed_bytes_unchecked(packed[at : at + _POINT_BYTES])
        for at in range(0, len(packed), _POINT_BYTES)
    ]
    return tuple(tuple(points[at : at + FIELDS_PER_CELL]) for at in range(0, len(points), FIELDS_PER_CELL))


def _read(path: Path) -> bytes | None:
    try:
        packed = path.read_bytes()
    except OSError:
        return None
    return packed if hashlib.sha256(packed).digest() == _SHA256 else None


def _write(path: Path, packed: bytes) -> None:
    """Whole or not at all for a process; what a crash of the machine leaves of it the digest tells."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(packed)
        unfinished.replace(path)
    except OSError as error:
        logger.warning("the points for proofs of cells could not be kept", extra=log_facts(path=path, error=error))
        unfinished.unlink(missing_ok=True)


def make_cell_points() -> bytes:
    """The content of the file."""
    from py_arkworks_bls12381 import G1Point

    # [tau^j] = sum over i of root^(ij) times the point i of blobs: a transform.
    powers = transform(bits_reversed(points_of_blobs()))
    columns = []
    for offset in range(FIELDS_PER_CELL):
        last = FIELDS_PER_BLOB - FIELDS_PER_CELL - 1 - offset
        column = powers[last::-FIELDS_PER_CELL][: CELLS_PER_BLOB // 2 - 1]
        column += [G1Point.identity()] * (CELLS_PER_BLOB - len(column))
        columns.append(transform(column))
    return b"".join(column[place].to_compressed_bytes() for place in range(CELLS_PER_BLOB) for column in columns)
