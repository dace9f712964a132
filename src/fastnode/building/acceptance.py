"""Acceptance by a validator: the operator's limits on blocks that others built.

They are independent of the limits that blocks are built by: without one only those of the protocol hold, which
ingestion always checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from fastnode.building.budget import DA_GAS_PER_FIELD
from fastnode.protocol.blobs import tx_blob_fields
from fastnode.protocol.block import L2Block
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.config.settings import Settings

__all__ = ["AcceptanceLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceLimits:
    """None: no limit.  Gas is that which a block was charged for."""

    txs_per_block: int | None = None
    txs_per_checkpoint: int | None = None
    block_l2_gas: int | None = None
    block_da_gas: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(
            txs_per_block=settings.validate_max_txs_per_block,
            txs_per_checkpoint=settings.validate_max_txs_per_checkpoint,
            block_l2_gas=settings.validate_max_l2_block_gas,
            block_da_gas=settings.validate_max_da_block_gas,
        )

    def refusal(self, blocks: Sequence[L2Block]) -> str | None:
        """Reason why a checkpoint of these blocks is not accepted, with the limit by its name; None if it is."""
        txs = sum(len(block.body.tx_effects) for block in blocks)
        if _exceeds(txs, self.txs_per_checkpoint):
            return f"{txs} transactions in a checkpoint exceed validateMaxTxsPerCheckpoint ({self.txs_per_checkpoint})"
        for block in blocks:
            reason = self._refusal_of_block(block)
            if reason is not None:
                return f"block {block.header.global_variables.block_number}: {reason}"
        return None

    def _refusal_of_block(self, block: L2Block) -> str | None:
        effects = block.body.tx_effects
        if _exceeds(len(effects), self.txs_per_block):
            return f"{len(effects)} transactions exceed validateMaxTxsPerBlock ({self.txs_per_block})"
        l2_gas = block.header.total_mana_used
        if _exceeds(l2_gas, self.block_l2_gas):
            return f"L2 gas of {l2_gas} exceeds validateMaxL2BlockGas ({self.block_l2_gas})"
        if self.block_da_gas is None:
            return None
        da_gas = DA_GAS_PER_FIELD * sum(len(tx_blob_fields(effect)) // FIELD_BYTES for effect in effects)
        if da_gas > self.block_da_gas:
            return f"DA gas of {da_gas} exceeds validateMaxDABlockGas ({self.block_da_gas})"
        return None


def _exceeds(value: int, limit: int | None) -> bool:
    return limit is not None and value > limit
