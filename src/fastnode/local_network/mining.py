"""Building one checkpoint of one block on top of the chain, and storing it.

What is built goes the way of a checkpoint from anywhere: the ingestor checks all of it again before it is stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.messages import in_hash_before
from fastnode.building.budget import BuildingLimits, CheckpointBudget
from fastnode.building.checkpoint import CheckpointDraft
from fastnode.building.checks import block_check
from fastnode.local_network.clock import ChainClock
from fastnode.mempool.ledger import ViewLedger
from fastnode.protocol.checkpoint import L1PublishedData
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import ZERO_FIELD, field_from_int
from fastnode.protocol.hashing import sha256_to_field
from fastnode.protocol.header import GasFees, GlobalVariables
from fastnode.protocol.kzg import KnownSum
from fastnode.public_execution.block import BlockOutcome, execute_block
from fastnode.records import dataclass
from fastnode.view import View

if TYPE_CHECKING:
    from fastnode.mempool.validation import TxValidator
    from fastnode.protocol.tx import Tx
    from fastnode.world_state.state import WorldState

__all__ = ["COINBASE", "Mined", "Miner"]

logger = logging.getLogger(__name__)

#: The first account of the mnemonic that all development chains of L1 use.
COINBASE: Final = bytes.fromhex("f39fd6e51aad88f6f4ce6ab8827279cfffb92266")


@dataclass(frozen=True, slots=True)
class Mined:
    """A stored block, and what became of the transactions that were tried for it."""

    number: int
    timestamp: int
    outcome: BlockOutcome


class Miner:
    """Used by the one thread that changes the chain.

    ``messages_of`` gives the hashes of the messages from L1 that a checkpoint of this number takes.
    """

    def __init__(
        self,
        ingestor: Ingestor,
        state: Callable[[], WorldState],
        clock: ChainClock,
        messages_of: Callable[[int], Sequence[bytes]],
    ) -> None:
        self._ingestor = ingestor
        self._state = state
        self._clock = clock
        self._messages_of = messages_of
        #: Says where on L1 a checkpoint stands.
        self.published_at: Callable[[GlobalVariables], L1PublishedData] = _published_at
        self.coinbase = COINBASE
        self.fee_recipient = ZERO_FIELD

    @property
    def view(self) -> View:
        """The chain as it is stored now."""
        return View(self._ingestor.view, self._state().view)

    def mine(
        self, txs: Iterable[Tx], fees: GasFees, limits: BuildingLimits, validator: TxValidator, *, may_be_empty: bool
    ) -> tuple[BlockOutcome, Mined | None]:
        """Build and store the next block from those of ``txs`` that can be in it, in their order.

        None is stored when fewer are than the limits ask for, unless the block ``may_be_empty``.
        """
        view = self.view
        variables = self._variables(view, fees)
        number = self._next_checkpoint(view)
        messages = tuple(self._messages_of(number))
        outcome = execute_block(
            view,
            variables,
            txs,
            l1_to_l2_messages=messages,
            limits=CheckpointBudget(limits).of_next_block(),
            check=block_check(validator, ViewLedger(view), variables),
        )
        if len(outcome.included) < limits.kept_txs_min and not may_be_empty:
            return outcome, None
        effects = [executed.effect for _, executed in outcome.included]
        self._store(view, variables, number, messages, effects, outcome.total_mana_used)
        return outcome, Mined(variables.block_number, variables.timestamp, outcome)

    def store_effects(
        self, effects: Sequence[TxEffect], fees: GasFees, mana: int = 0, blob: KnownSum | None = None
    ) -> int:
        """A block of effects that no transaction had; returns its number.  ``blob``: of the effects' blob fields."""
        view = self.view
        variables = self._variables(view, fees)
        number = self._next_checkpoint(view)
        self._store(view, variables, number, tuple(self._messages_of(number)), effects, mana, blob)
        return variables.block_number

    def _store(
        self,
        view: View,
        variables: GlobalVariables,
        number: int,
        messages: tuple[bytes, ...],
        effects: Sequence[TxEffect],
        mana: int,
        blob: KnownSum | None = None,
    ) -> None:
        before = in_hash_before(view.chain, number)
        draft = CheckpointDraft(variables, number, messages, view.chain.chain.release, before)
        draft.seal_block(self._state(), effects, mana)
        chain = view.chain
        epoch = variables.slot_number // chain.chain.epoch_duration
        earlier = [chain.checkpoint(item) for item in chain.checkpoint_numbers_of_epoch(epoch)]
        out_hashes = [item.out_hash for item in earlier if item is not None]
        published = draft.publish(out_hashes, self.published_at(variables), blob)
        self._ingestor.add_checkpoint(published, messages)
        self._clock.on_block(variables.timestamp)

    def _variables(self, view: View, fees: GasFees) -> GlobalVariables:
        chain = view.chain.chain
        slot = self._clock.next_slot()
        return GlobalVariables(
            chain_id=chain.l1_chain_id,
            version=chain.rollup_version,
            block_number=view.chain.tip_number + 1,
            slot_number=slot,
            timestamp=self._clock.slots.start_of(slot),
            coinbase=self.coinbase,
            fee_recipient=self.fee_recipient,
            gas_fees=fees,
        )

    def _next_checkpoint(self, view: View) -> int:
        return view.chain.tips.checkpointed.checkpoint.number + 1


def _published_at(variables: GlobalVariables) -> L1PublishedData:
    """A made-up L1 block, one for each slot, where there is no L1."""
    number = variables.slot_number
    return L1PublishedData(number, variables.timestamp, sha256_to_field(b"fastnode L1" + field_from_int(number)))
