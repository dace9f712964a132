"""The blocks of one checkpoint: executed, sealed and stored as proposed, each in its part of the slot."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from fastnode.building.budget import BuildingLimits, CheckpointBudget
from fastnode.building.checkpoint import CheckpointDraft
from fastnode.building.checks import block_check
from fastnode.errors import SlotLost
from fastnode.ha.duty import DutyType
from fastnode.log import log_facts
from fastnode.mempool.ledger import ViewLedger
from fastnode.p2p.messages.proposals import SignedTxs, signed_txs_digest, wire_signature
from fastnode.protocol.checkpoint import L1PublishedData, PublishedCheckpoint
from fastnode.protocol.header import GlobalVariables
from fastnode.protocol.messages import in_hash
from fastnode.public_execution.block import BlockOutcome, execute_block
from fastnode.publishing import digests
from fastnode.records import dataclass
from fastnode.view import View

if TYPE_CHECKING:
    from fastnode.loop import Loop
    from fastnode.mempool.pool import TxPool
    from fastnode.mempool.validation import TxValidator
    from fastnode.sequencing.candidates import Candidates
    from fastnode.sequencing.chain import ProposedChain
    from fastnode.sequencing.gossip import ValidatorGossip
    from fastnode.sequencing.l1_publication import KeyDoor
    from fastnode.sequencing.timetable import Timetable

__all__ = ["Drafted", "Drafting"]

logger = logging.getLogger("fastnode.sequencer")

#: Until L1 has a checkpoint it is nowhere on L1.
_NOWHERE: Final = L1PublishedData(0, 0, bytes(32))
#: Interval at which a wait for transactions looks again, in seconds.
_LOOK_S: Final = 0.25
#: Transactions that are tried for each one that a block may have: some may have to be left out.
_TRIED_PER_TX: Final = 2


@dataclass(frozen=True, slots=True)
class Drafted:
    """A checkpoint whose blocks are stored, and nothing else of it.  ``parent``: the chain before it."""

    draft: CheckpointDraft
    published: PublishedCheckpoint
    parent: View

    @property
    def messages(self) -> tuple[bytes, ...]:
        return self.draft.messages

    @property
    def tx_count(self) -> int:
        return sum(len(block.body.tx_effects) for block in self.draft.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """Used by the proposer's thread, for one slot.

    ``elapsed`` gives the seconds since the build start; ``loop`` is woken when a transaction has come;
    ``proposer`` signs each block, None: there is no committee, and they are not signed.
    """

    chain: ProposedChain
    candidates: Candidates
    pool: TxPool
    validator: TxValidator
    limits: BuildingLimits
    timetable: Timetable
    elapsed: Callable[[], float]
    loop: Loop
    door: KeyDoor
    proposer: bytes | None
    may_be_empty: bool = False
    #: None: peers are not told of blocks before L1 has them.
    gossip: ValidatorGossip | None = None
    #: Transactions go with the block that has them.
    shares_txs: bool = False

    def draft(self, parent: View, variables: GlobalVariables, number: int, messages: Sequence[bytes]) -> Drafted | None:
        """The checkpoint ``number`` on ``parent``; None when there is nothing to build it of.

        SlotLost, and what signing raises: blocks may be stored then that are on no L1.
        """
        draft = CheckpointDraft(variables, number, messages, parent.chain.chain.release)
        budget = CheckpointBudget(self.limits)
        view = parent
        for index in range(self.timetable.blocks_max):
            end_s = self.timetable.block_ends_s(index, self.elapsed())
            is_last = index == self.timetable.blocks_max - 1
            self._wait_for_txs(end_s)
            may_be_empty = self.may_be_empty and not draft.blocks and (is_last or self.limits.txs_per_block_min == 0)
            if self._is_over(budget):
                break
            view = self._block(draft, budget, view, end_s, may_be_empty=may_be_empty) or view
            if not is_last and self.timetable.block_s is not None:
                self._wait_until(self.timetable.step_s + (index + 1) * self.timetable.block_s)
        if not draft.blocks:
            return None
        return Drafted(draft, draft.publish(self._earlier_out_hashes(parent, variables), _NOWHERE), parent)

    def sketch(
        self, parent: View, variables: GlobalVariables, number: int, messages: Sequence[bytes]
    ) -> Drafted | None:
        """The checkpoint ``number`` of one block of what waits now, which is neither signed nor stored; None when there
        is nothing to build it of.  SlotLost."""
        draft = CheckpointDraft(variables, number, messages, parent.chain.chain.release)
        outcome = self._execute(draft, CheckpointBudget(self.limits), parent, self.timetable.block_ends_s(0, 0.0))
        if len(outcome.included) < self.limits.kept_txs_min and not (self.may_be_empty and not outcome.included):
            return None
        self.chain.seal(draft, parent, [executed.effect for _, executed in outcome.included], outcome.total_mana_used)
        return Drafted(draft, draft.publish(self._earlier_out_hashes(parent, variables), _NOWHERE), parent)

    def _is_over(self, budget: CheckpointBudget) -> bool:
        if self.loop.is_stopping:
            raise SlotLost("the node is stopping")
        limits = budget.of_next_block()
        return limits.txs is not None and limits.txs <= 0

    def _wait_until(self, elapsed_s: float) -> None:
        while not self.loop.is_stopping and (left := elapsed_s - self.elapsed()) > 0:
            self.loop.rest(min(left, _LOOK_S), until_woken=True)

    def _wait_for_txs(self, end_s: float) -> None:
        """Until there are as many as a block is built for, or no time is left to build it."""
        latest = end_s - self.timetable.shortest_block_s
        while self.candidates.count() < self.limits.txs_per_block_min and not self.loop.is_stopping:
            left = latest - self.elapsed()
            if left <= 0:
                return
            self.loop.rest(min(left, _LOOK_S), until_woken=True)

    def _block(
        self, draft: CheckpointDraft, budget: CheckpointBudget, view: View, end_s: float, *, may_be_empty: bool
    ) -> View | None:
        """The chain with one block more; None when there is too little for one."""
        begun = time.perf_counter()
        outcome = self._execute(draft, budget, view, end_s)
        messages = draft.messages if not draft.blocks else ()
        for left_out in outcome.left_out:
            if left_out.is_final:
                self.pool.drop(left_out.tx.hash, left_out.reason)
        if len(outcome.included) < self.limits.kept_txs_min and not (may_be_empty and not outcome.included):
            return None
        stored = self._store(draft, view, outcome, messages)
        budget.take(outcome)
        took_ms = round((time.perf_counter() - begun) * 1000, 1)
        shown = log_facts(
            number=view.chain.tip_number + 1,
            slot=draft.variables_of_block(0).slot_number,
            txs=len(outcome.included),
            left_out=len(outcome.left_out),
            ms=took_ms,
        )
        logger.info("built a block", extra=shown)
        return stored

    def _execute(self, draft: CheckpointDraft, budget: CheckpointBudget, view: View, end_s: float) -> BlockOutcome:
        """Execute waiting transactions as the next block of a checkpoint."""
        variables = draft.variables_of_block(view.chain.tip_number + 1)
        messages = draft.messages if not draft.blocks else ()
        deadline = time.monotonic() + max(0.1, end_s - self.elapsed()) if self.timetable.is_enforced else None
        limits = budget.of_next_block(deadline)
        tried = self.candidates.txs(_TRIED_PER_TX * max(1, limits.txs or self.limits.txs_per_block))
        return execute_block(
            view,
            variables,
            tried,
            l1_to_l2_messages=messages,
            limits=limits,
            check=block_check(self.validator, ViewLedger(view), variables),
        )

    def _store(self, draft: CheckpointDraft, view: View, outcome: BlockOutcome, messages: Sequence[bytes]) -> View:
        effects = [executed.effect for _, executed in outcome.included]
        block = self.chain.seal(draft, view, effects, outcome.total_mana_used)
        messages_hash, hashes = in_hash(draft.messages), [effect.tx_hash for effect in effects]
        signature: bytes | None = None
        if self.proposer is not None:
            # Before anybody can see the block: another node with the same key may have built one.
            signature = self.door.sign(
                self.proposer,
                DutyType.BLOCK_PROPOSAL,
                digests.block_proposal(
                    block.header,
                    block.index_within_checkpoint,
                    messages_hash,
                    block.archive.root,
                    hashes,
                ),
                slot=block.header.global_variables.slot_number,
                block_number=block.number,
                block_index=block.index_within_checkpoint,
            )
        stored = self.chain.store(block, view, messages)
        if self.gossip is not None and signature is not None:
            txs = self._sign_txs(outcome) if self.shares_txs else None
            self.gossip.tell_block(block, messages_hash, hashes, signature, txs)
        return stored

    def _sign_txs(self, outcome: BlockOutcome) -> SignedTxs:
        assert self.proposer is not None
        txs = tuple(tx.to_buffer() for tx, _ in outcome.included)
        return SignedTxs(txs, wire_signature(self.door.sign_free(self.proposer, signed_txs_digest(txs))))

    def _earlier_out_hashes(self, parent: View, variables: GlobalVariables) -> list[bytes]:
        chain = parent.chain
        numbers = chain.checkpoint_numbers_of_epoch(variables.slot_number // chain.chain.epoch_duration)
        earlier = [chain.checkpoint(number) for number in numbers]
        return [item.out_hash for item in earlier if item is not None]
