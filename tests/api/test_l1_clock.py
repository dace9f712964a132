"""The clock of a local network as an L1: what test suites ask of a test chain, without an EVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fastnode.errors import RpcError
from fastnode.protocol.ethereum import keccak_256
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import Function, hex_data
from fastnode.sources.l1.terms import STATE_SLOT
from fastnode.testing import RunningNetwork, call_url, local_network

ACCOUNT = "0x0a60414ee907527880b7a53d4dacdeb9ef768bb98d9d8d1e7200725c13763331"
Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def session_network() -> Iterator[RunningNetwork]:
    with local_network("--seed=clock", "--l1-clock-port=0", "--manual-proving", in_process=True) as running:
        yield running


@pytest.fixture
def ask(network: RunningNetwork) -> Ask:
    url = network.l1_clock_url
    assert url is not None
    return lambda method, *params: call_url(url, method, params)


def address(network: RunningNetwork, name: str) -> str:
    found: str = network.call("node_getL1ContractAddresses")[name]
    return found


def read(ask: Ask, contract: str, function: Function, *arguments: int) -> list[int]:
    answer = ask("eth_call", {"to": contract, "data": function.encode(*arguments)}, "latest")[2:]
    return [int(answer[at : at + 64], 16) for at in range(0, len(answer), 64)]


def test_blocks_of_l1_are_the_slots_of_the_chain(network: RunningNetwork, ask: Ask) -> None:
    header = network.call("node_getBlockHeader", "latest")["globalVariables"]
    block = ask("eth_getBlockByNumber", "latest", False)
    assert int(block["timestamp"], 16) == int(header["timestamp"])
    assert int(ask("eth_blockNumber"), 16) == int(header["slotNumber"], 16) == int(block["number"], 16)
    assert ask("eth_getBlockByHash", block["hash"], False) == block
    before = ask("eth_getBlockByNumber", hex(int(header["slotNumber"], 16) - 1), False)
    assert before["hash"] == block["parentHash"]
    assert int(ask("eth_getBlockByNumber", "finalized", False)["number"], 16) <= int(header["slotNumber"], 16)
    assert ask("eth_getBlockByNumber", "0xffffffff", False) is None


def test_the_public_port_names_the_port_of_l1_where_its_methods_are_called(network: RunningNetwork) -> None:
    with pytest.raises(RpcError, match=f"a method of L1: call the L1 port, {network.l1_clock_url}"):
        network.call("eth_chainId")


def test_a_warp_on_l1_is_one_of_the_network(network: RunningNetwork, ask: Ask) -> None:
    timestamp = int(ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16) + 5_000
    ask("evm_setNextBlockTimestamp", timestamp)
    ask("hardhat_mine", "0x1")
    assert int(ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16) == timestamp
    assert int(network.call("node_getBlockHeader", "latest")["globalVariables"]["timestamp"]) == timestamp


def test_views_of_the_rollup_are_answered_from_the_chain(network: RunningNetwork, ask: Ask) -> None:
    rollup = address(network, "rollupAddress")
    header = network.call("node_getBlockHeader", "latest")["globalVariables"]
    slot, timestamp = int(header["slotNumber"], 16), int(header["timestamp"])
    assert read(ask, rollup, Function("getTips()")) == [network.block_number, 0]
    assert read(ask, rollup, Function("getSlotAt(uint256)"), timestamp) == [slot]
    assert read(ask, rollup, Function("getTimestampForSlot(uint256)"), slot) == [timestamp]
    assert read(ask, rollup, Function("getEpochAtSlot(uint256)"), slot) == [slot]
    assert read(ask, rollup, contracts.VERSION) == [int(network.call("node_getVersion"))]
    archive = network.call("node_getBlock", "latest")["archive"]["root"]
    assert read(ask, rollup, contracts.ARCHIVE_AT, network.block_number) == [int(archive, 16)]
    proven, proven_archive, pending, pending_archive, _, _ = read(ask, rollup, contracts.STATUS, 1)
    assert (proven, pending, pending_archive) == (0, network.block_number, int(archive, 16))
    assert proven_archive == int(network.call("node_getBlockHeader", 1)["lastArchive"]["root"], 16)


def test_the_proven_tip_is_moved_by_the_rollups_storage(network: RunningNetwork, ask: Ask) -> None:
    rollup, slot = address(network, "rollupAddress"), f"0x{STATE_SLOT:064x}"
    tip = network.block_number
    assert int(ask("eth_getStorageAt", rollup, slot, "latest"), 16) == tip << 128
    ask("hardhat_setStorageAt", rollup, slot, f"0x{tip << 128 | tip:064x}")
    assert network.call("node_getProvenBlockNumber") == tip
    assert int(ask("eth_getStorageAt", rollup, slot, "latest"), 16) == tip << 128 | tip


def test_messages_are_logs_of_the_inbox(network: RunningNetwork, ask: Ask) -> None:
    claim = network.call("fastnode_bridgeFeeJuice", ACCOUNT)
    inbox = address(network, "inboxAddress")
    query = {"address": inbox, "fromBlock": "0x0", "toBlock": "latest", "topics": [contracts.MESSAGE_SENT.topic]}
    (log,) = ask("eth_getLogs", query)
    checkpoint, message, index, rolling = contracts.MESSAGE_SENT.decode(log)
    assert (checkpoint, hex_data(message), index) == (
        network.block_number,
        claim["messageHash"],
        int(claim["messageLeafIndex"]),
    )
    assert rolling == keccak_256(bytes(16) + message)[:16]
    _, count, in_progress = read(ask, inbox, contracts.INBOX_STATE)
    assert (count, in_progress) == (1, checkpoint + 2)


def test_each_checkpoint_is_a_log_of_the_rollup(network: RunningNetwork, ask: Ask) -> None:
    query = {"address": address(network, "rollupAddress"), "fromBlock": "0x0", "toBlock": "latest"}
    logs = ask("eth_getLogs", query)
    assert [int(log["topics"][1], 16) for log in logs] == list(range(1, network.block_number + 1))


def test_snapshots_and_mining_are_those_of_the_network(network: RunningNetwork, ask: Ask) -> None:
    snapshot = ask("evm_snapshot")
    ask("evm_mine")
    assert ask("evm_revert", snapshot) is True
    assert network.block_number == 5
    ask("evm_setAutomine", False)
    assert ask("anvil_getAutomine") is False
    ask("anvil_setAutomine", True)


def test_prices_balances_and_the_chain_are_said(network: RunningNetwork, ask: Ask) -> None:
    assert ask("eth_chainId") == hex(31337)
    assert ask("net_version") == "31337"
    assert ask("web3_clientVersion").startswith("anvil/fastnode")
    assert int(ask("eth_getBalance", "0x" + "11" * 20, "latest"), 16) == 10**22
    assert ask("eth_getTransactionCount", "0x" + "11" * 20, "latest") == "0x0"
    assert ask("eth_getCode", address(network, "rollupAddress"), "latest") != "0x"
    assert ask("eth_getCode", "0x" + "11" * 20, "latest") == "0x"
    history = ask("eth_feeHistory", "0x2", "latest", [])
    assert history["baseFeePerGas"] == [ask("eth_gasPrice")] * 3


def test_what_needs_an_evm_is_refused_by_name(ask: Ask) -> None:
    for method, params in (
        ("eth_sendRawTransaction", ["0x00"]),
        ("eth_call", [{"to": "0x" + "11" * 20, "data": "0x70a08231"}, "latest"]),
        ("hardhat_setStorageAt", ["0x" + "11" * 20, "0x0", "0x0"]),
    ):
        with pytest.raises(RpcError, match="no EVM here: attach one with --l1-rpc-url") as refused:
            ask(method, *params)
        assert refused.value.code == -32601
    for block in ("soon", "\u0663", "0X3"):  # the second one is a 3 in Arabic digits, which int() reads
        with pytest.raises(RpcError, match="block must be a number"):
            ask("eth_getBlockByNumber", block, False)


def test_the_public_port_has_none_of_it(network: RunningNetwork) -> None:
    with pytest.raises(RpcError, match="Method not found"):
        network.call("eth_blockNumber")
