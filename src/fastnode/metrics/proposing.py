"""Metrics of a node that proposes checkpoints, proves epochs, or both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

__all__ = ["prover_metrics", "sequencer_metrics"]


def sequencer_metrics(told: Mapping[str, Any]) -> Iterator[Metric]:
    """``told``: the sequencer as it describes itself for the status page."""
    slots = CounterMetricFamily("fastnode_slots", "Slots by what became of them.", labels=["outcome"])
    for outcome, count in told["slots"].items():
        slots.add_metric([outcome], count)
    yield slots
    yield CounterMetricFamily("fastnode_proposed_blocks", "Blocks of published checkpoints.", value=told["blocks"])
    text = "Transactions of published checkpoints."
    yield CounterMetricFamily("fastnode_proposed_txs", text, value=told["txs"])
    attestations = told.get("attestations")
    if attestations is not None:
        text = "Checkpoints of other validators by whether this node attested to them."
        judged = CounterMetricFamily("fastnode_judged_checkpoints", text, labels=["outcome"])
        for outcome, key in (("attested", "attested"), ("found_right", "foundRight"), ("refused", "refused")):
            judged.add_metric([outcome], attestations[key])
        yield judged
    votes = told.get("votes")
    if votes is not None:
        text = "Votes of this node's validators, and executions of what was voted for, by what became of them."
        cast = CounterMetricFamily("fastnode_votes", text, labels=["kind", "outcome"])
        for kind, outcomes in votes.items():
            for outcome, count in outcomes.items():
                cast.add_metric([kind, outcome], count)
        yield cast
    newest = next((item for item in told["newest"] if item["outcome"] == "proposed"), None)
    if newest is not None:
        text = "From the first look at the newest slot of this node until L1 had its checkpoint."
        yield GaugeMetricFamily("fastnode_slot_seconds", text, value=newest["seconds"])


def prover_metrics(told: Mapping[str, Any]) -> Iterator[Metric]:
    """``told``: the prover as it describes itself for the status page."""
    yield CounterMetricFamily("fastnode_proven_epochs", "Proofs that L1 has taken.", value=told["epochs"])
    yield CounterMetricFamily("fastnode_proof_failures", "Times that an epoch was not proven.", value=told["failures"])
    text = "Blocks of proven epochs, by how they were verified."
    blocks = CounterMetricFamily("fastnode_proven_blocks", text, labels=["verified"])
    blocks.add_metric(["executed"], told["blocksReexecuted"])
    blocks.add_metric(["roots"], told["blocksByRootsAlone"])
    yield blocks
