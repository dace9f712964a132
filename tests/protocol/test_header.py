"""Block hashes and checkpoint hashes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import CheckpointHeader, PublishedCheckpoint, block_headers_hash
from fastnode.protocol.fields import hex_text
from fastnode.protocol.genesis import GENESIS_CHECKPOINT_HEADER_HASH
from fastnode.protocol.header import BlockHeader, GasFees, hash_each


def test_generated_blocks_have_the_hashes_of_the_vectors(
    chain_vectors: dict[str, Any], vector_blocks: list[L2Block]
) -> None:
    for vector, block in zip(chain_vectors["blocks"], vector_blocks, strict=True):
        assert hex_text(block.hash()) == vector["blockHash"]


def test_every_recorded_block_is_named_by_its_hash_in_the_tips_and_in_its_checkpoint(
    sample_checkpoints: list[PublishedCheckpoint], sample_records: list[dict[str, Any]]
) -> None:
    hashes: dict[int, str] = {}
    for published in sample_checkpoints:
        checkpoint = published.checkpoint
        block_hashes = [block.hash() for block in checkpoint.blocks]
        assert block_headers_hash(block_hashes) == checkpoint.header.block_headers_hash
        hashes |= {block.number: hex_text(found) for block, found in zip(checkpoint.blocks, block_hashes, strict=True)}
    tips = sample_records[-1]["tips"]
    for tip in (tips["proposed"], tips["proven"]["block"], tips["finalized"]["block"]):
        assert hashes[tip["number"]] == tip["hash"]


def test_the_genesis_header_hashes_to_the_recorded_genesis_hash(sample_records: list[dict[str, Any]]) -> None:
    genesis = sample_records[1]
    assert hex_text(BlockHeader.from_json(genesis["header"]).hash()) == genesis["blockHash"]


def test_checkpoint_headers_have_the_bytes_and_hashes_of_the_vectors(chain_vectors: dict[str, Any]) -> None:
    for vector in chain_vectors["checkpoints"]:
        header = CheckpointHeader.from_json(vector["header"])
        assert hex_text(header.to_buffer()) == vector["headerBytes"]
        assert hex_text(header.hash()) == vector["headerHash"]


def test_checkpoint_hashes_are_those_of_the_recorded_tips(
    sample_checkpoints: list[PublishedCheckpoint], sample_records: list[dict[str, Any]]
) -> None:
    tips = sample_records[-1]["tips"]
    for name in ("checkpointed", "proven", "finalized"):
        tip = tips[name]["checkpoint"]
        checkpoint = sample_checkpoints[tip["number"] - 1].checkpoint
        assert checkpoint.number == tip["number"]
        assert hex_text(checkpoint.header.hash()) == tip["hash"]


def test_the_all_zero_checkpoint_header_hashes_to_checkpoint_zero() -> None:
    assert CheckpointHeader.from_buffer(bytes(316)).hash() == GENESIS_CHECKPOINT_HEADER_HASH


def test_blocks_and_checkpoints_carry_the_sums_of_what_they_hold(
    sample_checkpoints: list[PublishedCheckpoint],
) -> None:
    for published in sample_checkpoints:
        checkpoint = published.checkpoint
        assert checkpoint.total_mana_used == checkpoint.header.total_mana_used
        for block in checkpoint.blocks:
            assert block.body.total_fees == block.header.total_fees


@pytest.mark.parametrize(
    "change",
    [
        {"sponge_blob_hash": bytes(31) + b"\1"},
        {"total_fees": 1},
        {"total_mana_used": 1 << 200},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_part_of_a_header_changes_its_hash(vector_blocks: list[L2Block], change: dict[str, Any]) -> None:
    header = vector_blocks[3].header
    assert dataclasses.replace(header, **change).hash() != header.hash()


@pytest.mark.parametrize(
    "field",
    ["chain_id", "version", "block_number", "slot_number", "timestamp", "coinbase", "fee_recipient", "gas_fees"],
)
def test_every_global_variable_changes_the_hash(vector_blocks: list[L2Block], field: str) -> None:
    header = vector_blocks[3].header
    variables = header.global_variables
    changed: Any = {"coinbase": bytes(20), "fee_recipient": bytes(32), "gas_fees": GasFees(1, 1)}.get(field, 0)
    assert getattr(variables, field) != changed
    altered = dataclasses.replace(header, global_variables=dataclasses.replace(variables, **{field: changed}))
    assert altered.hash() != header.hash()


def test_headers_hashed_together_have_their_hashes(vector_blocks: list[L2Block]) -> None:
    headers = [block.header for block in vector_blocks]
    assert hash_each(headers) == b"".join([header.hash() for header in headers])
    assert hash_each([]) == b""
