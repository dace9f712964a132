"""Pure-Python twin of ``fastnode._ext.trees.append_tree``: nodes of an append-only Merkle tree.

A node is *complete* when all leaves below it exist; such a node never changes.  Three kinds of
node make up a sibling path of leaf ``index`` in a tree of ``size`` leaves:

* complete nodes below ``TILE_LEVELS`` come from the leaf's tile, the higher ones from memory;
* nodes beyond the size are zero nodes (a subtree of empty leaves);
* at most one node per level is partial; those are in the *edge* kept for every size.

Tiles are drawn in ``tree_nodes``.

The edge of a tree of ``size`` leaves holds the partial nodes (level, size >> level) for the levels
``trailing_zeros(size) + 1 .. bit_length(size) - 1``, 32 bytes each; higher partial nodes lie on the
left spine and are no node's sibling.
"""

from __future__ import annotations

from collections.abc import Iterable

from fastnode._twins import poseidon2
from fastnode._twins.tree_nodes import TILE_LEAVES, TILE_LEVELS, node_key, pack_tile, tile_position, unpack_tile

NODE_BYTES = 32


def edge_levels(size: int) -> range:
    """Levels whose partial node the edge of a tree of ``size`` leaves holds."""
    if size == 0:
        return range(0)
    trailing_zeros = (size & -size).bit_length() - 1
    return range(trailing_zeros + 1, max(trailing_zeros + 1, size.bit_length()))


class Growth:
    """Result of an append; nothing of it is visible until :meth:`AppendNodes.publish`."""

    def __init__(self, size_before: int, size: int) -> None:
        self.size_before = size_before
        self.size = size
        self.root = b""
        self.edge = b""
        self.tiles: list[tuple[int, bytes]] = []
        #: (level 1 byte || index 6 bytes, node) of the complete nodes at TILE_LEVELS and above that differ from zero
        self.nodes: list[tuple[bytes, bytes]] = []
        self._rows: list[tuple[int, int, list[bytes]]] = []


class AppendNodes:
    """The complete nodes of one tree at ``first_level`` and above, in memory.

    ``zeros`` holds the zero nodes of levels 0 to ``height``, 32 bytes each; ``separator``, if any, is hashed before
    the children of each node.
    """

    def __init__(self, height: int, zeros: bytes, *, first_level: int = TILE_LEVELS, separator: bytes = b"") -> None:
        if len(separator) not in (0, NODE_BYTES):
            raise ValueError(f"a separator of {len(separator)} bytes")
        if len(zeros) != NODE_BYTES * (height + 1):
            raise ValueError(f"zeros must hold {height + 1} nodes")
        if first_level < TILE_LEVELS:
            raise ValueError(f"first_level must be at least {TILE_LEVELS}")
        self.height = height
        self._separator = separator
        self.first_level = first_level
        self._zeros = [zeros[i : i + NODE_BYTES] for i in range(0, len(zeros), NODE_BYTES)]
        self._levels: list[list[bytes]] = [[] for _ in range(height + 1)]

    def append(self, size: int, frontier: bytes, tile: bytes, leaves: bytes) -> Growth:
        """Hash ``leaves`` (32 bytes each) onto a tree of ``size`` leaves.

        ``frontier`` holds one node per level below ``height``: where bit l of ``size`` is set, node l is
        the complete node (l, (size >> l) - 1); the others are ignored.  ``tile`` is the tile that holds
        leaf ``size``, empty if none of its leaves exists.  ValueError: ragged leaves, or no room.
        """
        if len(leaves) % NODE_BYTES or len(frontier) != NODE_BYTES * self.height:
            raise ValueError("leaves and frontier must be whole nodes of 32 bytes")
        size_after = size + len(leaves) // NODE_BYTES
        if size_after > 1 << self.height:
            raise ValueError(f"a tree of height {self.height} has no room for {size_after} leaves")
        growth = Growth(size, size_after)
        row = [leaves[i : i + NODE_BYTES] for i in range(0, len(leaves), NODE_BYTES)]
        partial = None
        edge = []
        kept_levels = edge_levels(size_after)
        for level in range(self.height + 1):
            first = size >> level
            growth._rows.append((level, first, row))
            if partial is not None and level in kept_levels:
                edge.append(partial)
            if level == self.height:
                break
            if first & 1:
                row = [frontier[level * NODE_BYTES : (level + 1) * NODE_BYTES], *row]
            zero = self._zeros[level]
            if len(row) & 1:
                partial = self._parent(level, row[-1], zero if partial is None else partial)
            elif partial is not None:
                partial = self._parent(level, partial, zero)
            row = [self._parent(level, row[i], row[i + 1]) for i in range(0, len(row) - 1, 2)]
        growth.edge = b"".join(edge)
        growth.root = row[0] if row else partial if partial is not None else self._zeros[self.height]
        self._collect(growth, tile)
        return growth

    def _parent(self, level: int, left: bytes, right: bytes) -> bytes:
        zero = self._zeros[level]
        return (
            self._zeros[level + 1] if left == right == zero else poseidon2.hash_fields(self._separator + left + right)
        )

    def _collect(self, growth: Growth, tile: bytes) -> None:
        first_tile = growth.size_before // TILE_LEAVES
        tiles: dict[int, dict[int, bytes]] = {}
        if growth.size > growth.size_before:
            tiles[first_tile] = self._complete_nodes(first_tile, growth.size_before, tile)
        for level, first, row in growth._rows:
            for index, node in enumerate(row, first):
                if node == self._zeros[level]:
                    continue
                if level < TILE_LEVELS:
                    nodes = tiles.setdefault(index >> (TILE_LEVELS - level), {})
                    nodes[tile_position(level, index)] = node
                else:
                    growth.nodes.append((node_key(level, index), node))
        # A tile without nodes is not stored, except over one that has some.
        growth.tiles = [
            (index, pack_tile(nodes))
            for index, nodes in sorted(tiles.items())
            if nodes or (tile and index == first_tile)
        ]

    def _complete_nodes(self, tile_index: int, size: int, tile: bytes) -> dict[int, bytes]:
        """The part of a tile, written for some larger size, that holds for ``size`` leaves."""
        nodes = unpack_tile(tile, NODE_BYTES)
        kept = {}
        for level in range(TILE_LEVELS):
            width = TILE_LEAVES >> level
            for index in range(tile_index * width, min(size >> level, (tile_index + 1) * width)):
                position = tile_position(level, index)
                if position in nodes:
                    kept[position] = nodes[position]
        return kept

    def publish(self, growth: Growth) -> None:
        """Make the nodes of ``growth`` part of the memory; growths are published in their order."""
        for level, first, row in growth._rows:
            if level >= self.first_level:
                self._levels[level][first:] = row

    def resize(self, size: int) -> None:
        """Forget nodes that are not complete at ``size`` leaves; missing ones become zero nodes."""
        for level in range(self.first_level, self.height + 1):
            nodes, count = self._levels[level], size >> level
            del nodes[count:]
            nodes.extend([self._zeros[level]] * (count - len(nodes)))

    def load(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Put stored (level || index, node) entries into the memory; :meth:`resize` comes first."""
        for key, node in entries:
            level, index = key[0], int.from_bytes(key[1:7], "big")
            if level >= self.first_level:
                self._levels[level][index] = bytes(node)

    def load_next_level(self, size: int, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Take the level below ``first_level`` into the memory, at ``size`` leaves; it counts when it is whole."""
        level = self.first_level - 1
        if level < TILE_LEVELS:
            raise ValueError("the levels below are in tiles")
        nodes = [self._zeros[level]] * (size >> level)
        for key, node in entries:
            index = int.from_bytes(key[1:7], "big")
            if key[0] != level or len(node) != NODE_BYTES:
                raise ValueError(f"no node of level {level}")
            if index >= len(nodes):
                raise ValueError(f"no room for node {index} of level {level}")
            nodes[index] = bytes(node)
        self._levels[level] = nodes
        self.first_level = level

    def raise_first_level(self, level: int) -> None:
        """Keep only ``level`` and above in memory from now on."""
        for dropped in range(self.first_level, level):
            self._levels[dropped] = []
        self.first_level = max(self.first_level, level)

    def memory_bytes(self) -> int:
        return NODE_BYTES * sum(map(len, self._levels))

    def node(self, level: int, index: int) -> bytes | None:
        """A complete node in memory, else None."""
        nodes = self._levels[level] if level >= self.first_level else []
        return nodes[index] if index < len(nodes) else None

    def path(
        self, index: int, size: int, tile: bytes, edge: bytes, missing: list[int], *, use_memory: bool = True
    ) -> bytes:
        """Sibling path of leaf ``index`` in the tree of ``size`` leaves, lowest sibling first.

        ``tile`` holds the leaf, ``edge`` belongs to ``size``.  Levels whose sibling is complete but not
        in memory are appended to ``missing`` and left zero bytes for the caller to fill in.
        """
        if not 0 <= index < size:
            raise ValueError(f"leaf {index} is not in a tree of {size} leaves")
        path = bytearray(NODE_BYTES * self.height)
        nodes = unpack_tile(tile, NODE_BYTES)
        first_partial = edge_levels(size).start
        if len(edge) != NODE_BYTES * len(edge_levels(size)):
            raise ValueError(f"an edge of {len(edge)} bytes for {size} leaves")
        for level in range(self.height):
            sibling = (index >> level) ^ 1
            node: bytes | None
            if sibling << level >= size:
                node = self._zeros[level]
            elif (sibling + 1) << level > size:
                at = (level - first_partial) * NODE_BYTES
                node = edge[at : at + NODE_BYTES]
            elif level < TILE_LEVELS:
                node = nodes.get(tile_position(level, sibling), self._zeros[level])
            else:
                node = self.node(level, sibling) if use_memory else None
            if node is None:
                missing.append(level)
            else:
                path[level * NODE_BYTES : (level + 1) * NODE_BYTES] = node
        return bytes(path)
