"""A chain of release 5.x, made by the builder of blocks, and derived again from L1 and blobs alone.

L1 is a model of its contracts: calls, events and storage in the form of 5.x, with a committee that attests for a chain
and a rollup (EIP-712).
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coincurve import PrivateKey
from tests.api.test_chain import root_of
from tests.conftest import ADMIN_KEY_HASH
from tests.log_index.test_contracts import make_class, update_log
from tests.mempool.sample_tx import sample_tx
from tests.protocol.releases import txs_5
from tests.protocol.releases.test_five import fixture_header
from tests.sources.conftest import FollowingNode, following
from tests.sources.l1.derivation.attesting import address_of, sign
from tests.sources.l1.publishing import PublishingL1, propose_call, publish, served
from tests.sources.made_chain import made_chain

from fastnode.app.ground.node_settings import check_release
from fastnode.app.stages.l1_origin import L1Origin
from fastnode.app.stages.origins import Origins
from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.messages import in_hash_before
from fastnode.building.checkpoint import CheckpointDraft
from fastnode.chain_data import ChainData
from fastnode.config.settings import Settings
from fastnode.data_check import check_data
from fastnode.development.synthetic_chain import ChainShape, SyntheticChain
from fastnode.development.synthetic_content import ContentGenerator
from fastnode.errors import SettingError, StartError
from fastnode.log_index.contracts import contract_class_json, contract_instance_json
from fastnode.mempool.ledger import balance_slot
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import Network
from fastnode.protocol.checkpoint import L1PublishedData, PublishedCheckpoint
from fastnode.protocol.constants import CONTRACT_CLASS_PUBLISHED_MAGIC
from fastnode.protocol.contracts import (
    INSTANCE_PUBLISHED_TAG,
    ContractInstance,
    HashedPublicKeys,
    public_bytecode_chunks,
)
from fastnode.protocol.effects import ContractClassLog, PrivateLog, TxEffect
from fastnode.protocol.ethereum import SigningDomain
from fastnode.protocol.fields import ZERO_FIELD, field_from_int, hex_text, split_fields
from fastnode.protocol.header import GasFees, GlobalVariables
from fastnode.protocol.kzg import blobs_hash, versioned_hash
from fastnode.protocol.releases import FIVE, FOUR
from fastnode.public_execution.executor import programs_of
from fastnode.sentinel.attestations import Attestations
from fastnode.sentinel.sentinel import Sentinel
from fastnode.sources.l1.proposals import Proposal
from fastnode.world_state.trees import L1_TO_L2

Json = dict[str, Any]

ARCHIVE_ROOT_OF_MAINNET = "0x177a4955b31ecaafad999753938a44e526b54c5ba5d536688227f85f15cfbdf5"
SHAPE = ChainShape(blocks=1_000_000, txs=2, nullifiers=2, writes=2, l1_to_l2=2)
FIXTURES = ("empty_checkpoint_1", "single_tx_checkpoint_1", "mixed_checkpoint_1", "mixed_checkpoint_2")
COMMITTEE = [PrivateKey(bytes([place + 1]) * 32) for place in range(4)]
MESSAGES_TO_L1 = tuple(field_from_int(900 + place) for place in range(3))
NEW_CLASS = make_class(bytes(range(200)))
NOT_TAKEN = "no node of release 5.x is followed or a peer here"


# ---- what is published -------------------------------------------------------------------------------


def class_log() -> ContractClassLog:
    head = (
        field_from_int(CONTRACT_CLASS_PUBLISHED_MAGIC),
        NEW_CLASS.id,
        field_from_int(1),
        NEW_CLASS.artifact_hash,
        NEW_CLASS.private_functions_root,
        field_from_int(len(NEW_CLASS.packed_bytecode)),
    )
    fields = b"".join(head) + public_bytecode_chunks(NEW_CLASS.packed_bytecode)
    return ContractClassLog(FIVE.addresses.class_registry, fields, len(fields) // 32)


def instance_of_vectors(data_directory: Path) -> ContractInstance:
    """One whose class has not changed."""
    lines = gzip.decompress((data_directory / "release-5" / "types.jsonl.gz").read_bytes()).splitlines()
    for vector in map(json.loads, lines):
        if vector["kind"] == "instance":
            record = vector["json"] | {"address": vector["address"]}
            record["currentContractClassId"] = record["originalContractClassId"]
            return ContractInstance.from_json(record)
    raise AssertionError


def instance_log(instance: ContractInstance) -> PrivateLog:
    keys = instance.public_keys
    assert isinstance(keys, HashedPublicKeys)
    assert instance.immutables_hash is not None
    fields = (
        INSTANCE_PUBLISHED_TAG,
        instance.address,
        field_from_int(instance.version),
        instance.salt,
        instance.original_contract_class_id,
        instance.initialization_hash,
        instance.immutables_hash,
        keys.nullifier_key_hash,
        *split_fields(keys.incoming_viewing_key),
        keys.outgoing_viewing_key_hash,
        keys.tagging_key_hash,
        keys.message_signing_key_hash,
        keys.fallback_key_hash,
        instance.deployer,
    )
    return PrivateLog((*fields, ZERO_FIELD), len(fields))


# ---- the chain, made by the builder -------------------------------------------------------------------


class Made:
    """A chain of 5.x or later: each block is built, given to ingestion, and the next one built on it."""

    def __init__(self, directory: Path, chain: Any, genesis: Any, stack: ExitStack, shape: ChainShape = SHAPE) -> None:
        self.data = stack.enter_context(ChainData.open(directory))
        self.data.store.adopt_chain(chain, genesis)
        self.ingestor: Ingestor = self.data.open_ingestor(verify=True)
        self.content = ContentGenerator(shape)
        self.published: list[tuple[PublishedCheckpoint, tuple[bytes, ...]]] = []
        self.out_hashes: list[bytes] = []

    def effect(self, **members: Any) -> TxEffect:
        return replace(self.content.body().tx_effects[0], **members)

    def checkpoint(self, *blocks: Sequence[TxEffect]) -> None:
        """Its slot is its number: all are of one epoch."""
        info = self.data.store.chain
        number = len(self.published) + 1
        start, duration = int(info.l1_constants["l1GenesisTime"]), int(info.l1_constants["slotDuration"])
        variables = GlobalVariables(
            chain_id=info.l1_chain_id,
            version=info.rollup_version,
            block_number=0,
            slot_number=number,
            timestamp=start + number * duration,
            coinbase=bytes([number]) * 20,
            fee_recipient=field_from_int(number),
            gas_fees=GasFees(0, 1_000_000),
        )
        messages = messages_left = self.content.messages()
        before = in_hash_before(self.ingestor.view, number)
        draft = CheckpointDraft(variables, number, messages, info.release, before)
        for effects in blocks:
            count = self.data.state.view.tip.sizes[L1_TO_L2.id]
            block = draft.seal_block(self.data.state, effects, mana=100_000 * len(effects))
            if info.release.trees.has_compact_messages:
                own = block.header.state.l1_to_l2_message_tree.next_available_leaf_index - count
                added, messages_left = messages_left[:own], messages_left[own:]
            else:
                added, messages_left = messages_left, ()
            self.ingestor.add_block(block, added)
        published = draft.publish(self.out_hashes, L1PublishedData(1, 1, ZERO_FIELD))
        self.ingestor.add_checkpoint(published, messages)
        self.out_hashes.append(draft.out_hash)
        self.published.append((published, messages))


@pytest.fixture(scope="module")
def l1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublishingL1]:
    """A rollup with the roots and the genesis of mainnet, and no checkpoint yet."""
    record = SyntheticChain(SHAPE, FIVE)._chain_record()
    constants = record["l1Constants"] | {"genesisArchiveRoot": ARCHIVE_ROOT_OF_MAINNET}
    with served(PublishingL1(record["nodeInfo"], constants)) as l1:
        l1.circuits = FIVE.roots
        l1.committee_size = len(COMMITTEE)
        l1.mine(committees=tuple((epoch, tuple(map(address_of, COMMITTEE))) for epoch in range(200)))
        yield l1


def settings_of(l1: PublishingL1) -> dict[str, Any]:
    return {
        "l1_rpc_urls": (l1.url,),
        "l1_consensus_host_urls": (l1.beacon.url,),
        "registry_address": l1.addresses.registry,
        "l1_polling_interval_ms": 5,
        "max_allowed_eth_client_drift_seconds": 0,
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, data_directory: Path, l1: PublishingL1) -> Iterator[Made]:
    """Four checkpoints, on L1 with the attestations of three of four members; two proofs of their epoch."""
    learned = Origins(Settings(**settings_of(l1)), lambda: None)
    try:
        chain, genesis = learned.learn_chain()
    finally:
        learned.interrupt()
        learned.close()
    with ExitStack() as stack:
        made = Made(tmp_path_factory.mktemp("made"), chain, genesis, stack)
        instance = instance_of_vectors(data_directory)
        made.checkpoint([made.effect(contract_class_logs=(class_log(),))], [made.effect()])
        made.checkpoint(
            [made.effect(private_logs=(instance_log(instance),)), made.effect(l2_to_l1_msgs=MESSAGES_TO_L1)]
        )
        update = update_log(instance.address, ZERO_FIELD, NEW_CLASS.id, 10)
        made.checkpoint([made.effect(public_logs=(update,))], [made.effect(), made.effect()], [made.effect()])
        made.checkpoint([made.effect(l2_to_l1_msgs=MESSAGES_TO_L1[:1])])
        for published, messages in made.published:
            l1.send(*messages, checkpoint=published.checkpoint.number)
            sheet = l1.sheet(published)
            sign(sheet, COMMITTEE, (0, 1, 3))
            l1.publish(sheet)
        roots = {number: made.published[number - 1][0].checkpoint.header.epoch_out_hash for number in (3, 4)}
        l1.mine(proven=4, roots=tuple(((0, count), root) for count, root in roots.items()))
        yield made


# ---- derived again ------------------------------------------------------------------------------------


def derive(directory: Path, l1: PublishingL1, made: Made, stack: ExitStack) -> FollowingNode:
    node = stack.enter_context(following(directory, **settings_of(l1)))
    node.wait(lambda: node.tips.checkpointed == made.ingestor.view.tips.checkpointed)
    return node


def test_the_chain_that_was_built_is_derived_from_l1_and_blobs_alone(
    tmp_path: Path, data_directory: Path, l1: PublishingL1, made: Made
) -> None:
    with ExitStack() as stack:
        node = derive(tmp_path / "node", l1, made, stack)
        node.wait(lambda: node.tips.proven.checkpoint.number == 4)
        chain = node.data.store.chain
        assert (chain.release, chain.node_version) == (FIVE, "5.2.0")
        assert chain.genesis_archive_root == bytes.fromhex(ARCHIVE_ROOT_OF_MAINNET[2:])
        view, state = node.ingestor.view, node.data.state.view
        assert state.tip == made.data.state.view.tip
        assert view.tip_number == made.ingestor.view.tip_number == 7
        for number in range(1, view.tip_number + 1):
            assert view.load_block(number) == made.ingestor.view.load_block(number)
        for published, _ in made.published:
            derived = view.checkpoint(published.checkpoint.number)
            assert derived is not None
            assert json.loads(derived.header_json) == published.checkpoint.header.to_json()
            assert int(json.loads(derived.header_json)["accumulatedFees"], 16) > 0
        assert json.loads(contract_class_json(view, NEW_CLASS.id) or b"")["l2BlockNumber"] == 1
        instance = instance_of_vectors(data_directory)
        record = json.loads(contract_instance_json(view, instance.address) or b"")
        expected = replace(instance, current_contract_class_id=NEW_CLASS.id)
        assert ContractInstance.from_json(record) == expected
        assert check_data(node.data).problems == []


def test_who_of_the_committee_signed_is_told_of_a_stored_checkpoint(
    tmp_path: Path, l1: PublishingL1, made: Made
) -> None:
    with ExitStack() as stack:
        view = derive(tmp_path / "node", l1, made, stack).ingestor.view
        sentinel = Sentinel(history_epochs=24, proven_epochs=2000, is_ready=lambda: True)
        members = tuple(map(address_of, COMMITTEE))
        for number in range(1, 5):
            found = sentinel.attestations(view, number)
            assert found == Attestations(members, frozenset({members[0], members[1], members[3]}))


def test_signatures_for_another_chain_are_no_attestations(tmp_path: Path, l1: PublishingL1, made: Made) -> None:
    with ExitStack() as stack:
        node = derive(tmp_path / "node", l1, made, stack)
        newest = made.published[-1][0]
        sheet = l1.sheet(replace(newest, checkpoint=replace(newest.checkpoint, number=5)))
        elsewhere = replace(sheet, domain=SigningDomain(1, l1.rollup))
        sign(elsewhere, COMMITTEE, (0, 1, 3))
        sheet.indices, sheet.signed = elsewhere.indices, elsewhere.signed
        with l1.lock:
            before = list(l1.blocks)
            l1.publish(sheet)
        try:
            node.wait(lambda: node.follower.invalid_checkpoint is not None)
            invalid = node.follower.invalid_checkpoint
            assert invalid is not None
            assert (invalid.number, node.tips.checkpointed.checkpoint.number) == (5, 4)
            assert "the committee has" in invalid.reason
        finally:
            with l1.lock:
                l1.blocks = before


def test_two_releases_are_followed_in_one_process(tmp_path: Path, l1: PublishingL1, made: Made) -> None:
    (tmp_path / "made").mkdir()
    with ExitStack() as stack:
        older = stack.enter_context(made_chain(tmp_path / "made"))
        other_l1 = stack.enter_context(
            served(PublishingL1(older.chain_record["nodeInfo"], older.chain_record["l1Constants"]))
        )
        other_l1.circuits = FOUR.roots
        other = settings_of(other_l1) | {"genesis": older.write_genesis(tmp_path / "genesis.jsonl")}
        four = stack.enter_context(following(tmp_path / "four", **other))
        five = derive(tmp_path / "five", l1, made, stack)
        for _ in range(3):
            older.checkpoint(2)
            publish(other_l1, older.units[-1])
        four.wait(lambda: four.tips.checkpointed == older.tips().checkpointed)
        assert [node.data.store.chain.release for node in (four, five)] == [FOUR, FIVE]
        for node in (four, five):
            assert check_data(node.data).problems == []
        payer = field_from_int(7)
        balances = [balance_slot(payer, release.addresses.fee_juice) for release in (FOUR, FIVE)]
        assert balances[0] != balances[1]
        assert programs_of(FOUR) is not programs_of(FIVE)


def test_a_node_says_what_it_answers_of_5_x_and_what_not(
    tmp_path: Path, start_node: Callable[..., Any], l1: PublishingL1, made: Made
) -> None:
    node = start_node(
        *("--data-directory", tmp_path / "data", "--l1-rpc-urls", l1.url, "--l1-consensus-host-urls", l1.beacon.url),
        *("--registry-address", l1.addresses.registry, "--max-allowed-eth-client-drift-seconds=0"),
        *("--admin-api-key-hash", ADMIN_KEY_HASH),
    )
    node.wait_until_serving()
    assert NOT_TAKEN in node.wait_for_line("the chain is of a release that is followed from L1 alone")["reason"]
    node.wait_for_line("caught up")
    info = node.call("node_getNodeInfo")["result"]
    assert info["nodeVersion"] == "5.2.0"
    addresses = FIVE.addresses
    assert info["protocolContractAddresses"]["feeJuice"] == hex_text(addresses.fee_juice)
    assert info["protocolContractAddresses"]["classRegistry"] == hex_text(addresses.class_registry)
    fee_juice = node.call("node_getContract", hex_text(addresses.fee_juice))["result"]
    assert (fee_juice["version"], fee_juice["immutablesHash"]) == (2, hex_text(ZERO_FIELD))
    assert node.call("node_getContractClass", fee_juice["originalContractClassId"])["result"]["packedBytecode"]
    header = made.published[2][0].checkpoint.header
    assert node.call("aztec_getCheckpoints", 3, 1)["result"][0]["header"] == header.to_json()
    assert "use getChainTips" in node.call("node_getL2Tips")["error"]["message"]
    assert node.call("aztec_getSyncedL2SlotNumber")["result"] >= 4
    allowed = node.call("node_getAllowedPublicSetup")["result"]
    assert [item["address"] for item in allowed] == [
        hex_text(address) for address in (addresses.auth_registry, addresses.auth_registry, addresses.fee_juice)
    ]

    tx_hash = hex_text(made.published[1][0].checkpoint.blocks[0].body.tx_effects[1].tx_hash)
    witness = node.call("node_getL2ToL1MembershipWitness", tx_hash, hex_text(MESSAGES_TO_L1[1]))["result"]
    # The epoch was proven by three and by four checkpoints; two would do.
    assert (witness["epochNumber"], witness["numCheckpointsInEpoch"]) == (0, 3)
    assert witness["root"] == hex_text(header.epoch_out_hash) == root_of(hex_text(MESSAGES_TO_L1[1]), witness)

    assert node.call("node_isReady")["result"] is False
    # Before anything of it is decoded: this one is of another release.
    refusal = node.call("node_sendTx", sample_tx())["error"]
    assert refusal["data"]["code"] == "NO_TRANSACTIONS"
    assert NOT_TAKEN in refusal["message"]
    for call, method in (
        (node.call, "node_isValidTx"),
        (node.call, "node_simulatePublicCalls"),
        (node.call_admin, "fastnode_traceCall"),
    ):
        assert "chonkProof: neither a proof of 1270 fields" in call(method, sample_tx())["error"]["message"]
    newer = txs_5.made_txs(random.Random(1))[0].to_json()
    verdict = node.call("node_isValidTx", newer, {"isSimulation": True})["result"]
    assert verdict["result"] == "invalid"
    assert "Incorrect rollup version" in verdict["reason"]


@pytest.mark.parametrize(
    "settings",
    [
        {"upstream_url": ("http://127.0.0.1:1",)},
        {"p2p_enabled": True},
        {"sequencer": True},
        {"prover_node": True},
        {"bus_url": ("nats://127.0.0.1:1",)},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_that_need_transactions_or_other_nodes_of_5_x_are_refused(made: Made, settings: Json) -> None:
    name = next(iter(settings)).replace("_", "-")
    with pytest.raises(SettingError, match=f"--{name}: {NOT_TAKEN}"):
        check_release(Settings(**settings), made.data.store.chain)


def test_where_other_nodes_bring_the_chain_a_rollup_of_5_x_is_refused(l1: PublishingL1) -> None:
    on_l1 = L1Origin(Settings(upstream_url=("http://127.0.0.1:1",)), (l1.url,), Network(), Patience(), 5.0)
    try:
        known = {"circuits": FIVE.roots, "version": 5, "rollup": bytes(20), "chain_id": 1, "registry": None}
        facts: Any = type("Facts", (), known)
        with pytest.raises(StartError, match=r"is of release 5\.x .*follows nodes of 4\.x only"):
            on_l1.release(facts)
    finally:
        on_l1.close()


@pytest.mark.parametrize("version", ["4.1.2", "4.3.0"])
def test_a_version_of_another_release_than_the_rollup_is_refused(l1: PublishingL1, version: str) -> None:
    origins = Origins(Settings(**settings_of(l1), release=version), lambda: None)
    try:
        with pytest.raises(SettingError, match=rf"--release {version}: the rollup on L1 is of release 5\.x"):
            origins.learn_chain()
    finally:
        origins.interrupt()
        origins.close()


# ---- the model of L1 against checkpoints that contracts of 5.x took --------------------------------------


@pytest.mark.parametrize("name", FIXTURES)
def test_proposals_of_the_model_have_the_header_that_the_contracts_hashed(data_directory: Path, name: str) -> None:
    header, record = fixture_header(data_directory, name)
    packed = bytes.fromhex(record["blobCommitments"][2:])
    commitments = [packed[1 + 48 * place : 49 + 48 * place] for place in range(packed[0])]
    archive = bytes.fromhex(record["archive"][2:])
    data = propose_call(header, archive, 0, commitments, b"", b"")
    proposal = Proposal.from_call_data(data, SigningDomain(31337, bytes(20)))
    assert hex_text(proposal.header.hash()) == record["headerHash"]
    assert proposal.archive_root == archive
    assert blobs_hash([versioned_hash(item) for item in commitments]) == proposal.header.blobs_hash
    assert packed in data
