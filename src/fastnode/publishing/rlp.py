"""RLP, Ethereum's coding of nested lists of byte strings; numbers are byte strings without leading zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from fastnode.errors import DecodeError

__all__ = ["Item", "decode", "encode"]

Item: TypeAlias = "int | bytes | Sequence[Item]"
#: What decoding gives.
Decoded: TypeAlias = "bytes | list[Decoded]"

_STRING: Final = 0x80
_LIST: Final = 0xC0
_SHORT_MAX: Final = 55
_DEPTH_MAX: Final = 8


def encode(item: Item) -> bytes:
    if isinstance(item, int):
        item = item.to_bytes((item.bit_length() + 7) // 8, "big")
    if isinstance(item, bytes):
        return item if len(item) == 1 and item[0] < _STRING else _head(len(item), _STRING) + item
    content = b"".join(map(encode, item))
    return _head(len(content), _LIST) + content


def decode(data: bytes) -> Decoded:
    """Strings stay bytes.  DecodeError for what is no complete item, or more than one."""
    item, end = _decode_at(data, 0, 0)
    if end != len(data):
        raise DecodeError(f"RLP: {len(data) - end} bytes behind the item")
    return item


def _head(length: int, base: int) -> bytes:
    if length <= _SHORT_MAX:
        return bytes([base + length])
    digits = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([base + _SHORT_MAX + len(digits)]) + digits


def _decode_at(data: bytes, at: int, depth: int) -> tuple[Decoded, int]:
    """The item at a place and where it ends."""
    if at >= len(data) or depth > _DEPTH_MAX:
        raise DecodeError("RLP: the data ends too soon, or is nested too deeply")
    first = data[at]
    if first < _STRING:
        return data[at : at + 1], at + 1
    base = _STRING if first < _LIST else _LIST
    length, start = first - base, at + 1
    if length > _SHORT_MAX:
        digits = length - _SHORT_MAX
        length, start = int.from_bytes(data[start : start + digits], "big"), start + digits
    end = start + length
    if end > len(data):
        raise DecodeError(f"RLP: {length} bytes are said to follow, {max(0, len(data) - start)} do")
    if base == _STRING:
        return data[start:end], end
    items = []
    while start < end:
        item, start = _decode_at(data[:end], start, depth + 1)
        items.append(item)
    return items, end
