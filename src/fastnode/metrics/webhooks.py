"""Metrics of webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from fastnode.serving.webhooks import Webhooks

__all__ = ["webhook_metrics"]


def webhook_metrics(webhooks: Webhooks) -> Iterator[Metric]:
    labels = ("webhook",)
    delivered = CounterMetricFamily("fastnode_webhook_deliveries", "Messages that were taken.", labels=labels)
    failed = CounterMetricFamily("fastnode_webhook_failures", "Tries that failed.", labels=labels)
    behind = GaugeMetricFamily("fastnode_webhook_behind_blocks", "Blocks that are not told yet.", labels=labels)
    for each in webhooks.each:
        delivered.add_metric((each.hook.name,), each.delivered)
        failed.add_metric((each.hook.name,), each.failures)
        behind.add_metric((each.hook.name,), each.behind)
    yield from (delivered, failed, behind)
