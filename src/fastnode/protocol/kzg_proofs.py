"""KZG proofs about blobs (EIP-4844, EIP-7594): values of a blob's polynomial, and that its cells are its own.

A blob is a polynomial of degree below 4096 by its values at the 4096th roots of one, in the order of their places'
reversed bits.

    opening at z      y = p(z),  proof = commitment to (p(X) - y) / (X - z)
    proof of a blob   the opening at z = sha256("FSBLOBVERIFY_V1_" | 4096 in 16 bytes | blob | commitment)
    proofs of cells   128 commitments to the quotients by X^64 - h^64

They are made by c-kzg-4844, the library of Ethereum's clients, in the package ckzg.  It is called as a C library: its
functions for Python keep the interpreter's lock, and the event loop would stand still for as long.  With ctypes the
lock is free.  Still: call these in a thread.  A full blob's proof takes some 0.1 s, those of its cells 0.3 s; the first
call loads the setup, in some 2 s.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any, Final

from fastnode.protocol.kzg import BLOB_BYTES, COMMITMENT_BYTES, trusted_setup

__all__ = ["CELLS_PER_BLOB", "blob_proof", "cell_proofs", "load_setup", "opening_at"]

CELLS_PER_BLOB: Final = 128

_SCALAR_BYTES: Final = 32
#: ``sizeof(KZGSettings)`` is 80: pointers and sizes.
_SETTINGS_BYTES: Final = 1024
_REFUSED: Final = 1  # C_KZG_BADARGS
_loading: Final = threading.Lock()


def load_setup() -> None:
    """Load library and setup now, and not when the first proof is due.  Usable from any thread."""
    _library()


def blob_proof(blob: bytes, commitment: bytes) -> bytes:
    """The proof (48 bytes) that goes with a blob of 131,072 bytes in the older form of a transaction.

    ValueError when it is no blob, or the commitment is no point of the curve.
    """
    proof = ctypes.create_string_buffer(COMMITMENT_BYTES)
    _library()("compute_blob_kzg_proof", proof, _whole(blob), commitment)
    return proof.raw


def opening_at(blob: bytes, z: int) -> tuple[bytes, int]:
    """Proof (48 bytes) and value of a blob's polynomial at ``z``; zeros at the blob's end may be left out.

    ValueError when it is longer than a blob, or a field or ``z`` is not below the order of the scalar field.
    """
    proof, y = ctypes.create_string_buffer(COMMITMENT_BYTES), ctypes.create_string_buffer(_SCALAR_BYTES)
    _library()("compute_kzg_proof", proof, y, _whole(blob), z.to_bytes(_SCALAR_BYTES, "big"))
    return proof.raw, int.from_bytes(y.raw, "big")


def cell_proofs(blob: bytes) -> tuple[bytes, ...]:
    """The 128 proofs (48 bytes each) that go with a blob in the newer form of a transaction, in the cells' order.

    ValueError when it is no blob.
    """
    proofs = ctypes.create_string_buffer(CELLS_PER_BLOB * COMMITMENT_BYTES)
    _library()("compute_cells_and_kzg_proofs", None, proofs, _whole(blob))
    return tuple(proofs.raw[at : at + COMMITMENT_BYTES] for at in range(0, len(proofs), COMMITMENT_BYTES))


def _whole(blob: bytes) -> bytes:
    if len(blob) > BLOB_BYTES:
        raise ValueError(f"a blob of {len(blob)} bytes, at most {BLOB_BYTES} fit")
    return blob.ljust(BLOB_BYTES, b"\0")


def _library() -> Callable[..., None]:
    """Calls a function of the library by its name, with the setup as its last argument."""
    with _loading:
        return _loaded()


@functools.cache
def _loaded() -> Callable[..., None]:
    import ckzg

    library = ctypes.CDLL(ckzg.__file__)
    settings = ctypes.create_string_buffer(_SETTINGS_BYTES)
    setup = trusted_setup()
    points = [
        part for value in (setup.monomial, setup.lagrange, setup.g2) for part in (value, ctypes.c_uint64(len(value)))
    ]
    no_tables = ctypes.c_uint64(0)
    _raise_for(library.load_trusted_setup(settings, *points, no_tables))

    def call(name: str, *arguments: Any) -> None:
        _raise_for(getattr(library, name)(*arguments, settings))

    return call


def _raise_for(result: int) -> None:
    if result == _REFUSED:
        raise ValueError("not a field of a blob, a point of the curve or a place: the KZG library refuses it")
    if result:
        raise MemoryError(f"the KZG library has failed with {result}")
