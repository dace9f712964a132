"""Conditions on a transaction when its turn in a block comes: the rules that time and other blocks can break.

The pool asked all of this when the transaction arrived.  Proof, metadata and data cannot change after that and are
not asked again; nor are limits of gas that this node alone has, or its pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastnode.mempool.ledger import Ledger, balance_slot
from fastnode.mempool.pricing import claim_amount, fee_limit
from fastnode.mempool.validation import (
    BALANCE_TOO_LOW,
    DUPLICATE_NULLIFIER,
    EXISTING_NULLIFIER,
    EXPIRED,
    FEE_TOO_LOW,
    PROTOCOL_CAPS,
    UNKNOWN_ANCHOR,
    gas_limit_reason,
    is_expired,
)
from fastnode.protocol.header import GlobalVariables
from fastnode.protocol.tx import Tx
from fastnode.public_execution.block import Check, LeftOut
from fastnode.public_execution.executor import BlockExecutor

if TYPE_CHECKING:
    from fastnode.mempool.validation import TxValidator

__all__ = ["block_check"]


def block_check(validator: TxValidator, ledger: Ledger, block: GlobalVariables) -> Check:
    """The check for the transactions of a block with these globals.

    ``ledger`` is the chain before the block; nullifiers and balances are those after the transactions so far.  A price
    below the block's leaves a transaction out for now, everything else for good.
    """

    release = validator.rules.release

    def check(tx: Tx, executor: BlockExecutor) -> LeftOut | None:
        reason = _invalid_reason(tx, executor, validator, ledger, block)
        if reason is not None:
            return LeftOut(tx, reason, is_final=True)
        offered, asked = tx.data.max_fees_per_gas, block.gas_fees
        if offered.fee_per_l2_gas < asked.fee_per_l2_gas or offered.fee_per_da_gas < asked.fee_per_da_gas:
            return LeftOut(tx, FEE_TOO_LOW, is_final=False)
        balance = int.from_bytes(executor.storage(balance_slot(tx.data.fee_payer, release.addresses.fee_juice)), "big")
        if balance + claim_amount(tx, release) < fee_limit(tx.data):
            return LeftOut(tx, BALANCE_TOO_LOW, is_final=True)
        return None

    return check


def _invalid_reason(
    tx: Tx, executor: BlockExecutor, validator: TxValidator, ledger: Ledger, block: GlobalVariables
) -> str | None:
    data = tx.data
    if is_expired(data.expiration_timestamp, block.timestamp, ledger):
        return EXPIRED
    if data.is_public and (reason := validator.setup_reason(tx, ledger, block.timestamp)) is not None:
        return reason
    if not ledger.knows_block(data.anchor_block_hash):
        return UNKNOWN_ANCHOR
    nullifiers = data.nullifiers
    if len(set(nullifiers)) != len(nullifiers):
        return DUPLICATE_NULLIFIER
    if any(executor.has_nullifier(nullifier) for nullifier in nullifiers):
        return EXISTING_NULLIFIER
    # A rollup's mana limit and an operator's are rules of the pool; what a block may hold all nodes agree on.
    return gas_limit_reason(data.gas_limits, is_public=data.is_public, caps=PROTOCOL_CAPS)
