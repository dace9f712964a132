"""The writer of the world state: opens the database, applies blocks, takes them back, publishes views.

The trees are derived from the chain database and may be behind it after a crash; ``Ingestor.catch_up`` makes
up for that.  One synced batch per block: the database always holds the trees of a whole block.
"""

from __future__ import annotations

import logging
import math
import random
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

from fastnode.archiver.source import GenesisRecord
from fastnode.errors import DatabaseError, DataDirectoryError, HistoryUnavailable
from fastnode.protocol.block import L2Block
from fastnode.protocol.releases import TreeRules
from fastnode.storage.database import WRITE_BUFFER_BYTES, DatabaseMemory, SharedDatabase
from fastnode.storage.giving_back import ENTRY_BYTES, GivingBack
from fastnode.storage.migration import bring_up_to_date
from fastnode.world_state.append_only import Change
from fastnode.world_state.apply import (
    BlockDraft,
    NewestTrees,
    PreparedBlock,
    Seal,
    build_block,
    prepare_block,
    prepare_run,
)
from fastnode.world_state.forest import Forest, block_cache_bytes
from fastnode.world_state.genesis import compute_genesis
from fastnode.world_state.layout import (
    BLOCK,
    CHANGED,
    DROPPED_KEY,
    GENESIS_KEY,
    MIGRATIONS,
    RESET_KEY,
    SCHEMA_KEY,
    SCHEMA_VERSION,
    THIN_KEY,
    TIP_KEY,
    BlockRecord,
    pack_tip,
    u32,
    unpack_changed,
    unpack_tip,
)
from fastnode.world_state.snapshot import Snapshot
from fastnode.world_state.view import WorldStateView

if TYPE_CHECKING:
    from fastnode.world_state.check import StateCheck
    from fastnode.world_state.leaves import LeavesOfBlock
    from fastnode.world_state.range_check import RangeCheck

__all__ = ["WORLD_STATE_DIRECTORY", "WorldState", "open_state_database"]

log = logging.getLogger(__name__)

#: Folder of this database below the data directory.
WORLD_STATE_DIRECTORY: Final = "world_state"
#: Advice for a damaged database.
REMEDY: Final = "remove the folder, and the next start rebuilds it from the chain"
#: At start, what the newest blocks replaced goes back into the memory: this many blocks or leaves, whichever is less.
REMEMBERED_BLOCKS: Final = 1024
REMEMBERED_LEAVES: Final = 20_000
#: History is dropped a few blocks at a time, so that lowering the setting never makes one block take long, nor a start.
PRUNED_BLOCKS_PER_STEP: Final = 16
#: A step ends with the block that takes it beyond so many entries: some 20 ms.
PRUNED_ENTRIES_PER_STEP: Final = 4000
#: History becomes thin so many checkpoints behind the finalized one: wallets prove what they do against blocks of the
#: last day, which has 1,200 slots of 72 s, and most of its history is in the memory.
THIN_BEHIND_CHECKPOINTS: Final = 1200
#: History of fewer checkpoints gives way to runs when as many or more are to come: as many as the network's nodes keep.
SHORT_HISTORY_CHECKPOINTS: Final = 64
KEYS_REMOVED_PER_BATCH: Final = 10_000


def open_state_database(data_directory: Path, cache_mb: int, write_buffer_bytes: int) -> SharedDatabase:
    """The database of a :class:`WorldState` with the same parameters, which are explained there; created if missing."""
    memory = DatabaseMemory(block_cache_bytes(cache_mb), write_buffer_bytes)
    path = data_directory / WORLD_STATE_DIRECTORY
    return SharedDatabase.open(path, create=True, memory=memory, remedy=REMEDY, height_key=TIP_KEY)


class WorldState:
    """The five trees, verified block by block.  A StateApplier: give it to the Ingestor as ``state``.

    One thread writes at a time (the Ingestor sees to that); any thread may read :attr:`view`, which is
    always the newest committed one.  Nothing in a view ever changes.

        genesis = GenesisRecord.from_json(orjson.loads(chain_view.genesis_json()))
        state = WorldState(data_directory, genesis, rules=release.trees, history=0)
        ingestor = Ingestor(store, state=state, on_commit=...)
        ingestor.catch_up()
    """

    def __init__(
        self,
        data_directory: Path,
        genesis: GenesisRecord,
        *,
        rules: TreeRules,
        cache_mb: int = 256,
        history: int = 0,
        takes_runs: bool = False,
        write_buffer_bytes: int = WRITE_BUFFER_BYTES,
        database: SharedDatabase | None = None,
    ) -> None:
        """Open ``<data_directory>/world_state``, or create it from the prefilled data of ``genesis``.

        ``rules`` are those of the chain's release.

        ``cache_mb`` bounds the memory of tree nodes and of the database's cache; ``history`` is the number of
        checkpoints whose blocks can still be read, 0 or less for all.  With ``takes_runs`` nobody asks for blocks
        below those, nor below the block to which the first catch-up leads: :meth:`prepare_run`.  DataDirectoryError:
        in use, unwritable, damaged, of another schema or chain.  StartError: the computed genesis archive root is not
        ``genesis``'s.
        ``database`` is what :func:`open_state_database` gave, where that was called before.
        """
        self._genesis = genesis
        self._cache_mb = cache_mb
        self._history = history
        self._takes_runs = takes_runs
        self._finalized: float = math.inf
        self._views: weakref.WeakSet[WorldStateView] = weakref.WeakSet()
        self._rules = rules
        self._forest = Forest.within(cache_mb, rules)
        self._other_core = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fastnode-trees")
        self._database = database or open_state_database(data_directory, cache_mb, write_buffer_bytes)
        self._closed = False
        try:
            if self._database.get(RESET_KEY) is not None:
                log.warning("the state trees were being removed: finishing that")
                self._clear()
                self._create(genesis)
            elif self._database.is_empty():
                self._create(genesis)
            else:
                _check_schema(self._database)
                _check_chain(self._database, genesis)
            self._open()
        except BaseException:
            self._database.release()
            raise

    # ---- open and close ------------------------------------------------------------------------

    def _create(self, claim: GenesisRecord) -> None:
        # The trees of a genesis that is refused must not stay in the memory either, so a forest of its own.
        forest = Forest.within(0, self._rules)
        genesis = compute_genesis(forest, claim)
        snapshot = Snapshot(self._database)
        try:
            self._database.write(
                [
                    _version_entry(SCHEMA_VERSION),
                    (GENESIS_KEY, claim.block_hash + claim.archive_root),
                    (TIP_KEY, pack_tip(0, 0)),
                    (RESET_KEY, None),
                    *genesis.changes(snapshot),
                ]
            )
        finally:
            snapshot.close()

    def _open(self) -> None:
        newest, oldest = unpack_tip(self._required(TIP_KEY))
        tip = BlockRecord.unpack(newest, self._required(BLOCK + u32(newest)))
        #: Dropped history that is still on the disk.
        self.giving_back = GivingBack(self._database, DROPPED_KEY)
        self._publish(tip, oldest)
        self._forest.open(self.view.snapshot, tip.sizes)
        self._loaded = False

    def load_nodes(self, on_level: Callable[[], None] = lambda: None) -> None:
        """Load the nodes that the memory has room for; without it witnesses are only slower.

        It takes up to a second, so a start does it when requests are answered already.  To be called by the thread
        that commits; the first commit does it otherwise.  ``on_level`` after each level: what it raises ends the
        work until the next call, and it may return to an earlier block.
        """
        while not self._loaded:
            if self._forest.load_next_level(self.view.snapshot, self.view.tip.sizes):
                on_level()
            else:
                self._loaded = True

    def remember_newest_blocks(self, on_block: Callable[[], None] = lambda: None) -> None:
        """Load the history of the newest blocks into memory; without it historic reads are only slower.

        It takes up to a second, so a start does it when requests are answered already.  To be called by the thread
        that commits, before it does; ``on_block`` after each block, and what it raises ends the work.  So does a return
        to an earlier block meanwhile.
        """
        newest = self.view
        first = last = newest.tip.number
        leaves = 0
        end = max(newest.oldest, newest.thin)
        while first > end and last - first < REMEMBERED_BLOCKS and leaves < REMEMBERED_LEAVES:
            leaves += sum(map(len, self._changed_leaves(first)))
            first -= 1
        for number in range(first + 1, last + 1):
            before, after = newest.record(number - 1), newest.record(number)
            for tree, changed in zip(self._forest.indexed, self._changed_leaves(number), strict=True):
                sizes = before.sizes[tree.tree.id], after.sizes[tree.tree.id]
                tree.remember_block(newest.snapshot, number, *sizes, changed)
            on_block()
            if self.view is not newest:
                return

    def close(self) -> None:
        """Stop using the database.  The files close now, or when the last view that a reader holds goes."""
        if not self._closed:
            self._closed = True
            # Not closed: a reader in a thread may hold it, and the last one that does closes it.
            self.__dict__.pop("view", None)
            self._other_core.shutdown()
            self._database.release()

    def __enter__(self) -> WorldState:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def path(self) -> Path:
        return self._database.path

    @property
    def database(self) -> SharedDatabase:
        """For those who watch its writes."""
        return self._database

    @property
    def fault(self) -> str | None:
        """The fault of the database, None for nothing."""
        return self._database.fault

    def memory_bytes(self) -> int:
        """Bytes of tree nodes held in memory."""
        return self._forest.memory_bytes()

    # ---- blocks --------------------------------------------------------------------------------

    @property
    def _trees(self) -> NewestTrees:
        return NewestTrees(self._forest, self.view.snapshot, self.view.tip, self._other_core)

    @property
    def block_number(self) -> int:
        """The newest block whose trees are committed; 0 for the genesis."""
        return self.view.tip.number

    @property
    def block_hash(self) -> bytes:
        """The hash of that block."""
        return self.view.tip.block_hash

    def prepare(self, block: L2Block, l1_to_l2_messages: Sequence[bytes], final_checkpoint: int = 0) -> PreparedBlock:
        """Compute the block's trees; BlockRejected naming block, tree and both roots when one differs.

        Writes nothing.  ``l1_to_l2_messages`` are those of the checkpoint, without padding, for its
        first block, and empty for every other block.  A block far behind ``final_checkpoint``, the newest that is
        final by what is known, has thin history from the beginning.
        """
        is_far_behind = block.checkpoint_number <= final_checkpoint - THIN_BEHIND_CHECKPOINTS
        # Thin history has no gaps: blocks before this one that have more come first.
        is_thin = is_far_behind and max(self.view.thin, self.view.oldest) == self.block_number
        return prepare_block(self._trees, block, l1_to_l2_messages, is_thin=is_thin)

    def newest_of_runs(self, final_checkpoint: int) -> int:
        """The newest checkpoint whose blocks may be applied in runs when ``final_checkpoint`` is final, 0 for none.

        Trees with history that somebody may ask for go on block by block: a run would end it.  A short one gives way
        where there is far to go: it began while nobody could say what is final.
        """
        if not self._takes_runs:
            return 0
        newest = max(0, final_checkpoint - max(0, self._history))
        view, tip = self.view, self.view.tip
        if view.oldest < tip.number:
            kept = tip.checkpoint_number - view.record(view.oldest).checkpoint_number
            if kept >= SHORT_HISTORY_CHECKPOINTS or newest - tip.checkpoint_number < SHORT_HISTORY_CHECKPOINTS:
                return 0
        return newest

    def prepare_run(self, blocks: Sequence[tuple[L2Block, Sequence[bytes]]]) -> PreparedBlock:
        """As :meth:`prepare` for (block, messages) that follow each other, in one step.

        Roots are compared at the end of the run.  Once it is committed, the oldest block that can be read and returned
        to is its last one, so all of its blocks must be final.
        """
        return prepare_run(self._trees, blocks)

    def build(self, draft: BlockDraft, messages: Sequence[bytes], seal: Seal) -> tuple[L2Block, PreparedBlock]:
        """Make the next block from its content; :meth:`commit` what comes with it to build on it.

        ``seal`` makes the header from the archive before the block and the state after it.  ``messages`` as
        in :meth:`prepare`.  BlockRejected when the content breaks a rule of the trees.
        """
        return build_block(self._trees, draft, messages, seal)

    def commit(self, prepared: PreparedBlock) -> None:
        """Write what :meth:`prepare` or :meth:`prepare_run` returned for what comes next, in one synced batch, and
        publish its view."""
        record, tip = prepared.record, self.view.tip
        if prepared.first != tip.number + 1:
            raise DatabaseError(f"block {prepared.first} was prepared, the world state is at block {tip.number}")
        self.load_nodes()
        pruned: list[Change] = []
        oldest = self.view.oldest
        if not prepared.has_history:
            self._forget_history()
            oldest = record.number
        elif self._history > 0:
            pruned, oldest = self._prune(record)
        self._write_pruned(prepared.batch, pruned, record.number, oldest)
        # Memory first: a reader never asks the memory about blocks newer than its view.
        prepared.publish(self._forest)
        self._publish(record, oldest)
        if not prepared.has_history:
            prepared.free()

    def settle(self, finalized: int) -> None:
        """Keep what a return to block ``finalized`` needs, also beyond the history setting, and drop some of the rest
        (:meth:`prune`).

        Until this is called no block counts as one that may be taken back.
        """
        self._finalized = finalized
        self.prune()

    def prune(self) -> bool:
        """Drop the history of some blocks that is beyond the setting; False if there is none.

        To be called by the thread that commits, or while it does not; :meth:`commit` drops as much.
        """
        if self._history <= 0:
            return False
        pruned, oldest = self._prune(self.view.tip)
        if oldest == self.view.oldest:
            return False
        self._write_pruned([], pruned, self.view.tip.number, oldest)
        self._publish(self.view.tip, oldest)
        return True

    def thin(self) -> bool:
        """Drop of the history of some blocks, far behind the finalized one, what follows from the rest; False if there
        is none.  As :meth:`prune`."""
        if self._finalized == math.inf:
            return False
        view = self.view
        final = max(view.oldest, min(view.tip.number, int(self._finalized)))
        newest = view.record(final).checkpoint_number - THIN_BEHIND_CHECKPOINTS
        begin = thin = max(view.thin, view.oldest)
        batch: list[Change] = []
        while thin < min(final, begin + PRUNED_BLOCKS_PER_STEP) and len(batch) <= PRUNED_ENTRIES_PER_STEP:
            if view.record(thin + 1).checkpoint_number > newest:
                break
            thin += 1
            batch.extend(self._following_of(thin))
        if thin == begin:
            return False
        batch.append((THIN_KEY, u32(thin)))
        self._write_pruned([], batch, view.tip.number, view.oldest)
        self._publish(view.tip, view.oldest)
        return True

    def _write_pruned(self, batch: list[Change], pruned: list[Change], number: int, oldest: int) -> None:
        dropped_bytes = ENTRY_BYTES * len(pruned)
        if pruned:
            pruned.append(self.giving_back.entry(dropped_bytes))
        self._database.write([*batch, *pruned, (TIP_KEY, pack_tip(number, oldest))])
        self.giving_back.count(dropped_bytes)

    def end_giving_back(self) -> None:
        """Write that :attr:`giving_back` has merged everything; as :meth:`prune`."""
        tip = TIP_KEY, pack_tip(self.view.tip.number, self.view.oldest)
        self._database.write([self.giving_back.end(), tip])

    def undo_above(self, block_number: int) -> None:
        """Return to the trees after ``block_number``; no-op when not above it.

        HistoryUnavailable, before anything is undone, when that block is below the kept history.
        """
        oldest = self.view.oldest
        if block_number < oldest <= self.view.tip.number:
            raise HistoryUnavailable(
                f"cannot go back to block {block_number}: the world state keeps history from block {oldest} on; "
                f"remove {self._database.path} to rebuild it from the chain database"
            )
        while self.view.tip.number > block_number:
            self._undo_newest()

    def reset(self) -> None:
        """Remove all trees and begin again at the genesis.  Views that readers hold stay as they are.

        A crash in between is finished by the next opening.
        """
        self._database.write([(RESET_KEY, b"")])
        self._clear()
        # Older views go on reading the old memory.
        self._forest = Forest.within(self._cache_mb, self._rules)
        self._finalized = math.inf
        self._create(self._genesis)
        self._open()

    def _clear(self) -> None:
        """Remove every key but the mark of a reset; the versions go first, so that the rest is not taken for whole."""
        self._database.write([(key, None) for key in (TIP_KEY, GENESIS_KEY, SCHEMA_KEY)])
        snapshot = self._database.snapshot()
        try:
            with snapshot.iterator(include_value=False) as keys:
                batch: list[Change] = []
                for key in keys:
                    if key != RESET_KEY:
                        batch.append((key, None))
                    if len(batch) == KEYS_REMOVED_PER_BATCH:
                        self._database.write(batch)
                        batch = []
                self._database.write(batch)
        finally:
            snapshot.close()

    def check(self, *, progress: Callable[[int, int], None] | None = None) -> list[str]:
        """Recompute all roots of the newest block from the leaves; returns the faults found, none if it is whole.

        ``progress(done, in all)`` is called now and then.
        """
        from fastnode.world_state.check import check_trees  # with it comes numpy, which a small installation lacks

        return check_trees(self._forest, self.view, progress=progress)

    def open_check(self, seed: bytes) -> StateCheck:
        """The same in steps, for several processes; ``seed`` as there."""
        from fastnode.world_state.check import StateCheck  # numpy again

        return StateCheck(self._forest, self.view, seed)

    def check_sampled(self) -> list[str]:
        """Follow some leaves of each tree to its root; returns the faults found."""
        from fastnode.world_state.sampled_check import check_sampled  # of use to a command alone

        return check_sampled(self._forest, self.view, random.Random())

    def open_range_check(self) -> RangeCheck:
        """Work out roots of the trees as they are now from leaves that somebody else holds."""
        from fastnode.world_state.range_check import RangeCheck  # numpy again

        return RangeCheck(self._forest, self.view)

    def leaves_at(self, block: int) -> LeavesOfBlock:
        """The leaves of all trees after ``block``, from which they can be made anew; BlockUnavailable as in a view.

        It holds what it reads, so blocks may come and go meanwhile.
        """
        from fastnode.world_state.leaves import LeavesOfBlock  # numpy again

        return LeavesOfBlock(self._forest, self.view, block)

    # ---- undo and prune ------------------------------------------------------------------------

    def _undo_newest(self) -> None:
        tip, oldest = self.view.tip, self.view.oldest
        before = self.view.record(tip.number - 1)
        snapshot = self.view.snapshot
        batch: list[Change] = [(BLOCK + u32(tip.number), None), (CHANGED + u32(tip.number), None)]
        for tree in self._forest.append_only:
            batch.extend(tree.undo(snapshot, before.sizes[tree.tree.id], tip.sizes[tree.tree.id]))
        restored = []
        for indexed, changed in zip(self._forest.indexed, self._changed_leaves(tip.number), strict=True):
            sizes = before.sizes[indexed.tree.id], tip.sizes[indexed.tree.id]
            changes, nodes = indexed.undo(snapshot, tip.number, *sizes, changed)
            batch.extend(changes)
            restored.append((indexed, nodes))
        if self.view.thin > before.number:
            batch.append((THIN_KEY, u32(before.number)))
        # From here on readers of older views leave the memory alone where it concerns the undone block.
        for view in list(self._views):
            view.memory_limit = min(view.memory_limit, before.number)
        self._database.write([*batch, (TIP_KEY, pack_tip(before.number, oldest))])
        for tree in self._forest.append_only:
            tree.resize(before.sizes[tree.tree.id])
        for indexed, nodes in restored:
            indexed.revert(tip.number, nodes)
        self._publish(before, oldest)

    def _changed_leaves(self, number: int) -> list[list[tuple[int, bytes]]]:
        return unpack_changed(self._required(CHANGED + u32(number)), len(self._forest.indexed))

    def _prune(self, newest: BlockRecord) -> tuple[list[Change], int]:
        """Entries that fall out of the history when ``newest`` becomes the tip, and the oldest block that stays."""
        batch: list[Change] = []
        view, oldest = self.view, self.view.oldest
        for _ in range(PRUNED_BLOCKS_PER_STEP):
            if oldest >= min(view.tip.number, self._finalized) or len(batch) > PRUNED_ENTRIES_PER_STEP:
                break
            # The block before the first kept checkpoint stays too: it is what an undo of that checkpoint returns to.
            if view.record(oldest + 1).checkpoint_number > newest.checkpoint_number - self._history:
                break
            oldest += 1
            batch.extend(self._history_of(oldest))
        return batch, oldest

    def _forget_history(self) -> None:
        """Drop all that leads back from the newest block."""
        while self.view.oldest < self.view.tip.number:
            tip, before = self.view.tip, self.view.oldest
            oldest = min(before + PRUNED_BLOCKS_PER_STEP, tip.number)
            dropped = list(chain.from_iterable(map(self._history_of, range(before + 1, oldest + 1))))
            self._write_pruned([], dropped, tip.number, oldest)
            self._publish(tip, oldest)

    def _history_of(self, number: int) -> Iterator[Change]:
        """Drop what leads from block ``number`` back to the one before it."""
        before, after = self.view.record(number - 1), self.view.record(number)
        for tree in (self._forest.note_hashes, self._forest.messages):
            yield from tree.prune(before.sizes[tree.tree.id], after.sizes[tree.tree.id])
        # The archive that a block's header refers to is the one before the block: one more is kept.
        archive_size = before.sizes[self._forest.archive.tree.id]
        yield from self._forest.archive.prune(archive_size - 1, archive_size)
        for indexed, changed in zip(self._forest.indexed, self._changed_leaves(number), strict=True):
            sizes = before.sizes[indexed.tree.id], after.sizes[indexed.tree.id]
            yield from indexed.prune(number, *sizes, changed, is_thin=number <= self.view.thin)
        yield CHANGED + u32(number), None

    def _following_of(self, number: int) -> Iterator[Change]:
        """Drop of what block ``number`` replaced what follows from the rest."""
        before, after = self.view.record(number - 1), self.view.record(number)
        for indexed, changed in zip(self._forest.indexed, self._changed_leaves(number), strict=True):
            yield from indexed.thin(number, before.sizes[indexed.tree.id], after.sizes[indexed.tree.id], changed)

    # ---- database ------------------------------------------------------------------------------

    def _publish(self, tip: BlockRecord, oldest: int) -> None:
        view = WorldStateView(self._database, self._forest, tip, oldest)
        self._views.add(view)
        #: The newest committed view; readers may keep it as long as they like and never close it.
        self.view = view

    def _required(self, key: bytes) -> bytes:
        value = self._database.get(key)
        if value is None:
            raise DatabaseError(f"the world state lacks the key 0x{key.hex()}; {REMEDY}")
        return value


def _version_entry(version: int) -> tuple[bytes, bytes]:
    return SCHEMA_KEY, b"%d" % version


def _check_schema(database: SharedDatabase) -> None:
    value = database.get(SCHEMA_KEY) or b""
    if not value.isdigit():
        raise DataDirectoryError(f"{database.path} is not a fastnode world state database; if it was one, {REMEDY}")
    bring_up_to_date(database, int(value), MIGRATIONS, _version_entry)


def _check_chain(database: SharedDatabase, genesis: GenesisRecord) -> None:
    stored = database.get(GENESIS_KEY) or b""
    given = genesis.block_hash + genesis.archive_root
    if stored != given:
        raise DataDirectoryError(
            f"{database.path} holds the trees of another chain: its genesis archive root is "
            f"0x{stored[32:].hex()}, the given chain's is 0x{genesis.archive_root.hex()}"
        )
