"""Offers of transactions: from what L1 asks now, the operator's limits, and what it offered before.

    b(fee)      fee * 1.125, rounded up, once per 12 seconds that a stalled transaction waits, at least once
    first       tip = estimate + 20 %,               fee = b(base fee) + tip,            blob fee = b(blob fee)
    again       tip = estimate + 50 %, or before's   fee the same, or before's           blob fee the same, or before's
                by the factor of a replacement       by that factor                      by that factor
    outbid      as again, against the highest of each of several offers for a nonce

The factor is 2 with blobs (nodes want 100 % more), 1.5 without; 2.5 for a cancellation.  Fees are in wei.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from fastnode.errors import DecodeError, UpstreamRejection
from fastnode.records import dataclass
from fastnode.sources.l1.abi import from_amount, from_quantity

if TYPE_CHECKING:
    from fastnode.config.settings import Settings
    from fastnode.sources.l1.endpoints import L1Endpoint

__all__ = ["GAS_MAX", "FeeLimits", "L1Prices", "Price", "gas_limit", "read_prices"]

GWEI: Final = 10**9
#: Gas limit of one transaction (EIP-7825).
GAS_MAX: Final = 16_777_216
#: A 64th of the gas of a call inside Multicall3 stays outside.
_INNER: Final = 63
_MULTICALL_GAS: Final = 5_000
_PERCENT: Final = 100
_BLOCK_S: Final = 12
_REPLACE_PLAIN_PERCENT: Final = 10
_REPLACE_BLOB_PERCENT: Final = 100
_CANCEL_PERCENT: Final = 150
_HISTORY_BLOCKS: Final = 5
_HISTORY_PERCENTILE: Final = 75
#: Tips that are far above what the node itself asks for are not believed.
_TIP_FACTOR_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Price:
    """``blob_fee_max`` None: a transaction without blobs."""

    tip_max: int
    fee_max: int
    blob_fee_max: int | None = None


@dataclass(frozen=True, slots=True)
class L1Prices:
    """Prices of L1 at a block; ``timestamp`` is that of the block."""

    timestamp: int
    base_fee: int
    blob_fee: int
    tip: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeeLimits:
    """Limits of the operator."""

    fee_max: int = 2000 * GWEI
    blob_fee_max: int = 3000 * GWEI
    bump_percent: int = 20
    retry_bump_percent: int = 50
    tip_min: int = 0
    stall_s: float = 12.0

    @classmethod
    def of(cls, settings: Settings) -> FeeLimits:
        return cls(
            fee_max=int(settings.l1_gas_price_max * GWEI),
            blob_fee_max=int(settings.l1_blob_fee_per_gas_max * GWEI),
            bump_percent=settings.l1_priority_fee_bump_percentage,
            retry_bump_percent=settings.l1_priority_fee_retry_bump_percentage,
            tip_min=int(settings.l1_minimum_priority_fee_per_gas_gwei * GWEI),
            stall_s=settings.l1_tx_monitor_stall_time_ms / 1000,
        )

    def first(self, prices: L1Prices, *, has_blobs: bool) -> Price:
        """Offer of a new transaction."""
        return self._price(prices, max(_more(prices.tip, self.bump_percent), self.tip_min), has_blobs=has_blobs)

    def outbid(self, prices: L1Prices, before: Sequence[Price], *, has_blobs: bool) -> Price:
        """Offer of a new transaction whose nonce others may have: ``before``, none or more."""
        if not before:
            return self.first(prices, has_blobs=has_blobs)
        blob_fees = [price.blob_fee_max for price in before if price.blob_fee_max is not None]
        blob_fee = max(blob_fees, default=0) if has_blobs else None
        highest = Price(max(price.tip_max for price in before), max(price.fee_max for price in before), blob_fee)
        return self.again(prices, highest, had_blobs=bool(blob_fees))

    def again(
        self, prices: L1Prices, before: Price, *, is_cancellation: bool = False, had_blobs: bool = False
    ) -> Price:
        """Offer that replaces ``before``; it may be too little where a limit is reached.

        ``had_blobs``: one with blobs is replaced, whatever ``before`` has.
        """
        has_blobs = before.blob_fee_max is not None
        is_blob_rule = has_blobs or had_blobs
        percent = max(self.retry_bump_percent, _REPLACE_BLOB_PERCENT if is_blob_rule else _REPLACE_PLAIN_PERCENT)
        if is_cancellation:
            percent = max(percent, _CANCEL_PERCENT)
        tip = max(_more(prices.tip, self.retry_bump_percent), _more(before.tip_max, percent), self.tip_min)
        now = self._price(prices, tip, has_blobs=has_blobs)
        fee = min(max(now.fee_max, _more(before.fee_max, percent)), self.fee_max)
        if now.blob_fee_max is None or before.blob_fee_max is None:
            return Price(min(tip, fee), fee)
        return Price(min(tip, fee), fee, max(now.blob_fee_max, _more(before.blob_fee_max, percent)))

    def _price(self, prices: L1Prices, tip: int, *, has_blobs: bool) -> Price:
        fee = min(self._grown(prices.base_fee) + tip, self.fee_max)
        return Price(min(tip, fee), fee, min(self._grown(prices.blob_fee), self.blob_fee_max) if has_blobs else None)

    def _grown(self, fee: int) -> int:
        """Highest price after the next blocks."""
        for _ in range(max(1, -int(-self.stall_s // _BLOCK_S))):
            fee = -(-fee * 9 // 8)
        return fee


def gas_limit(simulated: int, *, blobs: int = 0, others: int = 0, buffer_percent: int = 20) -> int:
    """Gas of a transaction.  ``simulated``: what its main call takes; ``blobs``: what the check of its blobs takes;
    ``others``: what the calls beside it may take; ``buffer_percent``: what is added to all of it."""
    inner = -(-simulated * (_INNER + 1) // _INNER)
    checked = _more(blobs, buffer_percent) if blobs else 0
    return min(GAS_MAX, _more(inner + checked + _MULTICALL_GAS + others, buffer_percent))


def _more(value: int, percent: int) -> int:
    return value + value * percent // _PERCENT


# ---- what L1 asks ---------------------------------------------------------------------------------


def read_prices(endpoint: L1Endpoint) -> L1Prices:
    """UpstreamError, DecodeError.  A node may lack all but the latest block: then it counts as asking nothing."""
    latest, blob_fee, tip, pending, history = endpoint.answers(
        [
            ("eth_getBlockByNumber", ["latest", False]),
            ("eth_blobBaseFee", []),
            ("eth_maxPriorityFeePerGas", []),
            ("eth_getBlockByNumber", ["pending", True]),
            ("eth_feeHistory", [hex(_HISTORY_BLOCKS), "latest", [_HISTORY_PERCENTILE]]),
        ]
    )
    if isinstance(latest, UpstreamRejection):
        raise latest
    if not isinstance(latest, dict):
        raise DecodeError("L1 has no latest block")
    base_fee = from_amount(latest.get("baseFeePerGas"), "baseFeePerGas")
    asked = _number(tip)
    seen = max(_percentile(_pending_tips(pending, base_fee)), _history_tip(history))
    if asked:
        seen = min(seen, asked * _TIP_FACTOR_MAX)
    return L1Prices(
        timestamp=from_quantity(latest.get("timestamp"), "timestamp"),
        base_fee=base_fee,
        blob_fee=_number(blob_fee),
        tip=max(asked, seen),
    )


def _number(answer: Any) -> int:
    try:
        return from_amount(answer, "fee")
    except DecodeError:
        return 0


def _pending_tips(pending: Any, base_fee: int) -> list[int]:
    transactions = pending.get("transactions") if isinstance(pending, dict) else None
    tips = []
    for item in transactions if isinstance(transactions, list) else ():
        if isinstance(item, dict) and "maxPriorityFeePerGas" in item:
            tips.append(
                min(_number(item["maxPriorityFeePerGas"]), max(0, _number(item.get("maxFeePerGas")) - base_fee))
            )
    return tips


def _history_tip(history: Any) -> int:
    rewards = history.get("reward") if isinstance(history, dict) else None
    seen = [_number(row[0]) for row in rewards if isinstance(row, list) and row] if isinstance(rewards, list) else []
    return int(median(seen)) if seen else 0


def _percentile(values: Sequence[int]) -> int:
    if not values:
        return 0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * _HISTORY_PERCENTILE // _PERCENT)]
