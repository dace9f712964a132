"""Messages of the network: what published nodes have sent is read, and written again byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.p2p.vectors import FOLDER, VERSION, recorded

from fastnode.errors import DecodeError
from fastnode.p2p.discovery.enr import NodeRecord, make_record
from fastnode.p2p.gossip.topics import Topic, decompressed, message_id, pack, topic_name, unpack
from fastnode.p2p.messages.proposals import BlockProposal, CheckpointAttestation, CheckpointProposal
from fastnode.p2p.messages.request_forms import (
    BlockTxsRequest,
    BlockTxsResponse,
    StatusMessage,
    read_hashes,
    read_txs,
    write_txs,
)
from fastnode.p2p.messages.tx_forms import tx_buffer_of_json
from fastnode.p2p.node.identify import read_identify
from fastnode.p2p.transport.encoding import decompress
from fastnode.p2p.transport.identity import Identity
from fastnode.protocol.block import L2Block
from fastnode.protocol.releases import FOUR, Release, known
from fastnode.protocol.tx import Tx


def payload(name: str) -> bytes:
    return unpack(decompressed(Topic(name.partition("-")[0]), recorded(f"{name}.message")))


def test_a_status_is_read_and_written() -> None:
    for name in ("status-request.bin", "status-response.bin"):
        status = StatusMessage.from_buffer(recorded(name))
        assert status.version == VERSION
        assert status.to_buffer() == recorded(name)


def test_a_recorded_transaction_has_the_hash_that_it_says() -> None:
    tx = Tx.from_buffer(payload("tx-1"), FOUR)
    assert tx.hash == tx.claimed_hash
    assert tx_buffer_of_json(tx.to_json_bytes()) == payload("tx-1")
    assert read_txs(write_txs([payload("tx-1")] * 2), FOUR) == [payload("tx-1")] * 2


@pytest.mark.parametrize("count", [1, 9])
def test_a_block_proposal_is_of_its_proposer(count: int) -> None:
    name = "block_proposal-1" if count == 1 else "block_proposal-9-txs"
    proposal = BlockProposal.from_buffer(payload(name), FOUR)
    assert len(proposal.tx_hashes) == (2 if count == 1 else 9)
    assert proposal.txs is None
    assert proposal.signer() is not None


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (BlockProposal, "block_proposal-1"),
        (BlockProposal, "block_proposal-9-txs"),
        (CheckpointProposal, "checkpoint_proposal-1"),
        (CheckpointProposal, "checkpoint_proposal-last-block"),
        (CheckpointAttestation, "checkpoint_attestation-1"),
    ],
)
def test_what_a_validator_tells_is_written_as_it_is_read(kind: Any, name: str) -> None:
    read = kind.from_buffer(payload(name), FOUR)
    assert read.to_buffer() == payload(name)
    if kind is not CheckpointAttestation:
        parts = (read.header, read.archive_root)
        signature = read.signature[:64] + read.signature[-1:]
        made = (
            BlockProposal.of(read.header, read.index, read.in_hash, read.archive_root, read.tx_hashes, signature)
            if kind is BlockProposal
            else CheckpointProposal.of(*parts, read.fee_asset_price_modifier, signature)
        )
        assert (made.signed, made.signature) == (read.signed, read.signature)


def test_proposals_and_attestations_of_a_checkpoint_name_each_other() -> None:
    checkpoint = CheckpointProposal.from_buffer(payload("checkpoint_proposal-1"), FOUR)
    block = BlockProposal.from_buffer(payload("block_proposal-1"), FOUR)
    attestation = CheckpointAttestation.from_buffer(payload("checkpoint_attestation-1"), FOUR)
    assert checkpoint.signer() is not None
    assert attestation.signer() is not None
    if attestation.header == checkpoint.header:
        assert attestation.proposer() == checkpoint.signer()
    assert block.slot > 0
    last = CheckpointProposal.from_buffer(payload("checkpoint_proposal-last-block"), FOUR)
    assert last.last_block is not None
    assert last.signer() == last.last_block.signer()


def test_a_signature_under_other_bytes_is_of_somebody_else() -> None:
    data = payload("block_proposal-1")
    right = BlockProposal.from_buffer(data, FOUR).signer()
    wrong = bytearray(data)
    wrong[443] ^= 1  # the index in the checkpoint
    assert BlockProposal.from_buffer(bytes(wrong), FOUR).signer() != right


def test_requests_for_transactions_of_a_block_are_read_and_written() -> None:
    for name in ("block_txs-request.bin", "block_txs-request-of-node.bin"):
        assert BlockTxsRequest.from_buffer(recorded(name), FOUR).to_buffer() == recorded(name)
    head, tail = recorded("block_txs-response-head.bin"), recorded("block_txs-response-tail.bin")
    count = int.from_bytes(head[32:], "big")
    response = BlockTxsResponse.from_buffer(head + payload("tx-1") * count + tail, FOUR)
    assert len(response.txs) == count
    assert response.held == (True,) * count
    assert response.to_buffer() == head + payload("tx-1") * count + tail


def test_a_recorded_block_and_the_answer_of_identify_are_read() -> None:
    assert L2Block.from_buffer(recorded("block-response.bin")).number == 1
    protocols, agent = read_identify(recorded("identify-response.bin"))
    assert "/meshsub/1.1.0" in protocols
    assert agent.startswith("libp2p/")


def test_the_id_of_a_message_is_that_of_its_uncompressed_data() -> None:
    data, sent = pack(b"payload")
    assert decompress(sent, 100) == data == b"\0\0\0\x07payload"
    name = topic_name(Topic.TX, VERSION)
    assert name == f"/aztec/tx/{VERSION}"
    assert len(message_id(name, data)) == 20


def test_a_recorded_node_record_is_read_and_another_is_signed() -> None:
    text = recorded("node.enr").decode().strip()
    record = NodeRecord.from_text(text)
    assert (record.version, record.ip, record.to_text()) == (VERSION, "127.0.0.1", text)
    mine = make_record(Identity(b"\1" * 32), VERSION, sequence=7, ip="10.0.0.1", port=40400, client="4.1.2")
    assert NodeRecord.from_text(mine.to_text()) == mine
    assert (mine.sequence, mine.ip, mine.port("tcp"), mine.port("udp")) == (7, "10.0.0.1", 40400, 40400)
    spoiled = bytearray(mine.raw)
    spoiled[-1] ^= 1
    with pytest.raises(ValueError, match="signature of a node record is wrong"):
        NodeRecord.from_bytes(bytes(spoiled))


def reader_of(kind: Any, release: Release) -> Callable[[bytes], Any]:
    return lambda data: kind.from_buffer(data, release)


READERS: tuple[Any, ...] = (
    StatusMessage.from_buffer,
    read_hashes,
    *(partial(read_txs, release=release) for release in known()),
    *(
        reader_of(kind, release)
        for kind in (BlockTxsRequest, BlockTxsResponse, BlockProposal, CheckpointProposal, CheckpointAttestation)
        for release in known()
    ),
)
SAMPLES = [path.read_bytes()[:2000] for path in sorted(Path(FOLDER).glob("*.bin"))] + [
    payload("block_proposal-1"),
    payload("checkpoint_proposal-last-block"),
]


@pytest.mark.parametrize("read", READERS)
@given(data=st.data())
def test_any_bytes_are_read_or_refused(read: Any, data: st.DataObject) -> None:
    sample = bytearray(data.draw(st.sampled_from(SAMPLES)))
    for _ in range(data.draw(st.integers(0, 4))):
        sample[data.draw(st.integers(0, len(sample) - 1))] = data.draw(st.integers(0, 255))
    try:
        read(bytes(sample[: data.draw(st.integers(0, len(sample)))]))
    except DecodeError:
        return
