"""A first start with a snapshot: what it claims is held against L1."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.snapshots.conftest import import_checkpoints
from tests.sources.l1.publishing import RecordedL1

from fastnode.app.stages.origins import Origins
from fastnode.config.settings import Settings
from fastnode.errors import StartError
from fastnode.snapshots.create import create_snapshot
from fastnode.snapshots.index import Network
from fastnode.snapshots.location import Location
from fastnode.snapshots.startup import start_from_snapshot
from fastnode.snapshots.stored_chain import stored_chain

CHECKPOINTS = 8


@pytest.fixture
def l1(recorded: RecordedL1) -> RecordedL1:
    return recorded


@pytest.fixture
def location(sample_chain: Path, tmp_path: Path) -> Path:
    """A place with one snapshot."""
    made = import_checkpoints(sample_chain, CHECKPOINTS, tmp_path / "made" / "data")
    create_snapshot(made, Location.to_write(f"file://{tmp_path}/location"), nullcontext())
    return tmp_path / "location"


def start(location: Path, l1: RecordedL1, target: Path, **settings: Any) -> bool:
    """Whether the snapshot was taken."""
    values: dict[str, Any] = {
        "l1_rpc_urls": (l1.url,),
        "l1_consensus_host_urls": (l1.beacon.url,),
        "registry_address": l1.addresses.registry,
        "max_allowed_eth_client_drift_seconds": 0,
    }
    origins = Origins(Settings(**(values | settings)), lambda: None)
    network = Network(l1.chain_id, l1.version, l1.addresses.rollup)
    try:
        return start_from_snapshot(
            "snapshot",
            [f"file://{location}"],
            target,
            learn_network=lambda: network,
            confirm=origins.confirm,
        )
    finally:
        origins.close()


def refusal(caplog: pytest.LogCaptureFixture) -> str:
    [line] = [record for record in caplog.records if record.message == "a snapshot cannot be used"]
    reason: str = line.__dict__["fields"]["reason"] if "fields" in line.__dict__ else str(line.__dict__)
    return reason


def test_a_snapshot_of_what_l1_has_is_taken(location: Path, l1: RecordedL1, tmp_path: Path) -> None:
    assert start(location, l1, tmp_path / "target")
    stored = stored_chain(tmp_path / "target")
    assert stored is not None
    assert stored.block_number == 16


def test_a_snapshot_of_another_chain_than_that_on_l1_is_not_taken(
    location: Path, l1: RecordedL1, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is right in itself: every hash of it can be worked out again."""
    other = b"\7" * 32
    l1.blocks = [
        replace(block, archives=tuple(other if number == CHECKPOINTS else root for number, root in enumerate(roots)))
        for block in l1.blocks
        for roots in [block.archives]
    ]
    assert not start(location, l1, tmp_path / "target")
    assert stored_chain(tmp_path / "target") is None
    assert f"its newest checkpoint {CHECKPOINTS} has the archive root" in refusal(caplog)
    assert "0707" in refusal(caplog)


def test_a_snapshot_that_says_another_l1_block_is_not_taken(
    location: Path, l1: RecordedL1, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Everything that is new would be looked for behind that block."""
    moved = [block.proposals for block in l1.blocks]
    place = next(at for at, proposals in enumerate(moved) if any(item.number == CHECKPOINTS for item in proposals))
    l1.blocks[place + 1] = replace(l1.blocks[place + 1], proposals=moved[place])
    l1.blocks[place] = replace(l1.blocks[place], proposals=())
    assert not start(location, l1, tmp_path / "target")
    assert f"checkpoint {CHECKPOINTS} was not proposed in L1 block {place}" in refusal(caplog)


def test_a_snapshot_waits_for_l1_no_longer_than_the_node(location: Path, l1: RecordedL1, tmp_path: Path) -> None:
    with pytest.raises(StartError, match="no code at the address of the registry"):
        start(location, l1, tmp_path / "target", registry_address="0x" + "12" * 20)
    assert stored_chain(tmp_path / "target") is None
