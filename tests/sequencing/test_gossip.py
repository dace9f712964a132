"""Blocks as their proposer tells peers of them, with their transactions where that is asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from coincurve import PrivateKey
from tests.mempool.made import made_txs
from tests.p2p.test_proposal_judge import BLOCK, Court
from tests.publishing.live_l1 import address_of, test_key

from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.messages.proposals import BlockProposal, SignedTxs, signed_txs_digest, wire_signature
from fastnode.protocol.ethereum import signed_digest
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.publishing import digests
from fastnode.sequencing import gossip
from fastnode.sequencing.gossip import ValidatorGossip

KEY, OTHER = test_key(0), test_key(1)
TXS = tuple(Tx.from_json(tx, FOUR) for tx in made_txs(2))
BUFFERS = tuple(tx.to_buffer() for tx in TXS)
HASHES = tuple(tx.hash for tx in TXS)


def signed(message: bytes, key: Any = KEY) -> bytes:
    signature = PrivateKey(key.reveal()).sign_recoverable(signed_digest(message), hasher=None)
    return signature[:64] + bytes([signature[64] + 27])


def told(txs: SignedTxs | None) -> BlockProposal:
    """What peers get of a block with two transactions."""
    sent: list[tuple[Topic, bytes]] = []
    root, in_hash = BLOCK.archive_root, BLOCK.in_hash
    block: Any = SimpleNamespace(
        header=BLOCK.header, index_within_checkpoint=BLOCK.index, archive=SimpleNamespace(root=root)
    )
    digest = digests.block_proposal(BLOCK.header, BLOCK.index, in_hash, root, HASHES)
    speaker = ValidatorGossip(lambda topic, payload, _slot: sent.append((topic, payload)))
    speaker.tell_block(block, in_hash, HASHES, signed(digest), txs)
    [(topic, payload)] = sent
    assert topic is Topic.BLOCK_PROPOSAL
    return BlockProposal.from_buffer(payload, FOUR)


def signed_txs(key: Any = KEY) -> SignedTxs:
    return SignedTxs(BUFFERS, wire_signature(signed(signed_txs_digest(BUFFERS), key)))


def test_transactions_that_go_with_a_block_are_signed_by_its_proposer_and_taken_by_peers() -> None:
    proposal = told(signed_txs())
    assert proposal.txs is not None
    assert proposal.txs.txs == BUFFERS
    assert proposal.signer() == address_of(KEY)
    court = Court(proposal)
    assert court.verdict() == (Verdict.ACCEPT, None)
    assert court.executed == [proposal]


def test_transactions_that_another_has_signed_make_the_proposal_nobodys() -> None:
    assert told(signed_txs(OTHER)).signer() is None


def test_transactions_that_are_too_large_for_one_message_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(None).txs is None
    room = Topic.BLOCK_PROPOSAL.bytes_max - sum(map(len, BUFFERS))
    monkeypatch.setattr(gossip, "_ENVELOPE_BYTES", room)
    proposal = told(signed_txs())
    assert (proposal.txs, proposal.signer(), proposal.tx_hashes) == (None, address_of(KEY), HASHES)
