"""Pausing, resuming and going back, over the admin port of a whole node in each method set."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest
from tests.api.test_validators import Start
from tests.conftest import ADMIN_KEY_HASH, NodeProcess

#: Newest block of the sample chain.
TIP = 106


@pytest.fixture(params=["release", "development", "both"])
def method_set(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def loaded(start_node: Start, sample_chain: Path, method_set: str) -> NodeProcess:
    node = start_node(
        "--chain-file", sample_chain, "--method-set", method_set, SVC_ADMIN_API_KEY_HASH=ADMIN_KEY_HASH
    ).wait_until_serving()
    node.wait_for_line("chain file loaded")
    return node


def tip_of(node: NodeProcess) -> int:
    return int(node.call("node_getBlock", "latest")["result"]["header"]["globalVariables"]["blockNumber"])


def first_block_of(node: NodeProcess, checkpoint: int) -> int:
    block = 1
    while node.call("node_getBlock", block)["result"]["checkpointNumber"] != checkpoint:
        block += 1
    return block


def last_block_before(node: NodeProcess, block: int) -> int:
    """The last block of the checkpoint before that of ``block``."""
    number = node.call("node_getBlock", block)["result"]["checkpointNumber"]
    while node.call("node_getBlock", block)["result"]["checkpointNumber"] == number:
        block -= 1
    return block


def test_a_node_can_be_paused_and_resumed_as_often_as_one_likes(start_node: Start, sample_chain: Path) -> None:
    node = loaded(start_node, sample_chain, "both")
    for method, state, said in (
        ("pauseSync", "paused", b"OK\nsync: paused"),
        ("pauseSync", "paused", b"OK\nsync: paused"),
        ("resumeSync", "serving", b"OK"),
        ("resumeSync", "serving", b"OK"),
    ):
        assert node.call_admin(f"nodeAdmin_{method}") == {"jsonrpc": "2.0", "id": 1, "result": None}
        assert tip_of(node) == TIP
        assert node.call("fastnode_getSyncStatus")["result"]["state"] == state
        with urllib.request.urlopen(f"{node.url}/status", timeout=30) as answer:
            assert answer.read() == said
    node.wait_for_line("sync paused")
    node.wait_for_line("sync resumed")
    node.wait_for_line("resumeSync: the sync is running already")
    assert node.call_admin("nodeAdmin_pauseSync", 1)["error"]["code"] == -32602


@pytest.mark.parametrize("state", ["paused", "serving"])
def test_a_refused_rollback_leaves_ingestion_as_it_was(start_node: Start, sample_chain: Path, state: str) -> None:
    node = loaded(start_node, sample_chain, "both")
    if state == "paused":
        node.call_admin("nodeAdmin_pauseSync")
    inside = last_block_before(node, TIP) - 1
    # Each the other way from how it is: resumed at the end, left at rest at the end.
    for target in (TIP, inside, 1, TIP + 1000):
        assert node.call_admin("nodeAdmin_rollbackTo", target, False, state == "paused")["error"]["code"] == -32000
        assert node.call("fastnode_getSyncStatus")["result"]["state"] == state
    if state == "serving":
        assert not any(entry["message"] in ("sync paused", "sync resumed") for entry in node.entries())


def test_a_chain_is_taken_back_by_the_rules_of_its_method_set(
    start_node: Start, sample_chain: Path, method_set: str
) -> None:
    node = loaded(start_node, sample_chain, method_set)
    first = last_block_before(node, TIP)
    inside = first - 1
    while (
        node.call("node_getBlock", inside)["result"]["checkpointNumber"]
        != (node.call("node_getBlock", inside + 1)["result"]["checkpointNumber"])
    ):
        inside -= 1

    refusal = node.call_admin("nodeAdmin_rollbackTo", inside)["error"]
    assert refusal["code"] == -32000
    assert refusal["message"].startswith(f"Target L2 block {inside} is not at a checkpoint boundary. Checkpoint ")
    assert refusal["data"] == {"code": "ROLLBACK_REFUSED"}
    beyond = node.call_admin("nodeAdmin_rollbackTo", TIP)["error"]["message"]
    assert beyond == f"Target L2 block {TIP} must be less than current L2 block {TIP}"
    for wrong in ([], ["three"], [-1], [1.5], [None], [first, "yes"]):
        assert node.call_admin("nodeAdmin_rollbackTo", *wrong)["error"]["code"] == -32602
    assert tip_of(node) == TIP

    assert node.call_admin("nodeAdmin_rollbackTo", first) == {"jsonrpc": "2.0", "id": 1, "result": None}
    assert tip_of(node) == first
    node.wait_for_line("sync resumed")

    early = last_block_before(node, first_block_of(node, checkpoint=3))
    unforced = node.call_admin("nodeAdmin_rollbackTo", early)["error"]["message"]
    assert unforced.startswith(f"Cannot rollback to block {early} as it is before finalized ")
    forced = node.call_admin("nodeAdmin_rollbackTo", early, True, False)
    if method_set == "release":
        # It knows the target only: nothing can force a rollback there, and it always goes on.
        assert forced["error"]["code"] in (-32000, -32602)
        assert tip_of(node) == first
    else:
        assert forced == {"jsonrpc": "2.0", "id": 1, "result": None}
        assert tip_of(node) == early
        said = [entry["message"] for entry in node.entries()]
        assert "forced rollback: the world state and the pool are cleared" in said
        assert said[-1] == "rolled back"  # and nothing is resumed
        status = node.call("node_getWorldStateSyncStatus")["result"]
        assert (status["latestBlockNumber"], status["treesAreSynched"]) == (early, True)
