"""Proposed blocks on their way from peers into the chain, before they are on L1.

a judged proposal ──► offer ──► waits for the block before it ──► apply: executed again ──► stored as proposed
                                     │ its slot is over                   │ not what it says: an offense, never shown
                                     ▼                                    ▼
                                  dropped                              dropped

``offer`` comes from threads of the network; ``apply`` from the thread that ingests, which is woken.  The first proposal
of a position is the one that is executed.  What L1 says later stands above it: a block that does not come there is
taken back with its slot.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final

from fastnode.building.reexecution import ProposedBlock, checkpoint_of, follows, reexecute
from fastnode.errors import BlockRejected, ProposalFault, Refused
from fastnode.log import log_facts
from fastnode.records import dataclass
from fastnode.view import View

if TYPE_CHECKING:
    from fastnode.archiver.ingest import Ingestor
    from fastnode.archiver.queries import ChainView
    from fastnode.mempool.clock import SlotClock
    from fastnode.mempool.validation import TxValidator
    from fastnode.p2p.messages.proposals import BlockProposal
    from fastnode.protocol.block import L2Block
    from fastnode.protocol.tx import Tx
    from fastnode.world_state.state import WorldState

__all__ = ["ExecutionParts", "ProposedBlocks"]

logger = logging.getLogger(__name__)

#: Blocks of one slot, and of the next one: more than fit in their checkpoints.
_WAITING_MAX: Final = 128
#: Blocks that are remembered as executed: those of some slots.
_EXECUTED_MAX: Final = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionParts:
    """Parts that the execution of proposed blocks takes.

    ``txs_of`` hashes: all of them with their proofs checked, None while that is not so.  ``messages_of`` a
    checkpoint: None while L1 has not said.  ``on_fault`` is told of proposals that are offenses, by slot.
    """

    state: Callable[[], WorldState]
    validator: TxValidator
    clock: SlotClock
    txs_of: Callable[[Sequence[bytes]], Sequence[Tx] | None]
    messages_of: Callable[[int], Sequence[bytes] | None]
    on_fault: Callable[[BlockProposal], None]


@dataclass(slots=True)
class _Waiting:
    proposal: BlockProposal
    block: ProposedBlock
    #: On the clock of time.monotonic.
    since: float = field(default_factory=time.monotonic)


class ProposedBlocks:
    """``parts`` None: nothing is executed here, and nothing kept.  ``wake``: the thread that ingests."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: dict[bytes, _Waiting] = {}
        self._executed: OrderedDict[bytes, None] = OrderedDict()
        self.parts: ExecutionParts | None = None
        #: True if blocks of a slot are executed; of others only the transactions are kept.
        self.executes: Callable[[int], bool] = lambda slot: True
        #: Proposed blocks by what became of them.
        self.counts: Counter[str] = Counter()

    def offer(self, proposal: BlockProposal) -> None:
        """A proposal of the slot's proposer, whose transactions are here."""
        if self.parts is None:
            return
        if not self.executes(proposal.slot):
            self.counts["not executed"] += 1
            return
        block = ProposedBlock(
            header=proposal.header,
            index=proposal.index,
            in_hash=proposal.in_hash,
            archive_root=proposal.archive_root,
        )
        with self._lock:
            if len(self._waiting) >= _WAITING_MAX:
                self.counts["too many"] += 1
                return
            self._waiting[proposal.archive_root] = _Waiting(proposal, block)
        self._wake()

    def was_executed(self, archive_root: bytes) -> bool:
        """True if the block after which the archive has this root was executed here, and is what its proposal says."""
        with self._lock:
            return archive_root in self._executed

    def apply(self, ingestor: Ingestor) -> int:
        """Store what continues the chain; returns how many blocks.  In the thread that ingests."""
        parts = self.parts
        count = 0
        if parts is None or not self._waiting:
            return count
        self._drop_old(parts, ingestor.view)
        while (waiting := self._next(ingestor.view)) is not None:
            stored = self._store(parts, ingestor, waiting)
            if stored is None:
                break  # it waits for what L1 says
            count += stored
            with self._lock:
                self._waiting.pop(waiting.proposal.archive_root, None)
        return count

    def _next(self, chain: ChainView) -> _Waiting | None:
        with self._lock:
            return next((item for item in self._waiting.values() if follows(chain, item.block)), None)

    def _drop_old(self, parts: ExecutionParts, chain: ChainView) -> None:
        """Drop blocks that are stored, or late.  Another proposed block in the same place may go with its slot."""
        clock = parts.clock
        current = int(clock.now() - clock.genesis_time) // clock.slot_duration
        published = chain.tips.checkpointed.block.number
        with self._lock:
            for root, item in list(self._waiting.items()):
                if chain.block_number_by_archive(root) is not None:
                    self.counts["known"] += 1
                elif item.proposal.slot < current or item.block.header.global_variables.block_number <= published:
                    self.counts["late"] += 1
                else:
                    continue
                del self._waiting[root]

    def _store(self, parts: ExecutionParts, ingestor: Ingestor, waiting: _Waiting) -> int | None:
        """Number of blocks that were stored; None: it cannot be said yet."""
        proposal, view = waiting.proposal, ingestor.view
        messages = parts.messages_of(checkpoint_of(view, waiting.block))
        if messages is None:
            return None
        txs = parts.txs_of(proposal.tx_hashes)
        if txs is None:
            self._drop(proposal, "transactions missing", "transactions of it are gone, or their proofs are not checked")
            return 0
        begun = time.monotonic()
        state = parts.state()
        try:
            block = reexecute(
                View(view, state.view),
                state,
                waiting.block,
                txs,
                messages,
                parts.validator,
                deadline=begun + self._seconds_left(parts, proposal),
            )
            self._ingest(ingestor, proposal, block, messages)
        except ProposalFault as error:
            self._drop(proposal, "invalid", str(error), level=logging.WARNING)
            parts.on_fault(proposal)
            return 0
        except BlockRejected as error:
            self._drop(proposal, "rejected", str(error))
            return 0
        except Refused as error:
            self._drop(proposal, "not judged", error.message)
            return 0
        self.counts["stored"] += 1
        now = time.monotonic()
        facts = log_facts(
            number=block.number,
            slot=proposal.slot,
            txs=len(txs),
            ms=round((now - begun) * 1000, 1),
            waited_ms=round((begun - waiting.since) * 1000, 1),
        )
        logger.info("a proposed block is verified", extra=facts)
        return 1

    def _ingest(self, ingestor: Ingestor, proposal: BlockProposal, block: L2Block, messages: Sequence[bytes]) -> None:
        # Marked before it is stored: who is woken by the commit asks for the mark at once.
        self._mark(proposal.archive_root)
        try:
            ingestor.add_block(block, messages if block.index_within_checkpoint == 0 else ())
        except BaseException as error:
            with self._lock:
                self._executed.pop(proposal.archive_root, None)
            if isinstance(error, BlockRejected):
                # Header and archive are what its transactions give, so only the hash over its blob fields is left.
                raise ProposalFault(str(error)) from error
            raise

    def _mark(self, archive_root: bytes) -> None:
        with self._lock:
            self._executed[archive_root] = None
            while len(self._executed) > _EXECUTED_MAX:
                self._executed.popitem(last=False)

    def _seconds_left(self, parts: ExecutionParts, proposal: BlockProposal) -> float:
        """Until the end of its slot, as for a validator of the reference."""
        clock = parts.clock
        return clock.genesis_time + (proposal.slot + 1) * clock.slot_duration - clock.now()

    def _drop(self, proposal: BlockProposal, outcome: str, reason: str, *, level: int = logging.INFO) -> None:
        self.counts[outcome] += 1
        facts = log_facts(slot=proposal.slot, index=proposal.index, archive=proposal.archive_root, reason=reason)
        logger.log(level, "a proposed block is not taken", extra=facts)
