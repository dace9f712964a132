"""Check of the state trees: every stored node of the newest block is recomputed from the leaves."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastnode.errors import DatabaseError
from fastnode.kernels import indexed_tree, poseidon2, tree_nodes
from fastnode.world_state.append_only import ZERO_LEAF, AppendOnlyTree
from fastnode.world_state.forest import Forest
from fastnode.world_state.history_check import (
    SEED_BYTES,
    Advance,
    Blocks,
    VersionCheck,
    check_changed_leaves,
    check_edges,
)
from fastnode.world_state.indexed_tree import IndexedTree
from fastnode.world_state.layout import HASH_BYTES
from fastnode.world_state.stored_nodes import Array, entries, nodes_of_tiles
from fastnode.world_state.trees import Tree, zero_nodes
from fastnode.world_state.view import WorldStateView

__all__ = ["SEED_BYTES", "StateCheck", "StateStep", "check_trees"]

#: Leaves are read and hashed in subtrees of this many levels.
CHUNK_LEVELS: Final = 12
#: Faults named for each tree; one wrong leaf makes all nodes above it wrong.
FAULTS_MAX: Final = 8
#: Spans of the history that are one step: some seconds.
SPANS_PER_STEP: Final = 8

Progress = Callable[[int, int], None]
#: For each leaf or node the block that set it.
Stamps = NDArray[np.uint32]
_NO_STAMPS: Final[Stamps] = np.zeros(0, np.uint32)

#: Kinds of steps: the newest nodes, the edges of older append-only trees, the leaves' history, the nodes' history.
NEWEST: Final = "newest"
EDGES: Final = "edges"
CHANGES: Final = "changes"
VERSIONS: Final = "versions"

#: Processor time in microseconds: for a leaf of an append-only and of an indexed tree, a block's edges, a block's
#: changes, a span.  For nothing but the time that is left.
_LEAF_US: Final = 1
_INDEXED_LEAF_US: Final = 2
_EDGE_US: Final = 100
_CHANGE_US: Final = 250
_SPAN_US: Final = 80_000


class StateStep(NamedTuple):
    """A part of the check that stands alone; ``first`` and ``stop`` number the spans of a history."""

    kind: str
    tree: int
    first: int = 0
    stop: int = 0
    #: Expected processor time in microseconds.
    work: int = 0


class Finding(NamedTuple):
    """Outcome of a step; ``total`` is a sum that must be that of other steps of the tree."""

    faults: list[str]
    total: int = 0


def check_trees(forest: Forest, view: WorldStateView, *, progress: Progress | None = None) -> list[str]:
    """The faults of the trees at ``view``; none if every root and every stored node follows from the leaves.

    Older blocks are worked out from the newest one backwards, as far as history goes.  ``progress(done, total)``
    counts expected microseconds.
    """
    check = StateCheck(forest, view, os.urandom(SEED_BYTES))
    steps = check.steps()
    total, done = sum(step.work for step in steps), 0

    def advance(part: float) -> None:
        if progress is not None:
            progress(int(done + part * step.work), total)

    found: list[Finding] = []
    for step in steps:
        found.append(check.run(step, advance))
        done += step.work
    return check.conclude(steps, found)


class StateCheck:
    """The check in steps, which stand alone: they may be run in any order, by any process with the same ``seed``
    (SEED_BYTES at random)."""

    def __init__(self, forest: Forest, view: WorldStateView, seed: bytes) -> None:
        self._forest = forest
        self._view = view
        self._seed = seed
        self._faults: list[str] = []
        self._advance: Advance = lambda part: None

    # ---- steps ---------------------------------------------------------------------------------

    def steps(self) -> list[StateStep]:
        """All steps; :meth:`conclude` wants their findings in this order."""
        view = self._view
        sizes, blocks = view.tip.sizes, view.tip.number - view.oldest
        plain = [tree.tree.id for tree in self._forest.append_only]
        indexed = [tree.tree.id for tree in self._forest.indexed]
        steps = [StateStep(NEWEST, tree, work=sizes[tree] * _LEAF_US + 1) for tree in plain]
        steps += [StateStep(NEWEST, tree, work=sizes[tree] * _INDEXED_LEAF_US + 1) for tree in indexed]
        if not blocks:
            return steps
        steps += [StateStep(EDGES, tree, work=blocks * _EDGE_US) for tree in plain]
        for tree in indexed:
            steps.append(StateStep(CHANGES, tree, work=blocks * _CHANGE_US))
            count = len(VersionCheck.spans(sizes[tree]))
            for first in range(0, count, SPANS_PER_STEP):
                stop = min(count, first + SPANS_PER_STEP)
                steps.append(StateStep(VERSIONS, tree, first, stop, (stop - first) * _SPAN_US))
        return steps

    def run(self, step: StateStep, advance: Advance) -> Finding:
        """The findings of a step; ``advance`` is told which part of it is done."""
        self._faults, self._advance = [], advance
        total = 0
        if step.kind == NEWEST:
            self._check_newest(self._forest.in_order[step.tree])
        else:
            try:
                total = self._check_history(step)
            except (DatabaseError, ValueError) as error:
                self._faults.append(f"block {self._view.oldest}: {error}")
        advance(1.0)
        return Finding(self._faults, total)

    def conclude(self, steps: Sequence[StateStep], found: Sequence[Finding]) -> list[str]:
        """The faults of all steps together."""
        faults: list[str] = []
        for step, finding in zip(steps, found, strict=True):
            if step.kind == NEWEST:
                faults += finding.faults
        if faults:
            return faults  # history is compared with the newest nodes, so those have to be right
        for tree in self._forest.in_order:
            of_tree = [(step, one) for step, one in zip(steps, found, strict=True) if step.tree == tree.tree.id]
            faults += chain.from_iterable(one.faults for step, one in of_tree if step.kind in (EDGES, CHANGES))
            versions = [*chain.from_iterable(one.faults for step, one in of_tree if step.kind == VERSIONS)]
            leaves = sum(one.total for step, one in of_tree if step.kind == CHANGES)
            nodes = sum(one.total for step, one in of_tree if step.kind == VERSIONS)
            if leaves % 2**64 != nodes % 2**64:
                versions[:0] = self._differing_leaves(tree.tree.id)
            faults += versions[:FAULTS_MAX]
        return list(dict.fromkeys(faults))  # what a record of a block lacks is seen by each step

    def _check_history(self, step: StateStep) -> int:
        tree = self._forest.in_order[step.tree]
        if isinstance(tree, AppendOnlyTree):
            self._faults.extend(check_edges(tree, self._blocks, self._advance))
            return 0
        if step.kind == CHANGES:
            return check_changed_leaves(tree, self._blocks, self._faults)
        spans = VersionCheck.spans(self._view.tip.sizes[step.tree])[step.first : step.stop]
        total, faults = self._versions(step.tree).check_spans(spans, self._advance)
        self._faults += faults
        return total

    def _differing_leaves(self, tree: int) -> list[str]:
        try:
            return list(self._versions(tree).look_for_leaves())
        except (DatabaseError, ValueError) as error:
            return [f"block {self._view.oldest}: {error}"]

    @cached_property
    def _blocks(self) -> Blocks:
        return Blocks(self._view, self._seed)

    def _versions(self, tree: int) -> VersionCheck:
        """Kept, as it has worked out the depth of the tree after each block."""
        if tree not in self._version_checks:
            indexed = self._forest.in_order[tree]
            assert isinstance(indexed, IndexedTree)
            self._version_checks[tree] = VersionCheck(indexed, self._blocks)
        return self._version_checks[tree]

    @cached_property
    def _version_checks(self) -> dict[int, VersionCheck]:
        return {}

    # ---- the newest trees ----------------------------------------------------------------------

    def _check_newest(self, tree: AppendOnlyTree | IndexedTree) -> None:
        if isinstance(tree, AppendOnlyTree):
            self._check_tree(_Nodes(self._view, tree.tree), self._append_only_leaves(tree))
            if not self._faults:  # it is worked out from the nodes
                self._check_edge(tree)
        else:
            self._check_tree(_StampedNodes(self._view, tree.tree), self._indexed_leaves(tree))

    def _check_edge(self, tree: AppendOnlyTree) -> None:
        size = self._view.tip.sizes[tree.tree.id]
        try:
            edge, _ = tree.edge_and_root(self._view.snapshot, size)
        except (DatabaseError, ValueError) as error:
            self._fault(tree.tree, str(error))
            return
        if tree.stored_edge(self._view.snapshot, size) != edge:
            self._fault(tree.tree, f"the edge of {size} leaves does not follow from its nodes")

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

    # ---- leaves, as runs of 2 ** CHUNK_LEVELS hashes -------------------------------------------

    def _append_only_leaves(self, tree: AppendOnlyTree) -> Iterator[tuple[bytes, Stamps]]:
        """The leaves, each compared with the index entry for its value."""
        size, snapshot = self._view.tip.sizes[tree.tree.id], self._view.snapshot
        sizes = self._blocks.sizes(tree.tree, 0).tolist()
        found = 0
        for start in range(0, size, 1 << CHUNK_LEVELS):
            stop = min(size, start + (1 << CHUNK_LEVELS))
            indexes, stored = nodes_of_tiles(snapshot, tree.tree, HASH_BYTES, start, stop)[0]
            row = _filled(indexes, stored, start, stop - start, ZERO_LEAF)
            for place in np.flatnonzero(row.any(axis=1)).tolist():
                found += self._is_listed(tree, start + place, row[place].tobytes(), sizes)
            yield row.tobytes(), _NO_STAMPS
        listed = tree.count_places(snapshot)
        if listed != found:
            self._fault(tree.tree, f"{listed} values are listed, {found} of them are leaves")

    def _is_listed(self, tree: AppendOnlyTree, index: int, leaf: bytes, sizes: list[int]) -> bool:
        """True if the leaf is the first of its value; ``sizes`` are those after each block."""
        snapshot = self._view.snapshot
        listed = tree.find(snapshot, leaf)
        if listed is not None and listed[0] == index:
            if listed[1] != bisect_right(sizes, index):
                self._fault(tree.tree, f"leaf {index} was not inserted in block {listed[1]}")
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
            self._advance(min(1.0, (first + len(chunk) // HASH_BYTES) / self._view.tip.sizes[nodes.tree.id]))
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
