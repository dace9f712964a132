"""Check of the history: the trees before a block are recomputed from what the block replaced."""

from __future__ import annotations

from collections.abc import Iterator

from fastnode.errors import DatabaseError
from fastnode.kernels import indexed_tree, poseidon2
from fastnode.world_state.append_only import AppendOnlyTree
from fastnode.world_state.forest import Forest
from fastnode.world_state.indexed import IndexedTree
from fastnode.world_state.layout import CHANGED, BlockRecord, u32, unpack_changed
from fastnode.world_state.trees import Tree, zero_nodes
from fastnode.world_state.view import WorldStateView

__all__ = ["check_block_before"]


def check_block_before(forest: Forest, view: WorldStateView, number: int) -> list[str]:
    """The faults of the history that leads from block ``number`` back to the one before it.

    The trees after ``number`` are taken to be right.  Every node and leaf that the block replaced is looked at.
    """
    try:
        return list(_faults(forest, view, number))
    except (DatabaseError, ValueError) as error:
        return [f"block {number - 1}: {error}"]


def _faults(forest: Forest, view: WorldStateView, number: int) -> Iterator[str]:
    before, after = view.record(number - 1), view.record(number)
    changed = view.snapshot.get(CHANGED + u32(number))
    if changed is None:
        yield f"block {number}: what it changed is not stored"
        return
    for tree in forest.append_only:
        if before.sizes[tree.tree.id] != after.sizes[tree.tree.id]:
            yield from _append_only_faults(tree, view, before)
    for indexed, leaves in zip(forest.indexed, unpack_changed(changed, len(forest.indexed)), strict=True):
        yield from _indexed_faults(indexed, view, before, leaves)


def _fault(tree: Tree, record: BlockRecord, what: str) -> str:
    return f"block {record.number}: {tree.name}: {what}"


# ---- append-only trees: the edge of the smaller tree -------------------------------------------------


def _append_only_faults(tree: AppendOnlyTree, view: WorldStateView, before: BlockRecord) -> Iterator[str]:
    size = before.sizes[tree.tree.id]
    edge, root = tree.edge_and_root(view.snapshot, size)
    if tree.stored_edge(view.snapshot, size) != edge:
        yield _fault(tree.tree, before, f"the edge of {size} leaves does not follow from its nodes")
    if root != before.roots[tree.tree.id]:
        stored = before.roots[tree.tree.id].hex()
        yield _fault(tree.tree, before, f"the leaves give the root 0x{root.hex()}, stored is 0x{stored}")


# ---- indexed trees: the changed leaves as they were, and all nodes above them ------------------------


def _indexed_faults(
    indexed: IndexedTree, view: WorldStateView, before: BlockRecord, leaves: list[tuple[int, bytes]]
) -> Iterator[str]:
    tree, snapshot, block = indexed.tree, view.snapshot, before.number
    size, zeros = before.sizes[tree.id], zero_nodes(tree)
    row = _leaves_before(indexed, view, block, leaves)
    if not row:
        return  # nothing that was there has changed
    depth = indexed_tree.depth(size)
    for level in range(depth):
        for index, node in row.items():
            stored = indexed.node(snapshot, level, index, block, size)
            if stored != node:
                yield _fault(
                    tree, before, f"node ({level}, {index}) is 0x{stored.hex()}, its leaves give 0x{node.hex()}"
                )
                return
        parents = list(dict.fromkeys(index >> 1 for index in row))
        children = [
            row[index] if index in row else indexed.node(snapshot, level, index, block, size)
            for parent in parents
            for index in (2 * parent, 2 * parent + 1)
        ]
        hashes = poseidon2.hash_nodes(b"".join(children), tree.separator)
        row = {parent: hashes[32 * place : 32 * (place + 1)] for place, parent in enumerate(parents)}
    root = row[0]
    for level in range(depth, tree.height):
        root = poseidon2.hash_fields(tree.separator + root + zeros[32 * level : 32 * (level + 1)])
    if root != before.roots[tree.id]:
        stored_root = before.roots[tree.id].hex()
        yield _fault(tree, before, f"the leaves give the root 0x{root.hex()}, stored is 0x{stored_root}")


def _leaves_before(
    indexed: IndexedTree, view: WorldStateView, block: int, leaves: list[tuple[int, bytes]]
) -> dict[int, bytes]:
    """Hashes of those of the changed leaves that were there after ``block``, by index."""
    records = []
    for index, key in leaves:
        record = indexed.find(view.snapshot, key)
        if record is None or record.index != index:
            raise DatabaseError(f"{indexed.tree.name}: leaf {index} with key 0x{key.hex()} is lost")
        if record.inserted <= block:
            records.append(indexed.record_at(view.snapshot, record, block))
    return {record.index: leaf for record, leaf in zip(records, indexed.hashes(records), strict=True)}
