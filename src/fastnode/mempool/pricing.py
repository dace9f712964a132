"""Offer of a transaction for its place, and its possible cost for the fee payer.

Rules of the releases 4.x and 5.x: only the L2 dimension decides priority, and a transaction that claims bridged
fee juice in its setup phase may spend what it claims.
"""

from __future__ import annotations

from typing import Final

from fastnode.protocol.fields import FIELD_BYTES, field_from_int
from fastnode.protocol.releases import Release
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import CallRequest, TxData

#: Selector of the fee juice contract's ``_increase_public_balance((Field),u128)``.
_INCREASE_BALANCE_SELECTOR: Final = field_from_int(0xE7F045FF)
#: Selector, account, amount.
_CLAIM_FIELDS: Final = 3


def priority_fee(data: TxData) -> int:
    """Addition of the sender per unit of L2 gas, as far as the cap on the whole price allows."""
    return min(data.max_fees_per_gas.fee_per_l2_gas, data.max_priority_fees_per_gas.fee_per_l2_gas)


def fee_limit(data: TxData) -> int:
    """The most that the transaction can cost."""
    gas, fees = data.gas_limits, data.max_fees_per_gas
    return gas.da_gas * fees.fee_per_da_gas + gas.l2_gas * fees.fee_per_l2_gas


def calldata_of(tx: Tx, call: CallRequest) -> bytes:
    """Joined calldata fields of a call, found by the hash the sender claims; empty if there is none.

    The last of several entries counts.  The claim itself is checked by the data rule of validation.
    """
    for entry in reversed(tx.calldata):
        if entry.hash == call.calldata_hash:
            return entry.values
    return b""


def claim_amount(tx: Tx, release: Release) -> int:
    """Fee juice that the setup phase credits to the fee payer before the fee is taken; 0 if none."""
    fee_juice = release.addresses.fee_juice
    for call in tx.data.setup_calls:
        if call.contract_address != fee_juice or call.msg_sender != fee_juice or call.is_static_call:
            continue
        calldata = calldata_of(tx, call)
        if len(calldata) < _CLAIM_FIELDS * FIELD_BYTES:
            continue
        selector, account, amount = (calldata[i * FIELD_BYTES : (i + 1) * FIELD_BYTES] for i in range(_CLAIM_FIELDS))
        if selector == _INCREASE_BALANCE_SELECTOR and account == tx.data.fee_payer:
            return int.from_bytes(amount, "big")
    return 0
