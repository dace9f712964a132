"""Whole nodes and what a peer, or the proposer of a slot, can gossip: they judge as published nodes do, and go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.attacks.attacked import AttackedNode
from tests.attacks.conftest import Attacked
from tests.mempool.chain import SAMPLE_CHAIN
from tests.mempool.recorded import recorded_tx
from tests.p2p import bent_messages as bent
from tests.p2p.nodes import FakeHost, Node, running
from tests.p2p.test_nodes import ON_NETWORK
from tests.sources.l1.derivation.conftest import recorded as recorded
from tests.sources.l1.derivation.conftest import sample as sample
from tests.sources.l1.publishing import RecordedL1
from tests.sources.scripted_upstream import RejectionError

from fastnode.archiver.source import CheckpointRecord
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.messages.request_forms import write_txs
from fastnode.p2p.node.options import StaticPeer
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import CheckpointHeader
from fastnode.protocol.fields import hex_text
from fastnode.protocol.messages import in_hash
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import TxData
from fastnode.protocol.tx_layout import USUAL
from fastnode.sources.chain_file import ChainFileSource

VERSION = "00-31337-322813fd-3658137161-2672340d-1dd2644a"
#: The first recorded checkpoint of several blocks whose transactions are recorded too.
NUMBER = 5
#: Below the gas limits of its transactions, above what they use.
LOW_MANA_LIMIT = 6_000_000
#: Ends of the two proposals: without transactions.
NO_TXS = (bytes(4), bytes(4))


class AskedHost(FakeHost):
    """Remembers whose transactions it was asked for."""

    def __init__(self) -> None:
        super().__init__(VERSION)
        self.asked_for: set[bytes] = set()

    def tx(self, tx_hash: bytes) -> bytes | None:
        self.asked_for.add(tx_hash)
        return super().tx(tx_hash)


@dataclass
class Gossip:
    """A node at the checkpoint before NUMBER, in the slot of NUMBER, and its two peers."""

    node: AttackedNode
    l1: RecordedL1
    peers: tuple[Node, Node]
    blocks: tuple[L2Block, ...]
    #: Header of the checkpoint that the blocks make.
    header: CheckpointHeader
    in_hash: bytes
    #: Parts of the node that may say that they are not well.
    may_be_wrong: frozenset[str] = frozenset()

    def give(self, archive_root: bytes, txs: list[Tx]) -> None:
        """Both peers have them."""
        for peer in self.peers:
            peer.host.blocks[archive_root] = [tx.hash for tx in txs]
            peer.host.txs |= {tx.hash: tx.to_buffer() for tx in txs}

    def proposal(self, block: L2Block, **changes: Any) -> bytes:
        """As the proposer of the slot signs it; what ``changes`` says is otherwise."""
        named: dict[str, Any] = {
            "raw": block.header.to_buffer(),
            "index": block.index_within_checkpoint,
            "in_hash": self.in_hash,
            "archive": block.archive.root,
            "hashes": tuple(effect.tx_hash for effect in block.body.tx_effects),
        }
        return bent.block(**(named | changes))

    def tell(self, payload: bytes, sender: int = 0) -> None:
        self.peers[sender].network.publish(Topic.BLOCK_PROPOSAL, payload)

    def publish_all(self) -> None:
        """L1 has the recorded checkpoint: the node is at it, and well."""
        self.l1.show(max(block.number for block in self.l1.recorded if block.pending == NUMBER))
        self.node.wait(lambda: self.node.ask("node_getL2Tips")["checkpointed"]["checkpoint"]["number"] == NUMBER)
        self.require_tip()

    def require_tip(self) -> None:
        assert self.node.ask("node_getL2Tips")["proposed"]["hash"] == hex_text(self.blocks[-1].hash())
        self.node.wait(lambda: self.node.wrong().keys() <= self.may_be_wrong)
        self.node.require_no_fault()

    def propose_all(self, sender: int, *, heard_by: int | None = None, tails: Sequence[bytes] = NO_TXS) -> None:
        """What is right is executed and proposed, and forwarded; ``tails`` stand behind the blocks' proposals."""
        for block, tail in zip(self.blocks, tails, strict=True):
            self.give(block.archive.root, txs_of(block))
            payload = self.proposal(block, tail=tail)
            self.tell(payload, sender)
            if heard_by is not None:
                self.peers[heard_by].host.wait_for(payload)
            self.node.wait(lambda number=block.number: self.node.ask("node_getBlockNumber") == number)
        self.require_tip()


def refuse(*_: object) -> list[Any]:
    raise RejectionError(3, "execution reverted: ValidatorSelection__InsufficientValidatorSetSize")


def txs_of(block: L2Block) -> list[Tx]:
    return [recorded_tx(hex_text(effect.tx_hash)) for effect in block.body.tx_effects]


@pytest.fixture
def gossiping(attacked: Attacked, recorded: RecordedL1) -> Iterator[Callable[..., Gossip]]:
    """``gossiping(mana_limit, *flags)``."""
    with ChainFileSource(SAMPLE_CHAIN) as source, running() as start:
        records = (record for record in source.records() if isinstance(record, CheckpointRecord))
        found = next(record for record in records if record.published.checkpoint.number == NUMBER)
        blocks = found.published.checkpoint.blocks
        variables = blocks[0].header.global_variables

        def make(mana_limit: int | None = None, *more: str) -> Gossip:
            if mana_limit is not None:
                recorded.constants["rollupManaLimit"] = mana_limit
            before = next(block.number for block in recorded.recorded if block.pending == NUMBER) - 1
            epoch = variables.slot_number // int(recorded.constants["epochDuration"])
            drawn = ((epoch, (bent.ADDRESS,)),)
            recorded.recorded = [replace(block, committees=drawn) for block in recorded.recorded]
            recorded._committee_at = refuse  # type: ignore[method-assign] - what is on L1 needs nobody's signature
            recorded.show(before)
            recorded.committee_size = 1
            flags = (*ON_NETWORK, "--debug-p2p-disable-colocation-penalty", *more)
            node = attacked(recorded, "node", *flags, PROVER_REAL_PROOFS="false")
            node.wait(lambda: node.ask("node_getBlockNumber") == blocks[0].number - 1)
            recorded.mine(timestamp=variables.timestamp)
            node.wait(lambda: node.ask("fastnode_getSyncStatus")["l1"]["blockTime"] == variables.timestamp)
            address = StaticPeer("127.0.0.1", node.process.wait_for_line("on the peer-to-peer network")["port"])
            peers = tuple(start(host=AskedHost(), static_peers=(address,)) for _ in range(2))
            for peer in peers:
                peer.wait_until(lambda snapshot: snapshot.mesh.get("block_proposal", 0) >= 1)
            header = found.published.checkpoint.header
            return Gossip(node, recorded, (peers[0], peers[1]), blocks, header, in_hash(found.l1_to_l2_messages))

        yield make


def test_gas_limits_above_the_mana_limit_in_blocks_of_others(gossiping: Callable[..., Gossip]) -> None:
    """The rollup's limit is a rule of the pool: whoever proposes is asked for what the blocks use."""
    gossip = gossiping(LOW_MANA_LIMIT)
    assert any(tx.data.gas_limits.l2_gas > LOW_MANA_LIMIT for block in gossip.blocks for tx in txs_of(block))
    gossip.propose_all(0, heard_by=1)
    gossip.node.stop()


def test_forms_of_messages_that_published_nodes_read(gossiping: Callable[..., Gossip]) -> None:
    """A missing end and bytes behind it are read, forwarded as they came, and held against nobody."""
    gossip = gossiping()
    gossip.propose_all(0, heard_by=1, tails=(b"", bytes(4) + b"\1" * 100))
    assert [len(peer.network.snapshot.peers) for peer in gossip.peers] == [1, 1], "nobody is left"
    gossip.node.stop()


def of_another_network(tx: Tx, offset: int) -> Tx:
    data = bytearray(tx.data.buffer)
    data[offset + 31] ^= 1
    return Tx(TxData.from_buffer(bytes(data)), tx.proof, tx.class_logs, tx.calldata)


@pytest.mark.parametrize("offset", [USUAL.chain_id, USUAL.protocol_contracts_hash], ids=["chain", "contracts"])
def test_transactions_of_another_network_in_proposals(gossiping: Callable[..., Gossip], offset: int) -> None:
    """No block with one is executed or forwarded, and the chain goes on from L1."""
    gossip = gossiping()
    first = gossip.blocks[0]
    foreign, root = of_another_network(txs_of(first)[0], offset), bytes(31) + b"\1"
    gossip.give(root, [foreign])
    payload = gossip.proposal(first, archive=root, hashes=(foreign.hash,))
    gossip.tell(payload)
    hosts = [peer.host for peer in gossip.peers]
    gossip.node.wait(lambda: any(foreign.hash in host.asked_for for host in hosts if isinstance(host, AskedHost)))
    gossip.publish_all()
    assert payload not in hosts[1].received
    gossip.node.stop()


def test_proposals_that_published_nodes_punish(gossiping: Callable[..., Gossip]) -> None:
    """Roots above the modulus, transactions that are not listed or have a false hash: not forwarded, and their sender
    is left; what another peer then brings is taken."""
    gossip = gossiping()
    first, second = gossip.blocks
    listed, unlisted = txs_of(first)[0], txs_of(second)[0]
    false = listed.to_buffer()
    false = bytes([false[0] ^ 1]) + false[1:]
    payloads = [
        gossip.proposal(first, in_hash=bent.BIG),
        gossip.proposal(first, archive=bent.BIG),
        gossip.proposal(first, tail=bent.signed_txs([unlisted.to_buffer()])),
        gossip.proposal(first, tail=bent.signed_txs([false])),
        gossip.proposal(first, tail=bent.u32(1) + write_txs([listed.to_buffer()]) + bytes(68)),
    ]
    for payload in payloads:
        gossip.tell(payload)
    sender, other = gossip.peers
    sender.wait_for_peers(0)
    assert not set(payloads) & other.host.received.keys()
    gossip.propose_all(1)
    gossip.node.stop()


def test_a_checkpoint_whose_blobs_hash_is_not_that_of_its_blocks(gossiping: Callable[..., Gossip]) -> None:
    """A node that judges what others propose works the whole header out again, and says what differs."""
    gossip = gossiping(None, "--sequencer", "--fisherman-mode")
    gossip.may_be_wrong = frozenset({"sequencer"})  # this L1 has no committee: it says so once two slots have passed
    gossip.propose_all(0)
    header = replace(gossip.header, blobs_hash=bytes(31) + b"\1")
    proposal = bent.checkpoint(header.to_buffer(), gossip.blocks[-1].archive.root)
    gossip.peers[0].network.publish(Topic.CHECKPOINT_PROPOSAL, proposal)
    line = gossip.node.process.wait_for_line("a checkpoint is not attested to")
    assert "its header's blobs_hash is not what its blocks give" in line["reason"], line
    gossip.publish_all()
    gossip.node.stop()
