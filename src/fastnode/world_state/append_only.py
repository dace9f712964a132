"""An append-only tree in the database: note hashes, L1 to L2 messages, the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from fastnode.kernels import append_tree, poseidon2, state_answers, tree_nodes
from fastnode.world_state.layout import (
    EDGE,
    HASH_BYTES,
    NODE,
    TILE,
    VALUE,
    pack_place,
    u48,
    unpack_place,
)
from fastnode.world_state.levels import Levels
from fastnode.world_state.snapshot import Snapshot
from fastnode.world_state.trees import Tree, zero_nodes

__all__ = ["Added", "AppendOnlyTree", "Change", "Growth", "filled"]

ZERO_LEAF: Final = bytes(HASH_BYTES)

#: A database key and its new value; None removes it.
Change = tuple[bytes, bytes | None]
Growth = append_tree.Growth
#: A block, and leaves that it adds, 32 bytes each.
Added = tuple[int, bytes]


class AppendOnlyTree:
    """Reads take the snapshot and the size they refer to; the memory of upper nodes is shared."""

    def __init__(self, tree: Tree, *, memory_bytes: int) -> None:
        self.tree = tree
        self.nodes = append_tree.AppendNodes(tree.height, zero_nodes(tree), separator=tree.separator)
        self._zeros = zero_nodes(tree)
        self._value_prefix = VALUE + tree.prefix
        self._edge_prefix = EDGE + tree.prefix
        self._tile_prefix = TILE + tree.prefix
        self._node_prefix = NODE + tree.prefix
        self.answers = state_answers.AppendAnswers(
            self.nodes, tree.id, self._value_prefix, self._tile_prefix, self._edge_prefix
        )
        self._levels = Levels(
            self.nodes, tree.height, self._node_prefix, node_bytes=HASH_BYTES, memory_bytes=memory_bytes
        )

    # ---- reads ---------------------------------------------------------------------------------

    def find(self, snapshot: Snapshot, leaf: bytes) -> tuple[int, int] | None:
        """(index, block of insertion) of the first such leaf; empty leaves are not found."""
        place = snapshot.get(self._value_prefix + leaf)
        return unpack_place(place) if place is not None else None

    def count_places(self, snapshot: Snapshot) -> int:
        """Number of values that :meth:`find` knows."""
        with snapshot.scan(self._value_prefix) as entries:
            return sum(1 for _ in entries)

    def path(self, snapshot: Snapshot, index: int, size: int, *, use_memory: bool) -> bytes:
        """Sibling path of leaf ``index`` in the tree of ``size`` leaves, lowest sibling first."""
        tile = snapshot.get(self._tile_prefix + u48(index >> tree_nodes.TILE_LEVELS)) or b""
        edge = snapshot.get_often(self._edge_prefix + u48(size))
        missing: list[int] = []
        path = self.nodes.path(index, size, tile, edge, missing, use_memory=use_memory)
        if not missing:
            return path
        return filled(path, missing, lambda level: self._stored(snapshot, level, (index >> level) ^ 1))

    def stored_edge(self, snapshot: Snapshot, size: int) -> bytes:
        """The partial nodes kept for the tree of ``size`` leaves."""
        return snapshot.get(self._edge_prefix + u48(size)) or b""

    def edge_and_root(self, snapshot: Snapshot, size: int) -> tuple[bytes, bytes]:
        """Partial nodes and root of the tree of ``size`` leaves, worked out from its complete nodes."""
        height, zeros = self.tree.height, self._zeros
        if size in (0, 1 << height):
            return b"", zeros[-HASH_BYTES:] if size == 0 else self._stored(snapshot, height, 0)
        frontier, node, edge = self._frontier(snapshot, size), b"", []
        for level in range((size & -size).bit_length() - 1, height):
            zero = zeros[level * HASH_BYTES : (level + 1) * HASH_BYTES]
            left = frontier[level * HASH_BYTES : (level + 1) * HASH_BYTES]
            is_left = bool(node) and not size >> level & 1
            pair = node + zero if is_left else left + (node or zero)
            node = poseidon2.hash_fields(self.tree.separator + pair)
            if level + 1 < size.bit_length():
                edge.append(node)
        return b"".join(edge), node

    def leaves(self, snapshot: Snapshot, start: int, stop: int) -> Iterator[bytes]:
        """Leaves start <= index < stop in order, empty ones as zero."""
        nodes: dict[int, bytes] = {}
        for index in range(start, stop):
            if index == start or index % tree_nodes.TILE_LEAVES == 0:
                tile = snapshot.get(self._tile_prefix + u48(index // tree_nodes.TILE_LEAVES))
                nodes = tree_nodes.unpack_tile(tile or b"", append_tree.NODE_BYTES)
            yield nodes.get(index % tree_nodes.TILE_LEAVES, ZERO_LEAF)

    def complete_node(self, snapshot: Snapshot, level: int, index: int) -> bytes:
        """A node all of whose leaves exist."""
        if level >= tree_nodes.TILE_LEVELS:
            return self._stored(snapshot, level, index)
        tile = snapshot.get(self._tile_prefix + u48(index >> (tree_nodes.TILE_LEVELS - level))) or b""
        nodes = tree_nodes.unpack_tile(tile, append_tree.NODE_BYTES)
        zero = self._zeros[level * HASH_BYTES : (level + 1) * HASH_BYTES]
        return nodes.get(tree_nodes.tile_position(level, index), zero)

    def _stored(self, snapshot: Snapshot, level: int, index: int) -> bytes:
        node = snapshot.get(self._node_prefix + bytes([level]) + u48(index))
        return node if node is not None else self._zeros[level * HASH_BYTES : (level + 1) * HASH_BYTES]

    # ---- writes --------------------------------------------------------------------------------

    def prepare(self, snapshot: Snapshot, size: int, leaves: bytes) -> Growth:
        """Hash ``leaves`` (32 bytes each) onto the newest tree, which has ``size`` leaves."""
        tile = b""
        if size % tree_nodes.TILE_LEAVES:
            tile = snapshot.get(self._tile_prefix + u48(size >> tree_nodes.TILE_LEVELS)) or b""
        return self.nodes.append(size, self._frontier(snapshot, size), tile, leaves)

    def begin(self, leaves: bytes) -> Growth:
        """Hash ``leaves`` (32 bytes each) onto the empty tree."""
        return self.nodes.append(0, bytes(HASH_BYTES * self.tree.height), b"", leaves)

    def _frontier(self, snapshot: Snapshot, size: int) -> bytes:
        """Per level the complete node left of where the next leaf goes; zero bytes where there is none."""
        frontier = bytearray(HASH_BYTES * self.tree.height)
        if size == 0:
            return bytes(frontier)
        tile = snapshot.get(self._tile_prefix + u48((size - 1) >> tree_nodes.TILE_LEVELS)) or b""
        nodes = tree_nodes.unpack_tile(tile, append_tree.NODE_BYTES)
        for level in range(self.tree.height):
            if not size >> level & 1:
                continue
            index = (size >> level) - 1
            if level < tree_nodes.TILE_LEVELS:
                zero = self._zeros[level * HASH_BYTES : (level + 1) * HASH_BYTES]
                node = nodes.get(tree_nodes.tile_position(level, index), zero)
            else:
                node = self.nodes.node(level, index) or self._stored(snapshot, level, index)
            frontier[level * HASH_BYTES : (level + 1) * HASH_BYTES] = node
        return bytes(frontier)

    def changes(self, snapshot: Snapshot, growth: Growth, added: Sequence[Added]) -> Iterator[Change]:
        """Entries that ``growth`` by ``added`` leaves writes; ``snapshot`` is the one it was prepared from."""
        get, prefix = snapshot.get, self._value_prefix
        first_places: dict[bytes, bytes] = {}
        index = growth.size_before
        for block, leaves in added:
            for offset in range(0, len(leaves), HASH_BYTES):
                leaf = leaves[offset : offset + HASH_BYTES]
                if leaf != ZERO_LEAF and leaf not in first_places and get(prefix + leaf) is None:
                    first_places[leaf] = pack_place(index + offset // HASH_BYTES, block)
            index += len(leaves) // HASH_BYTES
        for leaf, place in first_places.items():
            yield prefix + leaf, place
        for index, tile in growth.tiles:
            yield self._tile_prefix + u48(index), tile
        for key, node in growth.nodes:
            yield self._node_prefix + key, node
        yield self._edge_prefix + u48(growth.size), growth.edge

    def publish(self, growth: Growth) -> None:
        """Make a written growth part of the memory."""
        self.nodes.publish(growth)
        self._levels.keep_within_limit()

    def undo(self, snapshot: Snapshot, size_before: int, size: int) -> Iterator[Change]:
        """Entries that take the tree from ``size`` leaves back to ``size_before``; then call :meth:`resize`."""
        if size_before == size:
            return
        for index, leaf in enumerate(self.leaves(snapshot, size_before, size), size_before):
            place = self.find(snapshot, leaf)
            if place is not None and place[0] == index:
                yield self._value_prefix + leaf, None
        # A tile that keeps leaves stays as it is: its reader looks at complete nodes only.
        first_tile = -(-size_before // tree_nodes.TILE_LEAVES)
        for index in range(first_tile, -(-size // tree_nodes.TILE_LEAVES)):
            yield self._tile_prefix + u48(index), None
        for level in range(tree_nodes.TILE_LEVELS, self.tree.height + 1):
            for index in range(size_before >> level, size >> level):
                yield self._node_prefix + bytes([level]) + u48(index), None
        yield self._edge_prefix + u48(size), None

    def repeat(self, size: int, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Make part of the memory what another process has written: the tree has ``size`` leaves now, and these
        (level u8 || index u48, node) are new."""
        self.nodes.resize(size)
        self.nodes.load(entries)
        self._levels.keep_within_limit()

    def resize(self, size: int) -> None:
        """Forget what an undo removed."""
        self.nodes.resize(size)

    def edge_at(self, snapshot: Snapshot, size: int, leaves: bytes) -> Change:
        """The edge of the tree of ``size`` leaves after ``leaves`` more, where it would not be stored."""
        growth = self.prepare(snapshot, size, leaves)
        return self._edge_prefix + u48(growth.size), growth.edge

    def prune(self, size_before: int, size: int) -> Iterator[Change]:
        """Drop what only the tree of ``size_before`` leaves needs, ``size`` being the next larger one kept."""
        if size > size_before > 0:
            yield self._edge_prefix + u48(size_before), None

    # ---- memory --------------------------------------------------------------------------------

    def open(self, snapshot: Snapshot, size: int) -> None:
        """Load the uppermost nodes of a tree of ``size`` leaves: no more than takes a few milliseconds."""
        self._levels.choose_at_open(size)
        self.nodes.resize(size)
        self._levels.load(snapshot, min(size.bit_length(), self.tree.height + 1))

    def load_next_level(self, snapshot: Snapshot, size: int) -> bool:
        """Load one more level of the newest tree; False when there is none, or no room for it."""
        level = self._levels.next_to_load(size)
        if level is None:
            return False
        with self._levels.stored(snapshot, level) as entries:
            self.nodes.load_next_level(size, entries)
        return True


def filled(path: bytes, missing: list[int], node: Callable[[int], bytes]) -> bytes:
    """A sibling path with the nodes of the ``missing`` levels put in."""
    nodes = bytearray(path)
    for level in missing:
        nodes[level * HASH_BYTES : (level + 1) * HASH_BYTES] = node(level)
    return bytes(nodes)
