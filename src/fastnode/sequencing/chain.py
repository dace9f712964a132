"""Changes of the chain by a proposer, done by the one thread that changes it: between two passes over the sources.

    chain = ProposedChain(ingestor, state, wake)
    follower.chores = chain.work                    # the thread that ingests
    view = chain.view()                             # from the proposer's thread: waits for the other one

So no pass sees the chain change under it, and a block is stored only on the block that it was built on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from fastnode.archiver.ingest import Ingestor
from fastnode.building.jobs import JobQueue
from fastnode.errors import BlockRejected, Refused, SlotLost
from fastnode.log import log_facts
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.effects import TxEffect
from fastnode.view import View

if TYPE_CHECKING:
    from fastnode.building.checkpoint import CheckpointDraft
    from fastnode.world_state.state import WorldState

__all__ = ["ProposedChain"]

logger = logging.getLogger("fastnode.sequencer")

_T = TypeVar("_T")

#: Time within which the thread that ingests must begin a job, in seconds; it may be paused by the operator.
WAIT_S: Final = 30.0


class ProposedChain:
    """``wake`` ends the sleep of the thread that ingests.  SlotLost when that thread is stopped, paused or too busy."""

    def __init__(self, ingestor: Ingestor, state: WorldState, wake: Callable[[], None]) -> None:
        self._ingestor = ingestor
        self._state = state
        self._jobs = JobQueue("the chain", wake)
        #: Archive root after the newest block that was stored here.
        self._own_root: bytes | None = None
        self._begun_slot: int | None = None
        self._is_settled: Callable[[], bool] = lambda: True

    # ---- the thread that ingests ---------------------------------------------------------------

    def work(self) -> None:
        """Do what waits.  What it raises is the proposer's."""
        if self._begun_slot is not None:
            self._discard(self._begun_slot)
        self._jobs.work()

    def _discard(self, slot: int) -> None:
        """Discard unpublished blocks of the slot once it is known that L1 does not have them."""
        here = self._ingestor.view
        unpublished = range(here.tips.checkpointed.block.number + 1, here.tip_number + 1)
        slots = {number: info.slot_number for number in unpublished if (info := here.block_info(number)) is not None}
        first = next((number for number, found in slots.items() if found == slot), None)
        if first is None:
            self._begun_slot = None
        elif self._is_settled():
            self._begun_slot = None
            count = self._ingestor.undo_above(first - 1)
            shown = log_facts(slot=slot, blocks=count)
            logger.warning("unpublished blocks from before the restart discarded", extra=shown)

    def close(self) -> None:
        """Nothing waits any longer."""
        self._jobs.close()

    # ---- before both threads are started -------------------------------------------------------

    def leave(self, slot: int, is_settled: Callable[[], bool] = lambda: True) -> None:
        """Discard blocks of a slot that was begun before a restart, unless L1 has them.

        Nothing is signed for it again, so they are never published unless that was under way.  ``is_settled``: true
        once L1 was read up to now and nothing of this node is on its way there; asked by the thread that ingests.
        """
        self._begun_slot, self._is_settled = slot, is_settled

    # ---- the proposer's thread -----------------------------------------------------------------

    def view(self) -> View:
        """The chain as it is stored now."""
        return self._do(self._view)

    def without_proposed(self) -> View:
        """The chain as it is on L1: blocks that are not there are taken back; their transactions wait again."""

        def take_back() -> View:
            checkpointed = self._ingestor.view.tips.checkpointed.block.number
            if self._ingestor.view.tip_number > checkpointed:
                self._ingestor.undo_above(checkpointed)
            return self._view()

        return self._do(take_back)

    def without_own(self) -> None:
        """Take back what this proposer has stored and L1 does not have; what others have proposed stays."""

        def take_back() -> None:
            here = self._ingestor.view
            newest = here.block_info(here.tip_number)
            checkpointed = here.tips.checkpointed.block.number
            if newest is not None and newest.number > checkpointed and newest.archive_root == self._own_root:
                self._ingestor.undo_above(checkpointed)

        self._do(take_back)

    def is_taken(self, slot: int) -> bool:
        """True if another node's proposal of a slot is the newest that is stored."""
        here = self.view().chain
        newest = here.block_info(here.tip_number)
        if newest is None or newest.number <= here.tips.checkpointed.block.number:
            return False
        return newest.slot_number == slot and newest.archive_root != self._own_root

    def seal(self, draft: CheckpointDraft, parent: View, effects: Sequence[TxEffect], mana: int) -> L2Block:
        """The next block of a checkpoint in the making, not stored yet.  SlotLost when ``parent`` is not the chain."""

        def seal() -> L2Block:
            self._require_tip(parent)
            return draft.seal_block(self._state, effects, mana)

        return self._do(seal)

    def store(self, block: L2Block, parent: View, messages: Sequence[bytes]) -> View:
        """Make a sealed block the proposed tip."""

        def store() -> View:
            self._require_tip(parent)
            self._ingestor.add_block(block, messages)
            self._own_root = block.archive.root
            return self._view()

        return self._do(store)

    def check(self, published: PublishedCheckpoint, messages: Sequence[bytes]) -> None:
        """SlotLost unless ingestion would take the checkpoint from anybody: every hash and sum of it is worked out
        again."""
        self._do(lambda: self._ingestor.check_checkpoint(published, messages))

    def _require_tip(self, parent: View) -> None:
        here, wanted = self._ingestor.view, parent.chain
        if here.tips.proposed != wanted.tips.proposed:
            raise SlotLost(
                f"the chain has changed while the block was built: its newest block is {here.tip_number} now, "
                f"{wanted.tip_number} before"
            )

    def _view(self) -> View:
        return View(self._ingestor.view, self._state.view)

    def _do(self, job: Callable[[], _T]) -> _T:
        try:
            return self._jobs.run(job, WAIT_S)
        except Refused as error:
            raise SlotLost(error.message) from None
        except BlockRejected as error:
            raise SlotLost(f"the checkpoint that was built is refused here: {error}") from error
