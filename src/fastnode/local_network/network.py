"""The local network: one thread that builds blocks when it should and changes the chain when it is told to.

    network = LocalNetwork(options, ingestor, state, directory, lambda: mempool)
    network.set_up()                         # before anything is served: the first blocks of a new chain
    network.run()                            # in the thread that ingests, until ``stop``
    network.forward(tx, tx_json)             # a transaction that the pool has taken
    network.do(lambda: network.mine(3))      # from any other thread

Blocks are built

    automine     the moment a transaction arrives; those that come meanwhile go into the next block
    interval     every so many seconds, with what waits
    manual       when asked for

and always when the newest block is half a day old: a transaction lives for a day after the block that it was proven
against, and once that is older than a day no transaction can be included any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import orjson

from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.source import CheckpointRecord
from fastnode.building.budget import BlockOptions
from fastnode.building.jobs import JobQueue
from fastnode.errors import DatabaseFull, FastnodeError, Refused
from fastnode.local_network.callers import Callers
from fastnode.local_network.chain_files import StateDump
from fastnode.local_network.clock import ChainClock, SlotTime
from fastnode.local_network.fees import LocalFees, mana_of
from fastnode.local_network.finality import final_checkpoint
from fastnode.local_network.forking import check_fork
from fastnode.local_network.genesis import SetupBlock
from fastnode.local_network.kept_state import SnapshotRecord, StateFile
from fastnode.local_network.l1_away import L1AwayError
from fastnode.local_network.messages import messages_max, messages_of_checkpoint, open_messages
from fastnode.local_network.mining import Mined, Miner
from fastnode.local_network.options import Fork, LocalNetworkOptions, options_of
from fastnode.local_network.synthetic import balances_effect
from fastnode.local_network.transactions import TransactionNotes
from fastnode.local_network.wallet_reads import WalletReads
from fastnode.log import log_facts
from fastnode.loop import Setbacks
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.tips import L2Tips
from fastnode.protocol.tx import Tx
from fastnode.records import dataclass
from fastnode.sources.sync_control import SyncControl
from fastnode.view import View
from fastnode.world_state.state import WorldState

if TYPE_CHECKING:
    from fastnode.config.settings import Settings
    from fastnode.local_network.attached_l1 import AttachedL1
    from fastnode.mempool.service import Mempool

__all__ = ["LocalNetwork"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Longest time that the answer to a transaction waits for its block, in seconds.
ANSWER_WAIT_S: Final = 5.0
#: A block is built when the newest one is this much older than the next would be.
KEEP_ALIVE_S: Final = 43_200
#: Interval at which the age of the newest block is looked at, in seconds.
KEEP_ALIVE_CHECK_S: Final = 30.0
#: Interval at which a full disk is looked at, in seconds.
ROOM_CHECK_S: Final = 1.0
#: Transactions that are kept decoded from their arrival to their block.
DECODED_MAX: Final = 256


class DecodedTxs:
    """Transactions from their arrival to their block, the newest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._txs: OrderedDict[bytes, Tx] = OrderedDict()

    def invariant(self) -> None:
        """AssertionError unless each is under its hash, and there are not too many."""
        with self._lock:
            assert len(self._txs) <= DECODED_MAX
            assert all(tx.hash == tx_hash for tx_hash, tx in self._txs.items())

    def put(self, tx: Tx) -> None:
        with self._lock:
            self._txs[tx.hash] = tx
            if len(self._txs) > DECODED_MAX:
                self._txs.popitem(last=False)

    def get(self, tx_hash: bytes) -> Tx | None:
        with self._lock:
            return self._txs.get(tx_hash)

    def forget(self, tx_hash: bytes) -> None:
        with self._lock:
            self._txs.pop(tx_hash, None)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """State of what begins blocks, replaced as a whole."""

    #: Time of the next block that is built in any case, by the monotonic clock; None: none is.
    next_at: float | None = None
    #: True since there was no room on the disk for a block; a block that is there ends it.
    is_full: bool = False


class LocalNetwork:
    """Methods below "changes" belong to the thread that runs; hand them over with :meth:`do`.

        SETTING UP ── the first blocks are there ──► WAITING ── a transaction, an interval, a job, a message ──► MINING
                                                     ▲  │ ▲                                                        │
                  the operator goes on ── HELD ◄─────┘──┘ ├── a block, or nothing to put into one ─────────────────┤
                                                          └── there is room again ── FULL ◄── no room on the disk ─┘

    HELD is ``is_held``; FULL is in its :class:`Rhythm`.  In both only a block that is asked for by
    itself is built.
    """

    def __init__(
        self,
        options: LocalNetworkOptions,
        ingestor: Ingestor,
        state: WorldState,
        directory: Path,
        mempool: Callable[[], Mempool],
        *,
        control: SyncControl | None = None,
        wall: Callable[[], float] = time.time,
        l1: AttachedL1 | None = None,
    ) -> None:
        """``directory``: where the state beside the chain is stored; ``mempool``: there once the network runs."""
        self.options = options
        self._ingestor = ingestor
        self._state = state
        self._control = control or SyncControl()
        self._file = StateFile(directory)
        chain = ingestor.view.chain
        self.clock = ChainClock(SlotTime(chain.l1_genesis_time, chain.slot_duration), self._tip, wall=wall)
        self._take_kept()
        self.miner = Miner(ingestor, lambda: self._state, self.clock, self._messages_of)
        self.l1 = l1
        if l1 is not None:
            self.miner.published_at = lambda variables: l1.published_at(variables.timestamp)
        self.fees = LocalFees(chain.epoch_duration, options.limits.mana_limit)
        self.notes = TransactionNotes()
        self.wallet_reads = WalletReads()
        #: Resets the network to another chain; None: this process cannot.
        self.on_reset: Callable[[Fork], None] | None = None
        self._mempool = mempool
        self._jobs = JobQueue("the local network", self._control.wake)
        self._decoded = DecodedTxs()
        self._callers = Callers()
        #: True while the operator wants no blocks but those that are asked for one by one.
        self.is_held: Callable[[], bool] = lambda: False
        self._rhythm = Rhythm()
        self._dump = StateDump(options.dump_file)
        self._setbacks = Setbacks("the local network builds no blocks")
        self._apply_kept()
        self._count_mana()

    def invariant(self) -> None:
        """AssertionError unless what is counted, waited for and kept can be so."""
        kept, due = self.kept, self._rhythm.next_at
        assert kept.interval_s is None or kept.interval_s >= 0
        assert due is None or due > 0
        assert min(self.fees.usage) >= 0
        assert self.l1 is None or self.miner.published_at is not None

    # ---- life --------------------------------------------------------------------------------

    @property
    def mempool(self) -> Mempool:
        """Pool whose transactions blocks are made of."""
        return self._mempool()

    @property
    def view(self) -> View:
        """The chain as it is stored now."""
        return self.miner.view

    def set_up(self, blocks: Sequence[SetupBlock]) -> None:
        """Build the first blocks of a chain that has none: these, or an empty one.

        A transaction that was proven against the genesis block can be included in block 1 alone, so there must be a
        block before the first wallet comes.
        """
        self._look_at_l1()
        for block in blocks[self._ingestor.view.tip_number :]:
            # One slot for each block: they lie in the past.
            self.clock.time.next_timestamp = self.clock.slots.start_of(self.tip_slot() + 1)
            self.miner.store_effects(block.effects, block.gas_fees, block.mana, block.blob)
            if self.l1 is not None:
                self._settle()
        if self._ingestor.view.tip_number == 0 or self._is_too_old():
            self.miner.store_effects((), self.fees.current())
        self._settle()

    def continue_at_checkpoint(self) -> None:
        """Take back what is behind the last complete checkpoint of a chain that was built elsewhere."""
        checkpointed = self._ingestor.view.tips.checkpointed.block.number
        if self._ingestor.view.tip_number > checkpointed:
            logger.info("the blocks of an unfinished checkpoint are left out", extra=log_facts(tip=checkpointed))
            self._ingestor.undo_above(checkpointed)
        self._count_mana()

    def give_fee_juice(self, amounts: Mapping[bytes, int]) -> None:
        """In a block of its own, before anything is served."""
        if amounts:
            fee_juice = self._ingestor.view.chain.release.addresses.fee_juice
            self.miner.store_effects((balances_effect(amounts, fee_juice),), self.fees.current())
            self._settle()

    def run(self) -> None:
        """Work until the node stops.  StopRequested, as from every pass point."""
        try:
            self.restart_interval()
            while True:
                self._control.pass_point()
                self._jobs.work()
                try:
                    self._mine_when_due()
                except FastnodeError:
                    raise
                except Exception as error:  # noqa: BLE001 - no transaction or change may end the network
                    self._callers.release()
                    self._control.sleep(self._setbacks.note(error))
                    continue
                self._setbacks.end()
                self._control.sleep(self._idle_s())
        finally:
            self._jobs.close()
            self._dump.write(self._ingestor.view)
            self._callers.release()

    def faults(self) -> dict[str, str | None]:
        """Faults that keep it from its work, by name, None for nothing."""
        return {"blocks": self._setbacks.reason} | ({} if self.l1 is None else self.l1.faults())

    def reconfigure(self, settings: Settings, options: BlockOptions | None = None) -> None:
        """Build by other settings from the next block on; from any thread."""
        self.options = options_of(settings, self._ingestor.view.chain, options)
        self._apply_kept()
        self.wake()

    def request_reset(self, fork: Fork) -> None:
        """Reset the network in a new process.  Refused where that cannot be done."""
        if self.on_reset is None:
            raise Refused("This network runs inside another program: it goes back by fastnode_revert only")
        check_fork(fork, self.options.fork_sources)
        before, self._dump = self._dump, StateDump(None)
        try:
            self.on_reset(fork)
        except Refused:
            self._dump = before
            raise

    def wake(self) -> None:
        """Look again at what there is to do, such as a transaction that has come."""
        self._control.wake()

    def interrupt(self) -> None:
        """End all waits once the node stops, also those for a thread that never ran."""
        self._jobs.close()
        self._callers.release()
        self._control.wake()

    def do(self, job: Callable[[], _T]) -> _T:
        """Have the thread that runs do it; returns what it returns."""
        return self._jobs.run(job)

    def pool_time(self) -> int:
        """The pool's current time, in seconds: with it, a transaction that comes now is for the next block's slot."""
        constants = self._ingestor.view.chain.l1_constants
        return self.clock.next_timestamp() - int(constants.get("ethereumSlotDuration", constants["slotDuration"]))

    # ---- transactions arrive -----------------------------------------------------------------

    def forward(self, tx: Tx, _tx_json: bytes) -> None:
        """A transaction is in the pool.  Returns when its block is there, if one is built for it now."""
        self._decoded.put(tx)
        if (
            self.is_held()
            or not self.is_automining
            or self.mempool.pool.pending_count < self.options.limits.txs_per_block_min
        ):
            return
        is_done = self._callers.join()
        self._control.wake()
        is_done.wait(ANSWER_WAIT_S)

    # ---- when blocks are built -----------------------------------------------------------------

    @property
    def is_automining(self) -> bool:
        return self.options.automine if self.kept.automine is None else self.kept.automine

    @property
    def interval_s(self) -> float | None:
        """Seconds between two blocks that are built in any case."""
        return self.options.interval_s if self.kept.interval_s is None else (self.kept.interval_s or None)

    def _mine_when_due(self) -> None:
        try:
            if self._rhythm.is_full:
                self._ingestor.catch_up()
            self._follow_l1()
            if self.is_held():
                self._callers.release()
                return
            self._mine_what_waits()
            self._mine_at_interval()
            self._keep_alive()
        except (L1AwayError, DatabaseFull) as error:
            # Transactions go on waiting; the health of the node says why.
            self._callers.release()
            if isinstance(error, DatabaseFull) and not self._rhythm.is_full:
                self._rhythm = replace(self._rhythm, is_full=True)  # one line until there is a block
                logger.error("the local network waits for room on the disk", extra=log_facts(reason=str(error)))

    def _follow_l1(self) -> None:
        """Take what happened on L1: its time, messages, and a proven tip that was moved there."""
        if self.l1 is None or not self.l1.has_news():
            return
        self._look_at_l1()
        tips = self._ingestor.view.tips
        if tips.proven.checkpoint.number < self.l1.proven_there <= tips.checkpointed.checkpoint.number:
            self.move_tips(proven=self.l1.proven_there)
        self.write_l1()
        wants_messages = self.is_automining and not self.is_held() and self._has_messages_to_come
        if self.wallet_reads.allow(is_wanted=wants_messages):
            while self._has_messages_to_come:
                self.mine_one(may_be_empty=True)

    @property
    def _has_messages_to_come(self) -> bool:
        newest = self._ingestor.view.tips.checkpointed.checkpoint.number
        return self.l1 is not None and self.l1.newest_checkpoint_with_messages > newest

    def _look_at_l1(self) -> None:
        if self.l1 is not None:
            self.l1.refresh()
            self.clock.follow(self.l1.timestamp)

    def write_l1(self) -> None:
        """Write the state of the chain into the contracts on L1."""
        if self.l1 is not None:
            self.l1.publish(self._ingestor.view)

    def _mine_what_waits(self) -> None:
        if not self.is_automining:
            return
        # A waiting caller has put its transaction into the pool before: it is tried now.
        waiting = self._callers.take()
        try:
            while self.mempool.pool.pending_count >= max(1, self.options.limits.txs_per_block_min):
                if self.mine_one(may_be_empty=False) is None:
                    return
        finally:
            self._callers.release(waiting)

    def _mine_at_interval(self) -> None:
        due = self._rhythm.next_at
        if due is not None and time.monotonic() >= due:
            self.restart_interval()
            self.mine_one(may_be_empty=True)

    def restart_interval(self) -> None:
        interval = self.interval_s
        self._rhythm = replace(self._rhythm, next_at=None if interval is None else time.monotonic() + interval)

    def _keep_alive(self) -> None:
        if self._is_too_old():
            logger.info("an empty block keeps the chain alive", extra=log_facts(after=self._ingestor.view.tip_number))
            self.mine_one(may_be_empty=True)

    def _is_too_old(self) -> bool:
        """True if the newest block is so old that transactions proven against it could soon not be included."""
        return self.clock.next_timestamp() - self._tip()[1] > KEEP_ALIVE_S

    def _idle_s(self) -> float:
        longest = KEEP_ALIVE_CHECK_S if self.l1 is None else self.l1.poll_s
        if self._rhythm.is_full:
            longest = ROOM_CHECK_S
        due = self._rhythm.next_at
        return longest if due is None else max(0.0, min(longest, due - time.monotonic()))

    # ---- one block -----------------------------------------------------------------------------

    def mine_one(self, *, may_be_empty: bool, txs: Sequence[Tx] | None = None) -> Mined | None:
        """A block of ``txs``, or of what waits."""
        started = time.perf_counter()
        pool, validator = self.mempool.pool, self.mempool.validator
        self._look_at_l1()
        self._keep()
        limits = replace(self.options.limits, txs_per_block_min=0) if may_be_empty else self.options.limits
        candidates = self._candidates() if txs is None else txs
        outcome, mined = self.miner.mine(candidates, self.fees.current(), limits, validator, may_be_empty=may_be_empty)
        for left_out in outcome.left_out:
            if left_out.is_final:
                self.notes.on_dropped(left_out.tx.hash, left_out.reason)
                pool.drop(left_out.tx.hash, left_out.reason)
        if mined is None:
            return None
        for tx, executed in outcome.included:
            self.notes.on_executed(tx, executed)
            self._decoded.forget(tx.hash)
        self._on_block(outcome.total_mana_used)
        took_ms = round((time.perf_counter() - started) * 1000, 1)
        extra = log_facts(number=mined.number, txs=len(outcome.included), left_out=len(outcome.left_out), ms=took_ms)
        logger.info("mined", extra=extra)
        return mined

    def store_effect(self, effect: TxEffect) -> int:
        """A block with an effect that no transaction had; returns its number."""
        self._look_at_l1()
        number = self.miner.store_effects((effect,), self.fees.current())
        self._on_block(0)
        return number

    def undo_above(self, block_number: int, *, keep_txs: bool, force: bool) -> None:
        """Take blocks back.  Their transactions wait again, or are dropped.

        Refused for a block below the finalized one, which wallets rely on to stay, unless by ``force``.
        """
        chain = self._ingestor.view
        final = chain.tips.finalized.block.number
        if block_number < final and not force:
            raise Refused(
                f"Block {final} is finalized, and wallets rely on it: fastnode_revert and nodeAdmin_rollbackTo go back "
                f"to block {block_number} if they are called with force"
            )
        undone = [
            tx_hash
            for number in range(block_number + 1, chain.tip_number + 1)
            for tx_hash in chain.tx_hashes(number) or ()
        ]
        self._ingestor.undo_above(block_number)
        if not keep_txs:
            for tx_hash in undone:
                self.notes.on_dropped(tx_hash, "its block was taken back")
                self.mempool.pool.drop(tx_hash, "block undone")
        self._forget_undone()
        self._settle()
        self.keep()

    def on_rolled_back(self) -> None:
        """Called when an operator has rolled the chain back, before blocks are built again."""
        self._forget_undone()
        self.keep()

    def _forget_undone(self) -> None:
        self.kept.snapshots = [item for item in self.kept.snapshots if self._has_block(item)]
        self._count_mana()

    def take_checkpoint(self, record: CheckpointRecord) -> None:
        """A checkpoint of a chain file; what is there in its place is taken back.

        Refused when a validator's limits do not accept it.
        """
        first = record.block_headers[0].global_variables.block_number
        stored = self._ingestor.view.checkpoint(record.number)
        if stored is not None and stored.header_hash == record.header.hash():
            return
        reason = self.options.acceptance.refusal(record.published.checkpoint.blocks)
        if reason is not None:
            raise Refused(f"Checkpoint {record.number} is not accepted: {reason}")
        if first <= self._ingestor.view.tip_number:
            self.undo_above(first - 1, keep_txs=False, force=True)
        self._ingestor.apply(record)
        self._rhythm = replace(self._rhythm, is_full=False)
        self._count_mana()
        self._settle()

    def txs_of_block(self, number: int) -> list[Tx]:
        """Transactions of a block that the pool still has."""
        pool = self.mempool.pool
        texts = [pool.tx_json(tx_hash) for tx_hash in self._ingestor.view.tx_hashes(number) or ()]
        return [Tx.from_json(orjson.loads(text), pool.release) for text in texts if text is not None]

    def _candidates(self) -> Iterator[Tx]:
        """Waiting transactions, the best first; twice as many as can be in a block, as some may have to be left out."""
        pool = self.mempool.pool
        for tx_hash in pool.pending_hashes(limit=2 * self.options.limits.txs_per_block):
            tx = self._decoded.get(tx_hash)
            if tx is None:
                tx_json = pool.tx_json(tx_hash)
                tx = None if tx_json is None else Tx.from_json(orjson.loads(tx_json), pool.release)
            if tx is not None:
                yield tx

    def _on_block(self, mana: int) -> None:
        """A block is stored."""
        self._rhythm = replace(self._rhythm, is_full=False)
        self.fees.on_block(mana)
        taken = min(len(self.kept.messages), messages_max(self._ingestor.view))
        self.kept.messages = self.kept.messages[taken:]
        self._settle()
        self._keep()

    def _messages_of(self, checkpoint_number: int) -> Sequence[bytes]:
        if self.l1 is not None:
            return self.l1.messages_of(checkpoint_number)
        view = self._ingestor.view
        return messages_of_checkpoint(view, self.kept.messages, view.tip_number, checkpoint_number)

    # ---- tips ------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Move the proven and the finalized tip."""
        tips = self._ingestor.view.tips
        proven = tips.proven.checkpoint.number if self.options.manual_proving else tips.checkpointed.checkpoint.number
        self.move_tips(proven=proven)

    def move_tips(self, *, proven: int, final: int | None = None) -> None:
        """``final`` None: what follows from ``proven`` and the age of the blocks."""
        chain = self._ingestor.view
        if final is None:
            final = final_checkpoint(
                chain, proven=proven, lag=self.options.finality_lag, pinned_block=self._oldest_snapshot_block()
            )
        tips = chain.tips
        self._ingestor.set_tips(
            L2Tips(
                proposed=tips.proposed,
                checkpointed=tips.checkpointed,
                proven=chain.tip_of_checkpoint(max(proven, tips.proven.checkpoint.number)),
                finalized=chain.tip_of_checkpoint(max(final, tips.finalized.checkpoint.number)),
            )
        )
        self.write_l1()

    def _oldest_snapshot_block(self) -> int | None:
        return min((snapshot.block for snapshot in self.kept.snapshots), default=None)

    # ---- what is kept ------------------------------------------------------------------------------

    def _keep(self) -> None:
        try:
            self._file.write(self.kept)
        except Exception:  # as after a restart: what was not written down is not so
            self._take_kept()
            raise

    def _take_kept(self) -> None:
        self.kept = self._file.read()
        if self.kept.eth_per_fee_asset is None:
            self.kept.eth_per_fee_asset = self.options.eth_per_fee_asset
        self.clock.time = self.kept.time
        self.kept.messages = open_messages(self._ingestor.view, self.kept.messages)
        self.kept.snapshots = [item for item in self.kept.snapshots if self._has_block(item)]

    def _has_block(self, snapshot: SnapshotRecord) -> bool:
        """False for a snapshot of a block that was taken back, or that a database lost when it was recovered."""
        info = self._ingestor.view.block_info(snapshot.block)
        return info is not None and info.hash == snapshot.block_hash

    def keep(self) -> None:
        """Write down what was changed beside the chain."""
        self.kept.time = self.clock.time
        self._keep()
        self._apply_kept()

    def _apply_kept(self) -> None:
        kept = self.kept
        self.miner.coinbase = self.options.coinbase if kept.coinbase is None else kept.coinbase
        self.miner.fee_recipient = self.options.fee_recipient
        if kept.eth_per_fee_asset is not None:
            self.fees.eth_per_fee_asset = kept.eth_per_fee_asset
        self.fees.fixed = kept.fixed_fee
        if kept.l1_fees is not None:
            self.fees.l1_fees = kept.l1_fees

    def tip_slot(self) -> int:
        return self._tip()[0]

    def view_timestamp(self) -> int:
        """Time of the newest block."""
        return self._tip()[1]

    def _tip(self) -> tuple[int, int]:
        info = self._ingestor.view.block_info(self._ingestor.view.tip_number)
        assert info is not None
        return info.slot_number, info.timestamp

    def _count_mana(self) -> None:
        self.fees.usage = mana_of(self._ingestor.view)
