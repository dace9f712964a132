"""Check of the state trees: every stored node of the newest block is recomputed from the leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fastnode.errors import DatabaseError
from fastnode.kernels import indexed_tree, poseidon2, tree_nodes
from fastnode.world_state.append_only import ZERO_LEAF, AppendOnlyTree
from fastnode.world_state.forest import Forest
from fastnode.world_state.history_check import check_block_before
from fastnode.world_state.indexed import IndexedTree
from fastnode.world_state.layout import HASH_BYTES, NODE, TILE, u48
from fastnode.world_state.trees import Tree, zero_nodes
from fastnode.world_state.view import WorldStateView

__all__ = ["check_trees"]

#: Leaves are read and hashed in subtrees of this many levels.
CHUNK_LEVELS: Final = 12
#: Faults named for each tree; one wrong leaf makes all nodes above it wrong.
FAULTS_MAX: Final = 8

Progress = Callable[[int, int], None]
#: For each leaf or node the block that set it.
Stamps = NDArray[np.uint32]
_NO_STAMPS: Final[Stamps] = np.zeros(0, np.uint32)


def check_trees(forest: Forest, view: WorldStateView, *, progress: Progress | None = None) -> list[str]:
    """The faults of the trees at ``view``; none if every root and every stored node follows from the leaves.

    Older blocks are worked out from the newest one backwards, as far as history goes.  ``progress`` counts leaves
    and blocks.
    """
    return _Check(forest, view, progress).run()


class _Check:
    def __init__(self, forest: Forest, view: WorldStateView, progress: Progress | None) -> None:
        self._forest = forest
        self._view = view
        self._progress = progress
        self._done = 0
        self._all = sum(view.tip.sizes) + view.tip.number - view.oldest
        self._faults: list[str] = []

    def run(self) -> list[str]:
        for tree in self._forest.append_only:
            self._check_tree(_Nodes(self._view, tree.tree), self._append_only_leaves(tree))
        for indexed in self._forest.indexed:
            self._check_tree(_StampedNodes(self._view, indexed.tree), self._indexed_leaves(indexed))
        # History is compared with the newest nodes, so those have to be right.
        if not self._faults:
            for number in range(self._view.tip.number, self._view.oldest, -1):
                self._faults.extend(check_block_before(self._forest, self._view, number))
                self._advance(1)
        return self._faults

    def _check_tree(self, nodes: _Nodes, leaves: Iterator[tuple[bytes, Stamps]]) -> None:
        tree = nodes.tree
        try:
            root = self._root(nodes, leaves)
        except (DatabaseError, ValueError) as error:
            self._fault(tree, str(error))
            return
        expected = self._view.tip.roots[tree.id]
        if root != expected:
            self._fault(tree, f"the leaves give the root 0x{root.hex()}, stored is 0x{expected.hex()}")
        for fault in nodes.faults[:FAULTS_MAX]:
            self._fault(tree, fault)

    def _fault(self, tree: Tree, what: str) -> None:
        self._faults.append(f"block {self._view.tip.number}: {tree.name}: {what}")

    def _advance(self, steps: int) -> None:
        self._done += steps
        if self._progress is not None:
            self._progress(self._done, self._all)

    # ---- leaves, as runs of 2 ** CHUNK_LEVELS hashes -------------------------------------------

    def _append_only_leaves(self, tree: AppendOnlyTree) -> Iterator[tuple[bytes, Stamps]]:
        """The leaves, each compared with the index entry for its value."""
        size, snapshot = self._view.tip.sizes[tree.tree.id], self._view.snapshot
        found = 0
        for start in range(0, size, 1 << CHUNK_LEVELS):
            leaves = list(tree.leaves(snapshot, start, min(size, start + (1 << CHUNK_LEVELS))))
            for index, leaf in enumerate(leaves, start):
                if leaf == ZERO_LEAF:
                    continue
                place = tree.find(snapshot, leaf)
                if place is not None and place[0] == index:
                    found += 1
                elif place is None or place[0] > index or next(tree.leaves(snapshot, place[0], place[0] + 1)) != leaf:
                    self._fault(tree.tree, f"leaf {index} is not found by its value 0x{leaf.hex()}")
            yield b"".join(leaves), _NO_STAMPS
        listed = tree.count_places(snapshot)
        if listed != found:
            self._fault(tree.tree, f"{listed} values are listed, {found} of them are leaves")

    def _indexed_leaves(self, tree: IndexedTree) -> Iterator[tuple[bytes, Stamps]]:
        """Leaf hashes from the leaf records, after a look at their links."""
        size = self._view.tip.sizes[tree.tree.id]
        hashes = bytearray(HASH_BYTES * size)
        stamps: Stamps = np.zeros(size, np.uint32)
        following = (bytes(HASH_BYTES), 0)  # of the leaf with the greatest key
        for records in tree.descending_leaves(self._view.snapshot):
            for record, leaf_hash in zip(records, tree.hashes(records), strict=True):
                if (record.state.next_key, record.state.next_index) != following:
                    self._fault(tree.tree, f"leaf {record.index} points to leaf {record.state.next_index}")
                if record.index >= size:
                    self._fault(tree.tree, f"leaf {record.index} is beyond the size {size}")
                    continue
                following = record.key, record.index
                hashes[HASH_BYTES * record.index : HASH_BYTES * (record.index + 1)] = leaf_hash
                stamps[record.index] = record.state.changed
        if size and following != (bytes(HASH_BYTES), 0):
            self._fault(tree.tree, f"the lowest leaf is leaf {following[1]} with key 0x{following[0].hex()}")
        for start in range(0, size, 1 << CHUNK_LEVELS):
            stop = start + (1 << CHUNK_LEVELS)
            yield bytes(hashes[HASH_BYTES * start : HASH_BYTES * stop]), stamps[start:stop]

    # ---- root ----------------------------------------------------------------------------------

    def _root(self, nodes: _Nodes, leaves: Iterator[tuple[bytes, Stamps]]) -> bytes:
        height = nodes.tree.height
        row, row_stamps = bytearray(), [_NO_STAMPS]
        for number, (chunk, stamps) in enumerate(leaves):
            first = number << CHUNK_LEVELS
            nodes.read_tiles(first, len(chunk) // HASH_BYTES)
            top, stamps = self._reduce(nodes, first, chunk, stamps, 0, min(CHUNK_LEVELS, height))
            row += top
            row_stamps.append(stamps)
            self._advance(len(chunk) // HASH_BYTES)
        if not row:
            return nodes.zero(height)
        return self._reduce(nodes, 0, bytes(row), np.concatenate(row_stamps), min(CHUNK_LEVELS, height), height)[0]

    def _reduce(
        self, nodes: _Nodes, first: int, row: bytes, stamps: Stamps, level: int, top: int
    ) -> tuple[bytes, Stamps]:
        """The one node of level ``top`` above the nodes of ``level`` from index ``first`` on, and its stamp."""
        # Most L1 to L2 messages are padding: nothing but zero nodes stands above a run without any.
        is_zero = level == 0 and not any(row)
        for current in range(level, top):
            nodes.compare(current, first >> (current - level), row, stamps)
            if len(row) // HASH_BYTES % 2:
                row += nodes.zero(current)
                stamps = np.append(stamps, np.uint32(0)) if len(stamps) else stamps
            if is_zero:
                row = nodes.zero(current + 1) * (len(row) // (2 * HASH_BYTES))
            else:
                row = poseidon2.hash_nodes(row, nodes.tree.separator)
            stamps = np.maximum(stamps[0::2], stamps[1::2])
        return row, stamps


class _Nodes:
    """The stored nodes of an append-only tree, compared with what the leaves give."""

    node_bytes = HASH_BYTES

    def __init__(self, view: WorldStateView, tree: Tree) -> None:
        self.tree = tree
        self.faults: list[str] = []
        self._snapshot = view.snapshot
        self._size = view.tip.sizes[tree.id]
        self._zeros = zero_nodes(tree)
        #: Stored nodes below TILE_LEVELS of the leaves in work, by level and index.
        self._low: list[dict[int, bytes]] = []

    def zero(self, level: int) -> bytes:
        """The zero node of a level."""
        return self._zeros[level * HASH_BYTES : (level + 1) * HASH_BYTES]

    def read_tiles(self, first: int, count: int) -> None:
        """Take the tiles of ``count`` leaves from leaf ``first`` on into work."""
        self._low = [{} for _ in range(tree_nodes.TILE_LEVELS)]
        prefix = TILE + self.tree.prefix
        last = (first + count - 1) >> tree_nodes.TILE_LEVELS
        with self._snapshot.scan_range(
            prefix + u48(first >> tree_nodes.TILE_LEVELS), prefix + u48(last + 1)
        ) as entries:
            for key, tile in entries:
                index = int.from_bytes(key[len(prefix) :], "big")
                for position, node in tree_nodes.unpack_tile(tile, self.node_bytes).items():
                    # The reverse of tile_position: levels begin at 0, 32, 48, 56 and 60.
                    level = tree_nodes.TILE_LEVELS + 1 - (63 - position).bit_length()
                    if level >= tree_nodes.TILE_LEVELS:
                        raise ValueError(f"tile {index} holds more than its leaves have")
                    place = position - (64 - (64 >> level))
                    self._low[level][(index << (tree_nodes.TILE_LEVELS - level)) + place] = node

    def compare(self, level: int, first: int, row: bytes, stamps: Stamps) -> None:
        """Hold the stored nodes of ``level`` from index ``first`` on against a row from the leaves."""
        count = self._count(level, first, len(row) // HASH_BYTES)
        stored = self._stored(level, first, count)
        if self._is_same(stored, level, first, count, row, stamps):
            return
        for index in range(first, first + count):
            place = index - first
            expected = row[place * HASH_BYTES : (place + 1) * HASH_BYTES]
            node = stored.get(index, self._absent(level))
            if not self._is_node(node, expected, stamps, place):
                self.faults.append(
                    f"node ({level}, {index}) is stored as 0x{node.hex()}, the leaves give 0x{expected.hex()}"
                )
                return

    def _count(self, level: int, first: int, count: int) -> int:
        """Number of stored nodes of the row: the complete ones."""
        return max(0, min(count, (self._size >> level) - first))

    def _stored(self, level: int, first: int, count: int) -> dict[int, bytes]:
        if level < tree_nodes.TILE_LEVELS:
            low = self._low[level]
            return {index: low[index] for index in range(first, first + count) if index in low}
        prefix = NODE + self.tree.prefix + bytes([level])
        with self._snapshot.scan_range(prefix + u48(first), prefix + u48(first + count)) as entries:
            return {int.from_bytes(key[len(prefix) :], "big"): node for key, node in entries}

    def _is_same(
        self, stored: dict[int, bytes], level: int, first: int, count: int, row: bytes, stamps: Stamps
    ) -> bool:
        """True if all of a row is as stored: the usual case, compared in one step."""
        absent = self._absent(level)
        joined = b"".join([stored.get(index, absent) for index in range(first, first + count)])
        return joined == row[: count * HASH_BYTES]

    def _absent(self, level: int) -> bytes:
        """The value of a node that is not stored."""
        return self.zero(level)

    def _is_node(self, node: bytes, expected: bytes, stamps: Stamps, place: int) -> bool:
        return node == expected


class _StampedNodes(_Nodes):
    """The stored nodes of an indexed tree: each is followed by the block that set it."""

    node_bytes = indexed_tree.NODE_BYTES

    def _count(self, level: int, first: int, count: int) -> int:
        return count if level < indexed_tree.depth(self._size) else 0

    def _absent(self, level: int) -> bytes:
        return self.zero(level) + bytes(4)

    def _is_same(
        self, stored: dict[int, bytes], level: int, first: int, count: int, row: bytes, stamps: Stamps
    ) -> bool:
        absent = self._absent(level)
        joined = b"".join([stored.get(index, absent) for index in range(first, first + count)])
        if len(joined) != count * self.node_bytes:
            return False
        nodes = np.frombuffer(joined, np.uint8).reshape(count, self.node_bytes)
        if nodes[:, :HASH_BYTES].tobytes() != row[: count * HASH_BYTES]:
            return False
        return bool((nodes[:, HASH_BYTES:].copy().view(">u4")[:, 0] == stamps[:count]).all())

    def _is_node(self, node: bytes, expected: bytes, stamps: Stamps, place: int) -> bool:
        return node == expected + int(stamps[place]).to_bytes(4, "big")
