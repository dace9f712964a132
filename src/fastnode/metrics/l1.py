"""Metrics of a node that reads L1, and of the chain that it derives from there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

__all__ = ["l1_metrics"]

#: Metrics of each node of L1: name and text of the metric, key in the status.
_NODE_COUNTS: Final = (
    ("l1_requests", "Requests to a node of L1.", "requests"),
    ("l1_calls", "Calls in them, as providers count them: each of a batch.", "calls"),
    ("l1_answer_bytes", "Bytes of its answers.", "bytes"),
    ("l1_waits", "Times that it was not asked for a while: it failed, or said that it is asked too fast.", "waits"),
    ("l1_wait_seconds", "How long it was not asked because of that.", "waitedSeconds"),
    ("l1_refused_calls", "Calls that it refused because of a limit of its own.", "refusedCalls"),
)
#: The same for gauges, left out where no limit is known.
_NODE_LIMITS: Final = (
    ("l1_batch_calls", "Calls of one request to a node of L1, at most, as far as it grants them.", "batchCalls"),
    ("l1_calls_per_second", "Calls per second that a node of L1 grants, once it has refused some.", "callsPerSecond"),
    ("l1_log_blocks", "Blocks of one log query that a node of L1 grants, once it has refused some.", "logBlocks"),
)
#: Metrics of each source of blobs.
_SOURCE_COUNTS: Final = (
    ("blob_source_blobs", "Blobs that a source gave and that were right.", "blobs"),
    ("blob_source_wrong_blobs", "Blobs that a source gave and whose data has another hash.", "wrongBlobs"),
    ("blob_source_failures", "Times that a source could not be asked.", "failures"),
)


def l1_metrics(l1: Mapping[str, Any] | None, derivation: Mapping[str, Any] | None) -> Iterator[Metric]:
    """From the parts ``l1`` and ``derivation`` of the status; None for what the node does not do."""
    if l1 is not None:
        yield from _reading(l1)
    if derivation is not None:
        yield from _deriving(derivation)


def _reading(l1: Mapping[str, Any]) -> Iterator[Metric]:
    yield _gauge("l1_degraded", "1 while L1 is not read, or contradicts the stored chain.", l1["reason"] is not None)
    if l1["isCanonical"] is not None:
        text = "1 while the rollup is the one that the registry names as canonical."
        yield _gauge("l1_rollup_canonical", text, l1["isCanonical"])
    if l1["block"] is not None:
        yield _gauge("l1_block", "Newest L1 block that was read.", l1["block"])
        yield _gauge("l1_messages", "Messages that were ever sent from L1.", l1["messages"])
    yield from _counts(_NODE_COUNTS, "node", l1["nodes"])
    for name, text, key in _NODE_LIMITS:
        family = GaugeMetricFamily(f"fastnode_{name}", text, labels=["node"])
        for node in l1["nodes"]:
            if node[key] is not None:
                family.add_metric([node["name"]], node[key])
        yield family


def _deriving(derivation: Mapping[str, Any]) -> Iterator[Metric]:
    if derivation["newestCheckpoint"] is not None:
        yield _gauge("derivation_newest_checkpoint", "Newest checkpoint on L1.", derivation["newestCheckpoint"])
    text = "Checkpoints that were derived from L1 since the start."
    yield CounterMetricFamily("fastnode_derivation_checkpoints", text, value=derivation["derivedCheckpoints"])
    progress = derivation["progress"]
    if progress is not None and progress["etaSeconds"] is not None:
        yield _gauge("derivation_eta_seconds", "Until the newest checkpoint of L1 is stored.", progress["etaSeconds"])
    waiting = derivation["waitingForBlobs"]
    yield _gauge(
        "derivation_waiting_for_blobs",
        "The checkpoint whose blobs no source has; 0 if there is none.",
        0 if waiting is None else waiting["checkpoint"],
    )
    invalid = derivation["invalidCheckpoint"]
    yield _gauge(
        "derivation_invalid_checkpoint",
        "The checkpoint on L1 that its committee does not stand behind; 0 if there is none.",
        0 if invalid is None else invalid["checkpoint"],
    )
    text = "Bytes of blobs, without the zeros at their ends."
    yield CounterMetricFamily("fastnode_derivation_blob_bytes", text, value=derivation["blobBytes"])
    yield from _counts(_SOURCE_COUNTS, "source", derivation["blobSources"])


def _counts(counts: Sequence[tuple[str, str, str]], label: str, items: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    for name, text, key in counts:
        family = CounterMetricFamily(f"fastnode_{name}", text, labels=(label,))
        for item in items:
            family.add_metric((item["name"],), item[key])
        yield family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"fastnode_{name}", text, value=value)
