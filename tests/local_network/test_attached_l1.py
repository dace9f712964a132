"""A local network with an L1: the messages, tips and roots there are those of the chain.

Against a stand-in everywhere; against anvil where there is one (on the path, or named by FASTNODE_ANVIL).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.local_network.stand_in_l1 import StandInL1, serving

from fastnode.errors import RpcError, StartError
from fastnode.local_network.genesis import read_setup
from fastnode.local_network.l1_contracts import NewContracts, contract_names
from fastnode.local_network.wallet_reads import QUIET_S
from fastnode.protocol.ethereum import keccak_256
from fastnode.sources.l1.terms import STATE_SLOT
from fastnode.testing import RunningNetwork, local_network

pytestmark = pytest.mark.usefixtures("forked_networks")

ANVIL = os.environ.get("FASTNODE_ANVIL") or shutil.which("anvil")
ACCOUNT = "0x0a60414ee907527880b7a53d4dacdeb9ef768bb98d9d8d1e7200725c13763331"
PATIENCE_S = 60.0
#: Contracts that were there before the network.
DEPLOYED = {name: "0x" + f"{place:02x}" * 20 for place, name in enumerate(contract_names(), 0xA0)}


class L1:
    """Calls to it, whatever it is."""

    def __init__(self, url: str, *, has_evm: bool = False) -> None:
        self.url = url
        self.has_evm = has_evm

    def call(self, method: str, *params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        with urlopen(Request(self.url, body, {"Content-Type": "application/json"}), timeout=PATIENCE_S) as answer:
            document = json.load(answer)
        assert "error" not in document, document
        return document["result"]

    @property
    def timestamp(self) -> int:
        return int(self.call("eth_getBlockByNumber", "latest", False)["timestamp"], 16)


@contextmanager
def anvil() -> Iterator[str]:
    """A real one; the line that says where it listens is waited for."""
    with subprocess.Popen([ANVIL or "anvil", "--port", "0"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("Listening on"))
        drain = threading.Thread(target=process.stdout.read)
        drain.start()
        try:
            yield "http://" + line.split()[-1]
        finally:
            process.kill()
            drain.join()


@pytest.fixture(params=["stand-in", "anvil"])
def l1(request: pytest.FixtureRequest) -> Iterator[L1]:
    if request.param == "anvil":
        if ANVIL is None:
            pytest.skip("no anvil on the path")
        with anvil() as url:
            yield L1(url, has_evm=True)
    else:
        with serving(StandInL1()) as url:
            yield L1(url)


@pytest.fixture
def stand_in() -> Iterator[tuple[StandInL1, str]]:
    l1 = StandInL1()
    with serving(l1) as url:
        yield l1, url


@pytest.fixture
def deployed(l1: L1) -> tuple[L1, str]:
    """An L1 with contracts of version 77 that nobody has published to, and the address of their registry."""
    if not l1.has_evm:
        pytest.skip("the stand-in runs no contract")
    made = NewContracts(
        addresses=DEPLOYED,
        version=77,
        genesis_time=l1.timestamp - 100 * 24,
        slot_duration=24,
        epoch_duration=2,
        genesis_archive_root=read_setup().genesis.archive_root,
    )
    # The block of the deployment, which the contracts name, must be there.
    for method, params in [("anvil_mine", ["0x20"]), *made.calls(), ("evm_mine", [])]:
        l1.call(method, *params)
    return l1, DEPLOYED["registryAddress"]


def attached(url: str, *flags: str, in_process: bool = True) -> Any:
    return local_network("--seed=l1", f"--l1-rpc-urls={url}", *flags, in_process=in_process)


def addresses(network: RunningNetwork) -> dict[str, str]:
    found: dict[str, str] = network.call("node_getL1ContractAddresses")
    return found


def tips(network: RunningNetwork, l1: L1) -> tuple[int, int]:
    """Pending and proven checkpoint, as the rollup's storage has them."""
    word = int(l1.call("eth_getStorageAt", addresses(network)["rollupAddress"], hex(STATE_SLOT), "latest"), 16)
    return divmod(word, 1 << 128)


def root(network: RunningNetwork, l1: L1, epoch: int) -> str:
    slot = keccak_256(epoch.to_bytes(32, "big") + bytes(32)).hex()
    found: str = l1.call("eth_getStorageAt", addresses(network)["outboxAddress"], "0x" + slot, "latest")
    return found


def readiness(network: RunningNetwork) -> tuple[int, str]:
    """Status and text of what a load balancer asks."""
    try:
        with urlopen(network.url + "/readyz", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_tips_on_l1_are_those_of_the_chain(l1: L1) -> None:
    with attached(l1.url) as network:
        assert tips(network, l1) == (5, 5)
        network.mine(2)
        assert tips(network, l1) == (7, 7)
        assert int(network.call("node_getNodeInfo")["l1ContractAddresses"]["feeJuicePortalAddress"], 16)


def test_a_deposit_is_a_message_of_the_portal_that_can_be_claimed(l1: L1) -> None:
    with attached(l1.url) as network:
        claim = network.call("fastnode_bridgeFeeJuice", ACCOUNT)
        checkpoint = network.call("node_getL1ToL2MessageCheckpoint", claim["messageHash"])
        assert checkpoint == network.block_number
        assert int(claim["messageLeafIndex"]) == 1024 * (checkpoint - 1)
        witness = network.call("node_getL1ToL2MessageMembershipWitness", "latest", claim["messageHash"])
        assert witness is not None


def selector(signature: str) -> str:
    return "0x" + keccak_256(signature.encode())[:4].hex()


def send_on_l1(network: RunningNetwork, l1: L1) -> tuple[str, int]:
    """A message to contract 1, as contracts of one's own send it; its hash and its checkpoint."""
    inbox = addresses(network)["inboxAddress"]
    sender = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
    version = network.call("node_getVersion")
    words = (1).to_bytes(32), int(version).to_bytes(32), (2).to_bytes(32), (3).to_bytes(32)
    data = "0x1f6d510b" + b"".join(words).hex()
    sent = l1.call("eth_sendTransaction", {"from": sender, "to": inbox, "data": data, "gas": hex(500_000)})
    wait_until(lambda: l1.call("eth_getTransactionReceipt", sent) is not None)
    _, checkpoint, message = l1.call("eth_getTransactionReceipt", sent)["logs"][0]["topics"]
    return message, int(checkpoint, 16)


def test_a_message_sent_on_l1_comes_in_by_itself(l1: L1) -> None:
    with attached(l1.url) as network:
        message, checkpoint = send_on_l1(network, l1)
        wait_until(lambda: network.call("node_getL1ToL2MessageCheckpoint", message) is not None)
        wait_until(lambda: network.block_number >= checkpoint)
        assert network.call("node_getL1ToL2MessageCheckpoint", message) == checkpoint == 7


def test_no_empty_block_is_built_for_a_message_while_a_wallet_is_at_work(l1: L1) -> None:
    with attached(l1.url) as network:

        def read() -> None:
            network.call("node_getPublicStorageAt", "latest", ACCOUNT, "0x1")

        def is_at_work_for(seconds: float) -> bool:
            """False where the machine held test or node up for so long that the wallet was not at work."""
            read()
            begun = last = time.monotonic()
            _, checkpoint = send_on_l1(network, l1)
            while last - begun < seconds:
                read()
                number = network.block_number
                now = time.monotonic()
                if now - last >= QUIET_S:
                    return False
                assert number < checkpoint
                last = now
                time.sleep(QUIET_S / 10)
            wait_until(lambda: network.block_number == checkpoint)
            return True

        wait_until(lambda: is_at_work_for(2 * QUIET_S))


def test_l1_is_never_behind_the_chain_nor_the_chain_behind_l1(l1: L1) -> None:
    with attached(l1.url) as network:
        reached = network.warp("+100000")
        assert l1.timestamp >= reached
        ahead = l1.timestamp + 50_000
        l1.call("evm_setNextBlockTimestamp", ahead)
        l1.call("evm_mine")
        network.mine()
        assert int(network.call("node_getBlockHeader", "latest")["globalVariables"]["timestamp"]) >= ahead


def test_a_snapshot_takes_l1_back_too(l1: L1) -> None:
    with attached(l1.url) as network:
        snapshot = network.snapshot()
        claim = network.call("fastnode_bridgeFeeJuice", ACCOUNT)
        assert network.revert(snapshot) is True
        assert tips(network, l1) == (5, 5)
        assert network.call("node_getL1ToL2MessageCheckpoint", claim["messageHash"]) is None
        again = network.call("fastnode_bridgeFeeJuice", ACCOUNT)
        assert again["messageLeafIndex"] == claim["messageLeafIndex"]


def test_a_reorg_keeps_the_messages_of_l1(l1: L1) -> None:
    with attached(l1.url) as network:
        claim = network.call("fastnode_bridgeFeeJuice", ACCOUNT)
        checkpoint = network.call("node_getL1ToL2MessageCheckpoint", claim["messageHash"])
        network.call("fastnode_reorg", 1)
        assert network.call("node_getL1ToL2MessageCheckpoint", claim["messageHash"]) == checkpoint
        assert tips(network, l1) == (checkpoint, checkpoint)


def test_proving_by_hand_is_seen_on_l1_and_taken_from_there(l1: L1) -> None:
    with attached(l1.url, "--manual-proving") as network:
        network.mine(3)
        assert tips(network, l1) == (8, 0)
        assert network.call("fastnode_prove", 6) == 6
        assert tips(network, l1) == (8, 6)
        rollup = addresses(network)["rollupAddress"]
        l1.call("anvil_setStorageAt", rollup, f"0x{STATE_SLOT:064x}", f"0x{8 << 128 | 7:064x}")
        wait_until(lambda: network.call("node_getProvenBlockNumber") == 7)


def test_a_restart_goes_on_and_puts_the_contracts_on_a_new_l1(tmp_path: Path, stand_in: tuple[StandInL1, str]) -> None:
    first, url = stand_in
    directory = f"--data-directory={tmp_path}"
    with attached(url, directory, in_process=False) as network:
        claim = network.call("fastnode_bridgeFeeJuice", ACCOUNT)
        before = addresses(network)
    with attached(url, directory, in_process=False) as network:
        assert addresses(network) == before
        assert network.block_number == 7
        assert tips(network, L1(url)) == (7, 7)
        assert len(first.state.logs) == 1
    with serving(StandInL1()) as other, attached(other, directory, in_process=False) as network:
        assert addresses(network) == before
        assert tips(network, L1(other)) == (7, 7)
        assert network.call("node_getL1ToL2MessageCheckpoint", claim["messageHash"]) == 7
        assert int(network.call("fastnode_bridgeFeeJuice", ACCOUNT)["messageLeafIndex"]) == 1024 * 8


def test_without_an_answer_of_l1_txs_wait_and_the_node_says_why(stand_in: tuple[StandInL1, str]) -> None:
    l1, url = stand_in
    with attached(url) as network:
        l1.is_silent = True
        with pytest.raises(RpcError, match="L1"):
            network.mine()
        status, reason = readiness(network)
        assert status == 503
        assert reason.startswith("L1 does not answer as it should: HTTP status 503")
        l1.is_silent = False
        assert network.mine() == 6
        assert readiness(network)[0] == 200


def test_an_l1_that_cannot_be_written_is_refused(stand_in: tuple[StandInL1, str]) -> None:
    l1, url = stand_in
    l1.web3_clientVersion = lambda: "Geth/v1.16"  # type: ignore[method-assign]
    with pytest.raises(StartError, match="whose storage it may write"), attached(url):
        pass


def test_an_l1_that_is_not_there_is_named() -> None:
    with pytest.raises(StartError, match="--l1-rpc-urls: L1 does not answer"), attached("http://127.0.0.1:9"):
        pass


def test_contracts_that_are_there_are_used_as_they_are(deployed: tuple[L1, str]) -> None:
    l1, registry = deployed
    with attached(l1.url, f"--registry-address={registry}") as network:
        assert network.call("node_getVersion") == 77
        assert addresses(network)["registryAddress"] == registry
        sent = network.call("fastnode_bridgeFeeJuice", ACCOUNT)
        assert network.call("node_getL1ToL2MessageCheckpoint", sent["messageHash"]) is not None
        tip = network.block_number
        assert tips(network, l1) == (tip, tip)


def test_the_handler_of_the_fee_asset_is_found_among_its_minters(deployed: tuple[L1, str]) -> None:
    l1, registry = deployed
    asset, handler = DEPLOYED["feeJuiceAddress"], DEPLOYED["feeAssetHandlerAddress"]
    owner = "0x" + l1.call("eth_call", {"to": asset, "data": selector("owner()")}, "latest")[-40:]
    l1.call("anvil_impersonateAccount", owner)
    l1.call("anvil_setBalance", owner, hex(10**20))
    for minter in (ACCOUNT[-40:], handler[2:]):
        data = selector("addMinter(address)") + minter.rjust(64, "0")
        l1.call("eth_sendTransaction", {"from": owner, "to": asset, "data": data, "gas": hex(500_000)})
    with attached(l1.url, f"--registry-address={registry}") as network:
        assert addresses(network)["feeAssetHandlerAddress"] == handler


def test_contracts_with_checkpoints_of_another_network_are_refused(deployed: tuple[L1, str]) -> None:
    l1, registry = deployed
    with attached(l1.url, f"--registry-address={registry}") as network:
        newest = network.block_number
        rollup = addresses(network)["rollupAddress"]
    before = l1.call("eth_getStorageAt", rollup, hex(STATE_SLOT), "latest")
    with pytest.raises(StartError, match=f"has {newest} checkpoints of another chain"):
        attached(l1.url, f"--registry-address={registry}").__enter__()
    assert l1.call("eth_getStorageAt", rollup, hex(STATE_SLOT), "latest") == before
