"""Every name that tools call a local network by is there, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastnode.testing import local_network

OWN = """
    mine setAutomine getAutomine setIntervalMining getIntervalMining increaseTime setTime setNextBlockTimestamp warp
    setBlockTimestampInterval removeBlockTimestampInterval snapshot revert reorg rollback dropTransaction
    dropAllTransactions setFeeJuiceBalance setPublicStorageAt bridgeFeeJuice sendL1ToL2Message getL2ToL1Witness
    consumeL2ToL1Message prove finalize setMinFee setL1Fees setCoinbase dumpState loadState reset nodeInfo metadata
    autoMineStatus setLoggingEnabled getTxCalls getTxFailure
"""
AZTEC_DEBUG = """
    mineBlock prove warpL2TimeAtLeastTo warpL2TimeAtLeastBy registerContractFunctionSignatures
"""
EVM = "mine setAutomine setIntervalMining increaseTime setTime setNextBlockTimestamp snapshot revert"
ANVIL = """
    mine setAutomine getAutomine setIntervalMining getIntervalMining increaseTime setTime setNextBlockTimestamp
    setBlockTimestampInterval removeBlockTimestampInterval snapshot revert reorg rollback dropTransaction
    dropAllTransactions setBalance setStorageAt setNextBlockBaseFeePerGas setCoinbase dumpState loadState reset nodeInfo
    metadata setLoggingEnabled
"""
HARDHAT = """
    mine getAutomine dropTransaction setBalance setStorageAt setNextBlockBaseFeePerGas setCoinbase reset metadata
    setLoggingEnabled
"""
NAMES = {
    f"{prefix}_{name}"
    for prefix, names in (
        ("fastnode", OWN),
        ("aztecDebug", AZTEC_DEBUG),
        ("evm", EVM),
        ("anvil", ANVIL),
        ("hardhat", HARDHAT),
        ("txpool", "status content"),
    )
    for name in names.split()
}


def test_every_name_is_there() -> None:
    with local_network("--no-test-accounts", in_process=True) as network:
        offered = {method["name"] for method in network.call("rpc.discover")["methods"]}
        assert offered >= NAMES
        extra = {name for name in offered if name.split("_")[0] in ("evm", "anvil", "hardhat", "txpool", "aztecDebug")}
        assert extra <= NAMES


def test_a_node_that_is_no_local_network_has_none_of_them(short_chain: Path, start_node: Callable[..., Any]) -> None:
    node = start_node("--chain-file", short_chain).wait_until_serving()
    for name in ("fastnode_mine", "evm_mine", "aztecDebug_mineBlock", "fastnode_reset"):
        assert node.call(name)["error"]["code"] == -32601
