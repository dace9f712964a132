"""Out hashes of all four levels and every witness into them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import tries

from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.fields import ZERO_FIELD, field_from_int, hex_text
from fastnode.protocol.hashing import sha256_to_field
from fastnode.protocol.out_hash import (
    OutHashWitness,
    block_out_hash,
    checkpoint_out_hash,
    epoch_out_hash,
    l2_to_l1_witness,
    messages_of_block,
    tx_out_hash,
)

#: Out hash of an epoch without messages; L1 skips it.
EMPTY_EPOCH_OUT_HASH = bytes.fromhex("00c95e0ceb41951039e1592745ec2faea9866f6eaf01bf189a4463b4143af093")

Epoch = Sequence[Sequence[Sequence[Sequence[bytes]]]]


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def _positions(epoch: Epoch) -> Iterator[tuple[int, int, int, int]]:
    for c, blocks in enumerate(epoch):
        for b, txs in enumerate(blocks):
            for t, messages in enumerate(txs):
                for m in range(len(messages)):
                    yield c, b, t, m


def _root_from(leaf: bytes, witness: OutHashWitness) -> bytes:
    """The root that L1 computes from a witness."""
    node, index = leaf, witness.leaf_index
    for sibling in witness.sibling_path:
        node = sha256_to_field(sibling + node if index & 1 else node + sibling)
        index >>= 1
    assert index == 0
    return node


def _epoch_of(vector: dict[str, Any]) -> list[list[list[list[bytes]]]]:
    return [[[[*map(_bytes, tx)] for tx in txs] for txs in blocks] for blocks in vector["messages"]]


def test_forty_random_epochs_have_the_roots_of_the_reference(out_hash_vectors: dict[str, Any]) -> None:
    for vector in out_hash_vectors["epochs"]:
        checkpoints = [checkpoint_out_hash(blocks) for blocks in _epoch_of(vector)]
        assert [*map(hex_text, checkpoints)] == vector["checkpointOutHashes"]
        assert hex_text(epoch_out_hash(checkpoints)) == vector["epochOutHash"]


def test_their_witnesses_are_those_of_the_reference(out_hash_vectors: dict[str, Any]) -> None:
    compared = 0
    for vector in out_hash_vectors["epochs"]:
        epoch = _epoch_of(vector)
        for *position, leaf_index, path in vector["witnesses"]:
            witness = l2_to_l1_witness(epoch, *position)
            assert witness.leaf_index == int(leaf_index)
            assert hex_text(witness.sibling_path_buffer()) == path
            assert hex_text(witness.root) == vector["epochOutHash"]
            compared += 1
    assert compared > 500


def test_generated_checkpoints_have_the_roots_of_every_level(
    chain_vectors: dict[str, Any], vector_blocks: list[L2Block]
) -> None:
    blocks = {block.number: block for block in vector_blocks}
    epoch = []
    for vector in chain_vectors["checkpoints"]:
        messages = [messages_of_block(blocks[number]) for number in vector["blockNumbers"]]
        assert [[hex_text(tx_out_hash(tx)) for tx in txs] for txs in messages] == vector["txOutHashes"]
        assert [hex_text(block_out_hash(txs)) for txs in messages] == vector["blockOutHashes"]
        assert hex_text(checkpoint_out_hash(messages)) == vector["checkpointOutHash"]
        epoch.append(messages)
        running = epoch_out_hash([*map(checkpoint_out_hash, epoch)])
        assert hex_text(running) == vector["header"]["epochOutHash"]
    for vector in chain_vectors["l2ToL1Witnesses"]:
        position = (vector["checkpointIndex"], vector["blockIndex"], vector["txIndex"], vector["messageIndex"])
        witness = l2_to_l1_witness(epoch, *position)
        assert hex_text(witness.root) == vector["root"]
        assert witness.leaf_index == int(vector["leafIndex"])
        assert witness.leaf_id == int(vector["leafId"])
        assert hex_text(witness.sibling_path_buffer()) == vector["siblingPath"]
        assert _root_from(_bytes(vector["message"]), witness) == witness.root


def test_recorded_epochs_have_the_out_hashes_of_their_headers(
    sample_checkpoints: list[PublishedCheckpoint], sample_records: list[dict[str, Any]]
) -> None:
    duration = sample_records[0]["l1Constants"]["epochDuration"]
    hashes: dict[int, list[bytes]] = {}
    for published in sample_checkpoints:
        header = published.checkpoint.header
        of_epoch = hashes.setdefault(header.slot_number // duration, [])
        of_epoch.append(checkpoint_out_hash([messages_of_block(block) for block in published.checkpoint.blocks]))
        assert epoch_out_hash(of_epoch) == header.epoch_out_hash


# ---- any shape ------------------------------------------------------------------------------------

messages = st.integers(1, 1 << 200).map(field_from_int)
epochs = st.lists(
    st.lists(st.lists(st.lists(messages, max_size=5), max_size=6), min_size=1, max_size=5), min_size=1, max_size=32
)


@given(epochs)
@settings(max_examples=tries(30, 600))
def test_every_message_of_any_epoch_is_proven_by_its_witness(epoch: Epoch) -> None:
    root = epoch_out_hash([checkpoint_out_hash(blocks) for blocks in epoch])
    leaf_ids = set()
    for position in _positions(epoch):
        c, b, t, m = position
        witness = l2_to_l1_witness(epoch, c, b, t, m)
        assert witness.root == root
        assert _root_from(epoch[c][b][t][m], witness) == root
        leaf_ids.add(witness.leaf_id)
    assert len(leaf_ids) == sum(1 for _ in _positions(epoch))  # L1 remembers consumed messages by this number


@given(epochs)
@settings(max_examples=30)
def test_trailing_empty_checkpoints_do_not_change_the_root(epoch: Epoch) -> None:
    hashes = [checkpoint_out_hash(blocks) for blocks in epoch]
    assert epoch_out_hash(hashes) == epoch_out_hash(hashes + [ZERO_FIELD] * (32 - len(hashes)))


def test_nothing_sent_gives_zero_at_every_level_but_the_epoch() -> None:
    assert tx_out_hash([]) == block_out_hash([]) == block_out_hash([[], []]) == ZERO_FIELD
    assert checkpoint_out_hash([]) == checkpoint_out_hash([[], [[], []]]) == ZERO_FIELD
    assert epoch_out_hash([]) == epoch_out_hash([ZERO_FIELD] * 32) == EMPTY_EPOCH_OUT_HASH


def test_a_single_message_moves_up_to_its_checkpoint() -> None:
    message = field_from_int(9)
    assert checkpoint_out_hash([[], [[], [message], []], []]) == message
    assert len(l2_to_l1_witness([[[], [[], [message], []]]], 0, 1, 1, 0).sibling_path) == 5


@pytest.mark.parametrize(
    "position", [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (-1, 0, 0, 0), (0, 0, 0, -1)]
)
def test_a_position_that_does_not_exist_has_no_witness(position: tuple[int, int, int, int]) -> None:
    epoch = [[[[field_from_int(1)]]]]
    with pytest.raises(IndexError):
        l2_to_l1_witness(epoch, *position)


def test_an_epoch_has_at_most_32_checkpoints() -> None:
    with pytest.raises(ValueError, match="33 leaves do not fit"):
        epoch_out_hash([ZERO_FIELD] * 33)
