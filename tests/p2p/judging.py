"""Verdict of this node on a signed message, in the words of verdicts.json."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import Any

from tests.p2p.bent_messages import ADDRESS, Case

from fastnode.errors import DecodeError
from fastnode.mempool.clock import SlotClock
from fastnode.p2p.gossip.topics import Topic, unpack
from fastnode.p2p.judging.host import Judgement
from fastnode.p2p.judging.node_host import NodeHost
from fastnode.p2p.judging.proposal_judge import ProposalJudge
from fastnode.p2p.judging.standing import Penalty
from fastnode.p2p.messages.request_forms import read_tx
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx

SLOT_S = 36
LETTERS = {Penalty.LOW_TOLERANCE: "L", Penalty.MID_TOLERANCE: "M", Penalty.HIGH_TOLERANCE: "H"}


def verdict_here(case: Case) -> str:
    try:
        payload = unpack(case.data)
        if case.topic is Topic.TX:
            tx = Tx.from_buffer(read_tx(payload, FOUR), FOUR)
            written = (tx.claimed_hash or b"") + tx.to_buffer()[32:]
            return f"read {hashlib.sha256(written).hexdigest()[:8]}"
    except DecodeError:
        return "reject L"
    return told(judged(case, payload))


def judged(case: Case, payload: bytes) -> Judgement:
    clock = SlotClock(0, SLOT_S, 12, lambda: case.slot * SLOT_S + 5.0)
    judge = ProposalJudge(
        clock, 4, lambda epoch: [ADDRESS], lambda slot: ADDRESS, lambda block, peer: True, release=FOUR
    )
    mempool = SimpleNamespace(pool=SimpleNamespace(release=FOUR))
    host: Any = SimpleNamespace(
        judge_proposal=judge, is_ready=lambda: True, _remember=lambda block: None, _mempool=mempool
    )
    host._judge_other = lambda topic, data, peer: NodeHost._judge_other(host, topic, data, peer)
    return NodeHost.judge(host, case.topic, payload, "peer")


def told(judgement: Judgement) -> str:
    return judgement.verdict.value + ("" if judgement.penalty is None else f" {LETTERS[judgement.penalty]}")
