"""The two hash functions in the forms that the protocol uses, against values of the reference node."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.merkle import poseidon2_of

from fastnode.protocol.fields import MODULUS, MODULUS_BYTES, ZERO_FIELD, field_from_int
from fastnode.protocol.hashing import (
    SHA_ZERO_NODES,
    poseidon2_hash_with_separator,
    poseidon2_unbalanced_root,
    sha256_padded_levels,
    sha256_padded_root,
    sha256_to_field,
)

field_bytes = st.integers(0, MODULUS - 1).map(field_from_int)
few_examples = settings(max_examples=20)


def _field(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def test_poseidon2_of_nothing_and_of_two_zeros_is_that_of_the_reference() -> None:
    assert poseidon2_of(()) == _field("0x18dfb8dc9b82229cff974efefc8df78b1ce96d9d844236b496785c698bc6732e")
    assert poseidon2_hash_with_separator(0, ()) == _field(
        "0x2710144414c3a5f2354f4c08d52ed655b9fe253b4bf12cb9ad3de693d9b1db11"
    )
    assert poseidon2_hash_with_separator(1, ()) == _field(
        "0x168758332d5b3e2d13be8048c8011b454590e06c44bce7f702f09103eef5a373"
    )


def test_the_separator_counts_as_the_first_field() -> None:
    fields = [field_from_int(7), field_from_int(MODULUS - 1)]
    assert poseidon2_hash_with_separator(5, fields) == poseidon2_of([field_from_int(5), *fields])
    assert poseidon2_hash_with_separator(0, fields) != poseidon2_of(fields)


def test_a_value_above_the_modulus_is_not_hashed() -> None:
    with pytest.raises(ValueError, match="modulus"):
        poseidon2_of((ZERO_FIELD, MODULUS_BYTES))


def test_unbalanced_roots_are_those_of_the_reference(out_hash_vectors: dict[str, Any]) -> None:
    vectors = out_hash_vectors["poseidonUnbalanced"]
    assert [len(vector["leaves"]) for vector in vectors] == list(range(1, 21))
    for vector in vectors:
        assert poseidon2_unbalanced_root([_field(leaf) for leaf in vector["leaves"]]) == _field(vector["root"])


def test_an_unbalanced_tree_needs_a_leaf() -> None:
    with pytest.raises(ValueError, match="at least one leaf"):
        poseidon2_unbalanced_root([])


def _root_by_definition(leaves: Sequence[bytes]) -> bytes:
    if len(leaves) == 1:
        return leaves[0]
    left = 1
    while left * 2 < len(leaves):
        left *= 2
    return poseidon2_of((_root_by_definition(leaves[:left]), _root_by_definition(leaves[left:])))


@given(st.lists(field_bytes, min_size=1, max_size=12))
@few_examples
def test_the_level_by_level_root_is_the_recursive_one(leaves: list[bytes]) -> None:
    assert poseidon2_unbalanced_root(leaves) == _root_by_definition(leaves)


def test_sha_fields_are_those_of_the_reference(misc_vectors: dict[str, Any]) -> None:
    for vector in misc_vectors["sha256ToField"]:
        assert sha256_to_field(b"".join(map(_field, vector["in"]))) == _field(vector["out"])


@given(st.binary(max_size=200))
def test_a_sha_field_is_the_digest_without_its_last_byte(data: bytes) -> None:
    hashed = sha256_to_field(data)
    assert int.from_bytes(hashed, "big") == int.from_bytes(sha256(data).digest(), "big") >> 8
    assert hashed < MODULUS_BYTES


@given(st.lists(field_bytes, max_size=32), st.integers(5, 7))
def test_a_padded_root_is_that_of_the_tree_written_out(leaves: list[bytes], height: int) -> None:
    level = leaves + [ZERO_FIELD] * ((1 << height) - len(leaves))
    while len(level) > 1:
        level = [sha256_to_field(level[i] + level[i + 1]) for i in range(0, len(level), 2)]
    assert sha256_padded_root(leaves, height) == level[0]


def test_no_leaves_give_the_zero_node_and_too_many_are_refused() -> None:
    assert sha256_padded_root([], 3) == SHA_ZERO_NODES[3]
    assert sha256_padded_levels([], 2) == [[], [], []]
    with pytest.raises(ValueError, match="9 leaves do not fit a tree of height 3"):
        sha256_padded_root([ZERO_FIELD] * 9, 3)
