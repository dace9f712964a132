"""RLP, Ethereum's coding of nested lists of byte strings, in its shortest form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from fastnode import kernels

__all__ = ["Decoded", "Value", "decode", "encode"]

#: Written values: numbers as bytes without leading zeros, texts in UTF-8.
Value: TypeAlias = "int | bytes | str | Sequence[Value]"
#: Decoded values.
Decoded: TypeAlias = "bytes | list[Decoded]"

_STRING: Final = 0x80
_LIST: Final = 0xC0
_SHORT_MAX: Final = 55


def encode(value: Value) -> bytes:
    if isinstance(value, str):
        value = value.encode()
    elif isinstance(value, int):
        value = value.to_bytes((value.bit_length() + 7) // 8, "big")
    if isinstance(value, bytes):
        return value if len(value) == 1 and value[0] < _STRING else _head(len(value), _STRING) + value
    content = b"".join(map(encode, value))
    return _head(len(content), _LIST) + content


def decode(data: bytes, *, items_max: int, depth_max: int) -> Decoded:
    """The one item that ``data`` is.

    ValueError: it is no item, not in the shortest form, has something behind it, more than ``items_max`` items in all,
    or lists more than ``depth_max`` levels deep.
    """
    return kernels.rlp.decode(data, items_max=items_max, depth_max=depth_max)


def _head(length: int, base: int) -> bytes:
    if length <= _SHORT_MAX:
        return bytes([base + length])
    digits = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([base + _SHORT_MAX + len(digits)]) + digits
