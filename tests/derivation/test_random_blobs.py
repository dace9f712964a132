"""Random sequences of blob fields that a proposer may publish beside a good header, for the rules of each release.

Whatever is decoded has the header's hash of its blocks only if it is what the proposer built.  FASTNODE_LONG=1 tries
ten thousand for each release, FASTNODE_SEED=N repeats those of another run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.mutated_answers import seed
from tests.sources.made_chain import SHAPE, made_chain

from fastnode.errors import DecodeError
from fastnode.protocol.blob_decoding import checkpoint_of, decode_blocks
from fastnode.protocol.blobs import checkpoint_blob_fields
from fastnode.protocol.checkpoint import Checkpoint, PublishedCheckpoint, block_headers_hash
from fastnode.protocol.fields import FIELD_BYTES, field_from_int, split_fields
from fastnode.protocol.releases import FIVE, FOUR, Release

SEQUENCES = 10_000 if os.environ.get("FASTNODE_LONG") == "1" else 200


@pytest.fixture(params=[FOUR, FIVE], ids=lambda one: one.name)
def release(request: pytest.FixtureRequest) -> Release:
    release: Release = request.param
    return release


@pytest.fixture
def checkpoints(tmp_path: Path, release: Release) -> list[Checkpoint]:
    with made_chain(tmp_path, replace(SHAPE, l1_to_l2=0), release) as chain:
        for blocks in (2, 3, 1, 2):
            chain.checkpoint(blocks)
        published = [unit.published for unit in chain.units]
    return [PublishedCheckpoint.from_json(record).checkpoint for record in published]


class Proposer:
    """Changes the fields of a checkpoint in some random way, with parts of others at hand."""

    def __init__(self, number: int, others: Sequence[bytes]) -> None:
        self._chance = random.Random(number)
        self._others = [list(split_fields(fields)) for fields in others]

    def change(self, fields: bytes) -> bytes:
        items = list(split_fields(fields))
        for _ in range(self._chance.choice((1, 1, 2, 5))):
            self._change(items)
        return b"".join(items)

    def _change(self, items: list[bytes]) -> None:
        chance = self._chance
        place = chance.randrange(len(items))
        other = chance.choice(self._others)
        kind = chance.choice(("bit", "bit", "value", "swap", "drop", "double", "insert", "part", "cut"))
        if kind == "bit":
            changed = bytearray(items[place])
            changed[chance.randrange(FIELD_BYTES)] ^= 1 << chance.randrange(8)
            items[place] = bytes(changed)
        elif kind == "value":
            items[place] = chance.choice(
                (field_from_int(0), field_from_int(1), b"\xff" * FIELD_BYTES, items[place - 1])
            )
        elif kind == "swap":
            near = (place + chance.choice((1, 2, 7))) % len(items)
            items[place], items[near] = items[near], items[place]
        elif kind == "drop" and len(items) > 1:
            del items[place : place + chance.choice((1, 1, 8))]
        elif kind == "double":
            items[place:place] = items[place : place + chance.choice((1, 3, 20))]
        elif kind == "insert":
            items.insert(place, chance.choice(other))
        elif kind == "part":
            items[place : place + chance.choice((1, 5, 50))] = other[place : place + chance.choice((1, 5, 50))]
        else:
            del items[max(1, place) :]
        if not items:
            items.append(field_from_int(0))


def test_no_blobs_but_those_that_were_built_have_the_hash_of_their_blocks(
    checkpoints: list[Checkpoint], release: Release
) -> None:
    proposer = Proposer(seed(11), [checkpoint_blob_fields(checkpoint.blocks) for checkpoint in checkpoints])
    refused = other = 0
    for number in range(SEQUENCES):
        checkpoint = checkpoints[number % len(checkpoints)]
        fields = checkpoint_blob_fields(checkpoint.blocks)
        assert _hash_of(checkpoint, fields, release) == checkpoint.header.block_headers_hash
        changed = proposer.change(fields)
        if changed.rstrip(b"\0") == fields.rstrip(b"\0"):
            continue
        try:
            found = _hash_of(checkpoint, changed, release)
        except DecodeError:
            refused += 1
            continue
        # The count at the end is of no block: everything before it is hashed.
        assert found != checkpoint.header.block_headers_hash
        other += 1
    print(f"release {release.name}: {SEQUENCES} sequences, {refused} refused, {other} with another hash")
    assert refused
    assert other


def _hash_of(checkpoint: Checkpoint, fields: bytes, release: Release) -> bytes:
    variables = checkpoint.blocks[0].header.global_variables
    derived = checkpoint_of(
        checkpoint.number,
        checkpoint.header,
        checkpoint.archive.root,
        checkpoint.fee_asset_price_modifier,
        decode_blocks(fields),
        chain_id=variables.chain_id,
        version=variables.version,
    )
    hashes = [block.header.hash() for block in derived.blocks]
    return block_headers_hash(hashes, release.separators.block_headers)
