"""A process that begins with a snapshot and goes on from L1."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.snapshots.conftest import create_leaves, import_checkpoints
from tests.sources.l1.derivation.deriving import Deriving
from tests.sources.l1.publishing import PublishingL1, RecordedL1, publish
from tests.sources.made_chain import SHAPE, MadeChain

from fastnode.development.synthetic_chain import ChainShape
from fastnode.snapshots.create import create_snapshot
from fastnode.snapshots.location import Location

#: Of the recorded chain: in the snapshot, and all.
CHECKPOINTS, ALL_CHECKPOINTS, TIP = 8, 41, 106


@pytest.fixture
def shape() -> ChainShape:
    """Messages stay where they are when checkpoints are replaced, so this chain has none."""
    return replace(SHAPE, l1_to_l2=0)


def start(start_node: Callable[..., Any], tmp_path: Path, l1: PublishingL1, *more: object) -> Any:
    """A node that has nothing but a place with one snapshot, and L1."""
    return start_node(
        *("--data-directory", tmp_path / "data", "--snapshots-urls", f"file://{tmp_path}/location"),
        *("--l1-rpc-urls", l1.url, "--l1-consensus-host-urls", l1.beacon.url, "--metrics-port=0"),
        *("--registry-address", l1.addresses.registry, "--max-allowed-eth-client-drift-seconds=0", *more),
    )


def derived(node: Any) -> int:
    """Checkpoints that came from L1."""
    count: int = node.call("fastnode_getSyncStatus")["result"]["derivation"]["derivedCheckpoints"]
    return count


@pytest.mark.parametrize("form", ["history", "leaves"])
def test_a_node_begins_with_a_snapshot_and_goes_on_from_l1(
    tmp_path: Path,
    start_node: Callable[..., Any],
    sample_chain: Path,
    sample: list[Any],
    recorded: RecordedL1,
    form: str,
) -> None:
    made = import_checkpoints(sample_chain, CHECKPOINTS, tmp_path / "made" / "data")
    if form == "leaves":
        create_leaves(made, tmp_path / "location")
    else:
        create_snapshot(made, Location.to_write(f"file://{tmp_path}/location"), nullcontext())
    node = start(start_node, tmp_path, recorded)
    node.wait_for_line("caught up")
    node.wait_until_serving()
    begun = node.wait_for_line("starting from a snapshot")
    assert (begun["block"], begun["form"]) == (16, form)
    assert node.call("node_getBlockNumber")["result"] == TIP
    assert node.call("node_getL2Tips")["result"]["checkpointed"] == sample[-1]["tips"]["checkpointed"]
    assert derived(node) == ALL_CHECKPOINTS - CHECKPOINTS
    assert node.stop() == 0


def test_a_snapshot_of_blocks_that_l1_does_not_have_is_named_and_everything_comes_from_l1(
    tmp_path: Path, start_node: Callable[..., Any], chain: MadeChain, l1: PublishingL1
) -> None:
    """Nothing in it is damaged: it was L1's chain once, or a forger worked it out."""
    with ExitStack() as stack:
        Deriving(tmp_path / "copied", chain.chain_record, chain.genesis, l1, stack).pass_()
    create_snapshot(tmp_path / "copied", Location.to_write(f"file://{tmp_path}/location"), nullcontext())
    chain.undo_to(1)
    l1.prune_to(1)
    for blocks in (1, 2, 1):
        chain.checkpoint(blocks)
        publish(l1, chain.units[-1])
    node = start(start_node, tmp_path, l1, "--genesis", l1.genesis)
    reason = node.wait_for_line("a snapshot cannot be used")["reason"]
    assert "its newest checkpoint 3 has the archive root" in reason
    node.wait_for_line("no snapshot can be used")
    node.wait_for_line("caught up")
    node.wait_until_serving()
    assert node.call("node_getL2Tips")["result"]["checkpointed"] == chain.tips().to_json()["checkpointed"]
    assert derived(node) == len(chain.units) == 4
