"""Roots of the trees from leaves that somebody else holds: rows of an export, say.

The leaves are hashed together with the stored nodes beside them.  Such a node needs no trust: no other one leads to
the root of a block header.  What nodes the trees lack (history that is not kept) is said by :attr:`RangeCheck.oldest`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from fastnode.errors import VerificationError
from fastnode.kernels import poseidon2
from fastnode.records import dataclass
from fastnode.world_state.append_only import AppendOnlyTree
from fastnode.world_state.forest import Forest
from fastnode.world_state.indexed import IndexedTree
from fastnode.world_state.layout import HASH_BYTES
from fastnode.world_state.trees import Tree, zero_nodes
from fastnode.world_state.view import WorldStateView

__all__ = ["RangeCheck"]

#: Nodes of one level, a row each.
Nodes = np.ndarray[Any, Any]
#: ``node(level, index)``: a stored node.
Node = Callable[[int, int], bytes]

_PAIR_BYTES: Final = 2 * HASH_BYTES


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """Roots of the trees at a view; every method returns one, for comparison with the one that a header names."""

    forest: Forest
    view: WorldStateView

    @property
    def oldest(self) -> int:
        """Oldest block whose public data can be read."""
        return self.view.oldest

    def append_only_root(self, tree: AppendOnlyTree, start: int, leaves: bytes) -> bytes:
        """The root of the tree that ends with ``leaves``, 32 bytes each, at least one, of which ``start`` is the first.

        ``start`` is at most the size of the stored tree.
        """
        snapshot = self.view.snapshot

        def left(level: int, index: int) -> bytes:
            return tree.complete_node(snapshot, level, index)

        return _root_of_range(tree.tree, start, leaves, left, lambda level, _: _zero(tree.tree, level))

    def nullifier_root(self, start: int, leaves: Mapping[int, bytes], stop: int) -> bytes:
        """The root of the view's nullifier tree with these keys as leaves ``start`` to ``stop``, by index; the
        others are empty.

        VerificationError for a key that the tree does not have, or has in another place.
        """
        tree, tip, snapshot = self.forest.nullifiers, self.view.tip, self.view.snapshot
        contents = []
        for index, key in leaves.items():
            found = tree.leaf_with(snapshot, key, b"", tip.number)
            if found is None or found[0] != index:
                where = "not in the tree" if found is None else f"leaf {found[0]}"
                raise VerificationError(f"{tree.tree.name}: 0x{key.hex()} is {where}, expected as leaf {index}")
            contents.append(found[1])
        row = np.zeros((stop - start, HASH_BYTES), np.uint8)
        if contents:
            hashes = np.frombuffer(tree.hash_leaves(contents), np.uint8).reshape(-1, HASH_BYTES)
            row[np.fromiter(leaves, np.int64, len(leaves)) - start] = hashes
        node = self._node(tree, tip.number, tip.sizes[tree.tree.id])
        return _root_of_range(tree.tree, start, row.tobytes(), node, node)

    def public_data_root(self, values: Sequence[tuple[bytes, bytes]], block: int) -> bytes:
        """The root of the public data tree after ``block`` with these (slot, value) pairs as leaves, no slot twice.

        ``block`` is not older than :attr:`oldest`.  VerificationError for a slot that the tree does not have.
        """
        tree, snapshot = self.forest.public_data, self.view.snapshot
        places, contents = [], []
        for slot, value in values:
            found = tree.leaf_with(snapshot, slot, value, block)
            if found is None:
                raise VerificationError(f"{tree.tree.name}: the slot 0x{slot.hex()} is not in the tree")
            places.append(found[0])
            contents.append(found[1])
        indexes = np.array(places, np.int64)
        hashes = np.frombuffer(tree.hash_leaves(contents), np.uint8).reshape(-1, HASH_BYTES)
        order = np.argsort(indexes)
        size = self.view.record(block).sizes[tree.tree.id]
        return _root_of_some(tree.tree, indexes[order], hashes[order], self._node(tree, block, size))

    def _node(self, tree: IndexedTree, block: int, size: int) -> Node:
        snapshot = self.view.snapshot
        return lambda level, index: tree.node(snapshot, level, index, block, size)


def _zero(tree: Tree, level: int) -> bytes:
    return zero_nodes(tree)[level * HASH_BYTES : (level + 1) * HASH_BYTES]


def _as_node(node: bytes) -> Nodes:
    return np.frombuffer(node, np.uint8).reshape(1, HASH_BYTES)


def _root_of_range(tree: Tree, start: int, leaves: bytes, left: Node, right: Node) -> bytes:
    """The root above leaves that follow each other, with the nodes at their sides."""
    row: Nodes = np.frombuffer(leaves, np.uint8).reshape(-1, HASH_BYTES)
    for level in range(tree.height):
        if start & 1:
            row = np.concatenate([_as_node(left(level, start - 1)), row])
            start -= 1
        if len(row) & 1:
            row = np.concatenate([row, _as_node(right(level, start + len(row)))])
        row = _parents(tree, level, row)
        start >>= 1
    return bytes(row.tobytes())


def _root_of_some(tree: Tree, indexes: Nodes, row: Nodes, node: Node) -> bytes:
    """The root above any leaves, sorted by index, with the nodes between them."""
    for level in range(tree.height):
        parents = np.unique(indexes >> 1)
        wanted = np.stack([2 * parents, 2 * parents + 1], axis=1).reshape(-1)
        places = np.minimum(np.searchsorted(indexes, wanted), len(indexes) - 1)
        is_here = indexes[places] == wanted
        children = row[places]
        missing = wanted[~is_here].tolist()
        if missing:
            nodes = b"".join([node(level, index) for index in missing])
            children[~is_here] = np.frombuffer(nodes, np.uint8).reshape(-1, HASH_BYTES)
        row, indexes = _parents(tree, level, children), parents
    return bytes(row.tobytes())


def _parents(tree: Tree, level: int, row: Nodes) -> Nodes:
    """Hash pairs of nodes.  Most places of a transaction are empty: above two zero nodes stands the next one."""
    pairs = row.reshape(-1, _PAIR_BYTES)
    empty = np.frombuffer(2 * _zero(tree, level), np.uint8)
    is_full = (pairs != empty).any(axis=1)
    parents = np.empty((len(pairs), HASH_BYTES), np.uint8)
    parents[:] = np.frombuffer(_zero(tree, level + 1), np.uint8)
    if is_full.any():
        hashes = poseidon2.hash_nodes(pairs[is_full].tobytes(), tree.separator)
        parents[is_full] = np.frombuffer(hashes, np.uint8).reshape(-1, HASH_BYTES)
    return parents
