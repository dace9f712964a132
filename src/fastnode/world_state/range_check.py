"""Roots of the trees from leaves that somebody else holds: rows of an export, say.

The leaves are hashed together with the stored nodes beside them.  Such a node needs no trust: no other one leads to
the root of a block header.  What nodes the trees lack (history that is not kept) is said by :attr:`RangeCheck.oldest`.
Most places of a transaction are empty: only nodes with a leaf below them are hashed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fastnode.errors import VerificationError
from fastnode.kernels import layouts, poseidon2
from fastnode.records import dataclass
from fastnode.world_state.append_only import AppendOnlyTree
from fastnode.world_state.forest import Forest
from fastnode.world_state.indexed_tree import IndexedTree
from fastnode.world_state.layout import HASH_BYTES
from fastnode.world_state.trees import Tree, zero_nodes
from fastnode.world_state.view import WorldStateView

__all__ = ["Leaves", "RangeCheck", "as_nodes"]

#: Nodes of one level, or leaves, a row of four words each: numpy copies words faster than bytes.
Nodes = np.ndarray[Any, Any]
Indexes = np.ndarray[Any, Any]
#: ``node(level, index)``: a stored node.
Node = Callable[[int, int], bytes]

_WORDS: Final = HASH_BYTES // 8


def as_nodes(joined: bytes) -> Nodes:
    """Hashes, 32 bytes each, as rows."""
    return np.frombuffer(joined, np.uint64).reshape(-1, _WORDS)


@dataclass(frozen=True, slots=True)
class Leaves:
    """Leaves ``start`` to ``stop`` of a tree, of which those at ``indexes`` are ``rows`` and the others are empty.

    Indexes are strictly increasing, and all within the range.
    """

    start: int
    stop: int
    indexes: Indexes
    rows: Nodes


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """Roots of the trees at a view; every method returns one, for comparison with the one that a header names."""

    forest: Forest
    view: WorldStateView

    @property
    def oldest(self) -> int:
        """Oldest block whose public data can be read."""
        return self.view.oldest

    def append_only_root(self, tree: AppendOnlyTree, leaves: Leaves) -> bytes:
        """The root of the tree that ends with ``leaves``, which begin at most at the end of the stored tree."""
        snapshot = self.view.snapshot

        def node(level: int, index: int) -> bytes:
            is_before = index < leaves.start >> level
            return tree.complete_node(snapshot, level, index) if is_before else _zero(tree.tree, level)

        return _root_of_range(tree.tree, leaves, node)

    def nullifier_root(self, keys: Leaves) -> bytes:
        """The root of the view's nullifier tree with these keys as leaves.

        VerificationError for a key that the tree does not have, or has in another place.
        """
        tree, tip = self.forest.nullifiers, self.view.tip
        joined = keys.rows.tobytes()
        indexes, hashes = self._hashed(tree, joined, b"", tip.number)
        if (indexes != keys.indexes).any():
            place = int(np.argmax(indexes != keys.indexes))
            where = f"leaf {indexes[place]}" if indexes[place] >= 0 else "not in the tree"
            key = joined[place * HASH_BYTES : (place + 1) * HASH_BYTES]
            raise VerificationError(
                f"{tree.tree.name}: 0x{key.hex()} is {where}, expected as leaf {keys.indexes[place]}"
            )
        leaves = Leaves(keys.start, keys.stop, indexes, hashes)
        return _root_of_range(tree.tree, leaves, self._node(tree, tip.number, tip.sizes[tree.tree.id]))

    def public_data_root(self, slots: bytes, values: bytes, block: int) -> bytes:
        """The root of the public data tree after ``block`` with these values, 32 bytes each, in their slots, of which
        none comes twice.

        ``block`` is not older than :attr:`oldest`.  VerificationError for a slot that the tree does not have.
        """
        tree = self.forest.public_data
        indexes, hashes = self._hashed(tree, slots, values, block)
        if (indexes < 0).any():
            at = int(np.argmax(indexes < 0)) * HASH_BYTES
            raise VerificationError(
                f"{tree.tree.name}: the slot 0x{slots[at : at + HASH_BYTES].hex()} is not in the tree"
            )
        order = np.argsort(indexes)
        size = self.view.record(block).sizes[tree.tree.id]
        return _root_of_some(tree.tree, indexes[order], hashes[order], self._node(tree, block, size))

    def _hashed(self, tree: IndexedTree, keys: bytes, values: bytes, block: int) -> tuple[Indexes, Nodes]:
        """(index, leaf hash) of each key with its value after ``block``; index -1 for a key that is not there."""
        snapshot = self.view.snapshot
        stored = tree.stored_leaves(snapshot, keys)
        size = layouts.LEAF_VALUE + len(values) // max(1, len(stored)) + layouts.TAIL_BYTES
        sizes = np.array([0 if data is None else len(data) for data in stored], np.int64)
        is_usual = sizes == size
        records = np.zeros((len(stored), size), np.uint8)
        usual = b"".join([data for data in stored if data is not None and len(data) == size])
        records[is_usual] = np.frombuffer(usual, np.uint8).reshape(-1, size)
        tail = size - layouts.TAIL_BYTES
        indexes = _numbers(records[:, tail + layouts.TAIL_INDEX : tail + layouts.TAIL_INSERTED])
        contents = np.zeros((len(stored), (len(values) > 0) + 3, HASH_BYTES), np.uint8)
        contents[:, 0] = np.frombuffer(keys, np.uint8).reshape(-1, HASH_BYTES)
        if values:
            contents[:, 1] = np.frombuffer(values, np.uint8).reshape(-1, HASH_BYTES)
        contents[:, -2] = records[:, layouts.LEAF_NEXT_KEY : layouts.LEAF_VALUE]
        contents[:, -1, -layouts.INDEX_BYTES :] = records[:, layouts.LEAF_NEXT_INDEX : layouts.LEAF_NEXT_KEY]
        # A leaf that is not there, or was changed since, takes its own way.
        is_usual &= _numbers(records[:, layouts.LEAF_CHANGED : layouts.LEAF_NEXT_INDEX]) <= block
        for place in np.flatnonzero(~is_usual).tolist():
            at, data = slice(place * HASH_BYTES, (place + 1) * HASH_BYTES), stored[place]
            found = None if data is None else tree.leaf_with(snapshot, keys[at], data, values[at], block)
            indexes[place] = -1 if found is None else found[0]
            if found is not None:
                contents[place] = np.frombuffer(found[1], np.uint8).reshape(-1, HASH_BYTES)
        return indexes, as_nodes(tree.hash_leaves(contents.tobytes()))

    def _node(self, tree: IndexedTree, block: int, size: int) -> Node:
        snapshot = self.view.snapshot
        return lambda level, index: tree.node(snapshot, level, index, block, size)


def _numbers(digits: np.ndarray[Any, Any]) -> Indexes:
    """Big-endian numbers of up to seven bytes, a row each."""
    numbers = np.zeros(len(digits), np.int64)
    for column in range(digits.shape[1]):
        numbers = numbers << 8 | digits[:, column]
    return numbers


def _zero(tree: Tree, level: int) -> bytes:
    return zero_nodes(tree)[level * HASH_BYTES : (level + 1) * HASH_BYTES]


def _root_of_range(tree: Tree, leaves: Leaves, node: Node) -> bytes:
    """The root above leaves that follow each other, with the nodes at their sides."""
    start, last, indexes, row = leaves.start, leaves.stop - 1, leaves.indexes, leaves.rows
    for level in range(tree.height):
        if start & 1:
            start -= 1
            indexes, row = np.insert(indexes, 0, start), np.concatenate([as_nodes(node(level, start)), row])
        if not last & 1:
            last += 1
            indexes, row = np.append(indexes, last), np.concatenate([row, as_nodes(node(level, last))])
        indexes, children, _ = _children(tree, level, indexes, row)
        row = _parents(tree, children)
        start >>= 1
        last >>= 1
    return row.tobytes() if len(row) else _zero(tree, tree.height)


def _root_of_some(tree: Tree, indexes: Indexes, row: Nodes, node: Node) -> bytes:
    """The root above any leaves, at least one, sorted by index, with the nodes between them."""
    for level in range(tree.height):
        indexes, children, is_known = _children(tree, level, indexes, row)
        missing = np.flatnonzero(~is_known)
        if len(missing):
            wanted = (2 * indexes[missing >> 1] + (missing & 1)).tolist()
            children[missing] = as_nodes(b"".join([node(level, index) for index in wanted]))
        row = _parents(tree, children)
    return row.tobytes()


def _children(tree: Tree, level: int, indexes: Indexes, row: Nodes) -> tuple[Indexes, Nodes, np.ndarray[Any, Any]]:
    """Indexes of the parents, two children of each, and which of the children are of ``row``; the others are empty."""
    above = indexes >> 1
    is_first = np.ones(len(above), np.bool_)
    is_first[1:] = above[1:] != above[:-1]
    parents = above[is_first]
    places = 2 * (np.cumsum(is_first) - 1) + (indexes & 1)
    children = np.empty((2 * len(parents), _WORDS), np.uint64)
    children[:] = as_nodes(_zero(tree, level))
    children[places] = row
    is_known = np.zeros(len(children), np.bool_)
    is_known[places] = True
    return parents, children, is_known


def _parents(tree: Tree, children: Nodes) -> Nodes:
    return as_nodes(poseidon2.hash_nodes(children.tobytes(), tree.separator))
