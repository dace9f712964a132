"""Metrics for monitoring systems, in the text form of Prometheus.

The node's parts keep plain counters; nothing here is touched while they work.  At a scrape, a
:class:`NodeCollector` reads the counters and prometheus-client writes them down.

Labels are bounded: methods are those of the table, or ``other``; codes and limits are the node's own.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from fastnode import __version__, kernels
from fastnode.archiver.progress import IngestionProgress
from fastnode.errors import RateLimited
from fastnode.http.health import Health
from fastnode.http.meters import BATCH_BOUNDS, DURATION_BOUNDS_NS, LIMITS, OTHER
from fastnode.log_index.known_tags import KnownTags
from fastnode.mempool.service import REJECTION_CODES, Mempool
from fastnode.metrics.from_zero import from_zero
from fastnode.metrics.l1 import l1_metrics
from fastnode.metrics.loop_lag import LAG_BOUNDS_S, LoopLag
from fastnode.outgoing.network import ExchangeTimes
from fastnode.proofs.judge import ProofJudge
from fastnode.proofs.verdict import Judgement
from fastnode.recent_blocks import RecentBlocks
from fastnode.records import dataclass
from fastnode.serving.event_streams import DROP_REASONS
from fastnode.serving.events import EVENT_NAMES
from fastnode.serving.feeds import TOPICS
from fastnode.serving.recipients import CLOSE_REASONS
from fastnode.serving.server import RpcServer
from fastnode.storage.database import ROOM_BYTES, free_bytes
from fastnode.view import View, tip_numbers

if TYPE_CHECKING:
    from fastnode.snapshots.service import SnapshotUploads

__all__ = ["NodeCollector", "Sources", "duration_metrics", "registry_of", "render"]

#: Codes of JSON-RPC for calls of no known method: no JSON, no request, no such method.
_CODES_WITHOUT_METHOD: Final = (-32700, -32600, -32601)
#: Codes that any method may answer: parameters, a fault of this node, everything else.
_CODES: Final = (-32602, -32603, -32000)

#: Counts every method name that is not in the table.
#: Databases, by their directories in the data directory.
DATABASES: Final = {"archiver": "archiver", "world_state": "world_state", "pool": "p2p"}

UPLOAD_OUTCOMES: Final = ("uploaded", "failed", "given_up")

_NS_PER_S: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Parts that are read at a scrape."""

    servers: Mapping[str, RpcServer]
    view: Callable[[], View | None]
    progress: IngestionProgress
    data_directory: Path
    known_tags: KnownTags
    recent: RecentBlocks = field(default_factory=RecentBlocks)
    mempool: Mempool | None = None
    uploads: SnapshotUploads | None = None
    #: Faults by part.
    health: Callable[[], Health] = Health
    #: State of following the chain; None when it is not followed.
    sync_status: Callable[[], dict[str, Any] | None] = lambda: None
    loop_lag: LoopLag | None = None
    #: Counts of requests to other servers; None: there are none to ask.
    exchange_times: ExchangeTimes | None = None
    #: Metrics of parts that not every node has.
    parts: Callable[[], Iterable[Metric]] = tuple


def registry_of(*collectors: Collector) -> CollectorRegistry:
    """A registry of these collectors, the process and the interpreter."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def render(registry: CollectorRegistry) -> bytes:
    """The answer to GET /metrics; takes milliseconds, so do not ask on an event loop."""
    return generate_latest(registry)


class NodeCollector(Collector):
    """The node's own metrics."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def describe(self) -> Iterable[Metric]:
        """Nothing is collected when the collector is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        sources = self._sources
        yield _build_info()
        yield from _rpc(sources.servers)
        yield from _http(sources.servers)
        yield from _cached_responses(sources.servers)
        yield from _events(sources.servers)
        yield from _push(sources.servers)
        yield from _budgets(sources.servers)
        yield from _chain(sources.view(), sources.recent, sources.sync_status())
        yield from _ingestion(sources.progress)
        yield from _pool(sources.mempool)
        yield from _tags(sources.known_tags)
        yield from _databases(sources.data_directory)
        yield from _health(sources.health())
        yield from _snapshots(sources.uploads)
        yield from _loop(sources.loop_lag)
        yield from _other_servers(sources.exchange_times)
        yield from sources.parts()


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"fastnode_{name}", text, value=value)


def _count(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"fastnode_{name}", text, value=value)


def _build_info() -> Metric:
    info = GaugeMetricFamily("fastnode_build_info", "Constant 1; the labels say what runs.", labels=())
    labels = {
        "version": __version__,
        "kernel": kernels.poseidon2.kernel_name(),
        "extensions": "twins" if kernels.USING_TWINS else "compiled",
        "python": ".".join(map(str, sys.version_info[:3])),
    }
    info.add_sample("fastnode_build_info", labels, 1)
    return info


# ---- requests ----------------------------------------------------------------------------------------


def buckets_of(counts: Sequence[int], bounds: Iterable[float]) -> list[tuple[str, float]]:
    """Cumulative buckets from one count per bucket, the last of which is above all bounds."""
    names = [*map(floatToGoString, bounds), "+Inf"]
    return list(zip(names, map(float, itertools.accumulate(counts)), strict=True))


def duration_metrics(name: str, text: str, servers: Mapping[str, RpcServer], *, units_per_s: float) -> Metric:
    """The time of the calls of every method that was called, as a histogram."""
    family = HistogramMetricFamily(name, text, labels=("method", "set"))
    bounds = [bound / _NS_PER_S * units_per_s for bound in DURATION_BOUNDS_NS]
    for method, method_set, (counts, sum_ns) in _histograms(servers):
        family.add_metric((method, method_set), buckets_of(counts, bounds), sum_ns / _NS_PER_S * units_per_s)
    return family


def _histograms(servers: Mapping[str, RpcServer]) -> Iterator[tuple[str, str, tuple[list[int], int]]]:
    """By method and method set; other names than those of a table are one method, on all ports together."""
    other, method_set = [0] * (len(DURATION_BOUNDS_NS) + 1), "both"
    other_ns = 0
    for server in servers.values():
        method_set = server.engine.table.method_set
        meters = server.engine.meters
        if meters is None:
            continue
        for name in meters.names:
            histogram = meters.calls.histogram(name)
            if any(histogram[0]):
                yield name, method_set, histogram
        counts, sum_ns = meters.calls.histogram(None)
        other = [before + more for before, more in zip(other, counts, strict=True)]
        other_ns += sum_ns
    if any(other):
        yield OTHER, method_set, (other, other_ns)


def _calls(servers: Mapping[str, RpcServer]) -> dict[tuple[str, str], int]:
    """Counts of every method, also of those that were not called."""
    known = {
        (name, server.engine.table.method_set): 0
        for server in servers.values()
        if server.engine.meters is not None
        for name in server.engine.meters.names
    }
    known |= {(OTHER, method_set): 0 for _, method_set in known}
    return known | {(method, method_set): sum(counts) for method, method_set, (counts, _) in _histograms(servers)}


def _rpc(servers: Mapping[str, RpcServer]) -> Iterator[Metric]:
    calls = CounterMetricFamily("fastnode_rpc_calls", "JSON-RPC calls that were answered.", labels=("method", "set"))
    for (method, method_set), count in _calls(servers).items():
        calls.add_metric((method, method_set), count)
    yield calls
    yield duration_metrics(
        "fastnode_rpc_call_duration_seconds",
        "Time from the dispatch of a call to its answer, waiting for a thread or a block included.",
        servers,
        units_per_s=1,
    )
    yield _errors(servers)
    batches = HistogramMetricFamily("fastnode_rpc_batch_calls", "Calls in each batch.", labels=("port",))
    text = "Calls that are being answered in a thread, or wait for a block."
    in_flight = GaugeMetricFamily("fastnode_rpc_calls_in_flight", text, labels=("port",))
    faults = CounterMetricFamily("fastnode_rpc_internal_faults", "Unexpected exceptions in methods.", labels=("port",))
    for port, server in servers.items():
        faults.add_metric((port,), server.engine.internal_fault_count)
        meters = server.engine.meters
        if meters is not None:
            batches.add_metric((port,), buckets_of(meters.batch_counts, BATCH_BOUNDS), meters.batch_calls)
            in_flight.add_metric((port,), meters.in_flight)
    yield in_flight
    yield batches
    yield faults


def _errors(servers: Mapping[str, RpcServer]) -> Metric:
    family = CounterMetricFamily(
        "fastnode_rpc_errors", "Calls answered with an error.", labels=("method", "set", "code")
    )
    others = dict.fromkeys(_CODES_WITHOUT_METHOD, 0)
    method_set = "both"
    for server in servers.values():
        meters, method_set = server.engine.meters, server.engine.table.method_set
        if meters is None:
            continue
        codes = _CODES if server.rate_limits is None else (*_CODES, RateLimited.code)
        for name in meters.names:
            for code, count in from_zero(codes, meters.calls.errors(name)).items():
                family.add_metric((name, method_set, str(code)), count)
        for code, count in meters.calls.errors(None).items():
            others[code] = others.get(code, 0) + count
    for code, count in others.items():
        family.add_metric((OTHER, method_set, str(code)), count)
    return family


def _http(servers: Mapping[str, RpcServer]) -> Iterator[Metric]:
    received = CounterMetricFamily("fastnode_http_received_bytes", "Bytes of requests.", labels=("port",))
    sent = CounterMetricFamily("fastnode_http_sent_bytes", "Bytes of answers.", labels=("port",))
    is_open = GaugeMetricFamily("fastnode_http_connections", "Connections that are open.", labels=("port",))
    accepted = CounterMetricFamily("fastnode_http_accepted_connections", "Connections taken.", labels=("port",))
    rejected = CounterMetricFamily("fastnode_rejected", "Requests refused by a limit.", labels=("port", "limit"))
    for port, server in servers.items():
        received.add_metric((port,), server.traffic.received_bytes)
        sent.add_metric((port,), server.traffic.sent_bytes)
        is_open.add_metric((port,), server.connection_count)
        accepted.add_metric((port,), server.accepted_count)
        for limit, count in from_zero(LIMITS, server.traffic.rejected).items():
            rejected.add_metric((port, limit), count)
    yield from (received, sent, is_open, accepted, rejected)


def _cached_responses(servers: Mapping[str, RpcServer]) -> Iterator[Metric]:
    text = "Calls of methods whose results are kept while the chain does not change."
    lookups = CounterMetricFamily("fastnode_cached_response_lookups", text, labels=("port", "outcome"))
    sizes = GaugeMetricFamily("fastnode_cached_response_bytes", "Memory of results kept by params.", labels=("port",))
    for port, server in servers.items():
        kept = server.cached_responses
        lookups.add_metric((port, "hit"), kept.hit_count)
        lookups.add_metric((port, "miss"), kept.miss_count)
        sizes.add_metric((port,), kept.kept_bytes)
    yield from (lookups, sizes)


def _events(servers: Mapping[str, RpcServer]) -> Iterator[Metric]:
    events = next((server.events for server in servers.values() if server.events is not None), None)
    if events is None:
        return
    yield _gauge("event_clients", "Connections that are told of events.", events.client_count)
    sent = CounterMetricFamily("fastnode_events", "Events, once for each client they were for.", labels=("event",))
    for name, count in from_zero(EVENT_NAMES, events.sent).items():
        sent.add_metric((name,), count)
    dropped = CounterMetricFamily(
        "fastnode_event_clients_dropped", "Clients cut off that did not take their events.", labels=("reason",)
    )
    for reason, count in from_zero(DROP_REASONS, events.dropped).items():
        dropped.add_metric((reason,), count)
    yield from (sent, dropped)


def _push(servers: Mapping[str, RpcServer]) -> Iterator[Metric]:
    push = next((server.push for server in servers.values() if server.push is not None), None)
    if push is None:
        return
    yield _gauge("push_clients", "Connections that are told of events over WebSocket.", push.client_count)
    yield _gauge("push_subscriptions", "Subscriptions of these.", push.subscription_count)
    sent = CounterMetricFamily(
        "fastnode_push_messages", "Messages of subscriptions, once for each client.", labels=("topic",)
    )
    for topic, count in from_zero(TOPICS, push.sent).items():
        sent.add_metric((topic,), count)
    dropped = CounterMetricFamily(
        "fastnode_push_clients_dropped", "Clients of WebSocket cut off that did not keep up.", labels=("reason",)
    )
    for reason, count in from_zero(CLOSE_REASONS, push.dropped).items():
        dropped.add_metric((reason,), count)
    yield from (sent, dropped)


def _budgets(servers: Mapping[str, RpcServer]) -> Iterator[Metric]:
    limits = next((server.rate_limits for server in servers.values() if server.rate_limits), None)
    if limits is None:
        return
    calls = CounterMetricFamily("fastnode_client_calls", "Calls by API key.", labels=("key",))
    cost = CounterMetricFamily("fastnode_client_cost", "What the calls cost of their budgets.", labels=("key",))
    refused = CounterMetricFamily("fastnode_client_refused_calls", "Calls over the budget.", labels=("key",))
    for key, usage in limits.usage.items():
        calls.add_metric((key,), usage.calls)
        cost.add_metric((key,), usage.cost)
        refused.add_metric((key,), usage.refused)
    yield from (calls, cost, refused)
    yield _gauge("client_addresses", "Addresses without a key whose budgets are remembered.", limits.address_count)


# ---- chain -------------------------------------------------------------------------------------------


def _chain(view: View | None, recent: RecentBlocks, sync: dict[str, Any] | None) -> Iterator[Metric]:
    if view is not None:
        tips = GaugeMetricFamily("fastnode_chain_tip_block", "Block number of each tip.", labels=("tip",))
        for tip, number in tip_numbers(view).items():
            tips.add_metric((tip,), number)
        yield tips
        for newest in recent.newest(view, 1):
            text = "When the newest block was made, in seconds since 1970."
            yield _gauge("chain_tip_timestamp_seconds", text, newest.timestamp)
        text = "Oldest block with transactions' effects and logs."
        yield _gauge("chain_oldest_body_block", text, view.chain.oldest_body)
        if view.state is not None:
            yield _gauge("state_tip_block", "Newest block in the state trees.", view.state.tip.number)
    if sync is not None:
        yield _gauge("sync_degraded", "1 while the followed chain does not advance.", sync["state"] == "degraded")
        yield _gauge("sync_ready", "1 while the chain is new enough to be served.", bool(sync["isReady"]))
        if sync["lagBlocks"] is not None:
            yield _gauge("sync_lag_blocks", "Blocks behind the followed node.", sync["lagBlocks"])
        yield from l1_metrics(sync.get("l1"), sync.get("derivation"))


def _ingestion(progress: IngestionProgress) -> Iterator[Metric]:
    yield _count("ingestion_blocks", "Blocks that were added.", progress.blocks)
    yield _count("ingestion_txs", "Transactions of the blocks that were added.", progress.txs)
    phases = CounterMetricFamily(
        "fastnode_ingestion_phase_seconds", "Time in each phase of ingestion.", labels=("phase",)
    )
    for phase, seconds in progress.seconds.items():
        phases.add_metric((phase,), seconds)
    yield phases
    yield _count("reorgs", "Times that blocks were undone.", progress.undos)
    yield _count("reorg_blocks", "Blocks that were undone.", progress.undone_blocks)
    yield _gauge("reorg_deepest_blocks", "Blocks of the largest undo since the start.", progress.deepest_undo)


def _pool(mempool: Mempool | None) -> Iterator[Metric]:
    if mempool is None:
        return
    yield _gauge("pool_pending_txs", "Pending transactions.", mempool.pool.pending_count)
    rejected = CounterMetricFamily("fastnode_pool_rejected_txs", "Transactions refused.", labels=("code",))
    for code, count in from_zero(REJECTION_CODES, mempool.rejections).items():
        rejected.add_metric((code,), count)
    yield rejected
    text = "Transactions that stood on blocks which were taken back."
    yield _count("pool_lost_txs", text, mempool.pool.lost_count)
    yield from _proofs(mempool.judge)


def _proofs(judge: ProofJudge) -> Iterator[Metric]:
    if not judge.verifies:
        return
    yield _gauge("proof_verifier_ready", "0 when no proof can be judged.", judge.limitation is None)
    judged = CounterMetricFamily("fastnode_proofs_judged", "Proofs that were asked about.", labels=("verdict",))
    for judgement in Judgement:
        judged.add_metric((judgement.value,), judge.verdicts[judgement])
    yield judged
    bb = judge.bb
    if bb is None:
        return
    checks = CounterMetricFamily("fastnode_proof_checks", "Runs of the verifier program.", labels=("verdict",))
    for judgement in Judgement:
        checks.add_metric((judgement.value,), bb.checks[judgement])
    yield checks
    yield _count("proof_check_seconds", "Time that runs of the verifier program took.", bb.check_seconds)
    yield _gauge("proof_checks_running", "Proofs that are being checked.", bb.running_count)
    yield _gauge("proof_checks_waiting", "Proofs that wait for their turn.", bb.waiting_count)
    yield _count("proof_checks_turned_away", "Proofs for which there was no place or time.", bb.turned_away_count)
    yield _count("proof_verdicts_kept_used", "Proofs whose verdict was known from before.", bb.kept_hits)


def _tags(tags: KnownTags) -> Iterator[Metric]:
    yield _gauge("tag_filter_tags", "Log tags in the filter.", tags.tag_count)
    yield _gauge("tag_filter_bytes", "Memory of the filter of log tags.", tags.size)
    tag_filter = tags.reader_filter
    yield _gauge("tag_filter_ready", "1 when the filter is complete.", tag_filter is not None)
    lookups = CounterMetricFamily(
        "fastnode_tag_filter_lookups",
        "Tags that were asked for: unknown to the filter, found in the database, or missed there.",
        labels=("outcome",),
    )
    if tag_filter is not None:
        lookups.add_metric(("unknown",), tag_filter.unknown_count)
        lookups.add_metric(("found",), tag_filter.found_count)
        lookups.add_metric(("missed",), tag_filter.missed_count)
    yield lookups


def _databases(directory: Path) -> Iterator[Metric]:
    sizes = GaugeMetricFamily("fastnode_database_bytes", "Bytes of files on the disk.", labels=("database",))
    for name, folder in DATABASES.items():
        sizes.add_metric((name,), _bytes_below(directory / folder))
    yield sizes
    yield _gauge("disk_free_bytes", "Room on the disk of the data directory.", free_bytes(directory))
    yield _gauge("disk_required_bytes", "With less room than this nothing is written.", ROOM_BYTES)


def _health(health: Health) -> Iterator[Metric]:
    yield _gauge("ready", "What GET /readyz says: 1 when requests should be sent here.", health.not_ready is None)
    parts = GaugeMetricFamily("fastnode_component_failing", "1 for what /status finds wrong.", labels=("component",))
    for name, reason in health.components.items():
        parts.add_metric((name,), reason is not None)
    yield parts


def _snapshots(uploads: SnapshotUploads | None) -> Iterator[Metric]:
    if uploads is None:
        return
    yield _gauge("snapshot_uploading", "1 while a snapshot is copied and uploaded.", uploads.is_uploading)
    ended = CounterMetricFamily("fastnode_snapshot_uploads", "Uploads that have ended.", labels=("outcome",))
    for outcome in UPLOAD_OUTCOMES:
        ended.add_metric((outcome,), uploads.outcomes[outcome])
    yield ended
    if uploads.last_block is not None and uploads.last_time is not None:
        yield _gauge("snapshot_last_block", "Newest block of the last snapshot uploaded.", uploads.last_block)
        text = "When the last snapshot was uploaded, in seconds since 1970."
        yield _gauge("snapshot_last_timestamp_seconds", text, uploads.last_time)


def _bytes_below(directory: Path) -> int:
    total = 0
    if directory.is_dir():
        for path in directory.iterdir():
            try:
                total += path.stat().st_size
            except FileNotFoundError:  # a compaction has just removed it
                continue
    return total


def _loop(lag: LoopLag | None) -> Iterator[Metric]:
    if lag is not None:
        family = HistogramMetricFamily(
            "fastnode_event_loop_lag_seconds", "How late the event loop comes to what is due."
        )
        family.add_metric((), buckets_of(lag.counts, LAG_BOUNDS_S), lag.total_s)
        yield family


def _other_servers(times: ExchangeTimes | None) -> Iterator[Metric]:
    if times is None:
        return
    text = "Requests to other servers, from sending to the last byte of the answer."
    taken = SummaryMetricFamily("fastnode_outgoing_request_seconds", text, labels=("server",))
    failed = CounterMetricFamily(
        "fastnode_outgoing_failures", "Requests to other servers without an answer.", labels=("server",)
    )
    for server, (count, seconds, failures) in times.by_server().items():
        taken.add_metric((server,), count, seconds)
        failed.add_metric((server,), failures)
    yield taken
    yield failed
