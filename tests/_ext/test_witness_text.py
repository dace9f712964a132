"""Witnesses as JSON: the kernel, its twin, and the form that is put together from values."""

from __future__ import annotations

from base64 import b64encode
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode._twins import indexed_tree as twin_tree
from fastnode._twins import tree_nodes
from fastnode._twins import witness_text as twin
from fastnode.kernels import indexed_tree as kernel_tree
from fastnode.kernels import witness_text as kernel
from fastnode.world_state.layout import LeafRecord, LeafState, inverted, u32, u48
from fastnode.world_state.trees import NULLIFIER, zero_nodes
from fastnode.world_state.witnesses import IndexedWitness, nullifier_json, public_data_json

MODULES = [kernel, twin]
fields = st.binary(min_size=32, max_size=32)
indexes = st.integers(0, 2**48 - 1)
blocks = st.integers(0, 2**32 - 1)
paths = st.integers(0, 64).flatmap(lambda count: st.binary(min_size=32 * count, max_size=32 * count))


HEIGHT = 42
ZEROS = zero_nodes(NULLIFIER)
PREFIX = b"tile"


def make_nodes(module: Any) -> Any:
    tree = kernel_tree if module is kernel else twin_tree
    return tree.IndexedNodes(HEIGHT, ZEROS, history_bytes=0)


@given(fields, fields, st.one_of(st.just(b""), fields), fields, st.integers(0, 2**40), indexes, blocks, blocks, blocks)
def test_the_witness_of_an_unchanged_leaf_is_the_one_of_its_values(
    key: bytes, next_key: bytes, value: bytes, predecessor: bytes, index: int, next_index: int, inserted: int,
    changed: int, block: int,
) -> None:  # fmt: skip
    record = LeafRecord(key, LeafState(changed, next_index, next_key, value), index, inserted, predecessor).pack()
    tile = tree_nodes.pack_tile({3: key + u32(0), 40: next_key + u32(0)})
    for module in MODULES:
        nodes = make_nodes(module)
        tiles = {PREFIX + u48(index >> 5): tile}
        size = index + 1
        found = module.unchanged(nodes, key, record, block, size, PREFIX, tiles.get)
        missing: list[int] = []
        path = nodes.path(index, block, size, tile, missing)
        if inserted > block or changed > block or missing:
            assert found is None
            continue
        witness = IndexedWitness(index, key, value, next_key, next_index, path)
        assert found == (public_data_json(witness) if value else nullifier_json(witness))


class Iterator:
    """Over entries in order, as one of LevelDB."""

    def __init__(self, entries: dict[bytes, bytes]) -> None:
        self._entries = sorted(entries.items())

    def first(self, key: bytes) -> tuple[bytes, bytes] | None:
        return next(((each, value) for each, value in self._entries if each >= key), None)


@given(st.sets(fields, max_size=8), fields, st.sampled_from([b"a", b"bb", b"c"]))
def test_the_entry_below_is_found(keys: set[bytes], wanted: bytes, prefix: bytes) -> None:
    entries = {b"bb" + inverted(key): key for key in keys}
    below = max((key for key in keys if key <= wanted), default=None) if prefix == b"bb" else None
    for module in MODULES:
        made: list[Iterator] = []
        iterators: deque[Any] = deque()

        def make(made: list[Iterator] = made) -> Iterator:
            made.append(Iterator(entries))
            return made[-1]

        for _ in range(2):
            found = module.low_entry(iterators, make, prefix, wanted)
            assert found == (None if below is None else (below, below))
        assert list(iterators) == made
        assert len(made) == 1


@given(st.integers(0, 2**64 - 1), paths)
def test_a_membership_witness_is_the_one_of_its_values(index: int, path: bytes) -> None:
    for module in MODULES:
        assert module.membership(index, path) == b'"%b"' % b64encode(index.to_bytes(32, "big") + path)


@pytest.mark.parametrize("module", MODULES)
def test_lengths_that_do_not_fit_are_refused(module: Any) -> None:
    nodes = make_nodes(module)
    for record in (b"", bytes(83), bytes(85), bytes(117), bytes(148)):
        with pytest.raises(ValueError, match="leaf record"):
            module.unchanged(nodes, bytes(32), record, 1, 1, PREFIX, {}.get)
    with pytest.raises(ValueError, match="key"):
        module.unchanged(nodes, bytes(31), bytes(84), 1, 1, PREFIX, {}.get)
    with pytest.raises(ValueError, match="leaf 0 is not in"):
        module.unchanged(nodes, bytes(32), bytes(84), 1, 0, PREFIX, {}.get)
    for path in (bytes(31), bytes(65 * 32)):
        with pytest.raises(ValueError, match="sibling path"):
            module.membership(0, path)
