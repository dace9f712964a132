"""Reads of the five trees at one tip and at every block before it.

A view is a database snapshot and the newest block it holds.  The trees' memory is shared with the
writer and may be ahead of the view; that does no harm, because a node there says which block set it, and
what it replaced is remembered.  Only an undo takes something away: it lowers ``memory_limit`` of all
views first, and a path that was read from memory is read again from the snapshot if the limit fell
below its block meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastnode.errors import BlockUnavailable, DatabaseError
from fastnode.kernels import state_answers
from fastnode.protocol.constants import SEPARATOR_PUBLIC_LEAF_SLOT
from fastnode.protocol.fields import field_from_int
from fastnode.storage.database import SharedDatabase
from fastnode.world_state.append_only import AppendOnlyTree
from fastnode.world_state.forest import Forest
from fastnode.world_state.indexed_tree import IndexedTree
from fastnode.world_state.layout import BLOCK, BlockRecord, LeafRecord, u32
from fastnode.world_state.snapshot import Snapshot
from fastnode.world_state.trees import TREES
from fastnode.world_state.witnesses import IndexedWitness, Witness, nullifier_json, public_data_json

__all__ = ["WorldStateView"]

ZERO_FIELD: Final = bytes(32)
_RECORDS_KEPT: Final = 4096
#: Tree slots of storage slots that were asked for; 1.7 MB.  Clients read the same ones again and again.
LEAF_SLOTS_KEPT: Final = 16_384
_LEAF_SLOTS: Final = state_answers.LeafSlots(LEAF_SLOTS_KEPT, field_from_int(SEPARATOR_PUBLIC_LEAF_SLOT))


class WorldStateView:
    """Usable from any thread until closed or collected.

    ``block`` is a block number; every method raises BlockUnavailable when it is newer than the view or older
    than the kept history.  None means that the tree has no such leaf at that block.
    """

    __slots__ = ("__weakref__", "_forest", "_records", "answers", "oldest", "snapshot", "tip")

    def __init__(self, database: SharedDatabase, forest: Forest, tip: BlockRecord, oldest: int) -> None:
        self.snapshot = Snapshot(database)
        self._forest = forest
        self._records = {tip.number: tip}
        #: Newest block and the five trees after it.
        self.tip = tip
        #: Oldest block whose trees can still be read.
        self.oldest = oldest
        #: Answers from the newest leaves and from nodes in memory.
        self.answers = state_answers.StateAnswers(
            nullifiers=forest.nullifiers.answers,
            public_data=forest.public_data.answers,
            note_hashes=forest.note_hashes.answers,
            messages=forest.messages.answers,
            archive=forest.archive.answers,
            slots=_LEAF_SLOTS,
            get=self.snapshot.get,
            iterators=self.snapshot.iterators,
            make_iterator=self.snapshot.make_iterator,
            records=self._records,
            oldest=oldest,
            memory_limit=tip.number,
        )

    @property
    def thin(self) -> int:
        """The newest block whose history is thin: older nodes of some levels follow from those of others."""
        return self.snapshot.thin

    @property
    def memory_limit(self) -> int:
        """Newest block that the shared memory may be asked about."""
        return self.answers.memory_limit

    @memory_limit.setter
    def memory_limit(self, block: int) -> None:
        self.answers.memory_limit = block

    def close(self) -> None:
        """Release the snapshot; more than once is allowed."""
        self.snapshot.close()

    # ---- blocks --------------------------------------------------------------------------------

    def record(self, block: int) -> BlockRecord:
        """Roots and sizes after ``block``, which must be within the kept history."""
        if block > self.tip.number:
            raise BlockUnavailable(
                f"Queried block {block} not yet synced by the node (node is synced upto {self.tip.number})."
            )
        if block < self.oldest:
            raise BlockUnavailable(f"Block {block} is below the oldest available block {self.oldest}")
        return self._record(block)

    def _record(self, block: int) -> BlockRecord:
        record = self._records.get(block)
        if record is None:
            data = self.snapshot.get(BLOCK + u32(block))
            if data is None:
                raise DatabaseError(f"the world state has no record of block {block}")
            if len(self._records) >= _RECORDS_KEPT:
                self._records.clear()
                self._records[self.tip.number] = self.tip
            record = self._records[block] = BlockRecord.unpack(block, data)
        return record

    def block_hash(self, block: int) -> bytes:
        """Hash of any block up to the tip."""
        return self._record(block).block_hash

    def block_number(self, block_hash: bytes) -> int | None:
        """Number of the block with this hash; the genesis block is 0."""
        place = self._forest.archive.find(self.snapshot, block_hash)
        return place[0] if place is not None else None

    # ---- leaves --------------------------------------------------------------------------------

    def find_leaves(self, tree_id: int, leaves: Sequence[bytes], block: int) -> list[tuple[int, int] | None]:
        """(index, block of insertion) of each leaf: a value of an append-only tree, a key of an indexed one.

        Leaves of the genesis were inserted by block 0.
        """
        self.record(block)
        tree = self._forest.in_order[tree_id]
        return [self._place(tree, leaf, block) for leaf in leaves]

    def _place(self, tree: IndexedTree | AppendOnlyTree, leaf: bytes, block: int) -> tuple[int, int] | None:
        if isinstance(tree, IndexedTree):
            record = tree.find(self.snapshot, leaf)
            place = (record.index, record.inserted) if record is not None else None
        else:
            place = tree.find(self.snapshot, leaf)
        return None if place is None or place[1] > block else place

    # ---- append-only trees ---------------------------------------------------------------------

    def note_hash_witness(self, note_hash: bytes, block: int) -> Witness | None:
        """The first such note hash in the tree after ``block``."""
        return self._append_only_witness(self._forest.note_hashes, note_hash, block)

    def message_witness(self, message: bytes, block: int) -> Witness | None:
        """The first such L1 to L2 message in the tree after ``block``."""
        return self._append_only_witness(self._forest.messages, message, block)

    def block_hash_witness(self, block_hash: bytes, block: int) -> Witness | None:
        """A block hash in the archive that the header of ``block`` refers to: of all blocks *before* it.

        The block after the tip may be asked about too: it does not exist yet, but its archive does.
        """
        if block == 0:
            self.record(0)
            return None
        if block != self.tip.number + 1:
            self.record(block)
        return self._append_only_witness(self._forest.archive, block_hash, block - 1)

    def _append_only_witness(self, tree: AppendOnlyTree, leaf: bytes, block: int) -> Witness | None:
        size = self._size(tree, block)
        place = tree.find(self.snapshot, leaf)
        if place is None or place[0] >= size:
            return None
        return Witness(place[0], self._append_only_path(tree, place[0], size, block))

    def _size(self, tree: AppendOnlyTree, block: int) -> int:
        if tree is self._forest.archive:
            return block + 1
        return self.record(block).sizes[tree.tree.id]

    def _append_only_path(self, tree: AppendOnlyTree, index: int, size: int, block: int) -> bytes:
        if block <= self.memory_limit:
            path = tree.path(self.snapshot, index, size, use_memory=True)
            if block <= self.memory_limit:
                return path
        return tree.path(self.snapshot, index, size, use_memory=False)

    # ---- indexed trees -------------------------------------------------------------------------

    def nullifier_witness(self, nullifier: bytes, block: int) -> IndexedWitness | None:
        """The leaf of a nullifier that is in the tree after ``block``."""
        size = self.record(block).sizes[0]
        record = self._forest.nullifiers.find(self.snapshot, nullifier)
        if record is None or record.inserted > block:
            return None
        return self._indexed_witness(self._forest.nullifiers, record, block, size)

    def low_nullifier_witness(self, nullifier: bytes, block: int) -> IndexedWitness:
        """The leaf with the greatest nullifier not above this one: its own if it is present."""
        return self._low_witness(self._forest.nullifiers, nullifier, block)

    def public_data_witness(self, leaf_slot: bytes, block: int) -> IndexedWitness:
        """The leaf with the greatest slot not above this tree slot: its own if it is present."""
        return self._low_witness(self._forest.public_data, leaf_slot, block)

    def _low_witness(self, tree: IndexedTree, key: bytes, block: int) -> IndexedWitness:
        size = self.record(block).sizes[tree.tree.id]
        return self._indexed_witness(tree, tree.low(self.snapshot, key, block), block, size)

    # As JSON.  A leaf that has not changed since the block is rendered from its record as it is stored.

    def nullifier_witness_json(self, nullifier: bytes, block: int) -> bytes | None:
        """NullifierMembershipWitness of a nullifier that is in the tree after ``block``."""
        self.record(block)
        witness = self.answers.nullifier_witness(nullifier, block)
        if witness is not None:
            return witness or None
        older = self.nullifier_witness(nullifier, block)
        return None if older is None else nullifier_json(older)

    def low_nullifier_witness_json(self, nullifier: bytes, block: int) -> bytes:
        """NullifierMembershipWitness of :meth:`low_nullifier_witness`."""
        self.record(block)
        witness = self.answers.low_nullifier_witness(nullifier, block)
        return nullifier_json(self.low_nullifier_witness(nullifier, block)) if witness is None else witness

    def public_data_witness_json(self, leaf_slot: bytes, block: int) -> bytes:
        """PublicDataWitness of :meth:`public_data_witness`."""
        self.record(block)
        witness = self.answers.public_data_witness(leaf_slot, block)
        return public_data_json(self.public_data_witness(leaf_slot, block)) if witness is None else witness

    def _indexed_witness(self, tree: IndexedTree, record: LeafRecord, block: int, size: int) -> IndexedWitness:
        state = tree.state(self.snapshot, record, block)
        path = self._indexed_path(tree, record.index, block, size)
        return IndexedWitness(record.index, record.key, state.value, state.next_key, state.next_index, path)

    def _indexed_path(self, tree: IndexedTree, index: int, block: int, size: int) -> bytes:
        if block <= self.memory_limit:
            path = tree.path(self.snapshot, index, block, size, use_memory=True)
            if block <= self.memory_limit:
                return path
        return tree.path(self.snapshot, index, block, size, use_memory=False)

    def public_storage(self, contract: bytes, slot: bytes, block: int) -> bytes:
        """Value of a contract's storage slot; zero when it was never written."""
        return self.public_data_value(_LEAF_SLOTS.find(contract, slot), block)

    def public_data_value(self, leaf_slot: bytes, block: int) -> bytes:
        """Value at a tree slot; zero when it was never written."""
        self.record(block)
        tree = self._forest.public_data
        record = tree.find(self.snapshot, leaf_slot)
        if record is None or record.inserted > block:
            return ZERO_FIELD
        return tree.state(self.snapshot, record, block).value

    # ---- any leaf ------------------------------------------------------------------------------

    def append_only_leaf(self, tree_id: int, index: int, block: int) -> bytes:
        """Leaf ``index`` of an append-only tree after ``block``; zero for a place that is not used."""
        tree = self._forest.in_order[tree_id]
        assert isinstance(tree, AppendOnlyTree)
        if not 0 <= index < self._size(tree, block):
            return ZERO_FIELD
        return next(tree.leaves(self.snapshot, index, index + 1))

    def sibling_path(self, tree_id: int, index: int, block: int) -> bytes:
        """Sibling path of any leaf index below the tree's size after ``block``; ValueError beyond it."""
        size = self.record(block).sizes[tree_id]
        if not 0 <= index < size:
            raise ValueError(f"the {TREES[tree_id].name} has {size} leaves at block {block}, not {index + 1}")
        tree = self._forest.in_order[tree_id]
        if isinstance(tree, IndexedTree):
            return self._indexed_path(tree, index, block, size)
        return self._append_only_path(tree, index, size, block)
