"""Metrics that the network's reference node has too, under its names, so that its dashboards and alerts work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fastnode.http.meters import BATCH_BOUNDS
from fastnode.metrics.collector import Sources, buckets_of, duration_metrics
from fastnode.view import tip_numbers

__all__ = ["ReferenceCollector"]

_SERVER: Final = "aztec_json_rpc_server"
_MS_PER_S: Final = 1000


class ReferenceCollector(Collector):
    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        view = self._sources.view()
        if view is not None:
            heights = GaugeMetricFamily(
                "aztec_archiver_block_height", "Block number of each tip.", labels=("aztec_status",)
            )
            for name, number in tip_numbers(view).items():
                heights.add_metric((name,), number)
            yield heights
        sync = self._sources.sync_status()
        l1 = None if sync is None else sync.get("l1")
        if l1 is not None and l1["block"] is not None:
            yield GaugeMetricFamily(
                "aztec_archiver_l1_block_height", "Newest L1 block that was read.", value=l1["block"]
            )
        progress = self._sources.progress
        yield CounterMetricFamily("aztec_archiver_tx_count", "Transactions of added blocks.", value=progress.txs)
        yield CounterMetricFamily("aztec_archiver_prune_count", "Times that blocks were undone.", value=progress.undos)
        mempool = self._sources.mempool
        if mempool is not None:
            yield GaugeMetricFamily("aztec_mempool_tx_count", "Pending transactions.", value=mempool.pool.pending_count)

    def _requests(self) -> Iterator[Metric]:
        servers = self._sources.servers
        requests = rejected = batches = calls = 0
        sizes = [0] * (len(BATCH_BOUNDS) + 1)
        for server in servers.values():
            rejected += sum(dict(server.traffic.rejected).values())
            meters = server.engine.meters
            if meters is None:
                continue
            requests += sum(sum(meters.calls.histogram(name)[0]) for name in (*meters.names, None))
            batches += sum(meters.batch_counts)
            calls += meters.batch_calls
            sizes = [before + more for before, more in zip(sizes, meters.batch_counts, strict=True)]
        yield CounterMetricFamily(f"{_SERVER}_request_count", "Calls.", value=requests)
        yield duration_metrics(f"{_SERVER}_request_duration_ms", "Time of calls.", servers, units_per_s=_MS_PER_S)
        yield CounterMetricFamily(f"{_SERVER}_rejected_request_count", "Requests refused by a limit.", value=rejected)
        yield CounterMetricFamily(f"{_SERVER}_batch_count", "Batches.", value=batches)
        family = HistogramMetricFamily(f"{_SERVER}_batch_size_requests", "Calls in each batch.", labels=())
        family.add_metric((), buckets_of(sizes, BATCH_BOUNDS), calls)
        yield family
