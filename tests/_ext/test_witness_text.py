"""Witnesses as JSON: the kernel, its twin, and the form that is put together from values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode._twins import witness_text as twin
from fastnode.kernels import witness_text as kernel
from fastnode.world_state.layout import LeafRecord, LeafState
from fastnode.world_state.witnesses import IndexedWitness, Witness, membership_json, nullifier_json, public_data_json

MODULES = [kernel, twin]
fields = st.binary(min_size=32, max_size=32)
indexes = st.integers(0, 2**48 - 1)
blocks = st.integers(0, 2**32 - 1)
paths = st.integers(0, 64).flatmap(lambda count: st.binary(min_size=32 * count, max_size=32 * count))


@given(fields, fields, st.one_of(st.just(b""), fields), fields, indexes, indexes, blocks, blocks, paths)
def test_a_witness_of_a_leaf_is_the_one_of_its_values(
    key: bytes, next_key: bytes, value: bytes, predecessor: bytes, index: int, next_index: int, inserted: int,
    changed: int, path: bytes,
) -> None:  # fmt: skip
    record = LeafRecord(key, LeafState(changed, next_index, next_key, value), index, inserted, predecessor).pack()
    witness = IndexedWitness(index, key, value, next_key, next_index, path)
    expected = public_data_json(witness) if value else nullifier_json(witness)
    for module in MODULES:
        assert module.indexed(key, record, path) == expected
        assert module.leaf_place(record) == (index, inserted, changed)


@given(st.integers(0, 2**64 - 1), paths)
def test_a_membership_witness_is_the_one_of_its_values(index: int, path: bytes) -> None:
    for module in MODULES:
        assert module.membership(index, path) == membership_json(Witness(index, path))


@pytest.mark.parametrize("module", MODULES)
def test_lengths_that_do_not_fit_are_refused(module: Any) -> None:
    for record in (b"", bytes(83), bytes(85), bytes(117), bytes(148)):
        with pytest.raises(ValueError, match="leaf record"):
            module.leaf_place(record)
        with pytest.raises(ValueError, match="leaf record"):
            module.indexed(bytes(32), record, b"")
    with pytest.raises(ValueError, match="key"):
        module.indexed(bytes(31), bytes(84), b"")
    for path in (bytes(31), bytes(65 * 32)):
        with pytest.raises(ValueError, match="sibling path"):
            module.indexed(bytes(32), bytes(84), path)
        with pytest.raises(ValueError, match="sibling path"):
            module.membership(0, path)
