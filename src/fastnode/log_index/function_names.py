"""Names of contract functions by selector, as clients register them; for texts that people read.

Anyone may register, so the names are kept in memory only and within a budget: the oldest make room.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from fastnode.kernels import poseidon2

__all__ = ["FunctionNames", "function_selector"]

SELECTOR_BYTES: Final = 4
#: Names, and characters of all of them together.  A name takes some 200 bytes beside its characters.
NAMES_MAX: Final = 50_000
NAMES_LENGTH_MAX: Final = 4_000_000

_BYTES_PER_FIELD: Final = 31
_FIELD_BYTES: Final = 32


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


class FunctionNames:
    """Safe to use from any thread."""

    def __init__(self, length_max: int = NAMES_LENGTH_MAX, names_max: int = NAMES_MAX) -> None:
        # Not a dict: what is removed from the front of one leaves gaps that each look at the front has to pass.
        self._names: OrderedDict[bytes, str] = OrderedDict()
        self._names_max = names_max
        self._length = 0
        self._length_max = length_max
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._names)

    def register(self, signature: str) -> None:
        """Keep the part of ``signature`` before its parenthesis."""
        selector, name = function_selector(signature), signature.partition("(")[0]
        with self._lock:
            self._length += len(name) - len(self._names.pop(selector, ""))
            self._names[selector] = name
            while self._length > self._length_max or len(self._names) > self._names_max:
                self._length -= len(self._names.popitem(last=False)[1])

    def name_of(self, selector: bytes) -> str | None:
        return self._names.get(selector)
