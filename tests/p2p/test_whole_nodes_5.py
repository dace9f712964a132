"""Whole nodes of release 5.x among themselves: a chain from a model of L1, and peers by the public source of 5.x.

No published node of 5.x was at hand: all that this shows is that two of these nodes understand each other, and that
what they say is what the source says, written down once more in messages_5.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests._ext.avm_programs import FF, U32, assemble, put
from tests.attacks.attacked import AttackedNode, l1_flags
from tests.conftest import PATIENCE_S
from tests.p2p.messages_5 import ADDRESS, KEY, Speaker
from tests.p2p.nodes import FakeHost, Node, running
from tests.p2p.test_nodes import ON_NETWORK
from tests.public_execution.made import valid_tx_running
from tests.sources.l1.derivation.attesting import sign
from tests.sources.l1.publishing import PublishingL1, served

from fastnode.outgoing.network import Network
from fastnode.p2p.gossip.topics import Topic, network_version
from fastnode.p2p.node.options import StaticPeer
from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.ethereum import SigningDomain
from fastnode.protocol.fields import field_from_int, hex_text
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.releases import FIVE
from fastnode.protocol.tx import Tx
from fastnode.sources.upstreams import Upstream
from fastnode.testing import RunningNetwork, local_network

Json = dict[str, Any]
PAYER = field_from_int(0xFEED)
#: Writes 77 into its slot 5.
WRITES = put(10, FF, 77) + put(11, FF, 5) + assemble("SSTORE", 10, 11) + put(1, U32, 0) + assemble("RETURN", 1, 2)
ON_5 = (*ON_NETWORK, "--untried-peers", "--debug-p2p-disable-colocation-penalty")


@pytest.fixture(scope="module")
def network() -> Iterator[RunningNetwork]:
    flags = ("--release=5.2", "--slot-duration-s=60", f"--prefund={hex_text(PAYER)}", "--seed=peers")
    with local_network(*flags, in_process=True) as running:
        yield running


def tx_for(network: RunningNetwork, number: int) -> Tx:
    """``number``: in its bytecode, so that each publishes a class of its own."""
    header = BlockHeader.from_json(network.call("aztec_getBlockData", "latest")["header"], "header")
    version = int(network.call("aztec_getVersion"))
    return valid_tx_running(put(20, FF, number) + WRITES, header, version, PAYER, release=FIVE)


class Rollup:
    """A model of L1 that gets the checkpoints of a local network, attested by a committee of one."""

    def __init__(self, network: RunningNetwork, l1: PublishingL1, genesis: Path) -> None:
        self.network, self.l1 = network, l1
        record = network.call("fastnode_getGenesis")
        self.constants, info = record["chain"]["l1Constants"], network.call("node_getNodeInfo")
        l1.circuits, l1.genesis = FIVE.roots, genesis
        head = ({"kind": "chain", "version": 1, **record["chain"]}, {"kind": "genesis", **record["genesis"]})
        genesis.write_text("".join(f"{json.dumps(line)}\n" for line in head))
        l1.committee_size = 1
        l1.mine(committees=tuple((epoch, (ADDRESS,)) for epoch in range(200)))
        rollup = info["l1ContractAddresses"]["rollupAddress"]
        self.domain = SigningDomain(info["l1ChainId"], bytes.fromhex(rollup[2:]))
        self.version = network_version(
            info["l1ChainId"], rollup, info["rollupVersion"], FIVE.contracts_hash, FIVE.vk_tree_root
        )

    def checkpoints(self, first: int) -> list[Json]:
        with Network() as connections:
            other = Upstream(self.network.url, connections, takes_untried=True)
            other.identify()
            found: list[Json] = other.call("node_getCheckpoints", first, 50)
            return found

    def publish(self) -> None:
        for published in self.checkpoints(len(self.l1.head.archives)):
            sheet = self.l1.sheet(published)
            sign(sheet, [KEY], range(1))
            self.l1.publish(sheet)

    def begin_of(self, slot: int) -> int:
        """Begin of the slot in which a checkpoint of this one is proposed."""
        return int(self.constants["l1GenesisTime"]) + (slot - 1) * int(self.constants["slotDuration"])


@pytest.fixture
def rollup(tmp_path: Path, network: RunningNetwork) -> Iterator[Rollup]:
    info, record = network.call("node_getNodeInfo"), network.call("fastnode_getGenesis")
    with served(PublishingL1(info, record["chain"]["l1Constants"])) as l1:
        yield Rollup(network, l1, tmp_path / "genesis.jsonl")


@pytest.fixture
def start_on(tmp_path: Path, start_node: Callable[..., Any], rollup: Rollup) -> Callable[..., AttackedNode]:
    def start(name: str, *flags: object) -> AttackedNode:
        directory = ("--data-directory", tmp_path / name)
        node = start_node(*directory, *l1_flags(rollup.l1), *ON_5, *flags, PROVER_REAL_PROOFS="false")
        return AttackedNode(node)

    return start


def address_of(node: AttackedNode) -> StaticPeer:
    return StaticPeer("127.0.0.1", node.process.wait_for_line("on the peer-to-peer network")["port"])


def network_of(node: AttackedNode) -> Json:
    """The state of its part of the network, as the status page has it."""
    url = f"http://127.0.0.1:{node.process.admin_port}/status-page/overview"
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
        found: Json = json.load(response)["peers"]
    return found


def wait_for_mesh(node: AttackedNode, count: int) -> None:
    def is_in_all() -> bool:
        mesh = network_of(node)["mesh"]
        return len(mesh) == len(Topic) and all(size >= count for size in mesh.values())

    node.wait(is_in_all)


def is_pending(node: AttackedNode, tx: Tx) -> bool:
    return bool(node.ask("aztec_getTxReceipt", hex_text(tx.hash))["status"] == "pending")


def test_two_nodes_find_each_other_and_hand_on_all_that_a_proposer_says(
    rollup: Rollup, network: RunningNetwork, start_on: Callable[..., AttackedNode]
) -> None:
    network.mine()
    rollup.publish()
    first = start_on("first")
    first.wait(lambda: first.ask("aztec_getEncodedEnr"))
    record = first.ask("aztec_getEncodedEnr")
    second = start_on("second", f"--bootstrap-nodes={record}", "--p2p-bootstrap-nodes-as-full-peers")
    with running() as start:
        speaker = start(
            host=FakeHost(rollup.version), static_peers=(address_of(first),), release=FIVE, takes_transactions=True
        )
        wait_for_mesh(first, 2)
        wait_for_mesh(second, 1)
        _gossip_transactions(network, (first, second), speaker)
        _propose(rollup, network, (first, second), speaker)
        for node in (first, second):
            assert not node.wrong()
            node.require_no_fault()
            peers = network_of(node)["peers"]
            assert all(peer["applicationScore"] == 0 for peer in peers), "nobody is punished"
    first.stop()
    second.stop()


def _gossip_transactions(network: RunningNetwork, nodes: tuple[AttackedNode, AttackedNode], speaker: Node) -> None:
    first, second = nodes
    for node in nodes:
        node.wait(lambda node=node: node.ask("aztec_isReady"))
    sent, heard = tx_for(network, 1), tx_for(network, 2)
    assert second.ask("aztec_sendTx", json.loads(sent.to_json_bytes())) is None
    first.wait(lambda: is_pending(first, sent))
    speaker.host.wait_for(sent.to_buffer())
    speaker.network.publish(Topic.TX, heard.to_buffer())
    second.wait(lambda: is_pending(second, heard))


def _set_time(rollup: Rollup, nodes: tuple[AttackedNode, AttackedNode], time: int) -> None:
    rollup.l1.mine(timestamp=time)
    for node in nodes:
        node.wait(lambda node=node: node.ask("fastnode_getSyncStatus")["l1"]["blockTime"] == time)


def _propose(rollup: Rollup, network: RunningNetwork, nodes: tuple[AttackedNode, AttackedNode], speaker: Node) -> None:
    """A block that is not on L1 yet, the checkpoint that it makes, and an attestation to that."""
    first, _ = nodes
    network.warp("+1000")  # far from the time on the wall, which nobody goes by then
    rollup.publish()
    for node in nodes:
        node.wait(lambda node=node: node.ask("aztec_getBlockNumber") == network.block_number)
    tx = tx_for(network, 3)
    network.call("aztec_sendTx", json.loads(tx.to_json_bytes()))
    (made,) = rollup.checkpoints(len(rollup.l1.head.archives))
    checkpoint = PublishedCheckpoint.from_json(made, "checkpoint").checkpoint
    (block,) = checkpoint.blocks
    hashes = tuple(effect.tx_hash for effect in block.body.tx_effects)
    assert hashes == (tx.hash,)
    slot = checkpoint.header.slot_number
    rollup.l1.mine(timestamp=rollup.begin_of(slot) + 1)
    _set_time(rollup, nodes, rollup.begin_of(slot) - 5)  # whoever is at the next block of L1 has the committee by then
    _set_time(rollup, nodes, rollup.begin_of(slot) + 1)
    by = Speaker(rollup.domain)
    root, in_hash = block.archive.root, checkpoint.header.in_hash
    speaker.host.blocks[root] = list(hashes)
    speaker.host.txs[tx.hash] = tx.to_buffer()
    proposal = by.block(block.header, block.index_within_checkpoint, in_hash, root, hashes)
    modifier = checkpoint.fee_asset_price_modifier
    core = by.checkpoint(checkpoint.header, checkpoint.archive.root, modifier)
    attestation = by.attestation(checkpoint.header, checkpoint.archive.root, modifier)
    speaker.network.publish(Topic.BLOCK_PROPOSAL, proposal)
    for node in nodes:  # the second has it, and its transaction, from the first
        node.wait(lambda node=node: node.ask("aztec_getBlockNumber") == block.number)
        assert node.ask("aztec_getBlockData", block.number)["blockHash"] == hex_text(block.hash())
    _set_time(rollup, nodes, rollup.begin_of(slot) + 2)  # however long that took
    speaker.network.publish(Topic.CHECKPOINT_PROPOSAL, core)
    speaker.network.publish(Topic.CHECKPOINT_ATTESTATION, attestation)
    for node in nodes:
        node.wait(lambda node=node: node.ask("aztec_getCheckpointAttestationsForSlot", slot))
        node.wait(lambda node=node: node.ask("aztec_getProposalsForSlot", slot)["checkpointProposals"])
        kept = node.ask("aztec_getProposalsForSlot", slot)
        assert list(map(base64.b64decode, kept["blockProposals"])) == [proposal]
        assert list(map(base64.b64decode, kept["checkpointProposals"])) == [core]
        (told,) = node.ask("aztec_getCheckpointAttestationsForSlot", slot)
        assert told["payload"]["header"] == made["checkpoint"]["header"]
        assert told["payload"]["signatureContext"]["rollupAddress"] == hex_text(rollup.domain.rollup)
        assert told["signature"] == hex_text(attestation[-136:-72] + attestation[-69:-68])
        assert node.ask("aztec_getCheckpointAttestationsForSlot", slot, hex_text(bytes(32))) == []
        assert node.ask("aztec_getProposalsForSlot", slot + 1) == {"blockProposals": [], "checkpointProposals": []}
        node.wait(lambda node=node: any("block_txs success" in key for key in network_of(node)["requests"]))
    assert first.ask("aztec_getChainTips")["proposed"]["number"] == block.number


def test_without_being_told_so_no_node_is_on_the_network_of_5_x(
    rollup: Rollup, network: RunningNetwork, tmp_path: Path, start_node: Callable[..., Any]
) -> None:
    rollup.publish()
    flags = ("--data-directory", tmp_path / "refused", *l1_flags(rollup.l1), *ON_NETWORK)
    node = start_node(*flags)
    assert node.process.wait(PATIENCE_S) != 0
    assert "--p2p-enabled: no node of release 5.x" in node.log.read_text()
    assert "--untried-peers takes it as far as it is known" in node.log.read_text()


def test_that_its_peers_were_not_tried_is_said_at_the_start_and_in_the_status(
    rollup: Rollup, start_on: Callable[..., AttackedNode]
) -> None:
    rollup.publish()
    node = start_on("warned")
    warning = node.process.wait_for_line("the chain is of a release that no published node was tried with")
    assert warning["level"] == "warning"
    assert "peers, by its public source: no published node of it was tried" in warning["reason"]
    node.wait(lambda: node.process.readiness().startswith("OK"))
    request = urllib.request.Request(f"{node.process.url}/status", headers={"Accept": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        assert "no published node of it was tried" in json.load(response)["notes"]["peers"]
    node.stop()
