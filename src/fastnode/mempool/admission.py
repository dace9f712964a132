"""Admission of a transaction to the pool by its rules (rules.py), and removal of others for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from fastnode.mempool.entries import PoolEntry
from fastnode.mempool.final_txs import KEEP_NONE, KeepLimit
from fastnode.mempool.pending import PendingIndex
from fastnode.mempool.rules import (
    Origin,
    cover,
    insufficient_balance,
    low_priority_fee,
    minimum_bump,
    nullifier_conflict,
)
from fastnode.mempool.validation import PROTOCOL_CAPS, GasCaps
from fastnode.records import dataclass
from fastnode.storage.database import DatabaseMemory

__all__ = ["Evictions", "PoolOptions", "evictions_for"]

#: Transactions to evict, each with the cause.
Evictions: TypeAlias = list[tuple[PoolEntry, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """``pending_max`` 0 means no limit; ``price_bump_percentage`` 0 means at least 1 more."""

    pending_max: int = 1000
    price_bump_percentage: int = 10
    #: Transactions of undone blocks are deleted rather than pending again.
    delete_after_reorg: bool = False
    gas_caps: GasCaps = PROTOCOL_CAPS
    database_memory: DatabaseMemory | None = None
    #: Final transactions that are kept.
    keep: KeepLimit = KEEP_NONE


def evictions_for(
    entry: PoolEntry,
    origin: Origin,
    pending: PendingIndex,
    balance_of: Callable[[bytes], int],
    options: PoolOptions,
) -> Evictions:
    """Transactions that must leave the pool for a new one; TxRejected when a rule refuses it.  Changes nothing.

    ``balance_of`` gives the fee juice of an address.
    """
    evicted: dict[bytes, tuple[PoolEntry, str]] = {}
    for conflicting in pending.conflicts_of(entry):
        if not _outbids(entry, conflicting, origin, options):
            raise nullifier_conflict(conflicting, entry, _minimum_over(conflicting, options))
        evicted[conflicting.hash] = conflicting, "nullifier conflict"
    for uncovered in _uncovered_by(entry, pending, balance_of(entry.fee_payer)):
        evicted.setdefault(uncovered.hash, (uncovered, "insufficient fee payer balance"))
    if options.pending_max and pending.count >= options.pending_max:
        lowest = pending.lowest
        if not _outbids(entry, lowest, origin, options):
            raise low_priority_fee(entry, _minimum_over(lowest, options))
        evicted.setdefault(lowest.hash, (lowest, "low priority"))
    return list(evicted.values())


def _outbids(newcomer: PoolEntry, existing: PoolEntry, origin: Origin, options: PoolOptions) -> bool:
    if origin is Origin.NODE:
        return newcomer.rank > existing.rank
    return newcomer.priority_fee >= _minimum_over(existing, options)


def _minimum_over(existing: PoolEntry, options: PoolOptions) -> int:
    return minimum_bump(existing.priority_fee, options.price_bump_percentage)


def _uncovered_by(entry: PoolEntry, pending: PendingIndex, balance: int) -> list[PoolEntry]:
    """Other transactions of the payer that the newcomer leaves uncovered; raises if it is not covered itself."""
    if balance >= entry.fee_limit + pending.fee_limits_of(entry.fee_payer):
        return []  # in whatever order: a payer that many share is not gone through for each newcomer
    coverage = cover([entry, *pending.of_payer(entry.fee_payer)], balance)
    if any(uncovered.hash == entry.hash for uncovered in coverage.uncovered):
        raise insufficient_balance(entry, balance, coverage.available[entry.hash])
    return coverage.uncovered
