"""Message hashes, in hashes and the numbering of messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.protocol.checkpoint import CheckpointHeader, PublishedCheckpoint
from fastnode.protocol.fields import MODULUS, ZERO_FIELD, field_from_int, hex_text
from fastnode.protocol.messages import (
    L1ToL2Message,
    L2ToL1Message,
    checkpoint_of_message_index,
    first_message_index,
    in_hash,
)

EMPTY_IN_HASH = "0x00de7b349d2306334734e4f58b1302a6ed5a6c796a706f6597a5641b6d468223"


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def _generated_fields(seed: int, count: int) -> Iterator[bytes]:
    """The sequence of the vectors: x <- x^2 + 7 i + 3."""
    value = seed
    for index in range(count):
        value = (value * value + 7 * index + 3) % MODULUS
        yield field_from_int(value)


def test_messages_from_l1_hash_to_the_leaves_of_the_reference(misc_vectors: dict[str, Any]) -> None:
    for vector in misc_vectors["l1ToL2"]:
        message = L1ToL2Message(
            sender=_bytes(vector["sender"]),
            sender_chain_id=vector["senderChainId"],
            recipient=_bytes(vector["recipient"]),
            recipient_version=vector["recipientVersion"],
            content=_bytes(vector["content"]),
            secret_hash=_bytes(vector["secretHash"]),
            index=int(vector["index"]),
        )
        assert hex_text(message.hash()) == vector["hash"]


def test_messages_to_l1_hash_to_the_leaves_of_the_reference(misc_vectors: dict[str, Any]) -> None:
    for vector in misc_vectors["l2ToL1"]:
        message = L2ToL1Message(
            sender=_bytes(vector["l2Sender"]),
            rollup_version=vector["rollupVersion"],
            recipient=_bytes(vector["l1Recipient"]),
            chain_id=vector["chainId"],
            content=_bytes(vector["content"]),
        )
        assert hex_text(message.hash()) == vector["hash"]


def test_in_hashes_are_those_of_the_reference(misc_vectors: dict[str, Any]) -> None:
    for vector in misc_vectors["inHash"]:
        messages = list(_generated_fields(vector["seed"], vector["n"]))
        assert hex_text(in_hash(messages)) == vector["out"]


def test_in_hashes_of_checkpoints_are_those_of_their_headers(
    chain_vectors: dict[str, Any],
    sample_checkpoint_records: list[dict[str, Any]],
    sample_checkpoints: list[PublishedCheckpoint],
) -> None:
    for vector in chain_vectors["checkpoints"]:
        assert in_hash([*map(_bytes, vector["l1ToL2Messages"])]) == CheckpointHeader.from_json(vector["header"]).in_hash
    for record, published in zip(sample_checkpoint_records, sample_checkpoints, strict=True):
        assert in_hash([*map(_bytes, record["l1ToL2Messages"])]) == published.checkpoint.header.in_hash


def test_padding_written_out_gives_the_same_in_hash_and_a_1025th_message_none() -> None:
    message = field_from_int(5)
    assert hex_text(in_hash([])) == EMPTY_IN_HASH
    assert hex_text(in_hash([ZERO_FIELD] * 1024)) == EMPTY_IN_HASH
    assert in_hash([message]) == in_hash([message] + [ZERO_FIELD] * 1023)
    with pytest.raises(ValueError, match="1025 leaves do not fit"):
        in_hash([message] * 1025)


def test_indices_of_a_checkpoint_are_those_of_the_reference(misc_vectors: dict[str, Any]) -> None:
    for vector in misc_vectors["inboxLeaf"]:
        first, end = map(int, vector["range"])
        assert first_message_index(vector["checkpoint"]) == first
        assert first_message_index(vector["checkpoint"] + 1) == end
        assert checkpoint_of_message_index(first) == checkpoint_of_message_index(end - 1) == vector["checkpoint"]


@given(st.integers(1, 1 << 26), st.integers(0, 1023))
def test_an_index_leads_back_to_its_checkpoint(checkpoint: int, position: int) -> None:
    assert checkpoint_of_message_index(first_message_index(checkpoint) + position) == checkpoint
