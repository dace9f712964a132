"""A fisherman on a real L1: it builds in each slot, whoever's it is, judges what others propose, and sends nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import NodeProcess
from tests.ports import free_ports
from tests.publishing.live_l1 import needs_anvil
from tests.sequencing.network import ProposingNetwork, checkpointed, tips, wait_until, warm_up

pytestmark = needs_anvil

BUILDS = ("--sequencer", "--fisherman-mode", "--min-txs-per-block", 0, "--build-checkpoint-if-empty")
ON_NETWORK = (
    *("--p2p-enabled", "--p2p-listen-addr=127.0.0.1", "--p2p-ip=127.0.0.1"),
    "--debug-p2p-disable-colocation-penalty",
)


def entries(node: NodeProcess, message: str) -> list[dict[str, Any]]:
    return [entry for entry in node.entries() if entry["message"] == message]


def test_without_keys_a_fisherman_builds_what_l1_would_take_and_sends_nothing(alone: ProposingNetwork) -> None:
    node = alone.node(*BUILDS)
    wait_until(lambda: entries(node, "slot"), alone.log)
    alone.begin_slot()
    wait_until(lambda: len(entries(node, "slot")) == 2, alone.log)
    assert [entry["outcome"] for entry in entries(node, "slot")] == ["built", "built"], alone.log()
    assert (alone.anvil.pool(), alone.pending, tips(node)["proposed"]["number"]) == ([], 0, 0)
    assert node.call("node_isReady")["result"] is False, "a transaction could go nowhere"
    assert not list(Path(alone.directory).glob("data-1/publishing/slot"))
    assert node.stop() == 0


def test_in_slots_of_others_it_builds_too_and_says_whether_their_checkpoints_are_right(
    committee: ProposingNetwork,
) -> None:
    warm_up(committee.anvil)
    ours, theirs = free_ports(2)
    upload = ("--blob-file-store-upload-url", committee.store_url)
    proposer = committee.proposer(*ON_NETWORK, *upload, f"--p2p-port={theirs}", keys=range(6))
    peer = (f"--p2p-port={ours}", f"--p2p-peer=127.0.0.1:{theirs}")
    node = committee.node(*BUILDS, *ON_NETWORK, *peer)
    node.wait_for_line("peer connected")
    wait_until(committee.anvil.pool, committee.log)
    committee.anvil.mine()
    for _ in range(2):
        committee.mine_slot()
    wait_until(lambda: checkpointed(node) == checkpointed(proposer) == 3, committee.log)
    wait_until(lambda: entries(node, "a checkpoint is right"), committee.log)
    assert not entries(node, "a checkpoint is not attested to")
    # A proposer that is sooner is judged; in the slots of a silent one there is still what it could have built.
    assert proposer.stop() == 0
    committee.begin_slot()
    wait_until(lambda: entries(node, "slot"), committee.log)
    assert entries(node, "slot")[-1]["outcome"] == "built", committee.log()
    assert (committee.anvil.pool(), committee.pending) == ([], 3)
    assert node.stop() == 0
