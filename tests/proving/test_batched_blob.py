"""The batched blob of an epoch, against what the reference node computed for recorded epochs."""

from __future__ import annotations

import gzip
import json
import lzma
from dataclasses import replace
from pathlib import Path

import pytest

from fastnode.protocol.blobs import checkpoint_blob_fields
from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.releases import FIVE, FOUR
from fastnode.proving.batched_blob import batch

DATA = Path(__file__).parents[1] / "data" / "publishing"


def recorded() -> list[dict[str, object]]:
    with gzip.open(DATA / "batched_blob.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="module")
def fields(sample_chain: Path) -> list[bytes]:
    """Blob fields of the first checkpoints of the recorded chain."""
    with lzma.open(sample_chain, "rt") as lines:
        records = [json.loads(line) for _, line in zip(range(16), lines, strict=False)]
    published = [record["published"] for record in records if record["kind"] == "checkpoint"]
    return [checkpoint_blob_fields(PublishedCheckpoint.from_json(item).checkpoint.blocks) for item in published]


@pytest.mark.parametrize("row", recorded(), ids=lambda row: f"checkpoints-{row['checkpoints']}")
def test_a_batch_is_what_the_reference_computed(row: dict[str, list[int]], fields: list[bytes]) -> None:
    batched = batch([fields[place] for place in row["checkpoints"]], FOUR.blob_separators)
    assert "0x" + batched.commitments_hash.hex() == row["blobCommitmentsHash"]
    assert "0x" + batched.inputs.hex() == row["inputs"]


def test_each_hash_of_5_x_has_a_separator_of_its_own(fields: list[bytes]) -> None:
    """Their values and places are those of the network's source; no batch of a live network was seen."""
    plain = batch(fields[:2], FOUR.blob_separators)
    batches = {FIVE.name: batch(fields[:2], FIVE.blob_separators)}
    names = ("challenge", "challenges", "value", "values", "factor")
    for name in names:
        alone = {name: getattr(FIVE.blob_separators, name)}
        batches[name] = batch(fields[:2], replace(FOUR.blob_separators, **alone))
    assert len({item.inputs for item in (plain, *batches.values())}) == len(names) + 2
    assert {item.commitments_hash for item in batches.values()} == {plain.commitments_hash}
    assert [batches[name].z != plain.z for name in names] == [True, True, False, False, False]
