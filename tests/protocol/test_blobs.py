"""Blob fields and the hash that runs over them."""

from __future__ import annotations

import dataclasses
import random
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.kernels import poseidon2
from fastnode.protocol import blobs
from fastnode.protocol.blobs import (
    CHECKPOINT_FIELDS_MAX,
    BlobSponge,
    absorb_each,
    block_blob_fields,
    checkpoint_blob_fields,
    checkpoint_end_marker,
    sponge_blob_hash,
    squeeze_each,
    tx_blob_fields,
)
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.fields import MODULUS, MODULUS_BYTES, ZERO_FIELD, field_from_int, field_texts, hex_text


def test_generated_checkpoints_have_the_fields_and_hashes_of_the_vectors(
    chain_vectors: dict[str, Any], vector_blocks: list[L2Block]
) -> None:
    by_number = {block.number: block for block in vector_blocks}
    compared = 0
    counts = {int(b["header"]["globalVariables"]["blockNumber"]): b["blobFieldsCount"] for b in chain_vectors["blocks"]}
    for vector in chain_vectors["checkpoints"]:
        blocks = [by_number[number] for number in vector["blockNumbers"]]
        fields = checkpoint_blob_fields(blocks)
        assert len(fields) // 32 == vector["numBlobFields"]
        if "blobFields" in vector:  # the largest ones are left out
            assert field_texts(fields) == vector["blobFields"]
            compared += 1
        sponge = BlobSponge()
        for block in blocks:
            assert len(block_blob_fields(block)) // 32 == counts[block.number]
            found, sponge = sponge_blob_hash(sponge, block)
            assert found == block.header.sponge_blob_hash
        whole = sponge.absorb(checkpoint_end_marker(vector["numBlobFields"]))
        assert hex_text(whole.squeeze()) == vector["blobFieldsHash"]
    assert compared >= 2


def test_recorded_blocks_have_the_blob_hashes_of_their_headers(sample_checkpoints: list[PublishedCheckpoint]) -> None:
    checked = 0
    for published in sample_checkpoints:
        sponge = BlobSponge()
        for block in published.checkpoint.blocks:
            found, sponge = sponge_blob_hash(sponge, block)
            assert found == block.header.sponge_blob_hash
            checked += 1
    assert checked == 106


def _squeezed_by_definition(fields: list[int]) -> bytes:
    """The running hash, one field at a time: permute when a fourth field arrives and once at the end."""
    lanes = [0, 0, 0, CHECKPOINT_FIELDS_MAX << 64]
    cached: list[int] = []

    def permute() -> None:
        for lane, value in enumerate(cached):
            lanes[lane] = (lanes[lane] + value) % MODULUS
        cached.clear()
        state = poseidon2.permute(b"".join(map(field_from_int, lanes)))
        lanes[:] = [int.from_bytes(state[i : i + 32], "big") for i in range(0, 128, 32)]

    for value in fields:
        if len(cached) == 3:
            permute()
        cached.append(value)
    permute()
    return field_from_int(lanes[0])


@given(st.lists(st.lists(st.integers(0, MODULUS - 1), max_size=8), max_size=4))
@settings(max_examples=25)
def test_the_sponge_does_not_depend_on_how_the_fields_arrive(pieces: list[list[int]]) -> None:
    sponge = BlobSponge()
    for piece in pieces:
        sponge = sponge.absorb(b"".join(map(field_from_int, piece)))
    assert sponge.squeeze() == _squeezed_by_definition([value for piece in pieces for value in piece])


def test_squeezing_leaves_the_sponge_as_it_was() -> None:
    sponge = BlobSponge().absorb(field_from_int(1) * 5)
    first = sponge.squeeze()
    assert sponge.squeeze() == first
    assert sponge.absorb(b"") == sponge
    assert sponge.absorb(ZERO_FIELD).squeeze() != BlobSponge().absorb(field_from_int(1) * 6).squeeze()


def test_a_field_above_the_modulus_is_not_absorbed() -> None:
    with pytest.raises(ValueError, match="modulus"):
        BlobSponge().absorb(MODULUS_BYTES * 4)


def test_a_class_log_that_emits_nothing_takes_no_fields(vector_blocks: list[L2Block]) -> None:
    effect = next(e for block in vector_blocks for e in block.body.tx_effects if e.contract_class_logs)
    silent = dataclasses.replace(effect.contract_class_logs[0], emitted_length=0)
    without = tx_blob_fields(dataclasses.replace(effect, contract_class_logs=()))
    assert tx_blob_fields(dataclasses.replace(effect, contract_class_logs=(silent,))) == without


def test_a_counter_that_its_marker_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit 32 bits"):
        checkpoint_end_marker(1 << 32)


@pytest.mark.parametrize("seed", range(3))
def test_sponges_side_by_side_hash_like_each_alone(seed: int) -> None:
    chance = random.Random(seed)
    sponges = [BlobSponge() for _ in range(20)]
    expected = sponges
    for _ in range(3):
        lengths = [
            chance.choice([0, 1, 2, 3, 4, 6, chance.randrange(100), 1_000 + chance.randrange(3)]) for _ in sponges
        ]
        runs = [b"".join([b"\0" + chance.randbytes(31) for _ in range(length)]) for length in lengths]
        expected = [sponge.absorb(run) for sponge, run in zip(expected, runs, strict=True)]
        sponges = absorb_each(sponges, runs)
        assert sponges == expected
        assert squeeze_each(sponges) == [sponge.squeeze() for sponge in expected]
    assert absorb_each([], []) == squeeze_each([]) == []
    with pytest.raises(ValueError, match="is not below the field modulus"):
        absorb_each(sponges, [b""] * 19 + [MODULUS_BYTES * 4])


def test_what_was_absorbed_a_moment_ago_is_not_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def counted(state: bytes, fields: bytes) -> bytes:
        runs.append(fields)
        return hash_of(state, fields)

    hash_of = poseidon2.sponge_absorb
    monkeypatch.setattr(blobs, "_newest_states", OrderedDict())
    monkeypatch.setattr(blobs, "_NEWEST_STATES_MAX", 2)
    monkeypatch.setattr("fastnode.protocol.blobs.poseidon2.sponge_absorb", counted)
    one, other = (field_from_int(number) * 7 for number in (1, 2))
    first = BlobSponge().absorb(one)
    assert BlobSponge().absorb(one) == first
    assert len(runs) == 1
    assert first.absorb(one) != BlobSponge().absorb(other) != first
    assert len(runs) == 3, "another state, and other fields"
    assert BlobSponge().absorb(one) == first
    assert len(runs) == 4, "two are kept"
