"""Recomputing every root of the newest block from its leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from fastnode.kernels import poseidon2
from fastnode.world_state.append_only import ZERO_LEAF, AppendOnlyTree
from fastnode.world_state.forest import Forest
from fastnode.world_state.indexed import IndexedTree
from fastnode.world_state.trees import Tree, zero_nodes
from fastnode.world_state.view import WorldStateView

__all__ = ["check_trees"]

NODE_BYTES: Final = 32
#: Leaves are read and hashed in subtrees of this many levels.
CHUNK_LEVELS: Final = 12

Progress = Callable[[int, int], None]


def check_trees(forest: Forest, view: WorldStateView, *, progress: Progress | None = None) -> list[str]:
    """The faults of the trees at ``view``'s newest block; none if all five roots follow from the leaves."""
    return _Check(forest, view, progress).run()


class _Check:
    def __init__(self, forest: Forest, view: WorldStateView, progress: Progress | None) -> None:
        self._forest = forest
        self._view = view
        self._progress = progress
        self._done = 0
        self._all = sum(view.tip.sizes)
        self._faults: list[str] = []

    def run(self) -> list[str]:
        for tree in self._forest.append_only:
            self._check_root(tree.tree, self._append_only_leaves(tree))
        for indexed in self._forest.indexed:
            hashes = self._indexed_leaves(indexed)
            self._check_root(indexed.tree, hashes)
        return self._faults

    def _check_root(self, tree: Tree, leaves: Iterator[bytes]) -> None:
        root = self._root(tree, leaves)
        expected = self._view.tip.roots[tree.id]
        if root != expected:
            self._fault(tree, f"the leaves give the root 0x{root.hex()}, stored is 0x{expected.hex()}")

    def _fault(self, tree: Tree, what: str) -> None:
        self._faults.append(f"block {self._view.tip.number}: {tree.name}: {what}")

    # ---- leaves, as runs of 2 ** CHUNK_LEVELS hashes -------------------------------------------

    def _append_only_leaves(self, tree: AppendOnlyTree) -> Iterator[bytes]:
        """The leaves themselves, each compared with where it is said to be found."""
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
            yield b"".join(leaves)
        listed = tree.count_places(snapshot)
        if listed != found:
            self._fault(tree.tree, f"{listed} values are listed, {found} of them are leaves")

    def _indexed_leaves(self, tree: IndexedTree) -> Iterator[bytes]:
        """Leaf hashes from the leaf records, after a look at their links."""
        size = self._view.tip.sizes[tree.tree.id]
        hashes = bytearray(NODE_BYTES * size)
        following = (bytes(NODE_BYTES), 0)  # of the leaf with the greatest key
        for records in tree.descending_leaves(self._view.snapshot):
            for record, leaf_hash in zip(records, tree.hashes(records), strict=True):
                if (record.state.next_key, record.state.next_index) != following:
                    self._fault(tree.tree, f"leaf {record.index} points to leaf {record.state.next_index}")
                if record.index >= size:
                    self._fault(tree.tree, f"leaf {record.index} is beyond the size {size}")
                    continue
                following = record.key, record.index
                hashes[NODE_BYTES * record.index : NODE_BYTES * (record.index + 1)] = leaf_hash
        if size and following != (bytes(NODE_BYTES), 0):
            self._fault(tree.tree, f"the lowest leaf is leaf {following[1]} with key 0x{following[0].hex()}")
        step = NODE_BYTES << CHUNK_LEVELS
        for start in range(0, len(hashes), step):
            yield bytes(hashes[start : start + step])

    # ---- root ----------------------------------------------------------------------------------

    def _root(self, tree: Tree, leaves: Iterator[bytes]) -> bytes:
        zeros = zero_nodes(tree.height)
        row = bytearray()
        for chunk in leaves:
            # Most L1 to L2 messages are padding: a chunk without any hashes to a zero node.
            leaves_there = chunk if chunk.count(0) < len(chunk) else b""
            row += self._reduce(leaves_there, 0, min(CHUNK_LEVELS, tree.height), zeros)
            self._done += len(chunk) // NODE_BYTES
            if self._progress is not None:
                self._progress(self._done, self._all)
        return self._reduce(bytes(row), min(CHUNK_LEVELS, tree.height), tree.height, zeros)

    def _reduce(self, row: bytes, level: int, top: int, zeros: bytes) -> bytes:
        """The one node of level ``top`` above a row of nodes of ``level``."""
        if not row:
            return zeros[top * NODE_BYTES : (top + 1) * NODE_BYTES]
        for current in range(level, top):
            if len(row) // NODE_BYTES % 2:
                row += zeros[current * NODE_BYTES : (current + 1) * NODE_BYTES]
            row = poseidon2.hash_pairs(row)
        return row
