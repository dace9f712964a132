"""The tree over the effects of a block: public vectors, witnesses, and an independent computation.

FASTNODE_LONG=1 draws ten thousand effects, FASTNODE_SEED=N others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from fastnode._twins import poseidon2 as twin
from fastnode.protocol.blob_decoding import decode_blocks
from fastnode.protocol.blobs import BlobSponge, checkpoint_blob_fields, tx_blob_fields
from fastnode.protocol.block import L2Block
from fastnode.protocol.effects import Body, ContractClassLog, PrivateLog, PublicDataWrite, PublicLog, TxEffect
from fastnode.protocol.effects_tree import effect_witness, effects_root, effects_tree_leaf
from fastnode.protocol.header import (
    AppendOnlyTreeSnapshot,
    BlockHeader,
    GasFees,
    GlobalVariables,
    StateReference,
)
from fastnode.protocol.releases import SIX

EFFECTS = 10_000 if os.environ.get("FASTNODE_LONG") == "1" else 60
SEED = int(os.environ.get("FASTNODE_SEED", "6"))
#: One of so many effects publishes a class, whose log takes the readable hash as long as fifty others.
CLASSES_EACH = 40


def word(value: int) -> bytes:
    return value.to_bytes(32, "big")


def private_log(fields: list[int]) -> PrivateLog:
    return PrivateLog(tuple(word(value) for value in fields + [0] * (16 - len(fields))), len(fields))


def class_log(address: int, fields: list[int]) -> ContractClassLog:
    return ContractClassLog(word(address), b"".join(map(word, fields)), len(fields))


EMPTY = TxEffect(0, bytes(32), 0, (), (), (), (), (), (), ())
SMALL = TxEffect(
    revert_code=1,
    tx_hash=word(0x1234),
    transaction_fee=42,
    note_hashes=(word(11), word(12)),
    nullifiers=(word(21),),
    l2_to_l1_msgs=(word(31),),
    public_data_writes=(PublicDataWrite(word(41), word(42)),),
    private_logs=(private_log([101, 102, 103]),),
    public_logs=(PublicLog(word(200), (word(201), word(202))),),
    contract_class_logs=(class_log(77, [301, 302]),),
)
LARGEST = TxEffect(
    revert_code=0,
    tx_hash=word(0x1234),
    transaction_fee=42,
    note_hashes=tuple(word(index + 1) for index in range(64)),
    nullifiers=tuple(word(index + 101) for index in range(64)),
    l2_to_l1_msgs=tuple(word(index + 201) for index in range(8)),
    public_data_writes=tuple(PublicDataWrite(word(index + 301), word(index + 401)) for index in range(64)),
    private_logs=tuple(private_log([index + 501] * 16) for index in range(64)),
    public_logs=(PublicLog(word(601), (word(601),) * 4094),),
    contract_class_logs=(class_log(801, [701] * 3023),),
)


# The vectors are those of the network's public tests (commit ae2aaced of the protocol repository, tx_effect.nr).
@pytest.mark.parametrize(
    ("effect", "leaf"),
    [
        (EMPTY, "036639112ad40a8f951bfcc348b9906cee3f554dd05d0903c6e32a42d3f15d5a"),
        (SMALL, "2d0cc62a893d49f71987d6bddb8d5d3f1efe4c7f015cbc8f4b7b2b04331a8978"),
        (LARGEST, "228fa718cc3dd39f719454454739a177add7a7ee2a127c3923f47a6b23d68118"),
    ],
    ids=["empty", "small", "largest"],
)
def test_a_leaf_is_that_of_the_public_vector(effect: TxEffect, leaf: str) -> None:
    assert effects_tree_leaf(effect).hex() == leaf


def test_the_root_of_three_transactions_is_that_of_the_public_vector() -> None:
    root = effects_root([EMPTY, SMALL, LARGEST])
    assert root.hex() == "10aefe4df8cb37d89dc3278432c6c732c7b3740fb53d5ef128f86f9a9b4bbafb"


def test_a_block_without_transactions_has_the_root_zero_and_one_leaf_is_its_own_root() -> None:
    assert effects_root([]) == bytes(32)
    assert effects_root([SMALL]) == effects_tree_leaf(SMALL)


def independent_root(leaves: list[bytes]) -> bytes:
    """As the proposal defines it, recursively, with the readable hash."""
    if len(leaves) == 1:
        return leaves[0]
    middle = 1
    while middle * 2 < len(leaves):
        middle *= 2
    return twin.hash_fields(word(2908237871) + independent_root(leaves[:middle]) + independent_root(leaves[middle:]))


@pytest.mark.parametrize("count", range(1, 8))
def test_every_count_of_transactions_has_the_shape_of_the_definition(count: int) -> None:
    effects = [replace(SMALL, tx_hash=word(index)) for index in range(count)]
    leaves = [effects_tree_leaf(effect) for effect in effects]
    assert effects_root(effects) == independent_root(leaves)


def independent_categories(effect: TxEffect) -> bytes:
    """The definition spelled out once more, with the readable hash and without the blob encoding."""

    def category(values: list[bytes]) -> bytes:
        return twin.hash_fields(word(1030022731) + b"".join(values)) if values else bytes(32)

    writes = [value for write in effect.public_data_writes for value in (write.leaf_slot, write.value)]
    private = [
        value for log in effect.private_logs for value in (word(log.emitted_length), *log.fields[: log.emitted_length])
    ]
    public = [
        value for log in effect.public_logs for value in (word(len(log.fields)), log.contract_address, *log.fields)
    ]
    published = [log for log in effect.contract_class_logs if log.emitted_length]
    class_logs = [
        value
        for log in published
        for value in (log.contract_address, twin.hash_fields(log.fields.ljust(3023 * 32, b"\0")))
    ]
    lengths = [
        len(effect.note_hashes),
        len(effect.nullifiers),
        len(effect.l2_to_l1_msgs),
        len(effect.public_data_writes),
        len(effect.private_logs),
        sum(log.emitted_length for log in effect.private_logs),
        len(public),
        sum(log.emitted_length for log in published),
        effect.revert_code,
        3
        + sum(map(len, (effect.note_hashes, effect.nullifiers, effect.l2_to_l1_msgs, writes, private, public)))
        + sum(1 + log.emitted_length for log in published),
    ]
    marker = 0x9C707518
    for width, value in zip((16, 16, 16, 16, 16, 16, 32, 16, 8, 32), lengths, strict=True):
        marker = marker << width | value
    kinds = [list(effect.note_hashes), list(effect.nullifiers), list(effect.l2_to_l1_msgs)]
    hashes = [category(values) for values in (*kinds, writes, private, public, class_logs)]
    return twin.hash_fields(word(1426387399) + word(marker) + word(effect.transaction_fee) + b"".join(hashes))


def independent_leaf(effect: TxEffect) -> bytes:
    return twin.hash_fields(word(1186802524) + effect.tx_hash + independent_categories(effect))


def random_effect(rng: random.Random) -> TxEffect:
    def some(most: int) -> range:
        return range(rng.choice((0, 0, 1, rng.randint(0, most))))

    def field() -> bytes:
        return word(rng.getrandbits(rng.choice((1, 64, 253))))

    def private_log_of(length: int) -> PrivateLog:
        return PrivateLog(tuple(field() if place < length else word(0) for place in range(16)), length)

    lengths = [rng.randint(1, 6) for _ in range(rng.randrange(CLASSES_EACH) == 0)]
    return TxEffect(
        revert_code=rng.randint(0, 3),
        tx_hash=field(),
        transaction_fee=rng.getrandbits(rng.choice((1, 60, 200))),
        note_hashes=tuple(field() for _ in some(6)),
        nullifiers=tuple(field() for _ in some(6)),
        l2_to_l1_msgs=tuple(field() for _ in some(4)),
        public_data_writes=tuple(PublicDataWrite(field(), field()) for _ in some(6)),
        private_logs=tuple(private_log_of(rng.randint(0, 16)) for _ in some(3)),
        public_logs=tuple(PublicLog(field(), tuple(field() for _ in range(rng.randint(0, 5)))) for _ in some(3)),
        contract_class_logs=tuple(
            ContractClassLog(field(), b"".join(field() for _ in range(length)), length) for length in lengths
        ),
    )


def climbed(leaf: bytes, index: int, path: Sequence[bytes]) -> bytes:
    """The root that a leaf and its path lead to, with the readable hash."""
    for sibling in path:
        pair = (sibling + leaf) if index & 1 else (leaf + sibling)
        leaf, index = twin.hash_fields(word(2908237871) + pair), index >> 1
    assert index == 0
    return leaf


def block_of(effects: Sequence[TxEffect], number: int, index: int, rng: random.Random) -> L2Block:
    """A block with these effects and a drawn state."""

    def snapshot() -> AppendOnlyTreeSnapshot:
        return AppendOnlyTreeSnapshot(word(rng.getrandbits(253)), rng.getrandbits(28))

    archive = AppendOnlyTreeSnapshot(word(rng.getrandbits(253)), number)
    body = Body(tuple(effects))
    header = BlockHeader(
        archive,
        StateReference.of_trees(snapshot(), snapshot(), snapshot(), snapshot()),
        bytes(32),
        GlobalVariables(1, 2, number, 3, rng.getrandbits(32), bytes(20), bytes(32), GasFees(0, 1)),
        body.total_fees,
        rng.getrandbits(20),
        effects_root(effects),
    )
    return L2Block(archive, header, body, 1, index)


def test_random_effects_have_the_tree_and_the_blob_fields_of_the_definition() -> None:
    rng, left, number = random.Random(SEED), EFFECTS, 0
    while left:
        blocks = []
        for index in range(rng.randint(1, 4)):
            count, number = min(left, rng.randint(0, 9)), number + 1
            left -= count
            effects = [random_effect(rng) for _ in range(count)]
            leaves = [independent_leaf(effect) for effect in effects]
            assert [effects_tree_leaf(effect) for effect in effects] == leaves
            root = independent_root(leaves) if leaves else bytes(32)
            assert effects_root(effects) == root
            for place, effect in enumerate(effects):
                witness = effect_witness(effects, place)
                assert (witness.root, witness.categories_hash) == (root, independent_categories(effect))
                assert climbed(leaves[place], witness.leaf_index, witness.sibling_path) == root
            blocks.append(block_of(effects, number, index, rng))
        fields = checkpoint_blob_fields(blocks)
        decoded = decode_blocks(fields + bytes(32 * rng.randrange(3)), SIX.trees)
        assert [item.effects for item in decoded] == [block.body.tx_effects for block in blocks]
        for block, item in zip(blocks, decoded, strict=True):
            trees = block.header.state
            assert item.roots[0] == trees.l1_to_l2_message_tree.root
            assert item.sizes[0] == trees.l1_to_l2_message_tree.next_available_leaf_index
            assert (item.number, item.mana) == (block.number, block.header.total_mana_used)
            assert effects_root(item.effects) == block.header.tx_effects_tree_root
            assert b"".join(map(tx_blob_fields, item.effects)) == b"".join(map(tx_blob_fields, block.body.tx_effects))
        padded = fields.ljust(-(-len(fields) // 96) * 96, b"\0")
        state = twin.sponge_absorb(BlobSponge().state, padded)
        assert BlobSponge().absorb(fields).squeeze() == state[:32]
