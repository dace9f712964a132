"""Blocks from blob fields: the inverse of encoding, and what is refused."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fastnode.errors import DecodeError
from fastnode.protocol.blob_decoding import checkpoint_of, decode_blocks
from fastnode.protocol.blobs import checkpoint_blob_fields, checkpoint_end_marker
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import Checkpoint, PublishedCheckpoint
from fastnode.protocol.fields import FIELD_BYTES, MODULUS_BYTES, field_from_int


def derived(checkpoint: Checkpoint, fields: bytes) -> Checkpoint:
    variables = checkpoint.blocks[0].header.global_variables
    return checkpoint_of(
        checkpoint.number,
        checkpoint.header,
        checkpoint.archive.root,
        checkpoint.fee_asset_price_modifier,
        decode_blocks(fields),
        chain_id=variables.chain_id,
        version=variables.version,
    )


def test_recorded_checkpoints_come_back_from_their_fields(sample_checkpoints: list[PublishedCheckpoint]) -> None:
    for published in sample_checkpoints:
        checkpoint = published.checkpoint
        assert derived(checkpoint, checkpoint_blob_fields(checkpoint.blocks)) == checkpoint


def test_the_largest_transactions_come_back(chain_vectors: dict[str, Any], vector_blocks: list[L2Block]) -> None:
    by_number = {block.number: block for block in vector_blocks}
    for vector in chain_vectors["checkpoints"]:
        blocks = [by_number[number] for number in vector["blockNumbers"]]
        decoded = decode_blocks(checkpoint_blob_fields(blocks))
        assert [block.effects for block in decoded] == [block.body.tx_effects for block in blocks]
        assert [block.sizes for block in decoded] == [
            (
                block.header.state.l1_to_l2_message_tree.next_available_leaf_index,
                block.header.state.note_hash_tree.next_available_leaf_index,
                block.header.state.nullifier_tree.next_available_leaf_index,
                block.header.state.public_data_tree.next_available_leaf_index,
            )
            for block in blocks
        ]


def test_padding_is_passed_over(sample_checkpoints: list[PublishedCheckpoint]) -> None:
    checkpoint = sample_checkpoints[7].checkpoint
    fields = checkpoint_blob_fields(checkpoint.blocks)
    assert derived(checkpoint, fields.ljust(4096 * FIELD_BYTES, b"\0")) == checkpoint


@pytest.fixture(scope="module")
def fields(sample_checkpoints: list[PublishedCheckpoint]) -> bytes:
    longest = max(sample_checkpoints[:20], key=lambda item: len(item.checkpoint.blocks))
    return checkpoint_blob_fields(longest.checkpoint.blocks)


def test_every_shorter_form_is_refused(fields: bytes) -> None:
    for count in range(0, len(fields) // FIELD_BYTES, 7):
        with pytest.raises(DecodeError, match=r"are left|neither a transaction"):
            decode_blocks(fields[: count * FIELD_BYTES])


def test_what_follows_the_end_is_refused(fields: bytes) -> None:
    with pytest.raises(DecodeError, match="something follows the end"):
        decode_blocks(fields + field_from_int(0) + field_from_int(1))


def test_a_wrong_count_at_the_end_is_refused(fields: bytes) -> None:
    count = len(fields) // FIELD_BYTES
    with pytest.raises(DecodeError, match=f"counts {count + 1} fields, there are {count}"):
        decode_blocks(fields[:-FIELD_BYTES] + checkpoint_end_marker(count + 1))


def test_a_field_above_the_modulus_is_refused(fields: bytes) -> None:
    with pytest.raises(DecodeError, match="field 1 is not below the field modulus"):
        decode_blocks(fields[:FIELD_BYTES] + MODULUS_BYTES + fields[2 * FIELD_BYTES :])


def test_a_checkpoint_of_too_many_fields_is_refused(fields: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(fields) // FIELD_BYTES
    assert decode_blocks(fields.ljust(7 * 4096 * FIELD_BYTES, b"\0")) == decode_blocks(fields), "zeros do not count"
    monkeypatch.setattr("fastnode.protocol.blob_decoding.CHECKPOINT_FIELDS_MAX", count)
    decode_blocks(fields)
    monkeypatch.setattr("fastnode.protocol.blob_decoding.CHECKPOINT_FIELDS_MAX", count - 1)
    with pytest.raises(DecodeError, match=f"a checkpoint of {count} fields, at most {count - 1}"):
        decode_blocks(fields)


#: Places in a transaction's start marker: the totals of all its fields and of those of private logs.
ALL_FIELDS, PRIVATE_LOG_FIELDS = 0, 32 + 8 + 16 + 32


@pytest.mark.parametrize("shift", [ALL_FIELDS, PRIVATE_LOG_FIELDS])
@pytest.mark.parametrize("change", [-1, 1])
def test_totals_of_a_transaction_are_held_against_nothing(fields: bytes, shift: int, change: int) -> None:
    """As by the network's other nodes, as long as there are so many fields."""
    marker = int.from_bytes(fields[:FIELD_BYTES], "big") + (change << shift)
    changed = field_from_int(marker) + fields[FIELD_BYTES:]
    first, *_ = decode_blocks(changed)
    assert first.effects == decode_blocks(fields)[0].effects
    assert first.fields.startswith(field_from_int(marker)), "what is hashed is what is there"


def test_a_transaction_with_more_fields_than_there_are_is_refused(fields: bytes) -> None:
    count = len(fields) // FIELD_BYTES
    marker = int.from_bytes(fields[:FIELD_BYTES], "big") & ~(2**32 - 1)
    decode_blocks(field_from_int(marker + count) + fields[FIELD_BYTES:])
    with pytest.raises(DecodeError, match=f"is said to have {count + 1} fields, {count} are left"):
        decode_blocks(field_from_int(marker + count + 1) + fields[FIELD_BYTES:])


def test_flipped_bits_are_refused_or_say_something_else(fields: bytes) -> None:
    """Nothing but a DecodeError may come of bytes that somebody made up."""
    chance = random.Random(4)
    whole = decode_blocks(fields)
    for _ in range(300):
        place = chance.randrange(len(fields))
        changed = bytearray(fields)
        changed[place] ^= 1 << chance.randrange(8)
        try:
            assert decode_blocks(bytes(changed)) != whole
        except DecodeError:
            continue
