"""The only writer of the chain database.

Everything a source delivers goes through an :class:`Ingestor`: it is checked, handed to the state
applier, written as one synced batch per block, and published as a new view.  Giving it something
that is stored already changes nothing, so that any import can be started again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from typing import Any, Final

from fastnode.archiver import layout
from fastnode.archiver.commit import ChainCommit
from fastnode.archiver.entries import (
    Entries,
    block_entries,
    block_info,
    block_keys,
    checkpoint_entries,
    checkpoint_keys,
    message_entries,
    message_keys,
    publication_json,
)
from fastnode.archiver.gathered_run import GatheredBlock, GatheredRun, RunSize
from fastnode.archiver.hooks import IndexWriter, StateApplier
from fastnode.archiver.messages import (
    first_index_after,
    has_compact_messages,
    in_hash_before,
    messages_by_block,
    messages_of_stored_block,
)
from fastnode.archiver.packing import packing_step
from fastnode.archiver.progress import IngestionProgress
from fastnode.archiver.pruning import prune_step
from fastnode.archiver.queries import stored_block, stored_info
from fastnode.archiver.records import BlockInfo
from fastnode.archiver.source import (
    BlockRecord,
    CheckpointRecord,
    MovedRecord,
    Publication,
    Record,
    TipsRecord,
)
from fastnode.archiver.store import ArchiverStore
from fastnode.archiver.tips import require_tips, tips_after_undo
from fastnode.archiver.verification import (
    SKIPPED_WITHOUT_VERIFICATION,
    CheckpointVerifier,
    Verification,
    check_new_messages,
    is_known_checkpoint,
    require,
    require_same_block,
    require_same_messages,
    require_unknown,
)
from fastnode.errors import BlockRejected, DatabaseError, HistoryUnavailable
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.tips import L2Tips
from fastnode.records import dataclass
from fastnode.storage.database import WriteBatch

__all__ = ["Ingestor", "Verification"]

log = logging.getLogger(__name__)

#: Blocks removed in one batch.  A longer undo takes several, and a marker makes it resumable.
UNDO_BLOCKS_PER_BATCH: Final = 512
#: A run of stored blocks is not worth the history that ends there when it has fewer.
RUN_BLOCKS_MIN: Final = 2
#: Not below any number of a checkpoint.
_NEWEST: Final = 2**32


@dataclass(frozen=True, slots=True)
class _CheckedCheckpoint:
    """A checkpoint that passed every check: what is left is to write it."""

    infos: Sequence[BlockInfo]
    new_blocks: Sequence[L2Block]
    #: L1->L2 messages that each of ``new_blocks`` appends.
    messages: Sequence[Sequence[bytes]]
    record: Entries


class Ingestor:
    """Checks, writes and publishes.  Safe to call from any thread; calls run one after another.

    ``view`` is what a source goes on from: the newest committed view, or, while final blocks are gathered, the
    chain with these.  Reading it is one attribute read.  ``on_commit`` is told of each commit with the new view, in the
    writing thread, when the state applier is at the same block; an undo is announced once, when all of it is done.

    Far behind, blocks that are final may be applied in runs, when the state applier takes them:
    :attr:`final_checkpoint` says which are, and :meth:`flush` ends a run.
    """

    def __init__(
        self,
        store: ArchiverStore,
        *,
        verification: Verification = Verification.FULL,
        state: StateApplier | None = None,
        index_writers: Sequence[IndexWriter] = (),
        on_commit: Callable[[ChainCommit], None] | None = None,
    ) -> None:
        self._store = store
        self._verification = verification
        self._state = state
        self._index_writers = tuple(index_writers)
        self._on_commit = on_commit
        self._lock = threading.RLock()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="archiver-write")
        self.progress = IngestionProgress()
        #: Level of the one line for each new block.
        self.block_log_level = logging.DEBUG
        self._open_checkpoint: CheckpointVerifier | None = None  # of the newest proposed block
        self._run: GatheredRun | None = None
        #: The newest checkpoint that is final by what the source says, also if it is not stored yet.
        self.final_checkpoint = 0
        self.view = store.open_view()
        if verification is Verification.NONE:
            log.warning("verification is off: %s", SKIPPED_WITHOUT_VERIFICATION)
        self._finish_interrupted_undo()

    @property
    def store(self) -> ArchiverStore:
        return self._store

    @property
    def takes_runs(self) -> bool:
        """True if saying what is final before it is stored is of any use."""
        return self._state is not None and self._state.newest_of_runs(_NEWEST) > 0

    @property
    def is_far_behind(self) -> bool:
        """True while there is more that is final than what is stored."""
        return self.view.tips.checkpointed.checkpoint.number < self.final_checkpoint

    def apply(self, record: Record) -> int:
        """Apply one record of a source; returns how many blocks were new."""
        if isinstance(record, CheckpointRecord):
            if is_known_checkpoint(self.view, record):
                return 0
            return self.add_checkpoint(record.published, record.l1_to_l2_messages)
        if isinstance(record, BlockRecord):
            return int(self.add_block(record.block, record.l1_to_l2_messages))
        if isinstance(record, TipsRecord):
            self.set_tips(record.tips)
        elif isinstance(record, MovedRecord):
            self.move_checkpoints(record.publications)
        elif record.is_below_final:
            self.rebuild_above(record.block_number)
        else:
            self.undo_above(record.block_number)
        return 0

    def catch_up(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Bring the state applier to the newest stored block; returns how many blocks it was behind.

        To be called before anything is added: the trees are behind after a crash, or when their database is
        new.  ``progress(done, total)`` counts blocks.  Trees that are ahead or on another fork (an older copy
        of the chain database was put back) first go back to a block of the chain.  DatabaseError when they
        cannot go back so far, or when they refuse a stored block.
        """
        if self._state is None:
            return 0
        with self._lock:
            self._run = None
            # A write that failed for the state alone has left the chain ahead of the view.
            self.view = self._store.open_view()
            tip = self.view.tip_number
            self._return_to_chain(self._state)
            self._state.settle(self.view.tips.finalized.block.number)
            start = self._state.block_number
            if start < tip and start + 1 < self.view.oldest_body:
                raise DatabaseError(
                    f"the state trees are at block {start} and cannot catch up: bodies of blocks are kept from block "
                    f"{self.view.oldest_body} on (--keep-blocks); restore a snapshot, or sync again into an empty data "
                    f"directory"
                )
            if start < tip:
                log.info("state trees are at block %d, the chain at %d: catching up", start, tip)
            number = start
            while number < tip:
                number += self._apply_stored_run(self._state, number + 1) or self._apply_stored_block(
                    self._state, number + 1
                )
                if progress is not None:
                    progress(number - start, tip - start)
            return tip - start

    def _apply_stored_run(self, state: StateApplier, first: int) -> int:
        """Apply the stored blocks from ``first`` on as one run; returns how many, 0 if they are not for a run."""
        blocks = self._stored_run(state, first)
        while len(blocks) >= RUN_BLOCKS_MIN:
            try:
                prepared = state.prepare_run(blocks)
            except BlockRejected as error:
                _log_refused_run(blocks[0][0].number, blocks[-1][0].number, error)
                del blocks[len(blocks) // 2 :]
            else:
                state.commit(prepared)
                return len(blocks)
        return 0

    def _stored_run(self, state: StateApplier, first: int) -> list[tuple[L2Block, Sequence[bytes]]]:
        newest = state.newest_of_runs(self.view.tips.finalized.checkpoint.number)
        blocks = []
        size = RunSize()
        for number in range(first, self.view.tip_number + 1):
            if stored_info(self.view, number).checkpoint_number > newest or size.is_reached:
                break
            block, messages = self._stored_block_with_messages(number)
            blocks.append((block, messages))
            size.add(block)
            size.byte_count += len(self.view.body_json(number) or b"")
        return blocks

    def _return_to_chain(self, state: StateApplier) -> None:
        """Bring trees that are ahead of the chain, or on another fork, back to a block of it.

        Without history they begin again at the genesis, if the chain has the bodies of all blocks.
        """
        try:
            self._undo_to_chain(state)
        except HistoryUnavailable as error:
            if self.view.oldest_body > 1:
                raise
            log.warning("state trees cannot go back to the chain (%s): rebuilding them from block 1", str(error))
            state.reset()

    def _undo_to_chain(self, state: StateApplier) -> None:
        if state.block_number > self.view.tip_number:
            log.warning(
                "state trees are at block %d, the chain at %d: going back", state.block_number, self.view.tip_number
            )
        state.undo_above(self.view.tip_number)
        while state.block_number > 0 and state.block_hash != stored_info(self.view, state.block_number).hash:
            log.warning("state trees are on another fork at block %d: going back", state.block_number)
            state.undo_above(state.block_number - 1)

    def _apply_stored_block(self, state: StateApplier, number: int) -> int:
        try:
            final = self.view.tips.finalized.checkpoint.number
            state.commit(state.prepare(*self._stored_block_with_messages(number), final))
        except BlockRejected as error:
            raise DatabaseError(f"the state trees refuse the stored block {number}: {error}") from error
        return 1

    def _stored_block_with_messages(self, number: int) -> tuple[L2Block, Sequence[bytes]]:
        return stored_block(self.view, number), messages_of_stored_block(self.view, number)

    # ---- checkpoints ---------------------------------------------------------------------

    def add_checkpoint(self, published: PublishedCheckpoint, messages: Sequence[bytes]) -> int:
        """Store a published checkpoint with its L1->L2 messages (without padding).

        Returns how many of its blocks were new.  BlockRejected, and nothing of it is stored, when a check
        fails or when it contradicts what is stored (undo first).
        """
        with self._lock:
            if published.checkpoint.number <= self.view.tips.checkpointed.checkpoint.number:
                self._confirm_checkpoint(published, messages)
                return 0
            with self.progress.phase("verify"):
                checked = self._check_checkpoint(published, messages)
            self._store_checkpoint(published.checkpoint.number, checked)
            return len(checked.new_blocks)

    def check_checkpoint(self, published: PublishedCheckpoint, messages: Sequence[bytes]) -> None:
        """BlockRejected unless :meth:`add_checkpoint` would store it as the next one.  Nothing is written."""
        with self._lock:
            self._check_checkpoint(published, messages)

    def _check_checkpoint(self, published: PublishedCheckpoint, messages: Sequence[bytes]) -> _CheckedCheckpoint:
        checkpoint, view = published.checkpoint, self.view
        last = view.checkpoint(view.tips.checkpointed.checkpoint.number)
        parent = stored_info(self.view, last.last_block if last else 0)
        require(f"checkpoint {checkpoint.number}", "number", checkpoint.number, parent.checkpoint_number + 1)
        first_index = first_index_after(view, parent.number, checkpoint.number)
        is_new = not checkpoint.blocks or checkpoint.blocks[0].number > view.tip_number
        check_new_messages(self.view, checkpoint.number, messages, first_index)
        verifier = self._verifier(parent)
        seen: set[bytes] = set()
        for block in checkpoint.blocks:
            info = verifier.check_block(block, block.hash())
            if info.number <= view.tip_number:
                require_same_block(self.view, info)
            else:
                require_unknown(self.view, block, seen)
        self._check_following_block(verifier)
        if not is_new:
            require_same_messages(self.view, checkpoint.number, messages)
        shared = messages_by_block(view, checkpoint.blocks, messages) if checkpoint.blocks else []
        epoch = checkpoint.header.slot_number // view.chain.epoch_duration
        in_hash = in_hash_before(view, checkpoint.number)
        out_hash = verifier.check_checkpoint(checkpoint, messages, self._out_hashes_of_epoch(epoch), in_hash)
        stored_count = max(0, view.tip_number - parent.number)
        return _CheckedCheckpoint(
            infos=verifier.infos,
            new_blocks=checkpoint.blocks[stored_count:],
            messages=shared[stored_count:],
            record=checkpoint_entries(published, header_hash=checkpoint.header.hash(), out_hash=out_hash),
        )

    def _check_following_block(self, verifier: CheckpointVerifier) -> None:
        """A block stored behind the checkpoint's last one must belong to the next checkpoint."""
        following = self.view.block_info(verifier.tip.number + 1)
        if following is not None:
            where = f"block {following.number}, stored behind the last block of checkpoint {verifier.number}"
            require(where, "checkpointNumber", following.checkpoint_number, verifier.number + 1)

    def _out_hashes_of_epoch(self, epoch: int) -> list[bytes]:
        checkpoints = (self.view.checkpoint(number) for number in self.view.checkpoint_numbers_of_epoch(epoch))
        return [checkpoint.out_hash for checkpoint in checkpoints if checkpoint is not None]

    def _store_checkpoint(self, number: int, checked: _CheckedCheckpoint) -> None:
        self._open_checkpoint = None
        tip_before = self.view.tip_number
        if not checked.new_blocks:
            self._commit(checked.record, checkpointed=number)
            return
        new_infos = checked.infos[-len(checked.new_blocks) :]
        try:
            for block, info, messages in zip(checked.new_blocks, new_infos, checked.messages, strict=True):
                is_last = block is checked.new_blocks[-1]
                self._store_block(
                    GatheredBlock(
                        block,
                        info,
                        messages,
                        record=checked.record if is_last else {},
                        checkpointed=number if is_last else None,
                        return_to=tip_before,
                    )
                )
        except BlockRejected:
            # The state applier refused a later block of the checkpoint: take back the earlier ones.
            self.undo_above(tip_before)
            raise

    def _confirm_checkpoint(self, published: PublishedCheckpoint, messages: Sequence[bytes]) -> None:
        """The checkpoint's number is known: it must be the same one.  Where L1 has it may have changed."""
        checkpoint = published.checkpoint
        where = f"checkpoint {checkpoint.number}"
        stored = self.view.checkpoint(checkpoint.number)
        if stored is None:
            raise BlockRejected(f"{where}: number is {checkpoint.number}, expected at least 1")
        require(f"{where}, known already", "header hash", checkpoint.header.hash(), stored.header_hash)
        require(
            f"{where}, known already",
            "feeAssetPriceModifier",
            checkpoint.fee_asset_price_modifier,
            stored.fee_asset_price_modifier,
        )
        require(f"{where}, known already", "number of blocks", len(checkpoint.blocks), stored.block_count)
        for block in checkpoint.blocks:
            require_same_block(self.view, block_info(block, block.hash()))
        require_same_messages(self.view, checkpoint.number, messages)
        record = checkpoint_entries(published, header_hash=stored.header_hash, out_hash=stored.out_hash)
        if record[layout.checkpoint_key(stored.number)] != stored.encode():
            self._commit(record)

    def move_checkpoints(self, publications: Sequence[Publication]) -> None:
        """Name the blocks of L1 that have these stored checkpoints now: all in one batch, so that no reader sees some
        of them.  BlockRejected, and nothing is written, when one is not stored."""
        with self._lock:
            self.flush()
            record: Entries = {}
            for given in publications:
                stored = self.view.checkpoint(given.number)
                if stored is None:
                    raise BlockRejected(f"checkpoint {given.number} has moved on L1, and is not stored")
                require(f"checkpoint {given.number}, moved on L1", "header hash", given.header_hash, stored.header_hash)
                l1_json, attestations_json = publication_json(given.l1, given.attestations)
                moved = stored._replace(l1_json=l1_json, attestations_json=attestations_json)
                if moved != stored:
                    record[layout.checkpoint_key(given.number)] = moved.encode()
            if record:
                self._commit(record)

    # ---- blocks --------------------------------------------------------------------------

    def add_block(self, block: L2Block, messages: Sequence[bytes] = ()) -> bool:
        """Store a proposed block behind the newest one; returns False when it is stored already.

        ``messages``: the L1->L2 messages that it appends: those of its checkpoint, if it is the checkpoint's first
        block, or its own where messages are compact.
        """
        with self._lock:
            if 1 <= block.number <= self.view.tip_number:
                require_same_block(self.view, block_info(block, block.hash()))
                if block.index_within_checkpoint == 0 and messages and not has_compact_messages(self.view):
                    require_same_messages(self.view, block.checkpoint_number, messages)
                return False
            is_first = block.index_within_checkpoint == 0
            if is_first or has_compact_messages(self.view):
                first_index = first_index_after(self.view, self.view.tip_number, block.checkpoint_number)
                check_new_messages(self.view, block.checkpoint_number, messages, first_index)
            elif messages:
                raise BlockRejected(f"block {block.number}: L1->L2 messages given, expected none after a first block")
            verifier = self._verifier_for_next_block(is_first=is_first)
            self._open_checkpoint = None  # a rejection leaves the verifier useless
            with self.progress.phase("verify"):
                info = verifier.check_block(block, block.hash())
                require_unknown(self.view, block, set())
            self.flush()
            self._store_at_once(GatheredBlock(block, info, messages, {}, None, info.number - 1))
            self._open_checkpoint = verifier
            return True

    def _verifier(self, parent: BlockInfo) -> CheckpointVerifier:
        chain = self.view.chain
        return CheckpointVerifier(
            parent,
            chain_id=chain.l1_chain_id,
            version=chain.rollup_version,
            mode=self._verification,
            release=chain.release,
        )

    def _verifier_for_next_block(self, *, is_first: bool) -> CheckpointVerifier:
        tip = stored_info(self.view, self.view.tip_number)
        complete = self.view.tips.checkpointed.checkpoint.number == tip.checkpoint_number
        if is_first or complete:
            return self._verifier(tip)
        if self._open_checkpoint is not None and self._open_checkpoint.tip == tip:
            return self._open_checkpoint
        # After a restart or an undo: run once more through the blocks of the unfinished checkpoint.
        start = tip.number - tip.index_within_checkpoint
        verifier = self._verifier(stored_info(self.view, start - 1))
        for number in range(start, tip.number + 1):
            verifier.pass_block(stored_block(self.view, number), stored_info(self.view, number).hash)
        return verifier

    def _store_block(self, checked: GatheredBlock) -> None:
        """Store a block of a checkpoint that has passed all checks: of no other may anybody say that it is final."""
        if self._state is not None and self._is_for_a_run(self._state, checked.info):
            self._gather(self._state, checked)
        else:
            self.flush()
            self._store_at_once(checked)

    def _store_at_once(self, checked: GatheredBlock) -> None:
        begun = time.perf_counter()
        phase = self.progress.phase
        prepared = None
        if self._state is not None:
            with phase("state"):
                self._require_state_at_tip(self._state)
                prepared = self._state.prepare(checked.block, checked.messages, self._known_final())
        with phase("render"):
            batch = self._batch_of(self._entries(checked))
            for writer in self._index_writers:
                writer.write(batch, checked.block)
        # Both wait for the disk, so they wait together.
        writing = self._writer.submit(batch.commit)
        try:
            if self._state is not None:
                with phase("write_state"):
                    self._state.commit(prepared)
        finally:
            with phase("write"):
                writing.result()
        self._publish((checked.block,))
        self._report(checked.info, time.perf_counter() - begun)

    def _entries(self, checked: GatheredBlock) -> Entries:
        """Entries of a block in the chain database, and the tips after it."""
        info = checked.info
        entries = block_entries(checked.block, info.hash, epoch_duration=self.view.chain.epoch_duration)
        if checked.messages:
            first = first_index_after(self.view, info.number - 1, info.checkpoint_number)
            earlier = self.view.l1_to_l2_messages(info.checkpoint_number) if info.index_within_checkpoint else ()
            entries |= message_entries(info.checkpoint_number, checked.messages, first, earlier)
        entries |= checked.record
        tips = self.view.stored_tips()._replace(proposed_block=info.number)
        if checked.checkpointed is not None:
            tips = tips._replace(checkpointed=checked.checkpointed)
        entries[layout.KEY_TIPS] = tips.encode()
        return entries

    # ---- runs ----------------------------------------------------------------------------

    def _is_for_a_run(self, state: StateApplier, info: BlockInfo) -> bool:
        return info.checkpoint_number <= state.newest_of_runs(self._known_final())

    def _known_final(self) -> int:
        return max(self.final_checkpoint, self.view.tips.finalized.checkpoint.number)

    def _gather(self, state: StateApplier, checked: GatheredBlock) -> None:
        if self._run is None:
            self._require_state_at_tip(state)
            self._run = GatheredRun(self._store)
        run = self._run
        with self.progress.phase("render"):
            run.add(checked, self._entries(checked))
            for writer in self._index_writers:
                writer.write(run.batch, checked.block)
        self.view = run.open_view()
        # Only whole checkpoints, so that a block of one that is refused takes none from a run before.
        if run.is_complete and checked.checkpointed is not None:
            self.flush()

    def flush(self) -> None:
        """Apply and write what is gathered.  BlockRejected naming the first block that does not fit; those before it
        are stored then."""
        with self._lock:
            run, self._run = self._run, None
            if run is None or self._state is None:
                return
            begun = time.perf_counter()
            try:
                with self.progress.phase("state"):
                    prepared = self._state.prepare_run([(item.block, item.messages) for item in run.blocks])
            except BlockRejected as error:
                self.view = self._store.open_view()
                self._store_in_parts(run.blocks, self._state, error)
                return
            except BaseException:
                self.view = self._store.open_view()
                raise
            self._write_run(run, self._state, prepared)
            self._publish(tuple(item.block for item in run.blocks))
            self._state.settle(self.view.tips.finalized.block.number)
            seconds = time.perf_counter() - begun
            count = len(run.blocks)
            while run.blocks:  # freed one by one, or they would hold the interpreter together
                self._report(run.blocks.popleft().info, seconds / count)

    def _write_run(self, run: GatheredRun, state: StateApplier, prepared: Any) -> None:
        """The chain first: the trees cannot be taken back into a run, and catch up with the chain at a start."""
        try:
            with self.progress.phase("write"):
                run.commit()
        except BaseException:
            self.view = self._store.open_view()
            raise
        with self.progress.phase("write_state"):
            state.commit(prepared)

    def _store_in_parts(self, blocks: Sequence[GatheredBlock], state: StateApplier, error: BlockRejected) -> None:
        """Store what a refused run has, half of its checkpoints at a time, until only the bad one is left.

        So that what comes after it, from another source, is again for runs: no block before has left history.
        """
        _log_refused_run(blocks[0].info.number, blocks[-1].info.number, error)
        checkpoints = [list(items) for _, items in groupby(blocks, key=lambda item: item.return_to)]
        if len(checkpoints) == 1:
            self._store_one_by_one(blocks)
            return
        middle = len(checkpoints) // 2
        for part in (checkpoints[:middle], checkpoints[middle:]):
            for items in part:
                for item in items:
                    self._gather(state, item)
            self.flush()

    def _store_one_by_one(self, blocks: Sequence[GatheredBlock]) -> None:
        for item in blocks:
            try:
                self._store_at_once(item)
            except BlockRejected:
                # A checkpoint goes as a whole when one of its blocks is refused.
                self.undo_above(item.return_to)
                raise

    def _report(self, info: BlockInfo, seconds: float) -> None:
        self.progress.blocks += 1
        self.progress.txs += info.tx_count
        if log.isEnabledFor(self.block_log_level):
            facts = {
                "number": info.number,
                "hash": info.hash,
                "txs": info.tx_count,
                "checkpoint": info.checkpoint_number,
                "ms": round(seconds * 1000, 1),
            }
            log.log(self.block_log_level, "block", extra={"facts": facts})

    def _require_state_at_tip(self, state: StateApplier) -> None:
        if state.block_number != self.view.tip_number:
            raise DatabaseError(
                f"the state trees are at block {state.block_number}, the chain at {self.view.tip_number}: "
                f"they have to catch up first"
            )

    # ---- tips ----------------------------------------------------------------------------

    def set_tips(self, tips: L2Tips) -> None:
        """Move the proven and the finalized tip to where ``tips`` has them.

        All four must name stored blocks and checkpoints by their hashes, in order: finalized <= proven <=
        checkpointed <= proposed.  The first two follow from what is stored and are only compared.
        """
        with self._lock:
            require_tips(self.view, tips)
            proven, finalized = tips.proven.checkpoint.number, tips.finalized.checkpoint.number
            stored = self.view.stored_tips()
            if (stored.proven, stored.finalized) == (proven, finalized):
                return
            if self._run is not None:
                # A run moves them, with its blocks.
                self._run.put_tips(stored._replace(proven=proven, finalized=finalized))
                self.view = self._run.open_view()
            else:
                if self._state is not None:
                    self._state.settle(tips.finalized.block.number)
                self._commit({}, proven=proven, finalized=finalized)

    # ---- beside the blocks ---------------------------------------------------------------

    @contextmanager
    def between_blocks(self) -> Iterator[bool]:
        """Work of another thread on what is stored; False when blocks are written now, and it has to come again."""
        if not self._lock.acquire(blocking=False):
            yield False
            return
        try:
            yield True
        finally:
            self._lock.release()

    def prune_bodies(self, keep: int) -> bool:
        """Drop the bodies of some blocks below the newest ``keep`` up to the finalized one; False if there is none.

        To be called :meth:`between_blocks`.  Nothing goes while the state trees are behind: they catch up from bodies.
        """
        if self._run is not None or (self._state is not None and self._state.block_number != self.view.tip_number):
            return False
        if not prune_step(self._store, self.view, self._index_writers, keep):
            return False
        self.view = self._store.open_view()
        return True

    def pack_texts(self) -> bool:
        """Bring some of what an older fastnode has stored to the form of this one; False if there is none.  As
        :meth:`prune_bodies`."""
        if self._run is not None or not packing_step(self._store, self.view, self._index_writers):
            return False
        self.view = self._store.open_view()
        return True

    # ---- undo ----------------------------------------------------------------------------

    def undo_above(self, block_number: int) -> int:
        """Remove every block above ``block_number`` and all that belongs to it; returns how many.

        A checkpoint that loses a block is no longer complete: what is left of it counts as proposed.  The
        other tips are lowered to what remains.
        """
        if block_number < 0:
            raise ValueError(f"cannot undo above block {block_number}")
        with self._lock:
            if block_number < self.view.tip_number:
                self.flush()
            count = self.view.tip_number - block_number
            if count <= 0:
                return 0
            self._require_bodies_above(block_number)
            if self._state is not None:
                self._state.undo_above(block_number)
            self._undo_in_steps(block_number)
            self.progress.add_undo(count)
            # Once, at the end: in between the state trees are at the target already, and the chain is not.
            self._announce(undone=range(block_number + 1, block_number + count + 1))
            return count

    def rebuild_above(self, block_number: int, progress: Callable[[int, int], None] | None = None) -> int:
        """As :meth:`undo_above`, but the trees are removed and rebuilt from the stored blocks.

        For a target that the trees keep no history of, or when they are not to be trusted.  ``progress`` as in
        :meth:`catch_up`; the new view is announced when all is done, and readers keep the old one until then.
        """
        if self._state is None or block_number >= self.view.tip_number:
            return self.undo_above(block_number)
        with self._lock:
            self.flush()
            self._require_bodies_above(0)
            count = self.view.tip_number - block_number
            self._state.reset()
            self._undo_in_steps(block_number)
            self.catch_up(progress)
            self.progress.add_undo(count)
            self._announce(undone=range(block_number + 1, block_number + count + 1))
            return count

    def _require_bodies_above(self, block_number: int) -> None:
        """DatabaseError unless all blocks above have their bodies, with those of the checkpoint that is cut."""
        view = self.view
        first = stored_info(view, block_number + 1)
        if first.number - first.index_within_checkpoint < view.oldest_body:
            needed = "it needs" if block_number else "the state trees are rebuilt, which needs"
            raise DatabaseError(
                f"cannot go back: {needed} the bodies of blocks from {first.number} on, and they are kept from block "
                f"{view.oldest_body} on (--keep-blocks); restore a snapshot, or sync again into an empty data directory"
            )

    def _undo_in_steps(self, target: int) -> None:
        self._open_checkpoint = None
        while self.view.tip_number > target:
            step = max(target, self.view.tip_number - UNDO_BLOCKS_PER_BATCH)
            batch = self._store.write_batch()
            for number in range(self.view.tip_number, step, -1):
                self._remove_block(batch, number)
            batch.put(layout.KEY_TIPS, tips_after_undo(self.view, step).encode())
            if step > target:
                batch.put(layout.KEY_UNDO, layout.encode_number(target))
            else:
                batch.delete(layout.KEY_UNDO)
            batch.commit()
            self.view = self._store.open_view()

    def _remove_block(self, batch: WriteBatch, number: int) -> None:
        view = self.view
        info = stored_info(self.view, number)
        if self._index_writers:
            block = stored_block(self.view, number)
            for writer in reversed(self._index_writers):
                writer.undo(batch, block)
        keys = block_keys(info, view.tx_hashes(number) or [])
        checkpoint = view.checkpoint(info.checkpoint_number)
        if checkpoint is not None:
            keys += checkpoint_keys(checkpoint)
        messages = messages_of_stored_block(view, number)
        for key in (*keys, *message_keys(messages)):
            batch.delete(key)
        if messages:
            # The blocks that stay have the messages before those of this one.
            whole = view.l1_to_l2_messages(info.checkpoint_number)
            key, kept = layout.l1_to_l2_key(info.checkpoint_number), whole[: whole.index(messages[0])]
            batch.put(key, b"".join(kept)) if kept else batch.delete(key)

    def _finish_interrupted_undo(self) -> None:
        target = self.view.get(layout.KEY_UNDO)
        if target is not None:
            log.warning("finishing an interrupted undo to block %d", layout.decode_number(target))
            self._undo_in_steps(layout.decode_number(target))

    # ---- writing -------------------------------------------------------------------------

    def _batch_of(self, entries: Entries) -> WriteBatch:
        batch = self._store.write_batch()
        for key, value in entries.items():
            batch.put(key, value)
        return batch

    def _commit(self, entries: Entries, **tips: int) -> None:
        """One batch without a block: a checkpoint's record, or moved tips."""
        self.flush()
        batch = self._batch_of(entries)
        batch.put(layout.KEY_TIPS, self.view.stored_tips()._replace(**tips).encode())
        batch.commit()
        self._publish()

    def _publish(self, blocks: tuple[L2Block, ...] = ()) -> None:
        self.view = self._store.open_view()
        self._announce(blocks)

    def _announce(self, blocks: tuple[L2Block, ...] = (), undone: range = range(0)) -> None:
        if self._on_commit is not None:
            self._on_commit(ChainCommit(self.view, blocks, undone))

    def close(self) -> None:
        """Release the newest view.  It closes with the last reader that holds it, never under one.

        What is gathered and not flushed is lost, and comes again from the source.
        """
        self._run = None
        self._writer.shutdown()
        self.__dict__.pop("view", None)


def _log_refused_run(first: int, last: int, error: BlockRejected) -> None:
    log.warning("blocks %d to %d do not fit together (%s): applying them in parts", first, last, error)
