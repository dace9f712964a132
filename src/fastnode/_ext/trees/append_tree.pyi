"""Nodes of an append-only Merkle tree.

Edges are drawn in the readable form of this module, ``fastnode/_twins/append_tree.py``, keys and tiles in
``fastnode/_twins/tree_nodes.py``.  Nodes are 32 bytes.
"""

from collections.abc import Iterable

NODE_BYTES: int

class Growth:
    """Result of an append; nothing of it is visible until :meth:`AppendNodes.publish`."""

    @property
    def size_before(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def root(self) -> bytes: ...
    @property
    def edge(self) -> bytes:
        """Partial nodes of the levels of ``edge_levels(size)``."""

    @property
    def tiles(self) -> list[tuple[int, bytes]]:
        """(tile index, tile) of every tile with new leaves."""

    @property
    def nodes(self) -> list[tuple[bytes, bytes]]:
        """(level u8 || index u48, node) of the new complete nodes at TILE_LEVELS and above that are not zero."""

class AppendNodes:
    """The complete nodes of one tree at ``first_level`` and above, in memory.

    ``zeros`` holds the zero nodes of levels 0 to ``height``; ``separator``, if any, is hashed before the children of
    each node.  ValueError: ``zeros`` or ``separator`` of another length, ``first_level`` below TILE_LEVELS.
    """

    def __init__(self, height: int, zeros: bytes, *, first_level: int = 5, separator: bytes = b"") -> None: ...
    @property
    def height(self) -> int: ...
    @property
    def first_level(self) -> int: ...
    def append(self, size: int, frontier: bytes, tile: bytes, leaves: bytes) -> Growth:
        """Hash ``leaves`` onto a tree of ``size`` leaves, level by level, without the GIL.

        ``frontier`` holds one node per level below ``height``: where bit l of ``size`` is set, node l is
        the complete node (l, (size >> l) - 1); the others are ignored.  ``tile`` is the tile that holds
        leaf ``size``, empty if none of its leaves exists.  ValueError: ragged leaves, a leaf that is no
        field element, or no room.
        """

    def publish(self, growth: Growth) -> None:
        """Make the nodes of ``growth`` part of the memory; growths are published in their order."""

    def resize(self, size: int) -> None:
        """Forget nodes that are not complete at ``size`` leaves; missing ones become zero nodes."""

    def load(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Put stored (level || index, node) entries into the memory; :meth:`resize` comes first."""

    def load_next_level(self, size: int, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Take one more level, the one below ``first_level``, into the memory, at ``size`` leaves.

        ``entries`` are the stored nodes of that level; none of them counts before all are there.  No growth is
        published meanwhile.  ValueError: the level is in tiles, or an entry is no node of it.
        """

    def raise_first_level(self, level: int) -> None:
        """Keep only ``level`` and above in memory from now on."""

    def memory_bytes(self) -> int: ...
    def node(self, level: int, index: int) -> bytes | None:
        """A complete node in memory, else None."""

    def path(
        self, index: int, size: int, tile: bytes, edge: bytes, missing: list[int], *, use_memory: bool = True
    ) -> bytes:
        """Sibling path of leaf ``index`` in the tree of ``size`` leaves, lowest sibling first.

        ``tile`` holds the leaf, ``edge`` belongs to ``size``.  Levels whose sibling is complete but not
        in memory are appended to ``missing`` and left zero bytes for the caller to fill in.
        ValueError: no such leaf, or a tile or edge that does not fit.
        """
