"""Pure-Python twin of ``fastnode._ext.trees.tree_nodes``: keys and tiles of both kinds of Merkle trees.

The key of a node is its level and its index: ``level u8 | index u48 BE``.

A tile holds the nodes of 32 neighbouring leaves (levels 0 to 4) that differ from zero nodes, each of the same size:

    bitmap u64 BE | node | node | ...          in the order of the bits, lowest first
    position of node i (counted inside the tile) of level l = 64 - (64 >> l) + i
"""

from __future__ import annotations

__all__ = ["TILE_LEAVES", "TILE_LEVELS", "entries_of", "node_key", "pack_tile", "tile_position", "unpack_tile"]

TILE_LEVELS = 5
TILE_LEAVES = 1 << TILE_LEVELS
_BITMAP_BYTES = 8


def node_key(level: int, index: int) -> bytes:
    """level 1 byte || index 6 bytes"""
    return bytes([level]) + index.to_bytes(6, "big")


def entries_of(changes: list[tuple[bytes, bytes | None]], prefix: bytes, tail: int) -> list[tuple[bytes, bytes]]:
    """The changes whose keys begin with ``prefix``: the key without it and without its last ``tail`` bytes, and the
    value, empty for what is removed."""
    if tail < 0:
        raise ValueError("a tail of less than no bytes")
    head = len(prefix)
    return [
        (key[head : len(key) - tail], value or b"")
        for key, value in changes
        if key.startswith(prefix) and len(key) >= head + tail
    ]


def tile_position(level: int, index: int) -> int:
    """Bit and slot of node ``index`` of ``level`` (both counted in the whole tree) in its tile."""
    return 64 - (64 >> level) + (index & ((TILE_LEAVES >> level) - 1))


def unpack_tile(tile: bytes, node_bytes: int) -> dict[int, bytes]:
    """Position -> node of a tile; an empty tile has none."""
    if not tile:
        return {}
    bitmap = int.from_bytes(tile[:_BITMAP_BYTES], "big")
    nodes, offset = {}, _BITMAP_BYTES
    for position in range(64):
        if bitmap >> position & 1:
            nodes[position] = bytes(tile[offset : offset + node_bytes])
            offset += node_bytes
    if offset != len(tile):
        raise ValueError(f"a tile of {len(tile)} bytes does not match its bitmap")
    return nodes


def pack_tile(nodes: dict[int, bytes]) -> bytes:
    """The reverse of :func:`unpack_tile`."""
    bitmap = sum(1 << position for position in nodes)
    return bitmap.to_bytes(_BITMAP_BYTES, "big") + b"".join(nodes[position] for position in sorted(nodes))
