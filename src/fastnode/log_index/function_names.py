"""Names of contract functions by selector, as clients register them; for texts that people read.

Anyone may register, so the names are kept in memory only and within a budget: the oldest make room.

Names lie in one ring, and their places in one table.  As objects of their own those that are kept would be scattered
among the millions that are not, and each would hold on to a page of what was freed.
"""

from __future__ import annotations

import mmap
import threading
from typing import Final

from fastnode.kernels import poseidon2

__all__ = ["FunctionNames", "function_selector"]

SELECTOR_BYTES: Final = 4
#: Names, and bytes of all of them together with their lengths.
NAMES_MAX: Final = 50_000
RING_BYTES: Final = 4_000_000

_BYTES_PER_FIELD: Final = 31
_FIELD_BYTES: Final = 32
#: Places where a selector may stand in the table: of a set of eight, the oldest makes room.
_WAYS: Final = 8
_LENGTH_BYTES: Final = 2


def function_selector(signature: str) -> bytes:
    """The four bytes that call the function ``name(type,type)``.

    The low bytes of Poseidon2 over the text, 31 bytes to a field, each read as a little-endian number.
    """
    text = signature.encode()
    fields = [
        text[start : start + _BYTES_PER_FIELD].ljust(_FIELD_BYTES, b"\0")[::-1]
        for start in range(0, len(text), _BYTES_PER_FIELD)
    ]
    return poseidon2.hash_fields(b"".join(fields))[-SELECTOR_BYTES:]


def _zeros(size: int) -> memoryview:
    """Bytes of the system, which gives a page when something is written there: most nodes are told of few names."""
    return memoryview(mmap.mmap(-1, size))


class FunctionNames:
    """Safe to use from any thread."""

    def __init__(self, ring_bytes: int = RING_BYTES, names_max: int = NAMES_MAX) -> None:
        self._ring = _zeros(ring_bytes)
        self._set_count = max(1, names_max // _WAYS)
        # Each place in the table: the selector, and where in the ring its name begins; 0 lies before all of it.
        self._selectors = _zeros(self._set_count * _WAYS * 4).cast("I")
        self._starts = _zeros(self._set_count * _WAYS * 8).cast("Q")
        #: Start of the next name; it goes on growing, and the ring has what was written last.
        self._end = 2 * ring_bytes
        self._lock = threading.Lock()

    def register(self, signature: str) -> None:
        """Keep the part of ``signature`` before its parenthesis."""
        selector = int.from_bytes(function_selector(signature), "big")
        name = signature.partition("(")[0].encode()
        with self._lock:
            place = self._find(selector)
            if place is not None and self._is_young(place) and self._name_at(place) == name:
                return
            start = self._write(name)
            if start is None:
                return
            if place is None:
                places = self._places_of(selector)
                place = min(places, key=self._starts.__getitem__)
            self._selectors[place], self._starts[place] = selector, start

    def name_of(self, selector: bytes) -> str | None:
        with self._lock:
            place = self._find(int.from_bytes(selector, "big"))
            return None if place is None else self._name_at(place).decode()

    def _places_of(self, selector: int) -> range:
        first = selector % self._set_count * _WAYS
        return range(first, first + _WAYS)

    def _find(self, selector: int) -> int | None:
        """Its place in the table, if its name is still in the ring."""
        oldest = self._end - len(self._ring)
        for place in self._places_of(selector):
            if self._selectors[place] == selector and self._starts[place] >= oldest:
                return place
        return None

    def _is_young(self, place: int) -> bool:
        """True if its name is in the newer half of the ring: registered again it needs no other copy."""
        return self._end - self._starts[place] <= len(self._ring) // 2

    def _name_at(self, place: int) -> bytes:
        start = self._starts[place] % len(self._ring)
        name = start + _LENGTH_BYTES
        return bytes(self._ring[name : name + int.from_bytes(self._ring[start:name], "big")])

    def _write(self, name: bytes) -> int | None:
        """Start of the name now; None if it has no room."""
        size, ring_bytes = _LENGTH_BYTES + len(name), len(self._ring)
        if size > ring_bytes or len(name) >= 1 << 8 * _LENGTH_BYTES:
            return None
        start = self._end
        if start % ring_bytes + size > ring_bytes:  # in one piece
            start += ring_bytes - start % ring_bytes
        at = start % ring_bytes
        self._ring[at : at + size] = len(name).to_bytes(_LENGTH_BYTES, "big") + name
        self._end = start + size
        return start
