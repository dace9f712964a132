"""A look at some leaves of each tree: with the stored nodes beside them they give the root of the newest block.

It ends in the time of some hundred reads, however large the trees are; a fault elsewhere is not seen.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from fastnode.errors import DatabaseError
from fastnode.kernels import poseidon2
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.world_state.append_only import AppendOnlyTree
from fastnode.world_state.forest import Forest
from fastnode.world_state.indexed_tree import IndexedTree
from fastnode.world_state.trees import Tree
from fastnode.world_state.view import WorldStateView

__all__ = ["LEAVES_SAMPLED", "check_sampled"]

#: Leaves of each tree that are looked at, beside its first and its last one.
LEAVES_SAMPLED: Final = 64


def check_sampled(forest: Forest, view: WorldStateView, chance: random.Random) -> list[str]:
    """The faults of the leaves that ``chance`` picks, none if each leads to its root."""
    faults: list[str] = []
    for tree in forest.in_order:
        try:
            for index, leaf in _leaves(tree, view, chance):
                path = view.sibling_path(tree.tree.id, index, view.tip.number)
                if _root(tree.tree, index, leaf, path) != view.tip.roots[tree.tree.id]:
                    raise ValueError(f"leaf {index} does not lead to the root")
        except (DatabaseError, ValueError) as error:
            faults.append(f"block {view.tip.number}: {tree.tree.name}: {error}")
    return faults


def _leaves(
    tree: AppendOnlyTree | IndexedTree, view: WorldStateView, chance: random.Random
) -> Iterator[tuple[int, bytes]]:
    """Places and hashes of leaves."""
    if isinstance(tree, IndexedTree):
        for _ in range(LEAVES_SAMPLED):
            key = chance.randbytes(FIELD_BYTES)
            record = tree.low(view.snapshot, bytes([key[0] & 0x1F]) + key[1:], view.tip.number)
            (leaf_hash,) = tree.hashes([record])
            yield record.index, leaf_hash
        return
    number = tree.tree.id
    size = view.tip.sizes[number]
    for index in {0, size - 1, *(chance.randrange(size) for _ in range(LEAVES_SAMPLED if size else 0))}:
        if 0 <= index < size:
            yield index, view.append_only_leaf(number, index, view.tip.number)


def _root(tree: Tree, index: int, leaf: bytes, path: bytes) -> bytes:
    node = leaf
    for level in range(tree.height):
        sibling = path[level * FIELD_BYTES : (level + 1) * FIELD_BYTES]
        pair = sibling + node if index >> level & 1 else node + sibling
        node = poseidon2.hash_fields(tree.separator + pair)
    return node
