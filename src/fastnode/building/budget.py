"""Budget that is left to the blocks of one checkpoint.

A checkpoint has room for 24,576 blob fields, its DA gas, the mana of the rollup and a number of blocks; the operator
may set less.  Each block gets its share of the gas (:class:`~fastnode.config.gas_budgets.BlockBudget`), and never
more than the blocks before it have left.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Self

from fastnode.config.gas_budgets import CHECKPOINT_DA_GAS_MAX, BlockBudget, exact
from fastnode.config.settings import Settings
from fastnode.protocol.blobs import CHECKPOINT_FIELDS_MAX
from fastnode.protocol.tx_data import Gas
from fastnode.public_execution.block import BlockLimits, BlockOutcome
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.config.configuration import ConfigView

__all__ = ["BlockOptions", "BuildingLimits", "CheckpointBudget"]

#: Without a limit of the operator's.
TXS_PER_BLOCK_MAX: Final = 32
#: DA gas of one blob field.
DA_GAS_PER_FIELD: Final = 32
#: Blob fields that end a checkpoint, and a block: its first block also says the root of the message tree.
CHECKPOINT_END_FIELDS: Final = 1
FIRST_BLOCK_END_FIELDS: Final = 7
BLOCK_END_FIELDS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockOptions:
    """Limits that have no setting: an operator sets them while the node runs."""

    #: Transactions without which a block is not kept; None: as many as it is built for.
    valid_txs_per_block_min: int | None = None
    #: The rest of a checkpoint is shared among its next blocks; else the first of them may take all of it.
    redistributes: bool = False

    @classmethod
    def of(cls, view: ConfigView) -> Self:
        return cls(
            valid_txs_per_block_min=view["minValidTxsPerBlock"],
            redistributes=bool(view["redistributeCheckpointBudget"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildingLimits:
    """Limits of an operator.  ``mana_limit``: L2 gas of a checkpoint, as the rollup has it."""

    mana_limit: int
    blocks_per_checkpoint: int = 1
    block_gas: Gas
    txs_per_block: int = TXS_PER_BLOCK_MAX
    txs_per_checkpoint: int | None = None
    #: Pending transactions for which a block is built.
    txs_per_block_min: int = 1
    options: BlockOptions = BlockOptions()
    #: Even shares of what is left that one block may take, where it is redistributed.
    multiplier: Fraction = Fraction(1)

    @property
    def kept_txs_min(self) -> int:
        """Transactions that a block needs unless it may be empty."""
        minimum = self.options.valid_txs_per_block_min
        return max(1, self.txs_per_block_min if minimum is None else minimum)

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        slot_duration_s: int,
        l1_slot_duration_s: int,
        mana_limit: int,
        options: BlockOptions | None = None,
    ) -> Self:
        """From the settings of block building, and what only the configuration has."""
        budget = BlockBudget.of(
            settings, slot_duration_s=slot_duration_s, l1_slot_duration_s=l1_slot_duration_s, mana_limit=mana_limit
        )
        txs = TXS_PER_BLOCK_MAX if settings.max_txs_per_block is None else settings.max_txs_per_block
        return cls(
            mana_limit=mana_limit,
            blocks_per_checkpoint=budget.blocks_max,
            block_gas=Gas(budget.da_gas, budget.l2_gas),
            txs_per_block=txs,
            txs_per_checkpoint=settings.max_txs_per_checkpoint,
            txs_per_block_min=settings.min_txs_per_block,
            options=options or BlockOptions(),
            multiplier=exact(settings.per_block_allocation_multiplier),
        )


class CheckpointBudget:
    """Counts what the blocks of a checkpoint have taken."""

    def __init__(self, limits: BuildingLimits) -> None:
        self._limits = limits
        self._blocks = 0
        self._txs = 0
        self._mana = 0
        self._tx_fields = 0
        self._end_fields = 0

    def of_next_block(self, deadline: float | None = None) -> BlockLimits:
        """``deadline``: a time of ``time.monotonic``."""
        limits = self._limits
        txs = limits.txs_per_block
        if limits.txs_per_checkpoint is not None:
            txs = min(txs, self._share(limits.txs_per_checkpoint - self._txs))
        da_left = CHECKPOINT_DA_GAS_MAX - DA_GAS_PER_FIELD * self._tx_fields
        fields = CHECKPOINT_FIELDS_MAX - CHECKPOINT_END_FIELDS - self._tx_fields - self._end_fields
        fields -= self._end_of_next_block()
        gas = Gas(
            min(limits.block_gas.da_gas, self._share(da_left)),
            min(limits.block_gas.l2_gas, self._share(limits.mana_limit - self._mana)),
        )
        return BlockLimits(txs=txs, gas=gas, blob_fields=self._share(fields), deadline=deadline)

    def _share(self, left: int) -> int:
        """Part of what is left that the next block may take."""
        limits = self._limits
        if not limits.options.redistributes:
            return left
        blocks = max(1, limits.blocks_per_checkpoint - self._blocks)
        return min(left, math.ceil(Fraction(left, blocks) * limits.multiplier))

    def take(self, outcome: BlockOutcome) -> None:
        """A block with this content is in the checkpoint."""
        self._end_fields += self._end_of_next_block()
        self._blocks += 1
        self._txs += len(outcome.included)
        self._mana += outcome.total_mana_used
        self._tx_fields += outcome.blob_fields

    def _end_of_next_block(self) -> int:
        return BLOCK_END_FIELDS if self._blocks else FIRST_BLOCK_END_FIELDS
