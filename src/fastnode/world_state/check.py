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
from fastnode.world_state.history_check import Blocks, check_changed_leaves, check_edges, check_versions
from fastnode.world_state.indexed import IndexedTree
from fastnode.world_state.layout import HASH_BYTES
from fastnode.world_state.stored_nodes import Array, entries, nodes_of_tiles
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
        self._done: float = 0
        self._all = sum(view.tip.sizes) + view.tip.number - view.oldest
        self._faults: list[str] = []

    def run(self) -> list[str]:
        for tree in self._forest.append_only:
            self._check_tree(_Nodes(self._view, tree.tree), self._append_only_leaves(tree))
        for indexed in self._forest.indexed:
            self._check_tree(_StampedNodes(self._view, indexed.tree), self._indexed_leaves(indexed))
        # History is compared with the newest nodes, so those have to be right.
        if not self._faults and self._view.oldest < self._view.tip.number:
            try:
                self._check_history()
            except (DatabaseError, ValueError) as error:
                self._faults.append(f"block {self._view.oldest}: {error}")
        return self._faults

    def _check_history(self) -> None:
        blocks, begin = Blocks(self._view), self._done
        share = (blocks.tip - blocks.oldest) / len(self._forest.in_order)
        for tree in self._forest.append_only:
            self._faults.extend(check_edges(tree, blocks, self._advance_from(begin, share)))
            begin += share
        for indexed in self._forest.indexed:
            leaf_sum = check_changed_leaves(indexed, blocks, self._faults)
            self._faults.extend(check_versions(indexed, blocks, leaf_sum, self._advance_from(begin, share)))
            begin += share
        self._advance_to(self._all)

    def _advance_from(self, begin: float, share: float) -> Callable[[float], None]:
        """A function that is told the part that is done of ``share``."""
        return lambda part: self._advance_to(begin + part * share)

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
        self._advance_to(self._done)

    def _advance_to(self, done: float) -> None:
        if self._progress is not None:
            self._progress(int(done), self._all)

    # ---- leaves, as runs of 2 ** CHUNK_LEVELS hashes -------------------------------------------

    def _append_only_leaves(self, tree: AppendOnlyTree) -> Iterator[tuple[bytes, Stamps]]:
        """The leaves, each compared with the index entry for its value."""
        size, snapshot = self._view.tip.sizes[tree.tree.id], self._view.snapshot
        found = 0
        for start in range(0, size, 1 << CHUNK_LEVELS):
            stop = min(size, start + (1 << CHUNK_LEVELS))
            indexes, stored = nodes_of_tiles(snapshot, tree.tree, HASH_BYTES, start, stop)[0]
            row = _filled(indexes, stored, start, stop - start, ZERO_LEAF)
            for place in np.flatnonzero(row.any(axis=1)).tolist():
                found += self._is_listed(tree, start + place, row[place].tobytes())
            yield row.tobytes(), _NO_STAMPS
        listed = tree.count_places(snapshot)
        if listed != found:
            self._fault(tree.tree, f"{listed} values are listed, {found} of them are leaves")

    def _is_listed(self, tree: AppendOnlyTree, index: int, leaf: bytes) -> bool:
        """True if the leaf is the first of its value."""
        snapshot = self._view.snapshot
        listed = tree.find(snapshot, leaf)
        if listed is not None and listed[0] == index:
            return True
        if listed is None or listed[0] > index or next(tree.leaves(snapshot, listed[0], listed[0] + 1)) != leaf:
            self._fault(tree.tree, f"leaf {index} is not found by its value 0x{leaf.hex()}")
        return False

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
            row = nodes.zero(current + 1) * (len(row) // (2 * HASH_BYTES)) if is_zero else nodes.parents(current, row)
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
        #: Stored nodes below TILE_LEVELS of the leaves in work, by level: indexes, and a row each.
        self._low: list[tuple[Array, Array]] = []

    def zero(self, level: int) -> bytes:
        """The zero node of a level."""
        return self._zeros[level * HASH_BYTES : (level + 1) * HASH_BYTES]

    def parents(self, level: int, row: bytes) -> bytes:
        """The nodes above pairs of a level.  Most places of a transaction are empty: nothing is hashed above them."""
        pairs = np.frombuffer(row, np.uint8).reshape(-1, 2 * HASH_BYTES)
        is_full = (pairs != np.frombuffer(2 * self.zero(level), np.uint8)).any(axis=1)
        if is_full.all():
            return poseidon2.hash_nodes(row, self.tree.separator)
        parents = np.empty((len(pairs), HASH_BYTES), np.uint8)
        parents[:] = np.frombuffer(self.zero(level + 1), np.uint8)
        hashes = poseidon2.hash_nodes(pairs[is_full].tobytes(), self.tree.separator)
        parents[is_full] = np.frombuffer(hashes, np.uint8).reshape(-1, HASH_BYTES)
        return parents.tobytes()

    def read_tiles(self, first: int, count: int) -> None:
        """Take the tiles of ``count`` leaves from leaf ``first`` on into work."""
        self._low = nodes_of_tiles(self._snapshot, self.tree, self.node_bytes, first, first + count)

    def compare(self, level: int, first: int, row: bytes, stamps: Stamps) -> None:
        """Hold the stored nodes of ``level`` from index ``first`` on against a row from the leaves."""
        count = self._count(level, first, len(row) // HASH_BYTES)
        stored = self._stored(level, first, count)
        expected = self._expected(row, stamps)[:count]
        is_other = (stored != expected).any(axis=1)
        if is_other.any():
            place = int(np.argmax(is_other))
            self.faults.append(
                f"node ({level}, {first + place}) is stored as 0x{stored[place].tobytes().hex()}, the leaves give "
                f"0x{expected[place].tobytes().hex()}"
            )

    def _stored(self, level: int, first: int, count: int) -> Array:
        if level < tree_nodes.TILE_LEVELS:
            indexes, nodes = self._low[level]
        else:
            indexes, _, nodes = entries(self._snapshot, self.tree, level, first, first + count, self.node_bytes)
        return _filled(indexes, nodes, first, count, self._absent(level))

    def _expected(self, row: bytes, _stamps: Stamps) -> Array:
        return np.frombuffer(row, np.uint8).reshape(-1, HASH_BYTES)

    def _count(self, level: int, first: int, count: int) -> int:
        """Number of stored nodes of the row: the complete ones."""
        return max(0, min(count, (self._size >> level) - first))

    def _absent(self, level: int) -> bytes:
        """The value of a node that is not stored."""
        return self.zero(level)


class _StampedNodes(_Nodes):
    """The stored nodes of an indexed tree: each is followed by the block that set it."""

    node_bytes = indexed_tree.NODE_BYTES

    def _count(self, level: int, first: int, count: int) -> int:
        return count if level < indexed_tree.depth(self._size) else 0

    def _absent(self, level: int) -> bytes:
        return self.zero(level) + bytes(4)

    def _expected(self, row: bytes, stamps: Stamps) -> Array:
        stamped = np.empty((len(row) // HASH_BYTES, self.node_bytes), np.uint8)
        stamped[:, :HASH_BYTES] = np.frombuffer(row, np.uint8).reshape(-1, HASH_BYTES)
        stamped[:, HASH_BYTES:] = stamps.astype(">u4").view(np.uint8).reshape(-1, 4)
        return stamped


def _filled(indexes: Array, nodes: Array, first: int, count: int, absent: bytes) -> Array:
    """``count`` nodes from index ``first`` on: those that are stored, and ``absent`` in all other places."""
    row = np.empty((count, len(absent)), np.uint8)
    row[:] = np.frombuffer(absent, np.uint8)
    is_here = (indexes >= first) & (indexes < first + count)
    row[(indexes[is_here] - np.uint64(first)).astype(np.int64)] = nodes[is_here]
    return row
