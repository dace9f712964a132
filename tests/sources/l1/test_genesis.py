"""A node of a test network whose genesis funds accounts, with L1 as its only source: settings, or L1, say which."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.conftest import PATIENCE_S, NodeProcess
from tests.sources.l1.publishing import PublishingL1, served
from tests.sources.made_chain import MadeChain

from fastnode.protocol.fields import hex_text
from fastnode.protocol.releases import FOUR
from fastnode.sources.genesis import build_genesis
from fastnode.sources.genesis_funds import FUNDS, Funding

OWN = bytes(31) + b"\x07"
HANDLER = "0x" + "ab" * 20
#: A network of each kind: its genesis, what its operators tell, and the addresses that have funds.
NETWORKS = {
    "sponsored, as told": ("the sponsored FPC", {"SPONSORED_FPC": "true"}),
    "sponsored, as L1 shows": ("the sponsored FPC", {}),
    "accounts of a later version, as L1 shows": (
        "the test accounts of 4.3.0-nightly.20260417 and the sponsored FPC of 4.3.0-nightly.20260417",
        {},
    ),
    "everything": (
        "the test accounts and the sponsored FPC and PREFUND_ADDRESSES",
        {"TEST_ACCOUNTS": "true", "SPONSORED_FPC": "true", "PREFUND_ADDRESSES": hex_text(OWN)},
    ),
}

#: How many addresses each kind funds.
FUNDED = {"sponsored": 1, "accounts of a later version": 4, "everything": 5}


@pytest.fixture
def l1_of(chain: MadeChain) -> Iterator[Callable[[str], PublishingL1]]:
    """An L1 whose rollup begins with a genesis by its name, and has no checkpoint yet."""
    with ExitStack() as stack:

        def start(name: str) -> PublishingL1:
            prefilled = dict(Funding({OWN: FUNDS}).choices(FOUR))[name]
            root = build_genesis(prefilled, [], [], FOUR).archive_root
            constants = chain.chain_record["l1Constants"] | {"genesisArchiveRoot": hex_text(root)}
            return stack.enter_context(served(PublishingL1(chain.chain_record["nodeInfo"], constants)))

        yield start


def start(start_node: Callable[..., NodeProcess], l1: PublishingL1, *flags: object, **names: str) -> NodeProcess:
    return start_node(
        *("--l1-rpc-urls", l1.url, "--l1-consensus-host-urls", l1.beacon.url, "--l1-polling-interval-ms=20"),
        *("--max-allowed-eth-client-drift-seconds=0", *flags),
        **names,
    )


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_genesis_of_a_test_network_is_known_by_what_it_funds(
    kind: str, start_node: Callable[..., NodeProcess], l1_of: Callable[[str], PublishingL1], tmp_path: Path
) -> None:
    name, settings = NETWORKS[kind]
    l1 = l1_of(name)
    config = tmp_path / "network.json"
    fields = {
        "bootnodes": [],
        "snapshots": [],
        "registryAddress": l1.addresses.registry,
        "l1ChainId": 31337,
        "feeAssetHandlerAddress": HANDLER,
        "nodeVersion": "9.9.9",
        "blobFileStoreUrls": [f"file://{tmp_path}"],
        "txCollectionFileStoreUrls": ["https://nowhere.invalid/txs"],
        "blockDurationMs": 2500,
        "txPublicSetupAllowListExtend": f"I:{hex_text(OWN)}:0x12345678",
    }
    config.write_text(json.dumps({"devnet": fields}))
    named = ("--network-config", config, "--network=devnet", "--disable-admin-api-key")
    node = start(start_node, l1, *named, **settings).wait_until_serving()
    genesis = node.call("fastnode_getGenesis")["result"]["genesis"]
    assert len(genesis["prefilledPublicData"]) == FUNDED[kind.partition(",")[0]]
    assert node.call("node_getNodeInfo")["result"]["l1ContractAddresses"]["feeAssetHandlerAddress"] == HANDLER
    assert node.wait_for_line("the network's configuration names another release")["network"] == "9.9.9"
    assert node.call_admin("nodeAdmin_getConfig")["result"]["blockDurationMs"] == 2500
    allowed = {"address": hex_text(OWN), "selector": "0x12345678"}
    assert allowed in node.call("node_getAllowedPublicSetup")["result"]
    idle = [entry for entry in node.entries() if entry["message"].startswith("what the network's configuration gives")]
    assert {entry["names"]: entry["level"] for entry in idle}["tx-collection-file-store-urls"] == "info"
    assert all("blob-file-store-urls" not in entry["names"] for entry in idle)
    assert node.stop() == 0


def test_a_genesis_that_nobody_tells_is_refused_with_what_would_help(
    start_node: Callable[..., NodeProcess], l1_of: Callable[[str], PublishingL1]
) -> None:
    l1 = l1_of("the sponsored FPC and PREFUND_ADDRESSES")
    node = start(start_node, l1, "--registry-address", l1.addresses.registry, SPONSORED_FPC="true")
    assert node.process.wait(PATIENCE_S) == 1
    message = node.entries()[-1]["message"]
    assert "the genesis of the rollup on L1 is none of the known ones" in message
    assert "(the test accounts and the sponsored FPC and the banana FPC)" in message
    assert "say which addresses it funds (--prefund, PREFUND_ADDRESSES)" in message
