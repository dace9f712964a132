"""Tiles and leaves that are kept are never other than the newest, and never more than there is room for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.kernels import leaf_cache as kernel
from fastnode.protocol.fields import MODULUS, field_from_int
from fastnode.world_state.layout import LeafRecord, LeafState

numbers = st.one_of(st.integers(0, MODULUS - 1), st.integers(0, 300))
VALUES = (b"", field_from_int(7))


def leaves_of(keys: list[int], value: bytes, changed: int = 1) -> list[LeafRecord]:
    """A tree of these keys, in the order in which they are given, by key."""
    places = {key: index for index, key in enumerate(keys)}
    row = sorted(keys)
    return [
        LeafRecord(
            field_from_int(key),
            LeafState(changed, places.get(next_key, 0), field_from_int(next_key), value),
            places[key],
            1,
            bytes(32),
        )
        for key, next_key in zip(row, [*row[1:], 0], strict=True)
    ]


def low_of(leaves: list[LeafRecord], key: int) -> LeafRecord | None:
    return next((leaf for leaf in reversed(leaves) if leaf.key <= field_from_int(key)), None)


@given(st.lists(numbers, unique=True, min_size=1, max_size=90), st.lists(numbers, max_size=60), st.sampled_from(VALUES))
def test_a_leaf_that_is_found_is_the_one_below(keys: list[int], asked: list[int], value: bytes) -> None:
    leaves = leaves_of([0, *[key for key in keys if key]], value)
    cache = kernel.LeafCache(1 << 20)
    for key in asked:
        leaf = low_of(leaves, key)
        assert leaf is not None
        expected = leaf.key, leaf.pack()
        assert cache.low(field_from_int(key)) in (None, expected)
        cache.keep_leaf(field_from_int(key), *expected, 0)
        assert cache.low(field_from_int(key)) == expected


def test_all_questions_between_two_leaves_have_one_leaf() -> None:
    cache = kernel.LeafCache(1 << 20)
    [low, high] = leaves_of([5, MODULUS >> 3], b"")
    cache.keep_leaf(field_from_int(9), low.key, low.pack(), 0)
    assert cache.low(field_from_int(4)) is None
    assert cache.low(high.key) is None
    for key in (9, 10, 1 << 200, 1 << 240):
        assert cache.low(field_from_int(key)) == (low.key, low.pack())


def test_a_changed_tile_is_dropped_with_its_leaves_and_no_other() -> None:
    cache = kernel.LeafCache(1 << 20)
    leaves = leaves_of([number << 246 for number in range(64)], VALUES[1])
    for leaf in leaves:
        cache.keep_leaf(leaf.key, leaf.key, leaf.pack(), 0)
    cache.keep_tile(0, b"first", 0)
    cache.keep_tile(1, b"second", 0)
    full = cache.memory_bytes()
    cache.drop([1, 7, 1 << 60])
    assert cache.generation == 1
    assert (cache.tile(0), cache.tile(1), cache.tile(7)) == (b"first", None, None)
    assert cache.low(leaves[31].key) == (leaves[31].key, leaves[31].pack())
    assert cache.low(leaves[32].key) is None
    assert cache.memory_bytes() < full
    cache.clear()
    assert cache.generation == 2
    assert cache.tile(0) is cache.low(leaves[0].key) is None
    assert cache.memory_bytes() == kernel.LeafCache(1 << 20).memory_bytes()


def test_what_was_read_before_a_change_is_not_kept_after_it() -> None:
    cache = kernel.LeafCache(1 << 20)
    [leaf] = leaves_of([3], b"")
    cache.drop([])
    cache.keep_tile(0, b"old", 0)
    cache.keep_leaf(leaf.key, leaf.key, leaf.pack(), 0)
    assert cache.tile(0) is cache.low(leaf.key) is None
    cache.keep_tile(0, b"new", 1)
    assert cache.tile(0) == b"new"


def test_no_more_memory_is_taken_than_was_given() -> None:
    bytes_max = 4 * kernel.PLACE_BYTES
    cache = kernel.LeafCache(bytes_max)
    for leaf in leaves_of([number << 243 for number in range(640)], VALUES[1]):
        cache.keep_leaf(leaf.key, leaf.key, leaf.pack(), 0)
        cache.keep_tile(leaf.index >> 5, bytes(2240), 0)
        assert cache.memory_bytes() <= bytes_max
    assert [index for index in range(20) if cache.tile(index)] == [16, 17, 18, 19]
    assert cache.low(field_from_int(100 << 243)) is None
    cache.keep_tile(0, bytes(2241), 0)
    assert cache.tile(0) is None
    for too_small in (0, kernel.PLACE_BYTES - 1):
        cache = kernel.LeafCache(too_small)
        cache.keep_tile(0, b"tile", 0)
        cache.keep_leaf(leaf.key, leaf.key, leaf.pack(), 0)
        cache.drop([0])
        cache.clear()
        assert cache.tile(0) is cache.low(leaf.key) is None
        assert (cache.memory_bytes(), cache.generation) == (0, 2)


def test_what_is_no_leaf_is_refused_and_places_beyond_all_trees_are_not_kept() -> None:
    cache = kernel.LeafCache(1 << 20)
    [leaf] = leaves_of([3], b"")
    for key, record in ((bytes(31), leaf.pack()), (leaf.key, leaf.pack()[1:]), (leaf.key, b"")):
        with pytest.raises(ValueError, match="bytes"):
            cache.keep_leaf(leaf.key, key, record, 0)
    with pytest.raises(ValueError, match="33 bytes"):
        cache.low(bytes(33))
    far = LeafRecord(leaf.key, leaf.state, (1 << 48) - 1, 1, bytes(32))
    cache.keep_leaf(leaf.key, leaf.key, far.pack(), 0)
    cache.keep_tile((1 << 64) - 1, b"tile", 0)
    assert cache.low(leaf.key) is cache.tile((1 << 64) - 1) is None
