"""Metrics of a node that proposes and proves."""

from __future__ import annotations

from fastnode.metrics.proposing import sequencer_metrics
from fastnode.sequencing.record import SlotOutcome, SlotRecord


def test_slots_and_judged_checkpoints_are_counted_by_what_became_of_them() -> None:
    record = SlotRecord()
    record.note(1, SlotOutcome.PROPOSED, checkpoint=1, blocks=2, txs=3, seconds=4.0)
    record.note(2, SlotOutcome.MISSED, "too few attestations")
    sequencer = {"state": "", **record.describe(), "attestations": {}}
    sequencer["attestations"] = {"attested": 5, "foundRight": 2, "refused": 1, "refusal": None}
    sequencer["votes"] = {"governance": {"cast": 7}, "slashing": {"failed": 8}}
    samples = {
        (sample.name, sample.labels.get("outcome")): sample.value
        for metric in sequencer_metrics(sequencer)
        for sample in metric.samples
    }
    assert samples[("fastnode_slots_total", "missed")] == 1
    assert samples[("fastnode_proposed_txs_total", None)] == 3
    assert samples[("fastnode_slot_seconds", None)] == 4.0
    assert samples[("fastnode_judged_checkpoints_total", "attested")] == 5
    assert samples[("fastnode_judged_checkpoints_total", "refused")] == 1
    assert samples[("fastnode_votes_total", "cast")] == 7
    assert samples[("fastnode_votes_total", "failed")] == 8


def test_a_sequencer_without_peers_judges_no_checkpoints() -> None:
    alone = {"state": "", **SlotRecord().describe()}
    names = {metric.name for metric in sequencer_metrics(alone)}
    assert "fastnode_judged_checkpoints" not in names
