"""A proposed block, real nodes and a real L1: served by who has heard of it from a peer, gone when L1 never has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import NodeProcess
from tests.publishing.live_l1 import needs_anvil
from tests.sequencing.network import ProposingNetwork, checkpointed, proposing_network, tips, wait_until

pytestmark = needs_anvil

ON_NETWORK = ("--p2p-enabled", "--p2p-listen-addr=127.0.0.1", "--p2p-ip=127.0.0.1", "--p2p-discovery-disabled")


@pytest.fixture
def network(tmp_path: Path, start_node: Callable[..., NodeProcess]) -> Iterator[ProposingNetwork]:
    with proposing_network("committee_of_4", tmp_path, start_node) as made:
        made.begin_slot(made.slot // 4 * 4 + 4)
        yield made


def proposed(node: NodeProcess) -> dict[str, Any]:
    return dict(tips(node)["proposed"])


def test_a_block_that_a_peer_proposed_and_l1_never_gets_is_taken_back(network: ProposingNetwork) -> None:
    follower = network.node(*ON_NETWORK, "--p2p-port=0")
    port = follower.wait_for_line("on the peer-to-peer network")["port"]
    flags = (*ON_NETWORK, "--p2p-port=0", f"--p2p-peer=127.0.0.1:{port}")
    proposer = network.proposer(*flags, keys=range(6), data="proposer")
    follower.wait_for_line("peer connected")
    network.mine_slot()
    wait_until(lambda: checkpointed(follower) == checkpointed(proposer) == 1, network.log)
    before = tips(follower)

    network.begin_slot()
    wait_until(
        lambda: network.anvil.pool() and proposed(follower)["number"] > before["proposed"]["number"], network.log
    )
    lost = proposed(follower)
    assert proposed(proposer) == lost
    assert tips(follower)["checkpointed"] == before["checkpointed"]
    assert follower.call("node_getBlock", lost["number"])["result"]["hash"] == lost["hash"]
    proposer.process.kill()
    proposer.process.wait()
    for transaction in network.anvil.pool():
        network.anvil.call("anvil_dropTransaction", transaction["hash"])
    assert proposed(follower) == lost, "until its slot is over L1 may have it yet"

    network.begin_slot()
    network.anvil.mine()  # now it is
    wait_until(lambda: tips(follower) == before, network.log)
    assert follower.call("node_getBlock", lost["number"]).get("result") is None

    proposer = network.proposer(*flags, keys=range(6), data="proposer")
    network.mine_slot()
    wait_until(lambda: checkpointed(follower) == 2, network.log)
    assert proposed(follower)["number"] == lost["number"]
    assert proposed(follower)["hash"] != lost["hash"]
