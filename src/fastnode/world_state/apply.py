"""One block's effect on the five trees, computed and compared with its header; nothing is written here.

The same computation serves a block that is being made: its header then follows from the trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from fastnode.errors import BlockRejected
from fastnode.protocol.block import L2Block
from fastnode.protocol.constants import (
    L1_TO_L2_MESSAGES_PER_CHECKPOINT,
    NOTE_HASHES_PER_TX_MAX,
    NULLIFIERS_PER_TX_MAX,
)
from fastnode.protocol.effects import Body, TxEffect
from fastnode.protocol.header import AppendOnlyTreeSnapshot, BlockHeader, StateReference
from fastnode.records import dataclass
from fastnode.world_state.append_only import AppendOnlyTree, Change, Growth
from fastnode.world_state.forest import Forest
from fastnode.world_state.indexed import LeafChanges
from fastnode.world_state.layout import BLOCK, CHANGED, BlockRecord, pack_changed, u32
from fastnode.world_state.snapshot import Snapshot
from fastnode.world_state.trees import ARCHIVE, L1_TO_L2, NOTE_HASH, NULLIFIER, PUBLIC_DATA, Tree

__all__ = ["BlockDraft", "PreparedBlock", "Seal", "build_block", "prepare_block"]

LEAF_BYTES: Final = 32
#: Blocks from this size on are worth a second thread.
PARALLEL_TXS_MIN: Final = 8

#: Makes a block's header from the archive before the block and the state after it.
Seal = Callable[[AppendOnlyTreeSnapshot, StateReference], BlockHeader]


@dataclass(frozen=True, slots=True)
class PreparedBlock:
    """A verified block: what it writes, and what then becomes part of the memory."""

    record: BlockRecord
    batch: list[Change]
    growths: tuple[tuple[AppendOnlyTree, Growth], ...]
    nullifiers: LeafChanges
    public_data: LeafChanges

    def publish(self, forest: Forest) -> None:
        """Make the written block part of the memory."""
        forest.nullifiers.publish(self.nullifiers)
        forest.public_data.publish(self.public_data)
        for tree, growth in self.growths:
            tree.publish(growth)


def prepare_block(
    forest: Forest, snapshot: Snapshot, tip: BlockRecord, block: L2Block, messages: Sequence[bytes]
) -> PreparedBlock:
    """Apply ``block`` to the trees after ``tip``, as ``snapshot`` and the memory hold them.

    ``messages``: the L1->L2 messages of its checkpoint without padding, if it is the checkpoint's first
    block.  BlockRejected naming block, tree and both roots (or sizes) when they differ from the header's.
    """
    application = _Application(forest, snapshot, tip, block.number, block.body.tx_effects)
    application.require_follows()
    application.require_same(ARCHIVE, "lastArchive", block.header.last_archive)
    application.grow(messages, is_first=block.index_within_checkpoint == 0)
    state = block.header.state
    application.require_same(L1_TO_L2, "state", state.l1_to_l2_message_tree)
    application.require_same(NOTE_HASH, "state", state.note_hash_tree)
    application.require_same(NULLIFIER, "state", state.nullifier_tree)
    application.require_same(PUBLIC_DATA, "state", state.public_data_tree)
    prepared = application.finish(block.hash(), block.checkpoint_number)
    application.require_same(ARCHIVE, "archive", block.archive)
    return prepared


@dataclass(frozen=True, slots=True)
class BlockDraft:
    """A block to be made: what it holds and where it stands."""

    body: Body
    checkpoint_number: int
    index_within_checkpoint: int


def build_block(
    forest: Forest, snapshot: Snapshot, tip: BlockRecord, draft: BlockDraft, messages: Sequence[bytes], seal: Seal
) -> tuple[L2Block, PreparedBlock]:
    """The block that follows ``tip`` with this content, and what it does to the trees.

    ``messages`` as for :func:`prepare_block`.  BlockRejected when the content breaks a rule of the trees.
    """
    application = _Application(forest, snapshot, tip, tip.number + 1, draft.body.tx_effects)
    last_archive = application.snapshot_of(ARCHIVE)
    application.grow(messages, is_first=draft.index_within_checkpoint == 0)
    state = StateReference(
        l1_to_l2_message_tree=application.snapshot_of(L1_TO_L2),
        note_hash_tree=application.snapshot_of(NOTE_HASH),
        nullifier_tree=application.snapshot_of(NULLIFIER),
        public_data_tree=application.snapshot_of(PUBLIC_DATA),
    )
    header = seal(last_archive, state)
    prepared = application.finish(header.hash(), draft.checkpoint_number)
    archive = application.snapshot_of(ARCHIVE)
    return L2Block(archive, header, draft.body, draft.checkpoint_number, draft.index_within_checkpoint), prepared


class _Application:
    """``grow`` computes the state trees, ``finish`` the archive and the batch; in between the header is known."""

    def __init__(
        self, forest: Forest, snapshot: Snapshot, tip: BlockRecord, number: int, effects: Sequence[TxEffect]
    ) -> None:
        self._forest = forest
        self._snapshot = snapshot
        self._tip = tip
        self._number = number
        self._effects = effects
        self._roots = list(tip.roots)
        self._sizes = list(tip.sizes)
        self._growths: list[tuple[AppendOnlyTree, Growth, bytes]] = []
        self._nullifiers: LeafChanges
        self._public_data: LeafChanges

    def grow(self, messages: Sequence[bytes], *, is_first: bool) -> None:
        """Messages only for the first block of a checkpoint."""
        if len(self._effects) < PARALLEL_TXS_MIN:
            self._grow_append_only(messages, is_first=is_first)
            self._nullifiers = self._insert_nullifiers()
            self._public_data = self._write_public_data()
            return
        # The trees share nothing, and hashing holds no lock: two cores take half of the time.
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="fastnode-trees") as other_core:
            nullifiers = other_core.submit(self._insert_nullifiers)
            self._grow_append_only(messages, is_first=is_first)
            self._public_data = self._write_public_data()
            self._nullifiers = nullifiers.result()

    def _grow_append_only(self, messages: Sequence[bytes], *, is_first: bool) -> None:
        self._append(self._forest.messages, self._message_leaves(messages, is_first=is_first))
        self._append(self._forest.note_hashes, self._note_hash_leaves())

    def finish(self, block_hash: bytes, checkpoint_number: int) -> PreparedBlock:
        self._append(self._forest.archive, block_hash)
        record = BlockRecord(self._number, tuple(self._roots), tuple(self._sizes), block_hash, checkpoint_number)
        return PreparedBlock(
            record=record,
            batch=self._batch(record, self._nullifiers, self._public_data),
            growths=tuple((tree, growth) for tree, growth, _ in self._growths),
            nullifiers=self._nullifiers,
            public_data=self._public_data,
        )

    def snapshot_of(self, tree: Tree) -> AppendOnlyTreeSnapshot:
        """Root and size of a tree as far as it has been computed."""
        return AppendOnlyTreeSnapshot(self._roots[tree.id], self._sizes[tree.id])

    # ---- inputs --------------------------------------------------------------------------------

    def _message_leaves(self, messages: Sequence[bytes], *, is_first: bool) -> bytes:
        """1,024 leaves for the first block of a checkpoint, even when it has no messages; else none."""
        if not is_first:
            if messages:
                raise BlockRejected(f"block {self._number}: L1->L2 messages given, expected none after a first block")
            return b""
        self._require_at_most("L1->L2 messages", len(messages), L1_TO_L2_MESSAGES_PER_CHECKPOINT)
        return b"".join(messages).ljust(L1_TO_L2_MESSAGES_PER_CHECKPOINT * LEAF_BYTES, b"\0")

    def _note_hash_leaves(self) -> bytes:
        """64 leaves for each transaction."""
        parts = []
        for effect in self._effects:
            self._require_at_most("note hashes of a transaction", len(effect.note_hashes), NOTE_HASHES_PER_TX_MAX)
            parts.append(b"".join(effect.note_hashes).ljust(NOTE_HASHES_PER_TX_MAX * LEAF_BYTES, b"\0"))
        return b"".join(parts)

    # ---- trees ---------------------------------------------------------------------------------

    def _append(self, tree: AppendOnlyTree, leaves: bytes) -> None:
        if leaves:
            growth = tree.prepare(self._snapshot, self._sizes[tree.tree.id], leaves)
            self._growths.append((tree, growth, leaves))
            self._put(tree.tree, growth.root, growth.size)

    def _insert_nullifiers(self) -> LeafChanges:
        slots = [effect.nullifiers for effect in self._effects]
        for nullifiers in slots:
            self._require_at_most("nullifiers of a transaction", len(nullifiers), NULLIFIERS_PER_TX_MAX)
        size, root = self._sizes[NULLIFIER.id], self._roots[NULLIFIER.id]
        tree = self._forest.nullifiers
        changes = tree.insert_padded(self._snapshot, self._number, size, root, slots, NULLIFIERS_PER_TX_MAX)
        self._put(NULLIFIER, changes.root, changes.size)
        return changes

    def _write_public_data(self) -> LeafChanges:
        effects = self._effects
        writes = [(write.leaf_slot, write.value) for effect in effects for write in effect.public_data_writes]
        size, root = self._sizes[PUBLIC_DATA.id], self._roots[PUBLIC_DATA.id]
        changes = self._forest.public_data.write_sequence(self._snapshot, self._number, size, root, writes)
        self._put(PUBLIC_DATA, changes.root, changes.size)
        return changes

    def _put(self, tree: Tree, root: bytes, size: int) -> None:
        self._roots[tree.id] = root
        self._sizes[tree.id] = size

    def _batch(self, record: BlockRecord, nullifiers: LeafChanges, public_data: LeafChanges) -> list[Change]:
        batch: list[Change] = []
        for tree, growth, leaves in self._growths:
            batch.extend(tree.changes(self._snapshot, growth, leaves, self._number))
        batch.extend(self._forest.nullifiers.changes(nullifiers))
        batch.extend(self._forest.public_data.changes(public_data))
        changed = pack_changed([nullifiers.changed_leaves(), public_data.changed_leaves()])
        batch.append((CHANGED + u32(self._number), changed))
        batch.append((BLOCK + u32(self._number), record.pack()))
        return batch

    # ---- checks --------------------------------------------------------------------------------

    def require_follows(self) -> None:
        if self._number != self._tip.number + 1:
            raise BlockRejected(f"block {self._number}: the world state is at block {self._tip.number}")

    def _require_at_most(self, what: str, count: int, maximum: int) -> None:
        if count > maximum:
            raise BlockRejected(f"block {self._number}: number of {what} is {count}, at most {maximum} allowed")

    def require_same(self, tree: Tree, where: str, claimed: AppendOnlyTreeSnapshot) -> None:
        root, size = self._roots[tree.id], self._sizes[tree.id]
        if root != claimed.root:
            raise BlockRejected(
                f"block {self._number}: the root of the {tree.name} is 0x{root.hex()}, "
                f"the block's {where} says 0x{claimed.root.hex()}"
            )
        if size != claimed.next_available_leaf_index:
            raise BlockRejected(
                f"block {self._number}: the size of the {tree.name} is {size}, "
                f"the block's {where} says {claimed.next_available_leaf_index}"
            )
