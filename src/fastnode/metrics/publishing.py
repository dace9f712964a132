"""Metrics of a node that signs, and that pays for transactions of L1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fastnode.ha.duty import DutyType
from fastnode.metrics.from_zero import from_zero

__all__ = ["publishing_metrics"]

_WEI_PER_ETH: Final = 10**18


def publishing_metrics(publishing: Mapping[str, Any]) -> Iterator[Metric]:
    """From the part ``publishing`` of the status (``publishers`` and ``signing``)."""
    publishers = publishing["publishers"]
    yield from _gauges(publishers)
    outcomes = CounterMetricFamily(
        "fastnode_l1_transactions", "What became of transactions for L1.", labels=("publisher", "outcome")
    )
    paid = CounterMetricFamily("fastnode_l1_fees_eth", "Fees paid on L1, in ETH.", labels=("publisher",))
    speed_ups = CounterMetricFamily(
        "fastnode_l1_speed_ups", "Transactions sent again at a higher price.", labels=("publisher",)
    )
    cancelled = CounterMetricFamily("fastnode_l1_cancellations", "Transactions taken back.", labels=("publisher",))
    for item in publishers:
        address = item["address"]
        for outcome, count in item["outcomes"].items():
            outcomes.add_metric((address, outcome), count)
        paid.add_metric((address,), int(item["feesPaidWei"]) / _WEI_PER_ETH)
        speed_ups.add_metric((address,), item["speedUps"])
        cancelled.add_metric((address,), item["cancellations"])
    yield from (outcomes, paid, speed_ups, cancelled)
    signing = publishing["signing"]
    duties = CounterMetricFamily(
        "fastnode_signatures",
        "Signatures asked for, by their kind: given, left to another node that shares the keys, or failed.",
        labels=("kind", "result"),
    )
    for result in ("signed", "yielded", "failed"):
        for kind, count in from_zero(map(str, DutyType), signing[result]).items():
            duties.add_metric((kind, result), count)
    yield duties


def _gauges(publishers: list[dict[str, Any]]) -> Iterator[Metric]:
    balances = GaugeMetricFamily(
        "fastnode_publisher_balance_eth", "What an account that publishes has left, in ETH.", labels=("publisher",)
    )
    flying = GaugeMetricFamily(
        "fastnode_l1_transactions_in_flight", "Transactions that L1 has not decided.", labels=("publisher",)
    )
    for item in publishers:
        if item["balanceWei"] is not None:
            balances.add_metric((item["address"],), int(item["balanceWei"]) / _WEI_PER_ETH)
        flying.add_metric((item["address"],), len(item["inFlight"]))
    low = GaugeMetricFamily(
        "fastnode_publisher_balance_low", "1 while an account has less than the operator wants.", labels=("publisher",)
    )
    for item in publishers:
        low.add_metric((item["address"],), item["isBalanceLow"])
    yield from (balances, low, flying)
