"""Metrics under the names of the network's reference node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prometheus_client import generate_latest
from tests.metrics.test_collector import Samples

from fastnode.archiver.progress import IngestionProgress
from fastnode.log_index.known_tags import KnownTags
from fastnode.metrics.collector import Sources, registry_of
from fastnode.metrics.reference_names import ReferenceCollector


def samples_of(sync: dict[str, Any] | None) -> Samples:
    sources = Sources(
        servers={},
        view=lambda: None,
        progress=IngestionProgress(),
        data_directory=Path("/nowhere"),
        known_tags=KnownTags(1 << 10),
        sync_status=lambda: sync,
    )
    return Samples(generate_latest(registry_of(ReferenceCollector(sources))).decode())


def test_the_height_of_l1_is_that_of_the_newest_block_read_and_absent_before() -> None:
    name = "aztec_archiver_l1_block_height"
    assert samples_of({"l1": {"block": 1234}}).get(name) == 1234
    for sync in ({"l1": {"block": None}}, {"l1": None}, {}, None):
        assert name not in samples_of(sync).names()
