"""What an operator changes of a proposer on a real L1 while it runs acts at its next slot."""

from __future__ import annotations

from typing import Any

from tests.config.changes import check_keys
from tests.conftest import NodeProcess
from tests.ports import free_ports
from tests.publishing.live_l1 import needs_anvil, test_key
from tests.sequencing.network import ProposingNetwork, checkpointed, components, wait_until

from fastnode.config.settings import Settings

pytestmark = needs_anvil

ON_L1 = {"l1_rpc_urls": ("http://l1",), "blob_file_store_urls": ("file:///blobs",)}


def configure(node: NodeProcess, **keys: Any) -> None:
    assert "error" not in node.call_admin("nodeAdmin_setConfig", keys), keys


def first_slot(network: ProposingNetwork) -> None:
    wait_until(network.anvil.pool, network.log)
    network.anvil.mine()
    assert network.pending == 1, network.log()


def pass_slot(network: ProposingNetwork, node: NodeProcess, *outcome: str) -> None:
    """Let a slot pass in which nothing is published, as the node says."""
    pending, slot = network.pending, network.begin_slot()
    wanted = (f"slot {slot}: ", *outcome)
    wait_until(lambda: all(text in components(node) for text in wanted), lambda: (components(node), network.log()))
    assert (network.anvil.pool(), network.pending) == ([], pending), network.log()


def test_a_validator_that_is_disabled_proposes_no_more_until_it_is_enabled(alone: ProposingNetwork) -> None:
    node = alone.proposer()
    first_slot(alone)
    configure(node, disabledValidators=[test_key(0).address])
    for _ in range(2):
        pass_slot(alone, node, "is disabled (disabledValidators)")
    configure(node, disabledValidators=[])
    assert alone.mine_slot() == 2
    assert node.stop() == 0


def test_a_proposer_that_becomes_a_fisherman_builds_and_sends_nothing(alone: ProposingNetwork) -> None:
    node = alone.proposer()
    first_slot(alone)
    configure(node, fishermanMode=True)
    pass_slot(alone, node, "built")
    configure(node, fishermanMode=False)
    assert alone.mine_slot() == 2
    assert node.stop() == 0


def test_a_checkpoint_with_too_few_blocks_is_not_published(alone: ProposingNetwork) -> None:
    node = alone.proposer()
    first_slot(alone)
    configure(node, minBlocksForCheckpoint=2)
    pass_slot(alone, node, "fewer than minBlocksForCheckpoint asks for (2)")
    configure(node, minBlocksForCheckpoint=None)
    assert alone.mine_slot() == 2
    assert node.stop() == 0


def test_each_key_of_a_sequencer_acts_or_is_refused(alone: ProposingNetwork) -> None:
    node = alone.proposer()
    first_slot(alone)
    found = check_keys(node, Settings(sequencer=True, **ON_L1))
    assert found["disabledValidators"] is found["fishermanMode"] is found["minBlocksForCheckpoint"] is None
    assert alone.mine_slot() == 2, "the changes were taken back"
    wait_until(lambda: checkpointed(node) == 2, alone.log)
    assert node.stop() == 0


def test_each_key_of_a_validator_with_peers_acts_or_is_refused(committee: ProposingNetwork) -> None:
    (port,) = free_ports(1)
    node = committee.proposer(
        *("--p2p-enabled", "--p2p-listen-addr=127.0.0.1", "--p2p-ip=127.0.0.1", f"--p2p-port={port}"),
        *("--sentinel-enabled", "--prover-node"),
        keys=range(6),
    )
    settings = Settings(sequencer=True, p2p_enabled=True, sentinel_enabled=True, prover_node=True, **ON_L1)
    found = check_keys(node, settings)
    assert found["attestationPollingIntervalMs"] is found["skipCheckpointProposalValidation"] is None
    assert node.stop() == 0


def test_each_key_of_a_follower_of_l1_with_peers_acts_or_is_refused(committee: ProposingNetwork) -> None:
    (port,) = free_ports(1)
    node = committee.node("--p2p-enabled", "--p2p-listen-addr=127.0.0.1", "--p2p-ip=127.0.0.1", f"--p2p-port={port}")
    found = check_keys(node, Settings(p2p_enabled=True, **ON_L1))
    assert found["skipValidateCheckpointAttestations"] is found["slashPrunePenalty"] is None
    assert node.stop() == 0
