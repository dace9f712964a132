"""A gossiped proposal on its whole way through a node: judged, executed, stored as proposed, or kept as an offense."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from coincurve import PrivateKey
from tests.building.test_recorded_chain import opened_builder
from tests.building.test_reexecution import Proposal
from tests.mempool.chain import SAMPLE_CHAIN

from fastnode.app.roles.peers import PeerParts, Peers, execution_rule, isolation_of, peer_options
from fastnode.app.stages.gossip import Gossip
from fastnode.app.stages.source import Source
from fastnode.archiver.queries import ChainView
from fastnode.archiver.source import CheckpointRecord
from fastnode.config.configuration import NodeConfiguration
from fastnode.config.settings import Settings
from fastnode.errors import SettingError
from fastnode.http.allowance import MemoryBudget
from fastnode.keystore.private_keys import EthKey
from fastnode.local_network.accounts import TOKEN_ALLOW_LIST
from fastnode.mempool.service import Mempool, MempoolOptions
from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.node.options import StaticPeer
from fastnode.proofs.judge import open_judge
from fastnode.protocol.block import L2Block
from fastnode.protocol.ethereum import keccak_256, signed_digest
from fastnode.protocol.messages import in_hash
from fastnode.sentinel.offenses import OffenseType
from fastnode.sources.chain_file import ChainFileSource

PROPOSER = EthKey(bytes(31) + b"\7")
ADDRESS = bytes.fromhex(PROPOSER.address[2:])
ALWAYS, UPLOADS = "alwaysReexecuteBlockProposals", "file:///blobs"


class L1:
    """Draws one proposer for everything."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        self.committees = self
        self._messages = messages

    def committee_of(self, _epoch: int) -> Sequence[bytes]:
        return [ADDRESS]

    def proposer_of(self, _slot: int) -> bytes:
        return ADDRESS

    def messages_of(self, _checkpoint: int) -> Sequence[bytes]:
        return self._messages


NODE_RECORD = Path(__file__).parents[2] / "data" / "p2p" / "node.enr"


class PeersAlone:
    """A node without sockets: what a peer says goes in at :meth:`hear`, the thread that ingests is :meth:`ingest`."""

    def __init__(self, recorded: Proposal, directory: Path, now: Callable[[], float] | None = None) -> None:
        """``now``: the time of L1's newest block; by default that of the recorded blocks."""
        self.recorded = recorded
        self.ingestor = recorded.builder.ingestor
        self.accused: list[tuple[OffenseType, bytes, int]] = []
        chain = recorded.builder.view.chain.chain
        variables = recorded.blocks[0].header.global_variables
        self.slot = variables.slot_number
        self.mempool = Mempool.open(
            directory / "p2p",
            recorded.builder.view,
            MempoolOptions(setup_allow_list_extension=TOKEN_ALLOW_LIST),
            judge=open_judge(required=False),
            now=now or (lambda: float(variables.timestamp)),
        )
        self.woken = 0
        self.is_ready = True
        self.given: dict[bytes, bytes] = {}
        self.epoch = self.slot // chain.epoch_duration
        self.l1: Any = L1(recorded.messages)
        nobody: Any = None
        foundation: Any = SimpleNamespace(control=SimpleNamespace(wake=self.wake))
        self.peers = Peers(
            PeerParts(
                settings=Settings(p2p_enabled=True, p2p_port=0),
                directory=directory,
                gossip=Gossip(foundation, Source(nobody)),
                mempool=self.mempool,
                chain=chain,
                view=lambda: recorded.builder.view,
                is_ready=lambda: self.is_ready,
                budget=MemoryBudget(64 << 20),
                state=lambda: recorded.builder.data.state,
                l1=self.l1,
                accuse=lambda *offense: self.accused.append(offense),
            )
        )
        self.peers._host.fetch = self.fetch

    def wake(self) -> None:
        self.woken += 1

    def close(self) -> None:
        self.peers.stop()
        self.mempool.close()

    def give_txs(self, block: L2Block) -> None:
        """Peers have them from now on.  The pool does not take all: some are anchored at blocks of the proposals."""
        self.given |= {tx.hash: tx.to_buffer() for tx in self.recorded.txs(block)}

    def fetch(self, _root: bytes, _hashes: Sequence[bytes], missing: set[bytes], _peer: str) -> Sequence[bytes]:
        return [self.given[tx_hash] for tx_hash in missing if tx_hash in self.given]

    def hear(self, block: L2Block, archive_root: bytes | None = None) -> Verdict:
        """Of a block as its proposer gossips it."""
        host = self.peers._host
        payload = proposal_of(block, archive_root or block.archive.root, in_hash(self.recorded.messages))
        return host.judge(Topic.BLOCK_PROPOSAL, payload, "a peer").verdict

    def ingest(self) -> int:
        return self.peers.proposed.apply(self.ingestor)


def proposal_of(block: L2Block, archive_root: bytes, messages_hash: bytes) -> bytes:
    hashes = [effect.tx_hash for effect in block.body.tx_effects]
    body = block.header.to_buffer() + struct.pack(">I", block.index_within_checkpoint) + messages_hash + archive_root
    named = struct.pack(">I", len(hashes)) + b"".join(hashes)
    digest = signed_digest(keccak_256(bytes(4) + body + named))
    made = PrivateKey(PROPOSER.reveal()).sign_recoverable(digest, hasher=None)
    return body + made[:64] + struct.pack(">I", 27 + made[64]) + named + bytes(4)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proposal]:
    with opened_builder(tmp_path_factory.mktemp("chain")) as builder:
        yield Proposal(builder)


@pytest.fixture
def node(prepared: Proposal, tmp_path: Path) -> Iterator[PeersAlone]:
    peers = PeersAlone(prepared, tmp_path)
    yield peers
    peers.close()
    prepared.builder.ingestor.undo_above(prepared.blocks[0].number - 1)


def test_a_message_goes_to_peers_that_come_until_its_slot_ends_on_the_network(
    prepared: Proposal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the time of L1's newest block, which is seconds behind: in the next slot it costs points."""
    asked_at = time.time()
    node = PeersAlone(prepared, tmp_path, now=lambda: asked_at - 10)
    kept: list[float] = []
    network: Any = SimpleNamespace(
        publish=lambda _topic, _payload, keep_s: kept.append(keep_s), stop=lambda: None, start=lambda: None
    )
    monkeypatch.setattr(node.peers, "_network", network)
    clock = node.mempool.clock
    slot = int(asked_at - clock.genesis_time) // clock.slot_duration + 1
    node.peers.publish(Topic.BLOCK_PROPOSAL, b"", slot)
    end = clock.genesis_time + (slot + 1) * clock.slot_duration
    assert end - time.time() <= kept[0] <= end - asked_at
    node.close()


def test_a_gossiped_block_is_forwarded_executed_and_proposed(node: PeersAlone) -> None:
    for block in node.recorded.blocks:
        node.give_txs(block)
        assert node.hear(block) is Verdict.ACCEPT
    assert node.woken == len(node.recorded.blocks)
    assert node.ingest() == len(node.recorded.blocks)
    assert node.ingestor.view.tips.proposed.hash == node.recorded.blocks[-1].hash()
    assert node.accused == []


def test_a_block_whose_transactions_no_peer_gives_is_neither_forwarded_nor_executed(node: PeersAlone) -> None:
    assert node.hear(node.recorded.blocks[0]) is Verdict.IGNORE
    assert node.ingest() == 0


def test_a_block_with_another_archive_is_an_offense_of_its_proposer_and_not_shown(node: PeersAlone) -> None:
    first = node.recorded.blocks[0]
    node.give_txs(first)
    tip = node.ingestor.view.tip_number
    assert node.hear(first, archive_root=bytes(31) + b"\1") is Verdict.ACCEPT
    assert node.ingest() == 0
    assert node.ingestor.view.tip_number == tip
    assert node.accused == [(OffenseType.BROADCASTED_INVALID_BLOCK_PROPOSAL, ADDRESS, node.slot)]


def test_the_second_of_two_proposals_is_an_offense_and_the_first_is_shown(node: PeersAlone) -> None:
    first = node.recorded.blocks[0]
    node.give_txs(first)
    assert node.hear(first) is Verdict.ACCEPT
    other = replace(first, header=replace(first.header, total_fees=1))
    assert node.hear(other, bytes(31) + b"\1") is Verdict.ACCEPT  # they are told apart by their archive roots
    assert node.ingest() == 1
    assert node.accused == [(OffenseType.DUPLICATE_PROPOSAL, ADDRESS, node.slot)]


def publish_all(node: PeersAlone) -> None:
    """The recorded checkpoint is on L1, as it was recorded."""
    with ChainFileSource(SAMPLE_CHAIN) as source:
        for record in source.records():
            if isinstance(record, CheckpointRecord) and record.published.checkpoint.blocks == node.recorded.blocks:
                node.ingestor.add_checkpoint(record.published, record.l1_to_l2_messages)


def prune(node: PeersAlone, *, has_peers: bool = True) -> list[tuple[OffenseType, bytes, int]]:
    """L1 gives up the checkpoint: who is accused."""
    pruned = node.peers._pruned
    assert pruned is not None
    pruned._parts = replace(pruned._parts, has_peers=lambda: has_peers)
    node.l1.on_pruned(node.recorded.blocks[0].number - 1)
    node.ingestor.undo_above(node.recorded.blocks[0].number - 1)
    pruned.close()  # once what is under way is done
    return node.accused


def test_a_pruned_epoch_whose_blocks_are_what_their_transactions_do_is_an_offense_of_its_committee(
    node: PeersAlone,
) -> None:
    for block in node.recorded.blocks:
        node.give_txs(block)
    publish_all(node)
    assert prune(node) == [(OffenseType.VALID_EPOCH_PRUNED, ADDRESS, node.epoch)]


def test_a_pruned_epoch_whose_transactions_no_peer_has_is_an_offense_of_its_committee(node: PeersAlone) -> None:
    node.give_txs(node.recorded.blocks[0])
    publish_all(node)
    assert prune(node) == [(OffenseType.DATA_WITHHOLDING, ADDRESS, node.epoch)]


def test_where_nobody_can_be_asked_nobody_is_accused(node: PeersAlone) -> None:
    publish_all(node)
    assert prune(node, has_peers=False) == []


def test_a_pruned_epoch_with_another_effect_than_its_transactions_have_is_nobodys_offense(
    node: PeersAlone, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in node.recorded.blocks:
        node.give_txs(block)
    publish_all(node)
    last = node.recorded.blocks[-1]
    load = ChainView.load_block

    def changed(chain: ChainView, number: int) -> L2Block | None:
        block = load(chain, number)
        if block is None or number != last.number:
            return block
        effect = replace(block.body.tx_effects[0], transaction_fee=block.body.tx_effects[0].transaction_fee + 1)
        return replace(block, body=replace(block.body, tx_effects=(effect, *block.body.tx_effects[1:])))

    monkeypatch.setattr(ChainView, "load_block", changed)
    assert prune(node) == []


def test_what_was_pruned_before_this_node_was_up_to_date_is_not_judged(node: PeersAlone) -> None:
    publish_all(node)
    node.is_ready = False
    assert prune(node) == []


#: Settings, configuration, whether the validator is in the committee: whether the published node (4.1.2) executes then.
EXECUTED = [
    ({"sequencer": True}, {}, False, True),
    ({"sequencer": True, "validator_reexecute": False}, {}, True, True),
    ({"sequencer": True}, {ALWAYS: False}, False, True),
    ({"sequencer": True, "slash_invalid_block_penalty": 0}, {ALWAYS: False}, False, False),
    ({"sequencer": True, "slash_invalid_block_penalty": 0}, {ALWAYS: False}, True, True),
    ({"sequencer": True, "validator_reexecute": False}, {ALWAYS: False}, True, False),
    ({"sequencer": True}, {ALWAYS: False, "validatorReexecute": False}, True, False),
    ({"sequencer": True, "validator_reexecute": False, "fisherman_mode": True}, {ALWAYS: False}, False, True),
    (
        {"sequencer": True, "validator_reexecute": False, "blob_file_store_upload_url": UPLOADS},
        {ALWAYS: False},
        False,
        True,
    ),
    ({"sequencer": True, "validator_reexecute": False}, {ALWAYS: False, "fishermanMode": True}, False, True),
    ({}, {}, False, True),
    ({}, {ALWAYS: False}, False, False),
]


@pytest.mark.parametrize(("settings", "changes", "is_member", "expected"), EXECUTED)
def test_what_is_executed_is_what_the_configuration_wants(
    settings: dict[str, Any], changes: dict[str, Any], is_member: bool, expected: bool
) -> None:
    made = Settings(p2p_enabled=True, p2p_port=0, l1_rpc_urls=("http://127.0.0.1:1",), **settings)
    configuration = NodeConfiguration(made)
    executes = execution_rule(made, configuration)
    configuration.change(changes)
    assert executes(7, lambda _slot: is_member) is expected


@pytest.mark.parametrize(
    ("values", "reason"),
    [({"p2p_ip": "::1"}, "records of the network"), ({"p2p_listen_addr": "::"}, "--p2p-discovery-disabled")],
)
def test_ipv6_is_refused_where_the_network_has_none(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(SettingError, match=reason):
        peer_options(Settings(p2p_enabled=True, **values))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"network": "testnet"}, ["no bootstrap node of testnet is given", "BOOTSTRAP_NODES"]),
        ({}, ["no bootstrap node is given", "BOOTSTRAP_NODES"]),
        ({"p2p_discovery_disabled": True}, ["discovery is off", "--p2p-peer"]),
        ({"p2p_peer": ("127.0.0.1:40400",)}, None),
        ({"bootstrap_nodes": (NODE_RECORD.read_text().strip(),)}, None),
    ],
)
def test_a_node_that_can_find_no_peer_says_which_settings_are_missing(
    values: dict[str, Any], named: list[str] | None
) -> None:
    settings = Settings(p2p_enabled=True, **values)
    found = isolation_of(settings, peer_options(settings))
    if named is None:
        assert found is None
    else:
        assert found is not None
        assert [text for text in named if text not in found] == []


def test_peers_are_dialled_and_listened_to_over_ipv6_without_discovery() -> None:
    options = peer_options(
        Settings(p2p_enabled=True, p2p_listen_addr="::", p2p_discovery_disabled=True, p2p_peer=("[::1]:40400",))
    )
    assert options.listen_host == "::"
    assert options.static_peers == (StaticPeer("::1", 40400),)
