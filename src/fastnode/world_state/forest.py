"""The five trees together, and how the memory budget is shared out."""

from __future__ import annotations

from fastnode.protocol.releases import TreeRules
from fastnode.records import dataclass
from fastnode.world_state.append_only import AppendOnlyTree
from fastnode.world_state.indexed_tree import IndexedTree
from fastnode.world_state.snapshot import Snapshot
from fastnode.world_state.trees import Trees

__all__ = ["Forest", "block_cache_bytes"]

MEBIBYTE = 1 << 20


def block_cache_bytes(cache_mb: int) -> int:
    """The database's share: what it has read lately of files that are not mapped into memory."""
    return max(MEBIBYTE, cache_mb * MEBIBYTE * 3 // 8)


@dataclass(frozen=True, slots=True)
class Forest:
    """A quarter of the budget is for upper nodes, a quarter for superseded nodes of the indexed trees, an eighth for
    tiles and leaves of these that were asked for.

    All grow only as they fill: a small chain uses little of any budget.  The rest is the database's, for what lies
    below: :func:`block_cache_bytes`.
    """

    nullifiers: IndexedTree
    note_hashes: AppendOnlyTree
    public_data: IndexedTree
    messages: AppendOnlyTree
    archive: AppendOnlyTree
    rules: TreeRules

    @classmethod
    def within(cls, cache_mb: int, rules: TreeRules) -> Forest:
        """Trees that together keep at most five eighths of ``cache_mb`` MiB in memory."""
        trees = Trees.of(rules.separators)
        part = cache_mb * MEBIBYTE // 32
        return cls(
            nullifiers=IndexedTree(
                trees.nullifiers, value_bytes=0, memory_bytes=2 * part, history_bytes=5 * part, leaf_bytes=2 * part
            ),
            note_hashes=AppendOnlyTree(trees.note_hashes, memory_bytes=2 * part),
            public_data=IndexedTree(
                trees.public_data, value_bytes=32, memory_bytes=2 * part, history_bytes=3 * part, leaf_bytes=2 * part
            ),
            messages=AppendOnlyTree(trees.messages, memory_bytes=part),
            archive=AppendOnlyTree(trees.archive, memory_bytes=part),
            rules=rules,
        )

    @property
    def in_order(self) -> tuple[IndexedTree | AppendOnlyTree, ...]:
        """By tree id."""
        return self.nullifiers, self.note_hashes, self.public_data, self.messages, self.archive

    @property
    def append_only(self) -> tuple[AppendOnlyTree, ...]:
        return self.note_hashes, self.messages, self.archive

    @property
    def indexed(self) -> tuple[IndexedTree, ...]:
        """In the order of the changed-leaves record."""
        return self.nullifiers, self.public_data

    def open(self, snapshot: Snapshot, sizes: tuple[int, ...]) -> None:
        """Load the uppermost nodes of all trees; :meth:`load_next_level` takes the rest."""
        for tree in self.in_order:
            tree.open(snapshot, sizes[tree.tree.id])

    def load_next_level(self, snapshot: Snapshot, sizes: tuple[int, ...]) -> bool:
        """Load one more level that the memory has room for, the upper ones of each tree first; False: there is none."""
        return any(tree.load_next_level(snapshot, sizes[tree.tree.id]) for tree in self.in_order)

    def memory_bytes(self) -> int:
        """Bytes of nodes and leaves held in memory."""
        kept = sum(tree.leaves.memory_bytes() for tree in self.indexed)
        return kept + sum(tree.nodes.memory_bytes() for tree in self.in_order)
