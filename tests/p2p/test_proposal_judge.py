"""Proposals and attestations that published nodes have sent, judged by their slot, signers and committee."""

from __future__ import annotations

from typing import Any

import pytest
from tests.p2p.test_messages import payload

from fastnode.mempool.clock import SlotClock
from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.judging.proposal_judge import ProposalJudge
from fastnode.p2p.judging.standing import Penalty
from fastnode.p2p.messages.proposals import BlockProposal, CheckpointAttestation, CheckpointProposal
from fastnode.protocol.releases import FOUR
from fastnode.sentinel.offenses import OffenseType

BLOCK = BlockProposal.from_buffer(payload("block_proposal-1"), FOUR)
CHECKPOINT = CheckpointProposal.from_buffer(payload("checkpoint_proposal-last-block"), FOUR)
ATTESTATION = CheckpointAttestation.from_buffer(payload("checkpoint_attestation-1"), FOUR)
MESSAGES = [BLOCK, CHECKPOINT, ATTESTATION]
NAMES = ["block", "checkpoint", "attestation"]
SLOT_S = 36
H, M, L = Penalty.HIGH_TOLERANCE, Penalty.MID_TOLERANCE, Penalty.LOW_TOLERANCE


class Court:
    """A judge whose committee and time are as a test wants them."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.time = message.slot * SLOT_S + 1.0
        is_attestation = isinstance(message, CheckpointAttestation)
        self.proposer = message.proposer() if is_attestation else message.signer()
        self.committee: list[bytes] | None = [message.signer()]
        self.has_txs = True
        self.asked: list[tuple[BlockProposal, str]] = []
        clock = SlotClock(genesis_time=0, slot_duration=SLOT_S, l1_slot_duration=12, now=lambda: self.time)
        self.accused: list[tuple[OffenseType, bytes, int]] = []
        self.executed: list[BlockProposal] = []
        self.judge = ProposalJudge(
            clock,
            4,
            lambda epoch: self.committee,
            lambda slot: self.proposer,
            self.look_for,
            release=FOUR,
            accuse=lambda *offense: self.accused.append(offense),
            on_block=self.executed.append,
            has_paused=lambda: self.has_paused,
        )
        self.has_paused = False

    def look_for(self, block: BlockProposal, peer: str) -> bool:
        self.asked.append((block, peer))
        return self.has_txs

    def verdict(self, message: Any = None) -> tuple[Verdict, Penalty | None]:
        judgement = self.judge(message or self.message, "peer")
        return judgement.verdict, judgement.penalty


@pytest.fixture(params=MESSAGES, ids=NAMES)
def court(request: pytest.FixtureRequest) -> Court:
    return Court(request.param)


def spoiled(message: Any, name: str) -> Any:
    """With another signature."""
    other = bytearray(getattr(message, name))
    other[5] ^= 1
    values = {key: getattr(message, key) for key in message.__slots__} | {name: bytes(other)}
    return type(message)(**values)


def test_what_is_right_is_accepted(court: Court) -> None:
    assert court.verdict() == (Verdict.ACCEPT, None)
    assert [peer for _, peer in court.asked] == ([] if court.message is ATTESTATION else ["peer"])


@pytest.mark.parametrize(
    ("slots", "verdict"),
    [
        (1.2, (Verdict.REJECT, H)),
        (1.01, (Verdict.IGNORE, None)),  # a third of a second late
        (-0.5, (Verdict.ACCEPT, None)),  # of the next slot
        (-1.5, (Verdict.REJECT, H)),
    ],
)
def test_another_slot_than_this_and_the_next_is_refused(court: Court, slots: float, verdict: Any) -> None:
    court.time = (court.message.slot + slots) * SLOT_S
    assert court.verdict() == verdict


def test_what_is_late_because_this_process_did_not_run_is_not_held_against_a_peer(court: Court) -> None:
    court.has_paused = True
    court.time = (court.message.slot + 5) * SLOT_S
    assert court.verdict() == (Verdict.IGNORE, None)
    court.time = (court.message.slot - 5) * SLOT_S  # from the future it is none the less
    assert court.verdict() == (Verdict.REJECT, H)


def test_without_a_committee_nothing_is_forwarded_or_held_against_anyone(court: Court) -> None:
    for court.committee in (None, []):
        assert court.verdict() == (Verdict.IGNORE, None)


def test_another_proposer_is_refused(court: Court) -> None:
    court.proposer = bytes(20)
    assert court.verdict() == (Verdict.REJECT, H if court.message is ATTESTATION else M)


def test_an_attester_must_be_in_the_committee_and_have_signed() -> None:
    court = Court(ATTESTATION)
    court.committee = [bytes(20)]
    assert court.verdict() == (Verdict.REJECT, H)
    assert court.verdict(spoiled(ATTESTATION, "signature"))[0] is Verdict.REJECT


def test_a_proposal_with_a_spoiled_signature_is_refused() -> None:
    court = Court(BLOCK)
    assert court.verdict(spoiled(BLOCK, "signature")) == (Verdict.REJECT, M)


def test_a_proposal_whose_transactions_nobody_gives_is_not_forwarded() -> None:
    court = Court(BLOCK)
    court.has_txs = False
    assert court.verdict() == (Verdict.IGNORE, None)


def changed(message: Any, **changes: Any) -> Any:
    return type(message)(**{key: getattr(message, key) for key in message.__slots__} | changes)


def roots(message: Any, count: int) -> list[Any]:
    """As many different ones of one place."""
    return [changed(message, archive_root=number.to_bytes(32, "big")) for number in range(count)]


def test_the_first_block_of_a_position_is_executed_the_second_an_offense_the_fourth_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    court = Court(BLOCK)
    signer = BLOCK.signer()
    monkeypatch.setattr(BlockProposal, "signer", lambda self: signer)
    proposals = roots(BLOCK, 5)
    verdicts = [court.verdict(proposal) for proposal in [*proposals, proposals[0]]]
    accepted, refused = (Verdict.ACCEPT, None), (Verdict.REJECT, H)
    assert verdicts == [accepted, accepted, accepted, refused, refused, (Verdict.IGNORE, None)]
    assert court.executed == proposals[:1]
    assert court.accused == [(OffenseType.DUPLICATE_PROPOSAL, signer, BLOCK.slot)]
    assert [block for block, _ in court.asked] == proposals[:1], "others are not worth their transactions"


def test_the_second_checkpoint_of_a_slot_is_an_offense_and_the_sixth_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    court = Court(CHECKPOINT)
    signer = CHECKPOINT.signer()
    monkeypatch.setattr(CheckpointProposal, "signer", lambda self: signer)
    checkpoints = roots(changed(CHECKPOINT, last_block=None), 7)
    verdicts = [court.verdict(each) for each in checkpoints]
    assert verdicts == [(Verdict.ACCEPT, None)] * 5 + [(Verdict.REJECT, H)] * 2
    assert court.accused == [(OffenseType.DUPLICATE_PROPOSAL, signer, CHECKPOINT.slot)]


def test_the_last_block_of_a_checkpoint_is_executed_with_it() -> None:
    court = Court(CHECKPOINT)
    assert court.verdict() == (Verdict.ACCEPT, None)
    assert court.executed == [CHECKPOINT.last_block]


def test_a_last_block_that_was_proposed_on_its_own_before_is_no_second_one() -> None:
    assert CHECKPOINT.last_block is not None
    court = Court(CHECKPOINT)
    assert court.verdict(CHECKPOINT.last_block) == (Verdict.ACCEPT, None)
    assert court.verdict() == (Verdict.ACCEPT, None)
    assert court.accused == []


def test_a_checkpoint_whose_last_block_is_a_second_one_is_an_offense_and_not_forwarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert CHECKPOINT.last_block is not None
    court = Court(CHECKPOINT)
    signer = court.proposer
    monkeypatch.setattr(BlockProposal, "signer", lambda self: signer)
    assert court.verdict(changed(CHECKPOINT.last_block, archive_root=bytes(32))) == (Verdict.ACCEPT, None)
    assert court.verdict() == (Verdict.REJECT, None), "as published nodes do, which forward the block alone"
    assert court.accused == [(OffenseType.DUPLICATE_PROPOSAL, signer, CHECKPOINT.slot)]
    assert len(court.executed) == 1


def test_the_last_block_of_a_second_checkpoint_is_executed_if_it_is_the_first_at_its_position() -> None:
    court = Court(CHECKPOINT)
    court.judge._count(("checkpoint", CHECKPOINT.slot), bytes(32), 5)
    assert court.verdict() == (Verdict.ACCEPT, None)
    assert court.executed == [CHECKPOINT.last_block]


def test_a_second_attestation_of_one_attester_is_an_offense_and_a_fourth_is_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    court = Court(ATTESTATION)
    attester = ATTESTATION.signer()
    monkeypatch.setattr(CheckpointAttestation, "signer", lambda self: attester)
    monkeypatch.setattr(CheckpointAttestation, "proposer", lambda self: court.proposer)
    verdicts = [court.verdict(changed(ATTESTATION, archive_root=bytes([number]) * 32))[0] for number in (0, 0, 1, 2, 3)]
    ignored, accepted = Verdict.IGNORE, Verdict.ACCEPT
    assert verdicts == [accepted, ignored, accepted, accepted, ignored]
    assert court.accused == [(OffenseType.DUPLICATE_ATTESTATION, attester, ATTESTATION.slot)]
