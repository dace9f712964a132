"""A node as a process of its own, with another node and L1 beside it."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PATIENCE_S
from tests.public_execution.made import tx_running
from tests.sources.l1.conftest import publish_on_l1
from tests.sources.l1.scripted_l1 import ScriptedL1
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream


@pytest.fixture(params=[0, 1], ids=["one process", "with a worker"])
def node(
    tmp_path: Path,
    start_node: Callable[..., Any],
    chain: MadeChain,
    upstream: ScriptedUpstream,
    l1: ScriptedL1,
    request: pytest.FixtureRequest,
) -> Any:
    genesis = chain.write_genesis(tmp_path / "genesis.jsonl")
    node = start_node(
        *("--data-directory", tmp_path / "data", "--genesis", genesis, "--metrics-port=0"),
        *("--upstream-url", upstream.url, "--archiver-polling-interval-ms=10", "--l1-polling-interval-ms=10"),
        *("--sentinel-enabled", "--method-set=both", f"--workers={request.param}"),
        ETHEREUM_HOSTS=l1.url,
    )
    node.wait_until_serving()
    if request.param:
        node.wait_for_line("worker serves")
    return node


def _wait(condition: Callable[[], object], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


def _result(node: Any, method: str, *parameters: object) -> Any:
    return node.call(method, *parameters).get("result")


def _wait_for_tip(node: Any, tip: int) -> None:
    _wait(
        lambda: _result(node, "node_getBlockNumber") == tip and _result(node, "node_isReady"),
        lambda: node.call("fastnode_getSyncStatus"),
    )


def _status(node: Any) -> dict[str, Any]:
    components: dict[str, Any] = node.components()
    return components


def test_a_simulation_is_in_the_slot_that_l1_is_in(node: Any, chain: MadeChain, l1: ScriptedL1) -> None:
    _wait_for_tip(node, chain.tip)
    tx = tx_running(b"").to_json()

    def timestamp() -> int:
        return int(_result(node, "node_simulatePublicCalls", tx, True)["globalVariables"]["timestamp"])

    tomorrow = l1.mine(timestamp=timestamp() + 86_400).timestamp
    slot_s = int(chain.chain_record["l1Constants"]["slotDuration"])
    _wait(lambda: abs(timestamp() - tomorrow) <= slot_s, lambda: (timestamp(), tomorrow))
    assert node.stop() == 0


def test_a_node_answers_with_what_l1_says(
    node: Any, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1
) -> None:
    _wait_for_tip(node, chain.tip)
    status = _result(node, "fastnode_getSyncStatus")["l1"]
    assert status["state"] == "reading"
    assert status["messages"] == len(l1.head.sent) > 0
    assert l1.url.rpartition(":")[2] not in json.dumps(status)
    message = "0x" + l1.head.sent[0].hash.hex()
    assert _result(node, "node_getL1ToL2MessageCheckpoint", message) == l1.head.sent[0].checkpoint
    l1.mine(minimum_fee=4321)
    fees = {"feePerDaGas": "0", "feePerL2Gas": "4321"}
    _wait(lambda: _result(node, "node_getCurrentMinFees") == fees, lambda: node.call("node_getCurrentMinFees"))
    assert _status(node)["l1"] == {"ok": True}


def test_a_message_to_l1_is_proven_against_the_root_that_l1_has(node: Any, chain: MadeChain, l1: ScriptedL1) -> None:
    _wait_for_tip(node, chain.tip)
    block = next(block for block in chain.blocks if any(effect.l2_to_l1_msgs for effect in block.body.tx_effects))
    effect = next(effect for effect in block.body.tx_effects if effect.l2_to_l1_msgs)
    tx_hash, message = "0x" + effect.tx_hash.hex(), "0x" + effect.l2_to_l1_msgs[0].hex()
    epoch = block.header.global_variables.slot_number // chain.epoch_slots
    ask = ("node_getL2ToL1MembershipWitness", tx_hash, message, 0)
    assert _result(node, *ask) is None
    published = next(unit for unit in chain.units if unit.number == block.checkpoint_number)
    assert published.published is not None
    root = published.published["checkpoint"]["header"]["epochOutHash"]
    number = l1.mine(outbox=((epoch, bytes.fromhex(root[2:])),)).number
    _wait(lambda: _result(node, "fastnode_getSyncStatus")["l1"]["block"] == number, lambda: number)
    assert _result(node, *ask)["root"] == root


def test_a_node_whose_l1_is_away_says_so_serves_on_and_recovers(
    node: Any, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1
) -> None:
    _wait_for_tip(node, chain.tip)
    l1.stop()
    _wait(lambda: not _status(node)["l1"]["ok"], lambda: _status(node))
    assert "cannot connect" in _status(node)["l1"]["reason"]
    assert _result(node, "node_getBlockNumber") == chain.tip
    with urllib.request.urlopen(f"{node.url}/readyz", timeout=PATIENCE_S) as response:
        assert response.status == 200
    with upstream.lock, l1.lock:
        chain.publish()
        chain.checkpoint(2)
        publish_on_l1(chain, l1)
    l1.start()
    _wait_for_tip(node, chain.tip)
    _wait(lambda: _status(node)["l1"]["ok"], lambda: _status(node))
    assert node.stop() == 0


def test_l1_alone_is_no_source_of_blocks(start_node: Callable[..., Any], l1: ScriptedL1) -> None:
    node = start_node("--metrics-port=0", "--l1-rpc-urls", l1.url)
    assert "give a place of blobs (--l1-consensus-host-urls" in node.wait_for_line("--l1-rpc-urls alone")["message"]
    assert node.process.wait(PATIENCE_S) == 78
    assert l1.requests == []


def test_a_url_that_is_none_stops_the_start(start_node: Callable[..., Any], upstream: ScriptedUpstream) -> None:
    node = start_node("--metrics-port=0", "--upstream-url", upstream.url, "--l1-rpc-urls", "ftp://l1")
    node.wait_for_line("--l1-rpc-urls 'ftp://l1' is no http:// or https:// URL")
    assert node.process.wait(PATIENCE_S) == 78
