"""Every checksum of a LevelDB table.

    table      data blocks | filter block | filter index | index | footer
    block      its content | u8 kind: 0 plain, 1 packed with snappy | u32 masked crc32c of content and kind
    index      entries | u32 offsets of restarts ... | u32 how many
    entry      varint bytes shared with the key before, varint key bytes that follow, varint value bytes | key | value
    value      handle of a block: varint offset, varint size without the five bytes behind its content
    footer     handle of the filter index | handle of the index | filling up to 40 bytes | u64 mark

All numbers are little-endian; the last key of each data block leads to it in the index.  Data blocks lie one behind the
other, in the order of the index.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

__all__ = ["crc32c", "crc32c_portable", "fault_of"]

Buffer: TypeAlias = bytes | bytearray | memoryview

FOOTER_BYTES: Final = 48
TRAILER_BYTES: Final = 5
PACKED: Final = 1
MAGIC: Final = 0xDB4775248B80FB57
POLYNOMIAL: Final = 0x82F63B78
MASK: Final = 0xA282EAD8
_U32: Final = 0xFFFFFFFF


def _crc_of_byte(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
    return crc


_TABLE: Final = tuple(map(_crc_of_byte, range(256)))


def crc32c(data: Buffer) -> int:
    crc = _U32
    for byte in memoryview(data):
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ _U32


crc32c_portable = crc32c


class _Handle(NamedTuple):
    offset: int
    size: int


class _Fault(Exception):  # noqa: N818 - the word of this room
    pass


class _Malformed(Exception):  # noqa: N818 - the word of this room
    pass


def fault_of(table: Buffer) -> str | None:
    try:
        _check(memoryview(table))
    except _Fault as fault:
        return str(fault)
    return None


def _check(table: memoryview) -> None:
    if len(table) < FOOTER_BYTES:
        raise _Fault(f"there is no footer at byte {len(table)}")
    start = len(table) - FOOTER_BYTES
    try:
        if int.from_bytes(table[-8:], "little") != MAGIC:
            raise _Malformed
        filters, position = _handle(table[start:-8], 0)
        index, _ = _handle(table[start:-8], position)
    except _Malformed:
        raise _Fault(f"there is no footer at byte {start}") from None
    for handle in (filters, index):
        _check_index(table, handle)


def _check_index(table: memoryview, handle: _Handle) -> None:
    """The block of ``handle`` and all that its entries lead to."""
    _check_block(table, handle)
    if table[handle.offset + handle.size] == PACKED:
        raise _Fault(f"the index at byte {handle.offset} is compressed")
    try:
        free_from = 0
        for child in _children(table[handle.offset : handle.offset + handle.size]):
            if child.offset < free_from:
                raise _Fault(f"the block at byte {child.offset} begins before the end of the one before it")
            _check_block(table, child)
            free_from = child.offset + child.size + TRAILER_BYTES
    except _Malformed:
        raise _Fault(f"the index at byte {handle.offset} makes no sense") from None


def _check_block(table: memoryview, handle: _Handle) -> None:
    end = handle.offset + handle.size
    if end + TRAILER_BYTES > len(table) - FOOTER_BYTES:
        raise _Fault(f"a block at byte {handle.offset} is said to lie outside of the file")
    (stored,) = struct.unpack_from("<I", table, end + 1)
    stored = stored - MASK & _U32
    stored = (stored >> 17 | stored << 15) & _U32
    if crc32c(table[handle.offset : end + 1]) != stored:
        raise _Fault(f"the checksum of the block at byte {handle.offset} is wrong")


def _children(index: memoryview) -> Iterator[_Handle]:
    if len(index) < 4:
        raise _Malformed
    (restarts,) = struct.unpack_from("<I", index, len(index) - 4)
    end = len(index) - 4 - 4 * restarts
    if end < 0:
        raise _Malformed
    position = 0
    while position < end:
        _, position = _varint(index[:end], position)
        key_bytes, position = _varint(index[:end], position)
        value_bytes, position = _varint(index[:end], position)
        value = position + key_bytes
        position = value + value_bytes
        if position > end:
            raise _Malformed
        yield _handle(index[value:position], 0)[0]


def _handle(data: memoryview, position: int) -> tuple[_Handle, int]:
    offset, position = _varint(data, position)
    size, position = _varint(data, position)
    return _Handle(offset, size), position


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """The number, and where the next one begins."""
    value = 0
    for shift in range(0, 64, 7):
        if position >= len(data):
            raise _Malformed
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
    raise _Malformed
