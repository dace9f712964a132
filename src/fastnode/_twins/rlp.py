"""RLP in plain Python: the readable form of the rlp kernel.

The stub ``fastnode/_ext/peers/rlp.pyi`` says what everything does.
"""

from __future__ import annotations

from typing import Final, TypeAlias

__all__ = ["Item", "decode"]

Item: TypeAlias = "bytes | list[Item]"

#: A string of up to 55 bytes begins with this plus its length, a list with the other.
_STRING: Final = 0x80
_LIST: Final = 0xC0
#: Above it the length has a length.
_SHORT_MAX: Final = 55
#: Nothing here is larger.
_LENGTH_BYTES_MAX: Final = 4


def decode(data: bytes, *, items_max: int, depth_max: int) -> Item:
    start, end, is_list = _item_at(data, 0, len(data))
    if end != len(data):
        raise ValueError("something is behind an item of RLP")
    return _Items(data, items_max).content(start, end, is_list, depth_max)


def _item_at(data: bytes, at: int, end: int) -> tuple[int, int, bool]:
    """Where the content of the item at ``at`` begins and ends, and whether it is a list."""
    if at >= end:
        raise ValueError("an item of RLP is missing")
    first = data[at]
    is_list = first >= _LIST
    if first < _STRING:
        return at, at + 1, False
    length = first - (_LIST if is_list else _STRING)
    at += 1
    if length > _SHORT_MAX:
        length_bytes = length - _SHORT_MAX
        if length_bytes > _LENGTH_BYTES_MAX or end - at < length_bytes or data[at] == 0:
            raise ValueError("no length of RLP")
        length = int.from_bytes(data[at : at + length_bytes], "big")
        at += length_bytes
        if length <= _SHORT_MAX:
            raise ValueError("a length of RLP is not in its shortest form")
    if length > end - at:
        raise ValueError("an item of RLP is longer than what is there")
    if length == 1 and not is_list and data[at] < _STRING:
        raise ValueError("a byte of RLP is not in its shortest form")
    return at, at + length, is_list


class _Items:
    def __init__(self, data: bytes, items_max: int) -> None:
        self._data, self._left = data, items_max

    def content(self, start: int, end: int, is_list: bool, depth: int) -> Item:
        self._left -= 1
        if self._left < 0:
            raise ValueError("more items of RLP than allowed")
        if not is_list:
            return self._data[start:end]
        if depth <= 0:
            raise ValueError("lists of RLP are deeper than allowed")
        found: list[Item] = []
        while start < end:
            inner, inner_end, is_inner_list = _item_at(self._data, start, end)
            found.append(self.content(inner, inner_end, is_inner_list, depth - 1))
            start = inner_end
        return found
