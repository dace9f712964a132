"""A local network as a process: over HTTP, through restarts, and killed while it builds blocks."""

from __future__ import annotations

import http.client
import logging
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PATIENCE_S, NodeProcess
from tests.local_network.local_chain import LocalChain, for_chain
from tests.mempool.made import hash_of, made_txs

from fastnode.archiver.check import check_database
from fastnode.errors import NoAnswer, RpcError, StartError
from fastnode.testing import RunningNetwork, local_network
from fastnode.values.lineage import LINEAGE_HEADER

pytestmark = pytest.mark.usefixtures("forked_networks")

FLAGS = ("--local-network", "--disable-admin-api-key")


@pytest.fixture(scope="module")
def session_network() -> Iterator[RunningNetwork]:
    with local_network("--seed=test", in_process=True) as running:
        yield running


def txs_for(call: Callable[..., Any], count: int) -> list[dict[str, Any]]:
    """Valid transactions, proven against the newest block of a node."""
    header, version = call("node_getBlockHeader", "latest"), call("node_getVersion")
    return [for_chain(tx, header, version) for tx in made_txs(count)]


# ---- over HTTP ------------------------------------------------------------------------------------


def test_a_tx_that_is_answered_is_checkpointed(network: RunningNetwork) -> None:
    (tx,) = txs_for(network.call, 1)
    network.call("node_sendTx", tx)
    receipt = network.call("node_getTxReceipt", hash_of(tx))
    assert (receipt["status"], receipt["executionResult"], receipt["blockNumber"]) == ("proven", "success", 6)
    assert network.call("node_getPendingTxCount") == 0
    assert network.call("node_getL2Tips")["checkpointed"]["block"]["number"] == 6


def test_a_dropped_tx_says_why(network: RunningNetwork) -> None:
    network.call("evm_setAutomine", False)
    (tx,) = txs_for(network.call, 1)
    network.call("node_sendTx", tx)
    assert network.call("node_getTxReceipt", hash_of(tx))["status"] == "pending"
    assert network.call("fastnode_dropTransaction", hash_of(tx)) is True
    receipt = network.call("node_getTxReceipt", hash_of(tx))
    assert receipt == {
        "txHash": hash_of(tx),
        "status": "dropped",
        "error": "Tx dropped by P2P node: dropped on request",
    }
    network.call("evm_setAutomine", True)


def test_tools_for_l1_find_their_methods(network: RunningNetwork) -> None:
    snapshot = network.call("evm_snapshot")
    assert network.call("hardhat_mine", "0x3", "0x0a") is None
    assert network.block_number == 8
    times = [int(network.call("node_getBlockHeader", number)["globalVariables"]["timestamp"]) for number in (7, 8)]
    assert times[1] - times[0] == 10
    assert network.call("evm_mine") == "0x0"
    assert network.call("evm_setNextBlockTimestamp", times[1] + 500) is None
    assert network.call("evm_mine", {"blocks": 1}) == "0x0"
    assert network.call("anvil_nodeInfo")["currentBlockTimestamp"] == times[1] + 500
    assert network.call("evm_increaseTime", 60) >= 60
    assert network.call("anvil_setBalance", "0x" + "00" * 31 + "0a", "0xde0b6b3a7640000") is None
    assert network.call("anvil_setStorageAt", "0x" + "00" * 31 + "4d", "0x3", "0x2a") is True
    assert int(network.call("node_getPublicStorageAt", "latest", "0x" + "00" * 31 + "4d", "0x3"), 16) == 42
    assert network.call("txpool_status") == {"pending": "0x0", "queued": "0x0"}
    assert network.call("aztecDebug_warpL2TimeAtLeastBy", 100) is None
    assert network.call("evm_revert", snapshot) is True
    assert network.block_number == 5


def test_a_method_of_l1_at_the_public_port_is_answered_with_where_it_is(network: RunningNetwork) -> None:
    with pytest.raises(RpcError, match="no L1 port; --l1-clock-port PORT opens one"):
        network.call("eth_chainId")


def test_state_can_be_dumped_and_loaded(network: RunningNetwork) -> None:
    network.mine(2)
    state = network.call("anvil_dumpState")
    network.mine(3)
    with pytest.raises(RpcError, match="The state cannot be loaded: line 1: not JSON"):
        network.call("anvil_loadState", "0x05")
    assert network.call("anvil_loadState", state) is True
    assert network.block_number == 7


def test_a_deposit_is_a_claim_as_wallets_make_it(network: RunningNetwork) -> None:
    claim = network.call("fastnode_bridgeFeeJuice", network.accounts[0].address)
    assert claim.keys() == {"claimAmount", "claimSecret", "claimSecretHash", "messageHash", "messageLeafIndex"}
    assert network.call("node_getL1ToL2MessageCheckpoint", claim["messageHash"]) == 6
    assert network.call("node_getL1ToL2MessageMembershipWitness", "latest", claim["messageHash"]) is not None


def test_settings_of_building_can_be_changed_while_it_runs(network: RunningNetwork) -> None:
    network.call_admin("nodeAdmin_setConfig", {"minTxsPerBlock": 2})
    first, second = txs_for(network.call, 2)
    network.call("node_sendTx", first)
    assert network.call("node_getPendingTxCount") == 1
    network.call("node_sendTx", second)
    assert network.call("node_getTxReceipt", hash_of(first))["blockNumber"] == 6
    network.call_admin("nodeAdmin_setConfig", {"minTxsPerBlock": 1})


def test_the_price_of_the_fee_asset_is_that_of_the_first_start(tmp_path: Path) -> None:
    def fee(*flags: str) -> int:
        with local_network("--data-directory", str(tmp_path / "kept"), *flags) as network:
            return int(network.call("node_getCurrentMinFees")["feePerL2Gas"])

    with local_network() as network:
        usual = int(network.call("node_getCurrentMinFees")["feePerL2Gas"])
    # An asset that is worth ten times as much takes a tenth of it.
    dear = fee("--initialEthPerFeeAsset", "100000000")
    assert 0 < dear <= usual // 10 + 1
    assert fee() == dear
    assert fee("--initialEthPerFeeAsset", "1000") == dear


def test_it_describes_itself(network: RunningNetwork) -> None:
    names = {method["name"] for method in network.call("rpc.discover")["methods"]}
    assert {"fastnode_mine", "evm_snapshot", "aztecDebug_prove", "node_sendTx"} <= names
    info = network.call("node_getNodeInfo")
    assert info["realProofs"] is False
    assert info["l1ContractAddresses"]["feeJuicePortalAddress"] == "0x" + "00" * 20


# ---- through restarts -----------------------------------------------------------------------------


def test_a_chain_file_begins_and_ends_it(tmp_path: Path, start_node: Callable[..., Any]) -> None:
    state = tmp_path / "state.jsonl.gz"
    node = start_node(*FLAGS, f"--state={state}").wait_until_serving()
    node.call("fastnode_mine", 4)
    before = node.call("node_getBlockHeader", 9)["result"]
    assert node.stop() == 0
    again = start_node(*FLAGS, f"--state={state}").wait_until_serving()
    assert again.call("node_getBlockNumber")["result"] == 9
    assert again.call("node_getBlockHeader", 9)["result"] == before


def test_the_clock_of_a_warped_network_is_loaded_with_its_chain(tmp_path: Path) -> None:
    state, day = tmp_path / "state.jsonl.gz", 86_400
    with local_network(f"--dump-state={state}", in_process=True) as network:
        network.call("fastnode_warp", f"+{day}")
        warped = network.call("node_getBlockHeader", "latest")
    for flag in (f"--load-state={state}", f"--fork-from={state}"):
        with local_network(flag, in_process=True) as network:
            info = network.call("fastnode_nodeInfo")
            assert info["clockOffset"] > day - 3_600
            later = int(warped["globalVariables"]["timestamp"]) + 600
            network.call("fastnode_increaseTime", 600)
            network.call("fastnode_mine")
            assert network.call("fastnode_nodeInfo")["currentBlockTimestamp"] >= later


def test_two_networks_with_one_state_file_do_not_overwrite_each_other(
    tmp_path: Path, start_node: Callable[..., Any]
) -> None:
    state = tmp_path / "state.jsonl.gz"
    first = start_node(*FLAGS, f"--state={state}").wait_until_serving()
    second = start_node(*FLAGS, f"--state={state}").wait_until_serving()
    assert first.stop() == 0
    written = state.read_bytes()
    second.call("fastnode_mine", 4)
    assert second.stop() == 0
    assert state.read_bytes() == written
    assert "state file not overwritten" in second.log.read_text()
    (beside,) = tmp_path.glob("*-state.jsonl.gz")
    third = start_node(*FLAGS, f"--load-state={beside}").wait_until_serving()
    assert third.call("node_getBlockNumber")["result"] >= 9


def test_a_directory_with_another_chain_is_refused(
    tmp_path: Path, start_node: Callable[..., Any], short_chain: Path
) -> None:
    node = start_node("--data-directory", tmp_path / "data", "--chain-file", short_chain)
    node.wait_for_line("chain file loaded")
    node.stop()
    refused = start_node(*FLAGS, "--data-directory", tmp_path / "data")
    assert refused.process.wait(30) != 0
    assert "is not a local network's" in refused.log.read_text()


def test_nothing_that_was_answered_is_lost_by_kill_9(tmp_path: Path, start_node: Callable[..., Any]) -> None:
    node = start_node(*FLAGS, "--data-directory", tmp_path / "data").wait_until_serving()
    answered: list[str] = []
    txs = txs_for(lambda *call: node.call(*call)["result"], 60)

    def send() -> None:
        for tx in txs:
            try:
                node.call("node_sendTx", tx)
            except OSError:
                return
            answered.append(hash_of(tx))

    sender = threading.Thread(target=send)
    sender.start()
    while len(answered) < 5:
        assert sender.is_alive()
    node.process.send_signal(signal.SIGKILL)
    node.process.wait()
    sender.join()
    again = start_node(*FLAGS, "--data-directory", tmp_path / "data").wait_until_serving()
    for tx_hash in answered:
        assert again.call("node_getTxReceipt", tx_hash)["result"]["status"] in ("checkpointed", "proven", "finalized")
    tip = again.call("node_getBlockNumber")["result"]
    assert again.call("fastnode_mine")["result"] >= tip + 1
    assert again.stop() == 0
    with LocalChain(tmp_path / "data") as chain:
        assert check_database(chain.data.store).problems == []


# ---- beginning anew ---------------------------------------------------------------------------------


def test_a_reset_is_another_chain_on_the_same_port(tmp_path: Path) -> None:
    flags = (*FLAGS[1:], f"--data-directory={tmp_path}", "--seed=again")
    with local_network(*flags) as running:
        before = running.call("node_getNodeInfo")
        running.mine(3)
        assert running.call("fastnode_reset") is True
        after = wait_for_other_version(running, before["rollupVersion"])
        assert running.block_number == 5
        assert after["l1ContractAddresses"]["rollupAddress"] != before["l1ContractAddresses"]["rollupAddress"]
        assert running.call("anvil_reset", {}) is True
        third = wait_for_other_version(running, after["rollupVersion"])
        assert third["rollupVersion"] not in (before["rollupVersion"], after["rollupVersion"])


def test_a_reset_can_go_on_with_a_copy_of_another_chain(network: RunningNetwork, tmp_path: Path) -> None:
    network.mine(4)
    version = network.call("node_getNodeInfo")["rollupVersion"]
    with local_network(f"--fork-sources={network.url}") as running:
        before = running.call("node_getNodeInfo")["rollupVersion"]
        assert running.call("fastnode_reset", {"fork": {"source": network.url, "blockNumber": "0x7"}}) is True
        assert wait_for_other_version(running, before)["rollupVersion"] == version
        # The last is the block that gives the test accounts their fee juice.
        assert running.block_number == 8


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "temporary"])
def test_the_old_chain_stays_until_the_new_one_is_complete(tmp_path: Path, is_kept: bool) -> None:
    """A copy of a source that is not named, of one that is away, and of one that fails when it is fetched."""
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    away, broken = "http://127.0.0.1:1", f"snapshot:file://{nothing}"
    flags = (f"--data-directory={tmp_path / 'data'}",) if is_kept else ()
    with local_network(*flags, f"--fork-sources={away},{broken}") as running:
        running.mine(3)
        before = running.call("node_getNodeInfo"), running.call("node_getBlockHeader", "latest")
        for source, code in (("/etc/passwd", "FORK_NOT_ALLOWED"), (away, "FORK_FAILED")):
            with pytest.raises(RpcError) as refused:
                running.call("fastnode_reset", {"fork": {"source": source}})
            assert refused.value.data == {"code": code}
        process = lineage_of(running)
        assert running.call("fastnode_reset", {"fork": {"source": broken}}) is True
        wait_for_return(running, process)
        assert (running.call("node_getNodeInfo"), running.call("node_getBlockHeader", "latest")) == before
        assert running.mine(1) == 9
        # It can be reset again.
        assert running.call("fastnode_reset") is True
        wait_for_other_version(running, before[0]["rollupVersion"])
        assert running.block_number == 5
    if is_kept:
        assert not list((tmp_path / "data").glob("reset*"))


@pytest.mark.parametrize("force", [False, True])
def test_snapshots_above_a_rollback_of_the_operator_are_gone(network: RunningNetwork, force: bool) -> None:
    stays = network.snapshot()
    target = network.mine(1)
    goes = network.mine(1), network.snapshot()
    network.mine(3)
    if force:
        network.call("fastnode_finalize")
    network.call_admin("nodeAdmin_rollbackTo", target, force)
    assert network.mine(4) == target + 4
    assert network.call("fastnode_revert", goes[1]) is False
    assert network.call("fastnode_revert", stays, True) is True
    assert network.block_number == target - 1


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "temporary"])
def test_a_stop_during_a_reset_ends_the_node(
    start_node: Callable[..., NodeProcess], tmp_path: Path, is_kept: bool
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    kept = ("--data-directory", tmp_path / "data") if is_kept else ()
    node = start_node("--local-network", *kept, TMPDIR=str(temporary)).wait_until_serving()
    version = node.call("node_getNodeInfo")["result"]["rollupVersion"]
    assert node.call("fastnode_reset")["result"] is True
    # By the signal itself, if the process that takes over had no handler yet.
    ended = node.stop()
    assert ended in (0, -signal.SIGTERM)
    if any(entry["message"].startswith("local network not reset") for entry in node.entries()):
        assert ended == 0
        assert list(temporary.iterdir()) == []
    if is_kept:
        again = start_node("--local-network", *kept).wait_until_serving()
        assert again.call("node_getNodeInfo")["result"]["rollupVersion"] == version


def test_a_node_that_stops_refuses_a_reset(start_node: Callable[..., NodeProcess], tmp_path: Path) -> None:
    state = tmp_path / "state.jsonl"
    node = start_node("--local-network", "--shutdown-delay-s=5", "--state", state).wait_until_serving()
    node.wait_for_line("serving the stored chain")
    node.process.send_signal(signal.SIGTERM)
    while "stopping" not in node.readiness():
        time.sleep(0.01)
    assert node.call("fastnode_reset")["error"]["message"].startswith("The node is stopping")
    assert node.process.wait(PATIENCE_S) == 0
    assert state.exists()


def lineage_of(network: RunningNetwork) -> str:
    """Name that a node gives itself at each start."""
    with urllib.request.urlopen(f"{network.url}/livez", timeout=PATIENCE_S) as answer:
        return str(answer.headers[LINEAGE_HEADER])


def wait_for_return(network: RunningNetwork, before: str) -> None:
    """Until another one has come in the place of the process that called itself so."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(OSError, http.client.HTTPException, NoAnswer, RpcError):
            if lineage_of(network) not in (before, "None") and network.call("node_isReady"):
                return
        time.sleep(0.01)
    raise AssertionError("it has not come back")


def test_a_network_inside_another_program_cannot_be_reset(network: RunningNetwork) -> None:
    with pytest.raises(RpcError, match="goes back by fastnode_revert only"):
        network.call("fastnode_reset")
    with pytest.raises(RpcError, match=r"options\.fork\.source"):
        network.call("fastnode_reset", {"fork": {"blockNumber": 1}})


def wait_for_other_version(network: RunningNetwork, version: int) -> dict[str, Any]:
    """What the node says of itself once it is another network; nothing answers in between."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            info: dict[str, Any] = network.call("node_getNodeInfo")
        except (NoAnswer, RpcError):
            continue
        if info["rollupVersion"] != version:
            return info
    raise AssertionError("no other network came")


def test_a_copy_of_a_snapshot_goes_on(tmp_path: Path) -> None:
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    with local_network("--seed=source", f"--snapshot-upload-locations=file://{uploads}") as source:
        source.mine(3)
        hashes = [source.call("node_getBlockHeader", number) for number in range(1, 9)]
        source.call_admin("nodeAdmin_startSnapshotUpload", f"file://{uploads}")
        version = source.call("node_getVersion")
        wait_for_snapshot(uploads)
    with local_network(f"--fork-from=file://{uploads}", "--no-test-accounts") as copy:
        assert copy.call("node_getVersion") == version
        assert [copy.call("node_getBlockHeader", number) for number in range(1, 9)] == hashes
        assert copy.mine() == 9


def wait_for_snapshot(uploads: Path) -> None:
    deadline = time.monotonic() + 60
    while not list(uploads.rglob("index.json")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_place_without_a_snapshot_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(StartError, match="there is no snapshot that can be used"),
        local_network(f"--fork-from=file://{tmp_path}", in_process=True),
    ):
        pass


# ---- small ones -------------------------------------------------------------------------------------


def test_the_log_can_be_quiet_and_loud_again(network: RunningNetwork) -> None:
    logger = logging.getLogger("fastnode")
    network.call("fastnode_setLoggingEnabled", False)
    assert not logger.isEnabledFor(logging.INFO)
    assert logger.isEnabledFor(logging.WARNING)
    network.call("anvil_setLoggingEnabled", True)
    assert logger.level == logging.NOTSET


def test_the_witness_of_a_message_has_a_name_of_its_own(network: RunningNetwork) -> None:
    unknown = "0x" + "11" * 31 + "22"
    assert network.call("fastnode_getL2ToL1Witness", "0x" + unknown[4:].rjust(64, "0"), "0x01") is None
