"""Fees of a transaction, and whether it can pay them."""

from __future__ import annotations

import pytest
from tests.public_execution.memory_state import MemoryState

from fastnode.errors import TxExecutionError
from fastnode.mempool.ledger import balance_slot
from fastnode.protocol.fields import ZERO_FIELD, field_from_int
from fastnode.protocol.header import GasFees
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx_data import Gas
from fastnode.public_execution.fees import FeeTooLowError, effective_fees, pay_fee, pay_private_fee, price_of
from fastnode.public_execution.state import StateJournal

PAYER = field_from_int(0xBA7)
SLOT = balance_slot(PAYER, FOUR.addresses.fee_juice)


def journal_with(balance: int) -> StateJournal:
    return StateJournal(MemoryState(leaves={SLOT: field_from_int(balance)}))


# ---- prices -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("maximum", "priority", "price"),
    [(10, 0, 10), (12, 0, 10), (12, 1, 11), (12, 2, 12), (12, 3, 12), ((1 << 128) - 1, (1 << 128) - 1, (1 << 128) - 1)],
)
def test_the_price_is_the_blocks_and_what_the_maximum_leaves_for_the_priority(
    maximum: int, priority: int, price: int
) -> None:
    block, plenty, nothing = GasFees(10, 10), 1 << 127, 0
    assert effective_fees(block, GasFees(maximum, plenty), GasFees(priority, nothing)) == GasFees(price, 10)
    assert effective_fees(block, GasFees(plenty, maximum), GasFees(nothing, priority)) == GasFees(10, price)


def test_a_maximum_below_the_blocks_price_is_refused_da_gas_first() -> None:
    text = r"^maxFeesPerGas\.feePerDaGas must be .* maxFeesPerGas\.feePerDaGas=1 and gasFees\.feePerDaGas=2$"
    with pytest.raises(FeeTooLowError, match=text):
        effective_fees(GasFees(2, 3), GasFees(1, 2), GasFees(9, 9))
    with pytest.raises(FeeTooLowError, match=r"feePerL2Gas=2 and gasFees\.feePerL2Gas=3$"):
        effective_fees(GasFees(2, 3), GasFees(2, 2), GasFees(9, 9))


def test_a_fee_is_gas_times_price_in_both_dimensions() -> None:
    assert price_of(Gas(7, 11), GasFees(100, 1000)) == 7 * 100 + 11 * 1000


# ---- payment ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_enforced", [True, False])
def test_a_balance_of_just_the_fee_is_enough(is_enforced: bool) -> None:
    journal = journal_with(1000)
    assert pay_fee(journal, PAYER, 1000, FOUR.addresses.fee_juice, is_enforced=is_enforced) == (SLOT, ZERO_FIELD)
    assert journal.storage(SLOT) == ZERO_FIELD
    assert pay_private_fee(journal_with(1000), PAYER, 1000, FOUR.addresses.fee_juice) == (SLOT, ZERO_FIELD)


def test_what_is_not_the_fee_is_kept() -> None:
    assert pay_fee(journal_with(1000), PAYER, 1, FOUR.addresses.fee_juice, is_enforced=True) == (
        SLOT,
        field_from_int(999),
    )
    assert pay_fee(journal_with(1000), PAYER, 1, FOUR.addresses.fee_juice, is_enforced=False) == (
        SLOT,
        field_from_int(999),
    )
    assert pay_private_fee(journal_with(1000), PAYER, 1, FOUR.addresses.fee_juice) == (SLOT, field_from_int(999))


def test_one_too_little_is_an_error_unless_the_fee_is_not_enforced() -> None:
    with pytest.raises(TxExecutionError, match=r"^Not enough balance for fee payer to pay for transaction$"):
        pay_fee(journal_with(999), PAYER, 1000, FOUR.addresses.fee_juice, is_enforced=True)
    assert pay_fee(journal_with(999), PAYER, 1000, FOUR.addresses.fee_juice, is_enforced=False) == (SLOT, ZERO_FIELD)
    with pytest.raises(TxExecutionError, match=r"pay for transaction \(got 999 needs 1000\)$"):
        pay_private_fee(journal_with(999), PAYER, 1000, FOUR.addresses.fee_juice)


def test_a_missing_fee_payer_is_allowed_only_when_the_fee_is_not_enforced() -> None:
    journal = journal_with(1000)
    with pytest.raises(TxExecutionError, match=r"^Fee payer cannot be 0 unless"):
        pay_fee(journal, ZERO_FIELD, 0, FOUR.addresses.fee_juice, is_enforced=True)
    assert pay_fee(journal, ZERO_FIELD, 5, FOUR.addresses.fee_juice, is_enforced=False) is None
    assert journal.mark() == 0, "nothing is written"
