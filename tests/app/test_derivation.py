"""The derivation reads blobs wherever a node has them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastnode.app.stages.derivation import Derivation
from fastnode.config.settings import Settings
from fastnode.protocol.kzg import versioned_hash
from fastnode.sources.blobs.base import BlobRequest
from fastnode.sources.blobs.own import OWN_BLOBS, OwnBlobs

NOBODY: Any = None
FACTS: Any = SimpleNamespace(chain_id=31337, version=1, rollup=bytes(20))


@pytest.mark.parametrize("is_sequencer", [True, False])
def test_a_sequencer_reads_the_blobs_that_it_has_published_itself(tmp_path: Path, is_sequencer: bool) -> None:
    """From its first start on, whenever its chain was learned; no other node looks for them."""
    settings = Settings(sequencer=is_sequencer)
    derivation = Derivation(settings, NOBODY, NOBODY, NOBODY, tmp_path)
    try:
        own = derivation._sources(FACTS).own
    finally:
        derivation.close()
    commitment = bytes(48)
    OwnBlobs(tmp_path / OWN_BLOBS).keep([b"blob"], [commitment])
    request = BlobRequest(1, (versioned_hash(commitment),), 1, bytes(32), 1, lambda: None)
    found = [] if own is None else [given.data for given in own.fetch(request)]
    assert found == [b"blob"] * is_sequencer
