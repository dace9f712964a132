"""Tables of a LevelDB whose index leads elsewhere, with right checksums everywhere."""

from __future__ import annotations

from fastnode._twins import leveldb_table as twin

__all__ = ["block", "blocks_of", "with_index"]


def block(content: bytes) -> bytes:
    """A block that is not packed."""
    crc = twin.crc32c(content + b"\0")
    masked = ((crc >> 15 | crc << 17) + twin.MASK) & 0xFFFFFFFF
    return content + b"\0" + masked.to_bytes(4, "little")


def blocks_of(table: bytes) -> list[tuple[int, int]]:
    """Offset and size of each block of data, as LevelDB wrote them."""
    view = memoryview(table)
    footer = view[-twin.FOOTER_BYTES : -8]
    _, position = twin._handle(footer, 0)
    index, _ = twin._handle(footer, position)
    return [(child.offset, child.size) for child in twin._children(view[index.offset : index.offset + index.size])]


def with_index(table: bytes, blocks: list[tuple[int, int]]) -> bytes:
    """The same table with an index that leads to these blocks, and right checksums."""
    footer = memoryview(table)[-twin.FOOTER_BYTES : -8]
    filters, _ = twin._handle(footer, 0)
    entries = b"".join(
        b"\0" + _varint(8) + _varint(len(value)) + number.to_bytes(8, "big") + value
        for number, value in enumerate(_varint(offset) + _varint(size) for offset, size in blocks)
    )
    index = entries + bytes(4) + (1).to_bytes(4, "little")
    body = table[: -twin.FOOTER_BYTES]
    handles = b"".join(map(_varint, (filters.offset, filters.size, len(body), len(index))))
    return body + block(index) + handles.ljust(40, b"\0") + table[-8:]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
