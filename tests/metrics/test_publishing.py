"""Metrics of accounts that publish and of signatures."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from fastnode.metrics.publishing import publishing_metrics

ACCOUNT = "0x" + "11" * 20
STATUS: dict[str, Any] = {
    "publishers": [
        {
            "address": ACCOUNT,
            "state": "sent",
            "balanceWei": "1500000000000000000",
            "isBalanceLow": True,
            "inFlight": [{"nonce": 7}],
            "outcomes": {"published": 3, "given_up": 1},
            "feesPaidWei": "250000000000000000",
            "speedUps": 2,
            "cancellations": 1,
            "trouble": None,
        }
    ],
    "signing": {"keys": [], "isShared": True, "signed": {"ATTESTATION": 5}, "yielded": {}, "failed": {"MESSAGE": 1}},
}


def text_of(status: dict[str, Any]) -> str:
    class Of(Collector):
        def collect(self) -> list[Metric]:
            return list(publishing_metrics(status))

    registry = CollectorRegistry()
    registry.register(Of())
    return generate_latest(registry).decode()


def test_accounts_and_signatures_are_told_of() -> None:
    text = text_of(STATUS)
    for line in (
        f'fastnode_publisher_balance_eth{{publisher="{ACCOUNT}"}} 1.5',
        f'fastnode_publisher_balance_low{{publisher="{ACCOUNT}"}} 1.0',
        f'fastnode_l1_transactions_in_flight{{publisher="{ACCOUNT}"}} 1.0',
        f'fastnode_l1_transactions_total{{outcome="published",publisher="{ACCOUNT}"}} 3.0',
        f'fastnode_l1_fees_eth_total{{publisher="{ACCOUNT}"}} 0.25',
        'fastnode_signatures_total{kind="ATTESTATION",result="signed"} 5.0',
        'fastnode_signatures_total{kind="MESSAGE",result="failed"} 1.0',
    ):
        assert line in text.splitlines(), line


def test_a_balance_that_is_not_known_is_left_out() -> None:
    unknown = {**STATUS, "publishers": [STATUS["publishers"][0] | {"balanceWei": None}]}
    assert "fastnode_publisher_balance_eth{" not in text_of(unknown)
