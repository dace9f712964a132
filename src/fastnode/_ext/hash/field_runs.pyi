"""Runs of joined field elements, 32 bytes each, big-endian.

The readable form of everything here is ``fastnode/_twins/field_runs.py``.
"""

from collections.abc import Iterable
from typing import Any

def first_non_canonical(fields: bytes) -> int | None:
    """Position of the first of n elements (32 * n bytes) that is not below the modulus, or None.

    ValueError for bytes that are no run of elements.
    """

def first_no_text(texts: Any, start: int, count: int) -> int | None:
    """Position of the first of some texts that is not 0x and 64 lower-case hexadecimal digits, or None.

    The texts, 66 bytes each, lie one after the other in a buffer from byte ``start`` on; ValueError when they do not.
    """

def fields_of_texts(texts: Any, start: int, count: int) -> bytes:
    """The 32 bytes of each of such texts, joined; digits may be of either case.  ValueError has the position of one
    that is none.
    """

class Cuts:
    """Pieces of a binary record, to be joined: for each (zeros, start, end) that many zero bytes, then a slice.

    ValueError for a cut that does not lie within 2^24 bytes.
    """

    def __init__(self, cuts: Iterable[tuple[int, int, int]]) -> None: ...
    def join(self, record: bytes, prefix: bytes = b"") -> bytes:
        """``prefix`` and all pieces of the record; ValueError for one that is too short."""
