"""The pool's three rules for a newcomer, as pure functions over entries.

1. Nullifier conflict: it must outbid every pending transaction that it shares a nullifier with; those leave.
2. Fee payer balance: walking the payer's transactions from the highest priority down, each must be
   covered by what those before it leave; the newcomer uncovered is refused, others uncovered leave.
3. Full pool: it must outbid the lowest, which leaves.

To outbid means a fee of ``minimum_bump`` for a transaction that came by RPC, and a higher rank for one
that another node handed over: nodes of different settings must end with the same transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from fastnode.errors import Refused
from fastnode.mempool.entries import PoolEntry

__all__ = [
    "Added",
    "Coverage",
    "Origin",
    "TxRejected",
    "cover",
    "insufficient_balance",
    "low_priority_fee",
    "minimum_bump",
    "nullifier_conflict",
]


class Added(Enum):
    """Outcome of a transaction that no rule rejected."""

    ACCEPTED = "accepted"
    #: Already there: pending, in a proposal or mined.
    KNOWN = "known"
    #: No longer includable when its turn came; forgotten without an error, as in the reference.
    IGNORED = "ignored"


class Origin(Enum):
    """Bringer of a transaction: clients must outbid by the configured percentage, nodes by rank."""

    CLIENT = "client"
    NODE = "node"


class TxRejected(Refused):
    """A rule of the pool refuses a transaction.  ``data`` has ``code``, ``message`` and the amounts in decimal."""

    def __init__(self, rule: str, message: str, **details: Any) -> None:
        super().__init__(message, data={"code": rule, "message": message, **details})
        self.rule = rule


def nullifier_conflict(existing: PoolEntry, newcomer: PoolEntry, minimum: int) -> TxRejected:
    tx_hash = "0x" + existing.hash.hex()
    return TxRejected(
        "NULLIFIER_CONFLICT",
        f"Nullifier conflict with existing tx {tx_hash}. Minimum required fee: {minimum}, got: {newcomer.priority_fee}",
        conflictingTxHash=tx_hash,
        minimumPriceBumpFee=str(minimum),
        txPriorityFee=str(newcomer.priority_fee),
    )


def insufficient_balance(newcomer: PoolEntry, balance: int, available: int) -> TxRejected:
    """``balance`` is the payer's on the chain, ``available`` what the transactions before this one leave of it."""
    return TxRejected(
        "INSUFFICIENT_FEE_PAYER_BALANCE",
        f"Fee payer 0x{newcomer.fee_payer.hex()} has insufficient balance. "
        f"Balance at transaction: {available}, required: {newcomer.fee_limit}",
        currentBalance=str(balance),
        availableBalance=str(available),
        feeLimit=str(newcomer.fee_limit),
    )


def low_priority_fee(newcomer: PoolEntry, minimum: int) -> TxRejected:
    return TxRejected(
        "LOW_PRIORITY_FEE",
        f"Tx does not meet minimum priority fee. Required: {minimum}, got: {newcomer.priority_fee}",
        minimumPriorityFee=str(minimum),
        txPriorityFee=str(newcomer.priority_fee),
    )


def minimum_bump(fee: int, percentage: int) -> int:
    """Least offer for the place of a transaction of this priority fee: the percentage more, rounded up, at least 1."""
    return fee + max(1, -(-fee * percentage // 100))


class Coverage(NamedTuple):
    """Transactions that a payer's balance does not cover, and what was there for each one when its turn came."""

    uncovered: list[PoolEntry]
    available: dict[bytes, int]


def cover(entries: Iterable[PoolEntry], balance: int) -> Coverage:
    """Spend ``balance`` on one payer's transactions, the highest rank first.  Claims count for their own one."""
    uncovered: list[PoolEntry] = []
    available: dict[bytes, int] = {}
    for entry in _by_rank(entries):
        there = balance + entry.claim
        available[entry.hash] = there
        if there >= entry.fee_limit:
            balance = there - entry.fee_limit
        else:
            uncovered.append(entry)
    return Coverage(uncovered, available)


def _by_rank(entries: Iterable[PoolEntry]) -> Sequence[PoolEntry]:
    return sorted(entries, key=lambda entry: entry.rank, reverse=True)
