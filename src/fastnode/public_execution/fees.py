"""Fee of a transaction: the price of its gas in a block, and the write that takes it from the payer."""

from __future__ import annotations

from typing import NamedTuple

from fastnode.errors import TxExecutionError
from fastnode.mempool.ledger import balance_slot
from fastnode.protocol.fields import ZERO_FIELD, field_from_int
from fastnode.protocol.header import GasFees
from fastnode.protocol.tx_data import Gas
from fastnode.public_execution.state import StateJournal

__all__ = ["FeeTooLowError", "FeeWrite", "effective_fees", "pay_fee", "pay_private_fee", "price_of"]


class FeeTooLowError(TxExecutionError):
    """A transaction offers less than the block charges."""


class FeeWrite(NamedTuple):
    """The payer's balance after it has paid."""

    leaf_slot: bytes
    balance: bytes


def effective_fees(block: GasFees, maximum: GasFees, priority: GasFees) -> GasFees:
    """Price of each dimension: the block's, and the priority as far as the maximum leaves room for it.

    FeeTooLowError when the maximum is below the block's price.
    """
    return GasFees(
        _effective("Da", block.fee_per_da_gas, maximum.fee_per_da_gas, priority.fee_per_da_gas),
        _effective("L2", block.fee_per_l2_gas, maximum.fee_per_l2_gas, priority.fee_per_l2_gas),
    )


def _effective(dimension: str, base: int, maximum: int, priority: int) -> int:
    if maximum < base:
        paid, asked = f"maxFeesPerGas.feePer{dimension}Gas", f"gasFees.feePer{dimension}Gas"
        raise FeeTooLowError(
            f"{paid} must be greater than or equal to {asked}, but got {paid}={maximum} and {asked}={base}"
        )
    return base + min(priority, maximum - base)


def price_of(gas: Gas, fees: GasFees) -> int:
    return gas.da_gas * fees.fee_per_da_gas + gas.l2_gas * fees.fee_per_l2_gas


def pay_fee(journal: StateJournal, payer: bytes, fee: int, fee_juice: bytes, *, is_enforced: bool) -> FeeWrite | None:
    """Take ``fee`` from ``payer``; None without a payer.  TxExecutionError when the payer cannot.

    ``fee_juice``: address of the contract with the balances.  Not enforced, a payer may be short of the fee, and may be
    absent.
    """
    if payer == ZERO_FIELD:
        if is_enforced:
            raise TxExecutionError("Fee payer cannot be 0 unless skipping fee enforcement for simulation")
        return None
    leaf_slot = balance_slot(payer, fee_juice)
    balance = int.from_bytes(journal.storage(leaf_slot), "big")
    if balance < fee:
        if is_enforced:
            raise TxExecutionError("Not enough balance for fee payer to pay for transaction")
        balance = fee
    return _write(journal, leaf_slot, balance - fee)


def pay_private_fee(journal: StateJournal, payer: bytes, fee: int, fee_juice: bytes) -> FeeWrite:
    """The same for a transaction without public calls, whose fee is always enforced."""
    leaf_slot = balance_slot(payer, fee_juice)
    balance = int.from_bytes(journal.storage(leaf_slot), "big")
    if balance < fee:
        raise TxExecutionError(f"Not enough balance for fee payer to pay for transaction (got {balance} needs {fee})")
    return _write(journal, leaf_slot, balance - fee)


def _write(journal: StateJournal, leaf_slot: bytes, balance: int) -> FeeWrite:
    write = FeeWrite(leaf_slot, field_from_int(balance))
    journal.set_storage(*write)
    return write
