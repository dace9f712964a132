"""One block's effect on the five trees, computed and compared with its header; nothing is written here.

The same computation serves a block that is being made: its header then follows from the trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, wait
from dataclasses import replace
from typing import Final, NamedTuple

from fastnode.errors import BlockRejected
from fastnode.interpreter import free_in_turns
from fastnode.protocol.block import L2Block
from fastnode.protocol.constants import (
    L1_TO_L2_MESSAGES_PER_BLOCK_MAX,
    L1_TO_L2_MESSAGES_PER_CHECKPOINT,
    NOTE_HASHES_PER_TX_MAX,
    NULLIFIERS_PER_TX_MAX,
)
from fastnode.protocol.effects import Body, TxEffect
from fastnode.protocol.header import AppendOnlyTreeSnapshot, BlockHeader, StateReference
from fastnode.records import dataclass
from fastnode.world_state.append_only import Added, AppendOnlyTree, Change, Growth
from fastnode.world_state.forest import Forest
from fastnode.world_state.indexed_tree import LeafChanges, TreeSize
from fastnode.world_state.layout import BLOCK, CHANGED, THIN_KEY, BlockRecord, pack_changed, u32
from fastnode.world_state.snapshot import Snapshot
from fastnode.world_state.trees import ARCHIVE, L1_TO_L2, NOTE_HASH, NULLIFIER, PUBLIC_DATA, TREES, Tree

__all__ = ["BlockDraft", "NewestTrees", "PreparedBlock", "Seal", "build_block", "prepare_block", "prepare_run"]

LEAF_BYTES: Final = 32
#: Blocks from this size on are worth a second thread.
PARALLEL_TXS_MIN: Final = 8

#: Makes a block's header from the archive before the block and the state after it.
Seal = Callable[[AppendOnlyTreeSnapshot, StateReference], BlockHeader]


@dataclass(frozen=True, slots=True)
class PreparedBlock:
    """A verified block, or run of blocks: what it writes, and what then becomes part of the memory."""

    record: BlockRecord
    #: Its first block.
    first: int
    #: Without, nothing before ``record`` can be asked for any more, nor returned to.
    has_history: bool
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

    def free(self) -> None:
        """Give the memory of a run back once it is published, which takes turns: see free_in_turns."""
        for items in (self.batch, self.nullifiers.leaves, self.public_data.leaves):
            free_in_turns(items)


@dataclass(frozen=True, slots=True)
class NewestTrees:
    """The trees after ``tip``, as ``snapshot`` and the memory hold them; ``other_core`` is a thread that stays: to
    start one for each block takes longer than a small block's nullifiers."""

    forest: Forest
    snapshot: Snapshot
    tip: BlockRecord
    other_core: Executor


def prepare_block(
    trees: NewestTrees, block: L2Block, messages: Sequence[bytes], *, is_thin: bool = False
) -> PreparedBlock:
    """Apply ``block`` to the trees.  With ``is_thin`` its history is thin from the beginning.

    ``messages``: the L1->L2 messages that it appends, without padding: those of its checkpoint, if it is the first
    block of one, or its own in a release with compact messages.  BlockRejected naming block, tree and both roots (or
    sizes) when they differ from the header's.
    """
    application = _Application(trees, [_content_of(block, messages)], is_thin=is_thin)
    application.require_follows()
    application.require_same(ARCHIVE, "lastArchive", block.header.last_archive)
    application.grow()
    application.require_state(block)
    prepared = application.finish(block.hash(), block.checkpoint_number)
    application.require_same(ARCHIVE, "archive", block.archive)
    return prepared


def prepare_run(trees: NewestTrees, blocks: Sequence[tuple[L2Block, Sequence[bytes]]]) -> PreparedBlock:
    """Apply (block, messages) that follow each other in one step, messages as for :func:`prepare_block`.

    The roots are compared at the end of the run.  Its last archive root binds every header in it, so the roots that
    these name are the chain's; that they follow from the blocks is only known at the end.  Nothing of what is replaced
    is kept.  BlockRejected when anything does not fit; which block that is, their application one by one tells.
    """
    last = blocks[-1][0]
    application = _Application(trees, [_content_of(*item) for item in blocks], history=False)
    application.require_follows()
    application.require_same(ARCHIVE, "lastArchive", blocks[0][0].header.last_archive)
    application.grow()
    application.require_state(last)
    prepared = application.finish_run([block for block, _ in blocks])
    application.require_same(ARCHIVE, "archive", last.archive)
    return prepared


@dataclass(frozen=True, slots=True)
class BlockDraft:
    """A block to be made: what it holds and where it stands."""

    body: Body
    checkpoint_number: int
    index_within_checkpoint: int


def build_block(
    trees: NewestTrees, draft: BlockDraft, messages: Sequence[bytes], seal: Seal
) -> tuple[L2Block, PreparedBlock]:
    """The block that follows the newest one with this content, and what it does to the trees.

    ``messages`` as for :func:`prepare_block`.  BlockRejected when the content breaks a rule of the trees.
    """
    is_first = draft.index_within_checkpoint == 0
    content = _Content(trees.tip.number + 1, draft.body.tx_effects, messages, is_first)
    application = _Application(trees, [content])
    last_archive = application.snapshot_of(ARCHIVE)
    application.grow()
    state = StateReference.of_trees(
        l1_to_l2_message_tree=application.snapshot_of(L1_TO_L2),
        note_hash_tree=application.snapshot_of(NOTE_HASH),
        nullifier_tree=application.snapshot_of(NULLIFIER),
        public_data_tree=application.snapshot_of(PUBLIC_DATA),
    )
    header = seal(last_archive, state)
    prepared = application.finish(header.hash(), draft.checkpoint_number)
    archive = application.snapshot_of(ARCHIVE)
    return L2Block(archive, header, draft.body, draft.checkpoint_number, draft.index_within_checkpoint), prepared


class _Content(NamedTuple):
    """Content of a block; messages only of the first block of a checkpoint."""

    number: int
    effects: Sequence[TxEffect]
    messages: Sequence[bytes]
    is_first: bool


def _content_of(block: L2Block, messages: Sequence[bytes]) -> _Content:
    return _Content(block.number, block.body.tx_effects, messages, block.index_within_checkpoint == 0)


class _Application:
    """``grow`` computes the state trees, ``finish`` the archive and the batch; in between the header is known."""

    def __init__(
        self, trees: NewestTrees, contents: Sequence[_Content], *, history: bool = True, is_thin: bool = False
    ) -> None:
        self._forest = trees.forest
        self._snapshot = trees.snapshot
        self._tip = tip = trees.tip
        self._other_core = trees.other_core
        self._contents = contents
        self._number = contents[-1].number
        self._has_history = history
        self._is_thin = is_thin
        self._roots = list(tip.roots)
        self._sizes = list(tip.sizes)
        self._growths: list[tuple[AppendOnlyTree, Growth, Sequence[Added]]] = []
        self._nullifiers: LeafChanges
        self._public_data: LeafChanges

    def grow(self) -> None:
        """The state trees."""
        if sum(len(content.effects) for content in self._contents) < PARALLEL_TXS_MIN:
            self._grow_append_only()
            self._nullifiers = self._insert_nullifiers()
            self._public_data = self._write_public_data()
            return
        # The trees share nothing, and hashing holds no lock: two cores take half of the time.
        nullifiers = self._other_core.submit(self._insert_nullifiers)
        try:
            self._grow_append_only()
            self._public_data = self._write_public_data()
        finally:
            # Also after a refusal: whoever takes the database away next must not meet a reader there.
            wait([nullifiers])
        self._nullifiers = nullifiers.result()

    def _grow_append_only(self) -> None:
        self._append(
            self._forest.messages, [(content.number, self._message_leaves(content)) for content in self._contents]
        )
        self._append(
            self._forest.note_hashes, [(content.number, self._note_hash_leaves(content)) for content in self._contents]
        )

    def finish(self, block_hash: bytes, checkpoint_number: int) -> PreparedBlock:
        self._append(self._forest.archive, [(self._number, block_hash)])
        record = BlockRecord(self._number, tuple(self._roots), tuple(self._sizes), block_hash, checkpoint_number)
        batch = self._batch([record])
        changed = pack_changed([self._nullifiers.changed_leaves(), self._public_data.changed_leaves()])
        batch.append((CHANGED + u32(self._number), changed))
        if self._is_thin:
            batch.append((THIN_KEY, u32(self._number)))
        return self._prepared(record, batch)

    def finish_run(self, blocks: Sequence[L2Block]) -> PreparedBlock:
        """As :meth:`finish`; the roots of its blocks but the last are those that their headers name."""
        archive = self._forest.archive
        records = [_record_of(block) for block in blocks]
        size_before = self._sizes[ARCHIVE.id]
        self._append(archive, [(record.number, record.block_hash) for record in records])
        record = replace(records[-1], roots=tuple(self._roots), sizes=tuple(self._sizes))
        batch = self._batch([*records[:-1], record])
        # Edges that only older trees need go, but for the archive before the last block, which its header refers to.
        for tree in self._forest.append_only:
            size = self._tip.sizes[tree.tree.id]
            batch.extend(tree.prune(size, self._sizes[tree.tree.id]))
        batch.extend(archive.prune(size_before - 1, size_before))
        hashes = b"".join([earlier.block_hash for earlier in records[:-1]])
        batch.append(archive.edge_at(self._snapshot, size_before, hashes))
        return self._prepared(record, batch)

    def _prepared(self, record: BlockRecord, batch: list[Change]) -> PreparedBlock:
        return PreparedBlock(
            record=record,
            first=self._contents[0].number,
            has_history=self._has_history,
            batch=batch,
            growths=tuple((tree, growth) for tree, growth, _ in self._growths),
            nullifiers=self._nullifiers,
            public_data=self._public_data,
        )

    def snapshot_of(self, tree: Tree) -> AppendOnlyTreeSnapshot:
        """Root and size of a tree as far as it has been computed."""
        return AppendOnlyTreeSnapshot(self._roots[tree.id], self._sizes[tree.id])

    # ---- inputs --------------------------------------------------------------------------------

    def _message_leaves(self, content: _Content) -> bytes:
        """Return the leaves of a block's messages.

        With compact messages they are its own, at most 1,024 in a checkpoint; else 1,024 leaves for the first block of
        a checkpoint, even when it has no messages, and none for others.
        """
        number, messages = content.number, content.messages
        if self._forest.rules.has_compact_messages:
            _require_at_most(number, "L1->L2 messages", len(messages), L1_TO_L2_MESSAGES_PER_BLOCK_MAX)
            return b"".join(messages)
        if not content.is_first:
            if messages:
                raise BlockRejected(f"block {number}: L1->L2 messages given, expected none after a first block")
            return b""
        _require_at_most(number, "L1->L2 messages", len(messages), L1_TO_L2_MESSAGES_PER_CHECKPOINT)
        return b"".join(messages).ljust(L1_TO_L2_MESSAGES_PER_CHECKPOINT * LEAF_BYTES, b"\0")

    def _note_hash_leaves(self, content: _Content) -> bytes:
        """64 leaves for each transaction."""
        parts = []
        for effect in content.effects:
            count = len(effect.note_hashes)
            _require_at_most(content.number, "note hashes of a transaction", count, NOTE_HASHES_PER_TX_MAX)
            parts.append(b"".join(effect.note_hashes).ljust(NOTE_HASHES_PER_TX_MAX * LEAF_BYTES, b"\0"))
        return b"".join(parts)

    # ---- trees ---------------------------------------------------------------------------------

    def _append(self, tree: AppendOnlyTree, added: Sequence[Added]) -> None:
        leaves = b"".join([leaves for _, leaves in added])
        if leaves:
            growth = tree.prepare(self._snapshot, self._sizes[tree.tree.id], leaves)
            self._growths.append((tree, growth, added))
            self._put(tree.tree, growth.root, growth.size)

    def _before(self, tree: Tree) -> TreeSize:
        return TreeSize(self._sizes[tree.id], self._roots[tree.id])

    def _insert_nullifiers(self) -> LeafChanges:
        groups = [(content.number, effect.nullifiers) for content in self._contents for effect in content.effects]
        for number, nullifiers in groups:
            _require_at_most(number, "nullifiers of a transaction", len(nullifiers), NULLIFIERS_PER_TX_MAX)
        changes = self._forest.nullifiers.insert_padded(
            self._snapshot,
            self._before(NULLIFIER),
            groups,
            NULLIFIERS_PER_TX_MAX,
            block=self._number,
            history=self._has_history,
        )
        self._put(NULLIFIER, changes.root, changes.size)
        return changes

    def _write_public_data(self) -> LeafChanges:
        writes = [
            (content.number, write.leaf_slot, write.value)
            for content in self._contents
            for effect in content.effects
            for write in effect.public_data_writes
        ]
        changes = self._forest.public_data.write_sequence(
            self._snapshot, self._before(PUBLIC_DATA), writes, block=self._number, history=self._has_history
        )
        self._put(PUBLIC_DATA, changes.root, changes.size)
        return changes

    def _put(self, tree: Tree, root: bytes, size: int) -> None:
        self._roots[tree.id] = root
        self._sizes[tree.id] = size

    def _batch(self, records: Sequence[BlockRecord]) -> list[Change]:
        batch: list[Change] = []
        for tree, growth, added in self._growths:
            batch.extend(tree.changes(self._snapshot, growth, added))
        batch.extend(self._forest.nullifiers.changes(self._nullifiers, is_thin=self._is_thin))
        batch.extend(self._forest.public_data.changes(self._public_data, is_thin=self._is_thin))
        batch.extend((BLOCK + u32(record.number), record.pack()) for record in records)
        return batch

    # ---- checks --------------------------------------------------------------------------------

    def require_follows(self) -> None:
        for number, content in enumerate(self._contents, self._tip.number + 1):
            if content.number != number:
                raise BlockRejected(f"block {content.number}: the world state is at block {number - 1}")

    def require_state(self, block: L2Block) -> None:
        """The state trees are those that the header of ``block`` names."""
        state = block.header.state
        self.require_same(L1_TO_L2, "state", state.l1_to_l2_message_tree)
        self.require_same(NOTE_HASH, "state", state.note_hash_tree)
        self.require_same(NULLIFIER, "state", state.nullifier_tree)
        self.require_same(PUBLIC_DATA, "state", state.public_data_tree)

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


def _require_at_most(number: int, what: str, count: int, maximum: int) -> None:
    if count > maximum:
        raise BlockRejected(f"block {number}: number of {what} is {count}, at most {maximum} allowed")


def _record_of(block: L2Block) -> BlockRecord:
    """Roots and sizes after ``block`` as it names them."""
    state = block.header.state
    by_tree = {
        NULLIFIER: state.nullifier_tree,
        NOTE_HASH: state.note_hash_tree,
        PUBLIC_DATA: state.public_data_tree,
        L1_TO_L2: state.l1_to_l2_message_tree,
        ARCHIVE: block.archive,
    }
    return BlockRecord(
        number=block.number,
        roots=tuple(by_tree[tree].root for tree in TREES),
        sizes=tuple(by_tree[tree].next_available_leaf_index for tree in TREES),
        block_hash=block.hash(),
        checkpoint_number=block.checkpoint_number,
    )
