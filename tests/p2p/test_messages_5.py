"""Messages of release 5.x: those that its public source has made, damaged ones, and what each costs its sender."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

import pytest
from tests.api.test_openrpc import Described
from tests.p2p.fuzz import spoiled
from tests.p2p.messages_5 import ADDRESS, OTHER, Message, Speaker, block_txs_request, listed, u32
from tests.protocol.releases.txs_5 import made_txs, vectors

from fastnode.errors import DecodeError
from fastnode.http.allowance import MemoryBudget
from fastnode.mempool.clock import SlotClock
from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.gossip.topics import Topic, message_id
from fastnode.p2p.judging.heard import BYTES_MAX, SLOTS_MAX, HeardMessages
from fastnode.p2p.judging.host import Judgement
from fastnode.p2p.judging.node_host import NodeHost
from fastnode.p2p.judging.proposal_judge import ProposalJudge
from fastnode.p2p.judging.standing import Penalty
from fastnode.p2p.messages.proposals import BlockProposal, CheckpointAttestation, CheckpointProposal
from fastnode.p2p.messages.request_forms import BlockTxsRequest, BlockTxsResponse, read_txs, write_txs
from fastnode.p2p.messages.tx_forms import tx_buffer_of_json
from fastnode.p2p.node.request_limits import Request, Status
from fastnode.p2p.node.served import answer
from fastnode.protocol.checkpoint import CheckpointHeader
from fastnode.protocol.ethereum import SigningDomain
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.releases import FIVE
from fastnode.protocol.tx import Tx

DOMAIN: Final = SigningDomain(11155111, bytes(range(20)))
SLOT_S, L1_SLOT_S = 72, 12
KINDS: Final[dict[str, Any]] = {
    "blockProposal": BlockProposal,
    "checkpointProposal": CheckpointProposal,
    "checkpointAttestation": CheckpointAttestation,
}
TOPICS: Final = {
    Topic.BLOCK_PROPOSAL: BlockProposal,
    Topic.CHECKPOINT_PROPOSAL: CheckpointProposal,
    Topic.CHECKPOINT_ATTESTATION: CheckpointAttestation,
}
H, M, L = Penalty.HIGH_TOLERANCE, Penalty.MID_TOLERANCE, Penalty.LOW_TOLERANCE


def raw(text: str) -> bytes:
    return bytes.fromhex(text[2:])


@cache
def headers(kind: str) -> list[bytes]:
    return [raw(vector["buffer"]) for vector in vectors(kind)]


@cache
def transactions() -> tuple[bytes, ...]:
    """One with each form of a proof among the first three."""
    return tuple(tx.to_buffer() for tx in made_txs(random.Random(5)))


# ---- what the public source has made ---------------------------------------------------------------


@pytest.mark.parametrize("kind", list(KINDS))
def test_messages_of_the_public_source_are_read_and_written_and_have_their_signers(kind: str) -> None:
    for vector in vectors(kind):
        message = KINDS[kind].from_buffer(raw(vector["buffer"]), FIVE)
        assert message.to_buffer() == raw(vector["buffer"])
        assert message.digest == raw(vector["digest"])
        assert message.signer() == raw(vector["signer"].lower())
        context = vector["context"]
        assert message.domain == SigningDomain(context["chainId"], raw(context["rollupAddress"]))
        assert message.archive_root == raw(vector["archive"])
        if kind == "blockProposal":
            assert message.identity == raw(vector["payloadHash"])
        if kind == "checkpointAttestation":
            assert message.proposer() == raw(vector["signer"].lower())
            assert message.identity == raw(vector["payloadHash"])
        if kind == "checkpointProposal":
            assert (message.last_block is not None) == vector["hasLastBlock"]


def test_an_attestation_and_the_proposal_that_it_is_to_have_one_name() -> None:
    for proposed, attested in zip(vectors("checkpointProposal"), vectors("checkpointAttestation"), strict=True):
        proposal = CheckpointProposal.from_buffer(raw(proposed["buffer"]), FIVE)
        attestation = CheckpointAttestation.from_buffer(raw(attested["buffer"]), FIVE)
        assert proposal.identity == attestation.identity == raw(attested["payloadHash"])


def test_the_id_of_a_message_counts_the_bytes_of_its_topic() -> None:
    plain, framed = message_id("/a", b"bc"), message_id("/a", b"bc", frames_topic=True)
    assert message_id("/ab", b"c") == plain != framed
    assert message_id("/ab", b"c", frames_topic=True) != framed


# ---- messages of a slot ----------------------------------------------------------------------------


class Slot:
    """Messages of one slot as honest nodes make and forward them."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.txs = transactions()
        self.block = BlockHeader.from_buffer(headers("blockHeader")[seed % 15])
        header = CheckpointHeader.from_buffer(headers("checkpointHeader")[seed % 15])
        self.number = 1000 + seed
        variables = replace(self.block.global_variables, slot_number=self.number)
        self.block = replace(self.block, global_variables=variables)
        self.checkpoint = replace(header, slot_number=self.number)
        self.roots = [b"\0" + self.dice.randbytes(31) for _ in range(4)]
        self.by = Speaker(DOMAIN)

    def hashes(self, count: int) -> tuple[bytes, ...]:
        return tuple(tx[:32] for tx in self.txs[:count])

    def block_proposal(self, index: int = 0, root: int = 0, count: int = 2, *, brings: bool = False) -> bytes:
        tail = self.by.txs(self.txs[:count]) if brings else bytes(4)
        hashes = self.hashes(count)
        return self.by.block(self.block, index, self.checkpoint.in_hash, self.roots[root], hashes, tail)

    def checkpoint_proposal(self, root: int = 0, modifier: int = 0, *, has_last: bool = False) -> bytes:
        last = bytes(4)
        if has_last:
            last = self.by.last_block(self.block, 0, self.checkpoint, self.roots[root], self.hashes(2))
        return self.by.checkpoint(self.checkpoint, self.roots[root], modifier, last)

    def attestation(self, root: int = 0, modifier: int = 0) -> bytes:
        return self.by.attestation(self.checkpoint, self.roots[root], modifier)

    def honest(self) -> Iterator[tuple[Topic, bytes]]:
        """Every form that an honest node may send, in any order, and again."""
        forms = [
            (Topic.BLOCK_PROPOSAL, self.block_proposal()),
            (Topic.BLOCK_PROPOSAL, self.block_proposal(1, 1, 0)),
            (Topic.BLOCK_PROPOSAL, self.block_proposal(2, 2, 3, brings=True)),
            (Topic.CHECKPOINT_PROPOSAL, self.checkpoint_proposal()),
            (Topic.CHECKPOINT_PROPOSAL, self.checkpoint_proposal(has_last=True)),
            (Topic.CHECKPOINT_ATTESTATION, self.attestation()),
        ]
        yield from self.dice.choices(forms, k=12)

    def court(self, time_in_slots: float = -0.5) -> Court:
        return Court(self.number, time_in_slots)


class Court:
    """A node's judgement, at a time in slots from the begin of a slot."""

    def __init__(self, slot: int, time_in_slots: float) -> None:
        self.now = (slot + time_in_slots) * SLOT_S
        clock = SlotClock(0, SLOT_S, L1_SLOT_S, lambda: self.now)
        self.budget = MemoryBudget(64 << 20)
        self.heard = HeardMessages(self.budget)
        self.executed: list[Message] = []
        self.host: Any = SimpleNamespace(
            is_ready=lambda: True,
            _remember=lambda block: None,
            _mempool=SimpleNamespace(pool=SimpleNamespace(release=FIVE)),
            judge_proposal=ProposalJudge(
                clock,
                32,
                lambda epoch: [ADDRESS],
                lambda slot: ADDRESS,
                lambda block, peer: True,
                release=FIVE,
                domain=DOMAIN,
                on_block=self.executed.append,
                keep=self.heard.keep,
            ),
        )
        self.host._judge_other = lambda topic, data, peer: NodeHost._judge_other(self.host, topic, data, peer)

    def judge(self, topic: Topic, payload: bytes) -> Judgement:
        return NodeHost.judge(self.host, topic, payload, "peer")

    def verdict(self, topic: Topic, payload: bytes) -> tuple[Verdict, Penalty | None]:
        judgement = self.judge(topic, payload)
        return judgement.verdict, judgement.penalty


ACCEPT: Final = (Verdict.ACCEPT, None)
IGNORE: Final = (Verdict.IGNORE, None)


@pytest.mark.parametrize("seed", range(30))
def test_an_honest_peer_pays_for_nothing(seed: int) -> None:
    """Any of its messages, at any time at which it may come, with bytes behind it, and again."""
    slot = Slot(seed)
    begin, end = -(SLOT_S + L1_SLOT_S) / SLOT_S, -L1_SLOT_S / SLOT_S
    court = slot.court()
    for topic, payload in slot.honest():
        court.now = (slot.number + slot.dice.uniform(begin, end)) * SLOT_S
        tail = slot.dice.choice([b"", b"\0", bytes(100)])
        judgement = court.judge(topic, payload + tail)
        assert judgement.penalty is None, (topic, judgement)
        assert judgement.verdict is not Verdict.REJECT, (topic, judgement)
    assert court.heard.held_bytes > 0


@pytest.mark.parametrize("seed", range(15))
def test_a_damaged_message_is_never_taken_for_another_one(seed: int) -> None:
    """Whatever is done to its bytes it is refused or passed over, or is what was signed all the same."""
    slot, counts = Slot(seed), Counter[str]()
    for topic, payload in slot.honest():
        right = TOPICS[topic].from_buffer(payload, FIVE)
        for _ in range(10):
            damaged = spoiled(slot.dice, payload)
            court = slot.court()
            judgement = court.judge(topic, damaged)
            counts[judgement.verdict.value] += 1
            try:
                read: Any = TOPICS[topic].from_buffer(damaged, FIVE)
            except DecodeError:
                assert (judgement.verdict, judgement.penalty) == (Verdict.REJECT, L)
                continue
            assert damaged.startswith(read.to_buffer()) or _has_other_flag(damaged, read)
            if judgement.verdict is Verdict.ACCEPT:
                assert read.identity == right.identity
                assert read.signer() == ADDRESS
    assert counts[Verdict.ACCEPT.value] < counts[Verdict.REJECT.value]


def _has_other_flag(damaged: bytes, read: Any) -> bool:
    """True if only flags were read as true that are written as 1, or one at the end that is missing."""
    written = read.to_buffer()
    return len(damaged) < len(written) or sum(a != b for a, b in zip(damaged, written, strict=False)) <= 8


def test_what_is_for_another_chain_or_rollup_costs_its_sender_much() -> None:
    slot = Slot(1)
    for domain in (DOMAIN._replace(chain_id=1), DOMAIN._replace(rollup=bytes(20))):
        slot.by = Speaker(domain)
        for topic, payload in (
            (Topic.BLOCK_PROPOSAL, slot.block_proposal()),
            (Topic.CHECKPOINT_PROPOSAL, slot.checkpoint_proposal()),
            (Topic.CHECKPOINT_ATTESTATION, slot.attestation()),
        ):
            assert slot.court().verdict(topic, payload) == (Verdict.REJECT, L)


def test_transactions_that_were_signed_for_another_rollup_do_not_go_with_a_block() -> None:
    slot = Slot(2)
    foreign = Speaker(DOMAIN._replace(chain_id=1)).txs(slot.txs[:2])
    payload = slot.by.block(slot.block, 0, slot.checkpoint.in_hash, slot.roots[0], slot.hashes(2), foreign)
    assert slot.court().verdict(Topic.BLOCK_PROPOSAL, payload) == (Verdict.REJECT, M)


def test_others_than_the_proposer_and_the_committee_are_refused() -> None:
    slot = Slot(3)
    slot.by = Speaker(DOMAIN, OTHER)
    assert slot.court().verdict(Topic.BLOCK_PROPOSAL, slot.block_proposal()) == (Verdict.REJECT, M)
    assert slot.court().verdict(Topic.CHECKPOINT_PROPOSAL, slot.checkpoint_proposal()) == (Verdict.REJECT, M)
    assert slot.court().verdict(Topic.CHECKPOINT_ATTESTATION, slot.attestation()) == (Verdict.REJECT, H)
    named = Speaker(DOMAIN).attestation(slot.checkpoint, slot.roots[0], proposer=slot.by)
    assert slot.court().verdict(Topic.CHECKPOINT_ATTESTATION, named) == (Verdict.REJECT, H)


def test_signatures_that_only_some_nodes_take_are_passed_over() -> None:
    slot = Slot(4)
    slot.by = Speaker(DOMAIN, plain=True)
    for topic, payload in slot.honest():
        assert slot.court().verdict(topic, payload) == IGNORE


@pytest.mark.parametrize(
    ("topic", "seconds", "verdict"),
    [
        (Topic.BLOCK_PROPOSAL, -SLOT_S - L1_SLOT_S, ACCEPT),
        (Topic.BLOCK_PROPOSAL, -SLOT_S - L1_SLOT_S - 1, IGNORE),
        (Topic.BLOCK_PROPOSAL, -L1_SLOT_S, ACCEPT),
        (Topic.BLOCK_PROPOSAL, -L1_SLOT_S + 1, IGNORE),
        (Topic.BLOCK_PROPOSAL, SLOT_S, (Verdict.REJECT, H)),
        (Topic.BLOCK_PROPOSAL, -3 * SLOT_S, (Verdict.REJECT, H)),
        (Topic.CHECKPOINT_PROPOSAL, -L1_SLOT_S, ACCEPT),
        (Topic.CHECKPOINT_PROPOSAL, 0, IGNORE),
        (Topic.CHECKPOINT_ATTESTATION, SLOT_S - 2 * L1_SLOT_S, ACCEPT),
        (Topic.CHECKPOINT_ATTESTATION, SLOT_S - L1_SLOT_S, IGNORE),
        (Topic.CHECKPOINT_ATTESTATION, 3 * SLOT_S, (Verdict.REJECT, H)),
    ],
)
def test_messages_come_ahead_of_their_slot(topic: Topic, seconds: float, verdict: Any) -> None:
    slot = Slot(5)
    payload = {
        Topic.BLOCK_PROPOSAL: slot.block_proposal(),
        Topic.CHECKPOINT_PROPOSAL: slot.checkpoint_proposal(),
        Topic.CHECKPOINT_ATTESTATION: slot.attestation(),
    }[topic]
    assert slot.court(seconds / SLOT_S).verdict(topic, payload) == verdict


def test_two_at_one_place_are_handed_on_and_a_third_is_not() -> None:
    slot = Slot(6)
    court = slot.court()
    blocks = [slot.block_proposal(0, 0), slot.block_proposal(0, 0, 3), slot.block_proposal(0, 1)]
    assert [court.verdict(Topic.BLOCK_PROPOSAL, block) for block in blocks] == [ACCEPT, ACCEPT, (Verdict.REJECT, H)]
    assert len(court.executed) == 1, "the first; the second has the same archive root and other transactions"
    checkpoints = [slot.checkpoint_proposal(0, modifier) for modifier in range(3)]
    verdicts = [court.verdict(Topic.CHECKPOINT_PROPOSAL, checkpoint) for checkpoint in checkpoints]
    assert verdicts == [ACCEPT, ACCEPT, (Verdict.REJECT, H)]
    attestations = [slot.attestation(0, modifier) for modifier in range(3)]
    assert [court.verdict(Topic.CHECKPOINT_ATTESTATION, one) for one in attestations] == [ACCEPT, ACCEPT, IGNORE]


# ---- what was heard --------------------------------------------------------------------------------


def test_what_was_heard_stays_within_its_bounds() -> None:
    budget = MemoryBudget(64 << 20)
    heard = HeardMessages(budget)
    for number in range(SLOTS_MAX + 20):
        slot = Slot(number)
        heard.keep(BlockProposal.from_buffer(slot.block_proposal(), FIVE), ADDRESS)
    assert heard.of(1000, None)[1] == b'{"blockProposals":[],"checkpointProposals":[]}'
    assert b'"blockProposals":[]' not in heard.of(1000 + SLOTS_MAX + 19, None)[1]
    long = BlockProposal.from_buffer(Slot(900).block_proposal(), FIVE)
    long = replace(long, tx_hashes=tuple(bytes(31) + b"\1" for _ in range(60_000)))
    for index in range(12):
        heard.keep(replace(long, index=index), ADDRESS)
        assert heard.held_bytes <= BYTES_MAX
    heard.close()
    assert heard.held_bytes == 0


def test_what_was_heard_is_told_as_the_interface_describes_it() -> None:
    slot = Slot(7)
    court, described = slot.court(), Described("5.x")
    for topic, payload in slot.honest():
        court.judge(topic, payload)
    court.judge(Topic.CHECKPOINT_ATTESTATION, slot.attestation())
    attestations, proposals = map(json.loads, court.heard.of(slot.number, None))
    (attestation,) = attestations
    name = CheckpointAttestation.from_buffer(slot.attestation(), FIVE).identity
    assert json.loads(court.heard.of(slot.number, name)[0]) == attestations
    assert json.loads(court.heard.of(slot.number, bytes(32))[0]) == []
    for method, result in (("AttestationsForSlot", attestations), ("ProposalsForSlot", proposals)):
        method = f"aztec_getCheckpoint{method}" if method.startswith("A") else f"aztec_get{method}"
        assert described.flaw_of_result(method, result) is None
    assert len(attestation["signature"]) == 2 + 2 * 65
    assert sum(map(len, proposals.values())) > 0


def test_without_memory_nothing_is_kept_and_nothing_fails() -> None:
    heard = HeardMessages(MemoryBudget(3000))
    for number in range(5):
        heard.keep(BlockProposal.from_buffer(Slot(number).block_proposal(), FIVE), ADDRESS)
    assert heard.held_bytes <= 3000


# ---- requests for transactions of a block ----------------------------------------------------------


class Holder:
    """A host that has blocks and transactions."""

    def __init__(self, txs: tuple[bytes, ...]) -> None:
        self.blocks: dict[bytes, list[bytes]] = {}
        self.txs = {tx[:32]: tx for tx in txs}

    def tx(self, tx_hash: bytes) -> bytes | None:
        return self.txs.get(tx_hash)

    def tx_hashes_of(self, archive_root: bytes) -> list[bytes] | None:
        return self.blocks.get(archive_root)


def asked(holder: Holder, request: bytes) -> tuple[Status, BlockTxsResponse]:
    status, data = answer(holder, Request.BLOCK_TXS, request, FIVE)  # type: ignore[arg-type]
    return status, BlockTxsResponse.from_buffer(data, FIVE)


@pytest.mark.parametrize("seed", range(20))
def test_who_says_that_it_has_a_transaction_that_was_asked_for_sends_it(seed: int) -> None:
    """All that the source punishes an answer for: transactions twice, or that nobody asked for, another number of bits,
    and one that is said to be there and is not sent."""
    slot = Slot(seed)
    dice, hashes = slot.dice, slot.hashes(8)
    holder = Holder(tuple(tx for tx in slot.txs if dice.random() < 0.7))
    root = slot.roots[0]
    if dice.random() < 0.8:
        holder.blocks[root] = list(hashes if dice.random() < 0.8 else hashes[:-1])
    wanted = {place for place in range(len(hashes)) if dice.random() < 0.5}
    by_hash = tuple(tx_hash for tx_hash in slot.hashes(10) if dice.random() < 0.3)
    status, response = asked(holder, block_txs_request(root, hashes, wanted, by_hash))
    assert status is Status.SUCCESS
    sent = [tx[:32] for tx in response.txs]
    assert len(sent) == len(set(sent))
    is_same = holder.blocks.get(root) == list(hashes)
    places = {hashes[place] for place in wanted} if is_same else set()
    assert set(sent) == {tx_hash for tx_hash in (*places, *by_hash) if tx_hash in holder.txs}
    assert response.held == (tuple(tx_hash in holder.txs for tx_hash in hashes) if is_same else ())


def test_more_than_one_answer_may_have_is_not_said_to_be_there(monkeypatch: Any) -> None:
    slot = Slot(0)
    hashes = slot.hashes(6)
    holder = Holder(slot.txs)
    holder.blocks[slot.roots[0]] = list(hashes)
    monkeypatch.setattr("fastnode.p2p.node.served._TXS_BYTES_MAX", len(slot.txs[0]) + len(slot.txs[1]) + 1)
    _, response = asked(holder, block_txs_request(slot.roots[0], hashes, {0, 1, 2, 3}))
    assert [tx[:32] for tx in response.txs] == list(hashes[:2])
    assert response.held == (True, True, False, False, True, True)


def test_a_request_is_written_as_the_public_source_does() -> None:
    slot = Slot(0)
    hashes, root = slot.hashes(9), slot.roots[0]
    request = BlockTxsRequest.of(root, hashes, [hashes[2], hashes[8]], FIVE)
    assert request.to_buffer() == block_txs_request(root, hashes, {2, 8}, (hashes[2], hashes[8]))
    assert BlockTxsRequest.from_buffer(request.to_buffer(), FIVE) == request


@pytest.mark.parametrize("seed", range(10))
def test_damaged_requests_and_answers_are_read_or_refused(seed: int) -> None:
    slot = Slot(seed)
    hashes = slot.hashes(5)
    holder = Holder(slot.txs)
    holder.blocks[slot.roots[0]] = list(hashes)
    request = block_txs_request(slot.roots[0], hashes, {0, 3}, hashes[:1])
    whole = BlockTxsResponse(b"", slot.txs[:2], (True, False)).to_buffer()
    seen = Counter[Status]()
    for _ in range(200):
        status, data = answer(holder, Request.BLOCK_TXS, spoiled(slot.dice, request), FIVE)  # type: ignore[arg-type]
        seen[status] += 1
        assert status in (Status.SUCCESS, Status.BADLY_FORMED_REQUEST)
        if status is Status.SUCCESS:
            BlockTxsResponse.from_buffer(data, FIVE)
    for _ in range(20):
        damaged = spoiled(slot.dice, whole)
        try:
            assert damaged.startswith(BlockTxsResponse.from_buffer(damaged, FIVE).to_buffer()[:-1])
        except DecodeError:
            continue
    assert len(seen) == 2


def test_a_transaction_of_the_pool_is_sent_with_its_proof_as_it_came() -> None:
    for buffer in transactions():
        assert tx_buffer_of_json(Tx.from_buffer(buffer, FIVE).to_json_bytes()) == buffer


def test_transactions_with_each_form_of_a_proof_are_cut_where_they_end() -> None:
    txs = list(transactions())
    assert read_txs(write_txs(txs) + b"behind", FIVE) == txs
    assert write_txs(txs) == listed(tuple(txs)) == u32(len(txs)) + b"".join(txs)
