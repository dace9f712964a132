"""Runs of joined field elements, 32 bytes each, big-endian.

The readable form of everything here is ``fastnode/_twins/field_runs.py``.
"""

from collections.abc import Iterable

def first_non_canonical(fields: bytes) -> int | None:
    """Position of the first of n elements (32 * n bytes) that is not below the modulus, or None.

    ValueError for bytes that are no run of elements.
    """

class Cuts:
    """Pieces of a binary record, to be joined: for each (zeros, start, end) that many zero bytes, then a slice.

    ValueError for a cut that does not lie within 2^24 bytes.
    """

    def __init__(self, cuts: Iterable[tuple[int, int, int]]) -> None: ...
    def join(self, record: bytes, prefix: bytes = b"") -> bytes:
        """``prefix`` and all pieces of the record; ValueError for one that is too short."""
