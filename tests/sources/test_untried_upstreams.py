"""Nodes of a release that no published one was tried with, beside a real one: a local network of 5.2.

It is followed and handed transactions when the operator says so, and the node says everywhere that it does.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests._ext.avm_programs import FF, U32, assemble, put
from tests.attacks.attacked import l1_flags
from tests.conftest import PATIENCE_S
from tests.public_execution.made import valid_tx_running
from tests.sources.l1.publishing import PublishingL1, served

from fastnode.app.ground.node_settings import check_release
from fastnode.archiver.source import ChainRecord, GenesisRecord
from fastnode.archiver.store import ArchiverStore
from fastnode.config.settings import Settings
from fastnode.errors import OtherNetwork, SettingError, StartError
from fastnode.outgoing.network import Network
from fastnode.protocol.fields import field_from_int, hex_text
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.releases import FIVE
from fastnode.sources.release_choice import choose_release
from fastnode.sources.upstreams import Upstream
from fastnode.testing import RunningNetwork, local_network

Json = dict[str, Any]
StartNode = Callable[..., Any]

PAYER = field_from_int(0xFEED)
#: Writes 77 into its slot 5.
WRITES = put(10, FF, 77) + put(11, FF, 5) + assemble("SSTORE", 10, 11) + put(1, U32, 0) + assemble("RETURN", 1, 2)
QUICK = ("--archiver-polling-interval-ms=10", "--metrics-port=0", "--disable-admin-api-key")
WHOLE = {"includeBlocks": True, "includeTransactions": True, "includeAttestations": True}


@pytest.fixture(scope="module")
def network() -> Iterator[RunningNetwork]:
    with local_network("--release=5.2", f"--prefund={hex_text(PAYER)}", "--seed=untried", in_process=True) as running:
        yield running


def tx_for(network: RunningNetwork, number: int) -> Json:
    """``number``: in its bytecode, so that each publishes a class of its own."""
    header = BlockHeader.from_json(network.call("aztec_getBlockData", "latest")["header"], "header")
    version = int(network.call("aztec_getVersion"))
    tx = valid_tx_running(put(20, FF, number) + WRITES, header, version, PAYER, release=FIVE)
    made: Json = json.loads(tx.to_json_bytes())
    return made


def wait(node: Any, is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert node.process.poll() is None, node.log.read_text()[-2000:]
        assert time.monotonic() < deadline, (node.call("fastnode_getSyncStatus"), node.log.read_text()[-2000:])
        time.sleep(0.02)


def ask(node: Any, method: str, *parameters: object) -> Any:
    """The result, None where there is none; a worker that has no chain yet is asked again."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            answer = node.call(method, *parameters)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 503 or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
            continue
        assert "error" not in answer, answer
        return answer.get("result")


def mined(node: Any, tx: Json) -> Json | None:
    """Its receipt, once it is in a block there."""
    receipt: Json = ask(node, "aztec_getTxReceipt", tx["txHash"], {"includeTxEffect": True})
    return receipt if "blockNumber" in receipt else None


def wait_for_same_tips(node: Any, network: RunningNetwork) -> None:
    wait(node, lambda: ask(node, "aztec_getChainTips") == network.call("aztec_getChainTips"))


def version_headers(url: str) -> dict[str, str]:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "aztec_getVersion", "params": []}).encode()
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return {name: value for name, value in response.headers.items() if name.startswith("x-aztec-")}


# ---- followed ----------------------------------------------------------------------------------------


def test_a_node_of_5_x_is_followed_with_its_forks_and_handed_transactions(
    tmp_path: Path, start_node: StartNode, network: RunningNetwork
) -> None:
    flags = ("--data-directory", tmp_path / "data", "--upstream-url", network.url, "--workers=2")
    node = start_node(*flags, "--untried-upstreams", *QUICK).wait_until_serving()
    wait_for_same_tips(node, network)
    assert version_headers(node.url) == version_headers(network.url)
    wait(node, lambda: ask(node, "aztec_isReady"))
    tx = tx_for(network, 1)
    assert ask(node, "aztec_sendTx", tx) is None
    wait(node, lambda: mined(node, tx))
    there = network.call("aztec_getTxReceipt", tx["txHash"], {"includeTxEffect": True})
    assert there["executionResult"] == "success"
    wait(node, lambda: mined(node, tx) == network.call("aztec_getTxReceipt", tx["txHash"], {"includeTxEffect": True}))
    # What is built there on a block that the node has is taken back, and other blocks come.
    before = network.snapshot()
    network.mine()
    wait_for_same_tips(node, network)
    network.revert(before)
    network.warp("+100")
    network.mine()
    wait_for_same_tips(node, network)
    for number in range(1, network.block_number + 1):
        block = ask(node, "aztec_getBlock", number, {"includeTransactions": True})
        assert block == network.call("aztec_getBlock", number, {"includeTransactions": True})
        checkpoint = ask(node, "aztec_getCheckpoint", number, WHOLE)
        assert checkpoint == network.call("aztec_getCheckpoint", number, WHOLE)
    assert ask(node, "aztec_getNodeInfo")["nodeVersion"] == "5.2.0"
    node.stop()


def test_that_its_nodes_were_not_tried_is_said_at_the_start_in_the_status_and_in_answers(
    tmp_path: Path, start_node: StartNode, network: RunningNetwork
) -> None:
    flags = ("--data-directory", tmp_path / "data", "--upstream-url", network.url)
    node = start_node(*flags, "--untried-upstreams", *QUICK).wait_until_serving()
    warning = node.wait_for_line("the chain is of a release that no published node was tried with")
    assert warning["level"] == "warning"
    assert "no published node of it was tried" in warning["reason"]
    wait_for_same_tips(node, network)
    request = urllib.request.Request(f"{node.url}/status", headers={"Accept": "application/json"})
    wait(node, lambda: node.readiness().startswith("OK"))
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        assert "no published node of it was tried" in json.load(response)["notes"]["upstreams"]
    (upstream,) = ask(node, "fastnode_getSyncStatus")["upstreams"]
    assert (upstream["nodeVersion"], upstream["isUntried"]) == ("5.2.0", True)
    node.stop()


def test_a_node_that_derives_5_x_from_l1_hands_transactions_to_a_node_of_it(
    tmp_path: Path, start_node: StartNode, network: RunningNetwork
) -> None:
    """Its blocks come from L1 all the same, where a model of the contracts of 5.x has what the other one builds."""
    record = network.call("fastnode_getGenesis")
    with served(PublishingL1(network.call("node_getNodeInfo"), record["chain"]["l1Constants"])) as l1:
        l1.circuits = FIVE.roots
        l1.genesis = tmp_path / "genesis.jsonl"
        head = ({"kind": "chain", "version": 1, **record["chain"]}, {"kind": "genesis", **record["genesis"]})
        l1.genesis.write_text("".join(f"{json.dumps(line)}\n" for line in head))

        def publish() -> None:
            with Network() as connections:
                other = Upstream(network.url, connections, takes_untried=True)
                other.identify()
                first = len(l1.head.archives)
                for published in other.call("node_getCheckpoints", first, 50):
                    l1.publish(l1.sheet(published))

        publish()
        flags = ("--data-directory", tmp_path / "data", *l1_flags(l1), "--upstream-url", network.url)
        node = start_node(*flags, "--untried-upstreams").wait_until_serving()
        wait(node, lambda: ask(node, "aztec_isReady"))
        tx = tx_for(network, 2)
        assert ask(node, "aztec_sendTx", tx) is None
        wait(node, lambda: "blockNumber" in network.call("aztec_getTxReceipt", tx["txHash"]))
        publish()
        wait(node, lambda: (mined(node, tx) or {}).get("status") == "checkpointed")
        number = network.block_number
        tip = ask(node, "aztec_getChainTips")["checkpointed"]
        assert tip == network.call("aztec_getChainTips")["checkpointed"]
        assert tip["block"]["number"] == number
        node.stop()


# ---- refused -----------------------------------------------------------------------------------------


def test_without_being_told_so_no_node_of_5_x_is_followed(network: RunningNetwork) -> None:
    with Network() as connections:
        with pytest.raises(
            OtherNetwork, match=r"version is 5\.2\.0, this node follows .*; --untried-upstreams follows"
        ):
            Upstream(network.url, connections).identify()
        told = Upstream(network.url, connections, takes_untried=True)
        told.identify()
        assert told.release is FIVE
    with pytest.raises(StartError, match=r"is of release 5\.x .*this node follows nodes of 4\.x only"):
        choose_release(*FIVE.roots, "upstream 1")
    assert choose_release(*FIVE.roots, "upstream 1", takes_untried=True) is FIVE


@pytest.mark.parametrize("setting", ["sequencer", "prover_node"])
def test_what_is_not_there_for_5_x_stays_refused(tmp_path: Path, network: RunningNetwork, setting: str) -> None:
    record = network.call("fastnode_getGenesis")
    with ArchiverStore.open(tmp_path) as store:
        store.adopt_chain(ChainRecord.from_json(record["chain"]), GenesisRecord.from_json(record["genesis"]))
        with pytest.raises(SettingError, match=f"--{setting.replace('_', '-')}: no node of release"):
            check_release(Settings(untried_upstreams=True, **{setting: True}), store.chain)  # type: ignore[arg-type]
        with pytest.raises(SettingError, match=r"--upstream-url: no node of release .*; --untried-upstreams takes it"):
            check_release(Settings(upstream_url=("http://127.0.0.1:1",)), store.chain)
