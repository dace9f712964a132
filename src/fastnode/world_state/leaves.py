"""Leaves of the five trees after one block, packed: all that a state is made of.

    nullifier tree                   key 32 | index u48                  from the greatest key down, as they are stored
    public data tree                 slot 32 | index u48 | value 32      likewise
    note hashes, messages, archive   index u48 | leaf 32                 from the lowest index up; empty leaves left out

Rows follow each other without anything in between.  Two states with the same roots have the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np

from fastnode.kernels import layouts, tree_nodes
from fastnode.world_state.append_only import AppendOnlyTree
from fastnode.world_state.forest import Forest
from fastnode.world_state.indexed_tree import IndexedTree
from fastnode.world_state.layout import HASH_BYTES, INDEX_BYTES, LEAF, TILE, LeafState
from fastnode.world_state.stored_nodes import Array, nodes_of_tiles, numbers
from fastnode.world_state.trees import PUBLIC_DATA, Tree
from fastnode.world_state.view import WorldStateView

__all__ = ["LeavesOfBlock", "as_u48"]

#: Leaves in one read: others get their turn in between.
_BATCH: Final = 1024
#: Bytes of a key: kind, tree, and the key itself.
_KEY_BYTES: Final = len(LEAF) + 1 + HASH_BYTES


class LeavesOfBlock:
    """The leaves after ``block``, read from the newest view; BlockUnavailable if it has no such block.

    The view is held until this is closed or collected.  For one thread.
    """

    def __init__(self, forest: Forest, view: WorldStateView, block: int) -> None:
        self.record = view.record(block)
        self._forest = forest
        self._view = view

    def rows(self, tree: Tree) -> Iterator[bytes]:
        """The packed rows of a tree, some at a time."""
        found = self._forest.in_order[tree.id]
        if isinstance(found, IndexedTree):
            yield from self._indexed(found)
        else:
            yield from self._append_only(found)

    def _indexed(self, tree: IndexedTree) -> Iterator[bytes]:
        block, is_public = self.record.number, tree.tree.id == PUBLIC_DATA.id
        with self._view.snapshot.scan(LEAF + tree.tree.prefix) as entries:
            while run := list(islice(entries, _BATCH)):
                keys = ~_matrix([key for key, _ in run])[:, _KEY_BYTES - HASH_BYTES :]
                records = _matrix([record for _, record in run])
                tail = records.shape[1] - layouts.TAIL_BYTES
                is_there = numbers(records[:, tail + layouts.TAIL_INSERTED : tail + layouts.TAIL_PREDECESSOR]) <= block
                columns = [keys, records[:, tail + layouts.TAIL_INDEX : tail + layouts.TAIL_INSERTED]]
                if is_public:
                    columns.append(self._values(tree, keys, records, is_there))
                yield np.concatenate([column[is_there] for column in columns], axis=1).tobytes()

    def _values(self, tree: IndexedTree, keys: Array, records: Array, is_there: Array) -> Array:
        """Values after the block: of what was written since, from the history."""
        values = records[:, layouts.LEAF_VALUE : layouts.LEAF_VALUE + HASH_BYTES].copy()
        changed = numbers(records[:, layouts.LEAF_CHANGED : layouts.LEAF_NEXT_INDEX])
        for place in np.flatnonzero(is_there & (changed > self.record.number)).tolist():
            past = tree.past_state(self._view.snapshot, keys[place].tobytes(), self.record.number)
            values[place] = np.frombuffer(LeafState.unpack(past).value, np.uint8)
        return values

    def _append_only(self, tree: AppendOnlyTree) -> Iterator[bytes]:
        size, snapshot = self.record.sizes[tree.tree.id], self._view.snapshot
        begin = 0
        # Most places are empty, and where there are many of them there is no tile: the next one tells where to go on.
        while begin < size and (place := _next_tile(self._view, tree.tree, begin)) is not None:
            begin = place << tree_nodes.TILE_LEVELS
            stop = max(begin, min(size, begin + _BATCH))
            indexes, leaves = nodes_of_tiles(snapshot, tree.tree, HASH_BYTES, begin, stop)[0]
            is_there = (indexes < size) & leaves.any(axis=1)
            yield np.concatenate([as_u48(indexes[is_there]), leaves[is_there]], axis=1).tobytes()
            begin = stop


def as_u48(indexes: Array) -> Array:
    """A row of 6 bytes for each number."""
    return indexes.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - INDEX_BYTES :]


def _next_tile(view: WorldStateView, tree: Tree, begin: int) -> int | None:
    prefix = TILE + tree.prefix
    found = view.snapshot.first(prefix + (begin >> tree_nodes.TILE_LEVELS).to_bytes(INDEX_BYTES, "big"), prefix)
    return None if found is None else int.from_bytes(found[0][len(prefix) :], "big")


def _matrix(values: list[bytes]) -> Array:
    return np.frombuffer(b"".join(values), np.uint8).reshape(len(values), -1)
