"""Keys, tiles and rows of nodes: what both kinds of Merkle trees share.

Keys and tiles are drawn in the readable form of this module, ``fastnode/_twins/tree_nodes.py``.
"""

TILE_LEVELS: int
TILE_LEAVES: int

def entries_of(changes: list[tuple[bytes, bytes | None]], prefix: bytes, tail: int) -> list[tuple[bytes, bytes]]:
    """The changes whose keys begin with ``prefix``: the key without it and without its last ``tail`` bytes, and the
    value, empty for what is removed.  Keys that are shorter than both are left out; ValueError for a negative tail.
    """

def tile_position(level: int, index: int) -> int:
    """Bit and slot of node ``index`` of ``level`` (both counted in the whole tree) in its tile."""

def unpack_tile(tile: bytes, node_bytes: int) -> dict[int, bytes]:
    """Position -> node of a tile; an empty tile has none.  ValueError when the length does not fit the bitmap."""

def pack_tile(nodes: dict[int, bytes]) -> bytes:
    """The reverse of :func:`unpack_tile`."""
