"""Another validator's checkpoint: attested to when it is what its blocks give, and not otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.building.test_recorded_chain import opened_builder
from tests.building.test_reexecution import Proposal
from tests.mempool.chain import SAMPLE_CHAIN
from tests.publishing.live_l1 import address_of, test_key

from fastnode.archiver.source import CheckpointRecord
from fastnode.building.acceptance import AcceptanceLimits
from fastnode.config.settings import Settings
from fastnode.errors import DutyAlreadySigned, DutyConflict, SlotLost
from fastnode.ha.duty import DutyType
from fastnode.keystore.from_settings import keystore_of_settings
from fastnode.loop import CLOCK
from fastnode.outgoing.network import Network
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.messages.proposals import CheckpointAttestation, CheckpointProposal
from fastnode.protocol.checkpoint import CheckpointHeader
from fastnode.protocol.releases import FOUR
from fastnode.publishing import digests
from fastnode.publishing.signing import SigningDoor
from fastnode.sequencing.attestation_pool import AttestationPool
from fastnode.sequencing.attestations import PeerAttestations, attest, own_attestations
from fastnode.sequencing.gossip import ValidatorGossip
from fastnode.sequencing.l1_publication import KeyDoor
from fastnode.sequencing.slot_guard import SlotGuard
from fastnode.sequencing.turns import Turn
from fastnode.sequencing.validator import Validator, ValidatorParts
from fastnode.sources.chain_file import ChainFileSource
from fastnode.view import View

KEYS = [test_key(index) for index in range(4)]
COMMITTEE = tuple(address_of(key) for key in KEYS)
ROLLUP = bytes(19) + b"\7"


def door_of(network: Network, *places: int, disabled: Collection[bytes] = ()) -> KeyDoor:
    """A node with these keys of the committee."""
    texts = tuple("0x" + KEYS[place].reveal().hex() for place in places)
    keystore = keystore_of_settings(Settings(validator_private_keys=texts))
    keys = {address_of(KEYS[place]): KEYS[place] for place in places}
    return KeyDoor(SigningDoor(lambda: keys, ROLLUP, network), lambda: keystore, lambda: disabled)


class Told:
    """What peers are told."""

    def __init__(self) -> None:
        self.attestations: list[CheckpointAttestation] = []
        self.checkpoints: list[CheckpointProposal] = []
        self.pool = AttestationPool()
        self.gossip = ValidatorGossip(self.publish)

    def publish(self, topic: Topic, payload: bytes, _slot: int) -> None:
        if topic is Topic.CHECKPOINT_ATTESTATION:
            self.attestations.append(CheckpointAttestation.from_buffer(payload, FOUR))
        else:
            self.checkpoints.append(CheckpointProposal.from_buffer(payload, FOUR))

    @property
    def signers(self) -> list[bytes | None]:
        return [attestation.signer() for attestation in self.attestations]


class Looks:
    """How often something was looked at."""

    def __init__(self) -> None:
        self._count, self._changed = 0, threading.Condition()

    def note(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._count >= count, timeout=60)


class Here:
    """A node with the last two keys of the committee, and the recorded blocks stored as proposed."""

    def __init__(self, recorded: Proposal, directory: Path, network: Network) -> None:
        self.recorded, self.told = recorded, Told()
        chain = recorded.builder.view.chain.chain
        self.limits = AcceptanceLimits()
        self.signs, self.trusts_proposals = True, False
        self.executed = {block.archive.root for block in recorded.blocks}
        self.messages: Any = recorded.messages
        begin = chain.l1_genesis_time
        self.newest_timestamp = begin + recorded.checkpoint.header.slot_number * chain.slot_duration
        facts = SimpleNamespace(
            epoch_duration=chain.epoch_duration,
            target_committee_size=0,
            slot_at=lambda time: (time - begin) // chain.slot_duration,
            start_of_slot=lambda slot: begin + slot * chain.slot_duration,
        )
        reader: Any = SimpleNamespace(
            seen=lambda: (facts, None),
            committees=SimpleNamespace(committee_of=lambda epoch: COMMITTEE),
            run=lambda work: work(None),
            messages_of=lambda number: self.messages,
            newest_timestamp=self.newest_timestamp,
            newest_block_may_be_old=True,
            slot_duration=12,
            clock=CLOCK,
        )
        self.reader = reader
        self.directory = directory
        self.validator = Validator(
            ValidatorParts(
                reader=reader,
                view=lambda: recorded.builder.view,
                was_executed=self.executed.__contains__,
                door=door_of(network, 2, 3),
                gossip=self.told.gossip,
                guard=SlotGuard(directory / "attested slot"),
                limits=lambda: self.limits,
                signs=lambda: self.signs,
                trusts_proposals=lambda: self.trusts_proposals,
            )
        )

    def store(self) -> None:
        for block in self.recorded.blocks:
            messages = self.recorded.messages if block.index_within_checkpoint == 0 else ()
            self.recorded.builder.ingestor.add_block(block, messages)

    def proposal(self, **changes: Any) -> CheckpointProposal:
        """As the first member proposes it; ``changes`` of its header."""
        header: CheckpointHeader = replace(self.recorded.checkpoint.header, **changes)
        return CheckpointProposal.of(header, self.recorded.checkpoint.archive.root, 0, bytes(64) + b"\x1b")

    def end_slot(self) -> None:
        """L1 goes on until its next block belongs to the next slot."""
        self.reader.newest_timestamp += 1_000

    def watch_looks(self) -> Looks:
        """Count how often the validator looks at the chain."""
        looks, view = Looks(), self.validator._parts.view

        def watched() -> View | None:
            looks.note()
            return view()

        self.validator._parts = replace(self.validator._parts, view=watched)
        return looks

    def judge(self, **changes: Any) -> str | None:
        """Why it is not attested to."""
        self.validator._judge(self.proposal(**changes))
        return self.validator.refusal


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proposal]:
    with opened_builder(tmp_path_factory.mktemp("chain")) as builder:
        yield Proposal(builder)


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture
def here(prepared: Proposal, tmp_path: Path, network: Network) -> Iterator[Here]:
    here = Here(prepared, tmp_path, network)
    here.store()
    yield here
    prepared.builder.ingestor.undo_above(prepared.blocks[0].number - 1)


def test_a_right_checkpoint_is_attested_to_with_all_keys_of_the_committee_that_are_here(here: Here) -> None:
    assert here.judge() is None
    assert here.told.signers == list(COMMITTEE[2:])
    assert here.told.attestations[0].header == here.recorded.checkpoint.header
    assert here.validator.describe() == {"attested": 1, "foundRight": 0, "refused": 0, "refusal": None}


@pytest.mark.parametrize(
    "change",
    [
        {"block_headers_hash": bytes(32)},
        {"blobs_hash": bytes(32)},
        {"in_hash": bytes(32)},
        {"epoch_out_hash": bytes(31) + b"\1"},
        {"last_archive_root": bytes(32)},
        {"total_mana_used": 1},
        {"coinbase": bytes(20)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_header_that_its_blocks_do_not_give_is_not_attested_to(here: Here, change: Mapping[str, Any]) -> None:
    reason = here.judge(**change)
    assert reason is not None
    assert f"its header's {next(iter(change))} is not what its blocks give" in reason
    assert here.told.attestations == []


def test_the_operators_limits_act_on_what_others_propose(here: Here) -> None:
    count = sum(len(block.body.tx_effects) for block in here.recorded.blocks)
    here.limits = AcceptanceLimits(txs_per_checkpoint=count - 1)
    assert f"exceed validateMaxTxsPerCheckpoint ({count - 1})" in str(here.judge())
    assert here.told.attestations == []


def test_blocks_that_were_not_executed_here_are_not_attested_to(here: Here) -> None:
    here.executed.remove(here.recorded.blocks[-1].archive.root)
    here.end_slot()
    assert "was not executed here before its slot was over" in str(here.judge())
    assert here.told.attestations == []


@pytest.mark.parametrize("late", ["the mark of a block", "the messages of L1"])
def test_what_a_checkpoint_is_judged_by_may_come_later_within_its_slot(here: Here, late: str) -> None:
    root = here.recorded.blocks[-1].archive.root
    if late == "the mark of a block":
        here.executed.remove(root)
    else:
        here.messages = None
    looks = here.watch_looks()
    here.validator.start()
    try:
        here.validator.offer(here.proposal())
        looks.wait_for(2)
        assert (here.validator.refusal, here.told.attestations) == (None, [])
        here.executed.add(root)
        here.messages = here.recorded.messages
        here.validator.on_committed(None)
        wait_for(lambda: len(here.told.attestations) == 2)
    finally:
        here.validator.stop()
    assert here.validator.describe() == {"attested": 1, "foundRight": 0, "refused": 0, "refusal": None}


def test_a_slot_is_attested_to_once_also_after_a_restart(here: Here, network: Network) -> None:
    assert here.judge() is None
    again = Here(here.recorded, here.directory, network)
    assert "this node has begun it before a restart" in str(again.judge())
    assert again.told.attestations == []


def test_a_checkpoint_that_l1_has_taken_needs_no_attestation_and_is_not_refused(
    prepared: Proposal, tmp_path: Path, network: Network
) -> None:
    here = Here(prepared, tmp_path, network)
    with ChainFileSource(SAMPLE_CHAIN) as source:
        for record in source.records():
            if isinstance(record, CheckpointRecord) and record.published.checkpoint.blocks == prepared.blocks:
                prepared.builder.ingestor.add_checkpoint(record.published, record.l1_to_l2_messages)
    try:
        for _ in range(2):
            assert here.judge() is None
    finally:
        prepared.builder.ingestor.undo_above(prepared.blocks[0].number - 1)
    assert here.told.attestations == []
    assert here.validator.counts == {"on L1": 2}
    assert here.validator.troubles() == {"validator": None}


def test_a_fisherman_says_what_is_right_and_what_is_not_and_signs_nothing(here: Here) -> None:
    here.validator._parts = replace(here.validator._parts, signs=lambda: False)
    here.judge()
    here.judge(total_mana_used=1)
    told = here.validator.describe()
    assert (told["attested"], told["foundRight"], told["refused"]) == (0, 1, 1)
    assert "totalManaUsed" in told["refusal"] or "total_mana_used" in told["refusal"]
    assert here.told.attestations == []
    assert not (here.directory / "attested slot").exists()


def test_two_refusals_in_a_row_are_trouble_until_one_is_attested_to(here: Here) -> None:
    here.judge(total_mana_used=1)
    assert here.validator.troubles() == {"validator": None}
    here.judge(total_mana_used=1)
    said = here.validator.troubles()["validator"]
    assert str(said).startswith("the last 2 checkpoints of other validators were not attested to; slot ")
    here.judge()
    assert here.validator.troubles() == {"validator": None}


def test_blocks_are_waited_for_until_their_slot_is_over(prepared: Proposal, tmp_path: Path, network: Network) -> None:
    here = Here(prepared, tmp_path, network)
    here.validator.start()
    try:
        here.validator.offer(here.proposal())
        here.store()
        here.validator.on_committed(None)
        wait_for(lambda: len(here.told.attestations) == 2)
        prepared.builder.ingestor.undo_above(prepared.blocks[0].number - 1)
        here.validator.offer(here.proposal())
        here.end_slot()
        here.validator.on_committed(None)
        wait_for(lambda: "were not here" in str(here.validator.refusal))
    finally:
        here.validator.stop()
        prepared.builder.ingestor.undo_above(prepared.blocks[0].number - 1)


def wait_for(is_so: Callable[[], bool]) -> None:
    tick = threading.Event()
    for _ in range(3_000):
        if is_so():
            return
        tick.wait(0.01)
    raise AssertionError


# ---- the proposer's side -----------------------------------------------------------------------


def turn_of(prepared: Proposal) -> Turn:
    header = prepared.checkpoint.header
    return Turn(slot=header.slot_number, timestamp=header.timestamp, committee=COMMITTEE, proposer=COMMITTEE[0])


def test_a_proposer_waits_for_the_attestations_that_it_lacks(here: Here, network: Network) -> None:
    told = Told()
    peers = PeerAttestations(told.gossip, told.pool)

    def others_attest() -> bool:
        """What the other node says to the proposal, as it comes back by gossip."""
        if not here.told.attestations:
            here.validator._judge(told.checkpoints[0])
            for attestation in here.told.attestations:
                told.pool.add(attestation)
        return True

    attested = attest(turn_of(here.recorded), here.recorded.checkpoint, door_of(network, 0, 1), peers, others_attest)
    # The proposer's own, the other key of this node, and one of the other node.
    assert list(attested.signatures) == [COMMITTEE[0], COMMITTEE[1], COMMITTEE[2]]
    assert told.signers == [COMMITTEE[0], COMMITTEE[1]]


def test_too_few_attestations_name_who_is_silent(here: Here, network: Network) -> None:
    told = Told()
    peers = PeerAttestations(told.gossip, told.pool)
    with pytest.raises(Exception, match="2 of 4 have signed, 3 are needed") as caught:
        attest(turn_of(here.recorded), here.recorded.checkpoint, door_of(network, 0, 1), peers, lambda: False)
    assert all("0x" + member.hex() in str(caught.value) for member in COMMITTEE[2:])


def test_a_signature_of_the_same_that_another_node_has_made_is_taken_and_one_of_another_is_left_out(
    here: Here, network: Network
) -> None:
    checkpoint = here.recorded.checkpoint
    message = digests.attestation(checkpoint.header, checkpoint.archive.root)
    real = door_of(network, 0, 1, 2)
    made = real.sign(COMMITTEE[1], DutyType.ATTESTATION, message, slot=1)

    class Shared:
        """A node whose database has duties of another."""

        def sign(self, attester: bytes, duty: DutyType, signed: bytes, *, slot: int) -> bytes:
            if attester == COMMITTEE[1]:
                raise DutyAlreadySigned("signed", made)
            if attester == COMMITTEE[2]:
                raise DutyConflict("another message")
            return real.sign(attester, duty, signed, slot=slot)

    shared: Any = Shared()
    found = own_attestations(1, COMMITTEE[:3], message, shared)
    assert list(found) == list(COMMITTEE[:2])
    assert found[COMMITTEE[1]] == made


# ---- what an operator changes while the node runs ----------------------------------------------------


def test_a_fisherman_judges_a_proposal_and_signs_nothing_until_it_is_one_no_more(here: Here) -> None:
    here.signs = False
    assert here.judge() is None
    assert here.told.attestations == []
    assert here.validator.counts["found right"] == 1
    here.signs = True
    assert here.judge() is None
    assert len(here.told.attestations) == 2


def test_a_proposal_is_attested_to_unseen_where_its_validation_is_skipped(here: Here) -> None:
    here.executed.clear()
    here.trusts_proposals = True
    assert here.judge(total_mana_used=1) is None
    assert len(here.told.attestations) == 2


def test_a_disabled_validator_has_no_key_to_attest_with(network: Network) -> None:
    disabled: list[bytes] = []
    door = door_of(network, 2, 3, disabled=disabled)
    assert door.attesters() == (COMMITTEE[2], COMMITTEE[3])
    disabled.append(COMMITTEE[2])
    assert door.attesters() == (COMMITTEE[3],)
    assert door.own() == (COMMITTEE[2], COMMITTEE[3])
    assert door.coinbase_of(None) == door.coinbase_of(COMMITTEE[3])


def test_nothing_is_signed_with_a_key_that_is_disabled_in_the_middle_of_its_slot(network: Network) -> None:
    disabled: list[bytes] = []
    door = door_of(network, 2, disabled=disabled)
    door.sign(COMMITTEE[2], DutyType.BLOCK_PROPOSAL, bytes(32), slot=1, block_number=1, block_index=0)
    disabled.append(COMMITTEE[2])
    with pytest.raises(SlotLost, match="is disabled"):
        door.sign(COMMITTEE[2], DutyType.CHECKPOINT_PROPOSAL, bytes(32), slot=1, block_number=1)
    with pytest.raises(SlotLost, match="is disabled"):
        door.sign_typed(COMMITTEE[2], DutyType.GOVERNANCE_VOTE, bytes(32), {}, slot=1)


def test_a_wait_for_attestations_looks_as_often_as_the_configuration_says_now(here: Here, network: Network) -> None:
    told, waits, looks_s = Told(), [], [0.01, 0.02, 0.03]

    class Pool(AttestationPool):
        def wait(self, timeout_s: float) -> None:
            waits.append(timeout_s)

    left = iter([True] * 3)
    peers = PeerAttestations(told.gossip, Pool(), lambda: looks_s[len(waits)])
    with pytest.raises(SlotLost, match="too few attestations"):
        attest(
            turn_of(here.recorded),
            here.recorded.checkpoint,
            door_of(network, 0, 1),
            peers,
            lambda: next(left, False),
        )
    assert waits == looks_s
