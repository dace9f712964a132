"""Keys: they sort like their numbers, and no two kinds share one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fastnode.archiver import layout

u32 = st.integers(0, 2**32 - 1)

KINDS = [
    value for name, value in vars(layout).items() if name.isupper() and isinstance(value, bytes) and len(value) == 1
]


@given(st.lists(u32, min_size=2, unique=True))
def test_numbered_keys_sort_like_their_numbers(numbers: list[int]) -> None:
    numbers.sort()
    for make in (layout.block_key, layout.tx_hashes_key, layout.l2_to_l1_key, layout.checkpoint_key, layout.slot_key):
        assert all(a < b for a, b in pairwise(make(number) for number in numbers))


@given(st.lists(st.tuples(u32, u32), min_size=2, unique=True))
def test_effects_sort_by_block_and_index(places: list[tuple[int, int]]) -> None:
    places.sort()
    assert all(a < b for a, b in pairwise(layout.effect_key(*place) for place in places))


def test_every_kind_has_its_own_first_byte_below_those_of_index_writers() -> None:
    assert len(KINDS) == len(set(KINDS)) == 22
    assert all(kind[0] < 0x80 for kind in KINDS)


@given(u32, st.integers(0, 2**64 - 1))
def test_numbers_survive_encoding(number: int, index: int) -> None:
    assert layout.decode_number(layout.encode_number(number)) == number
    assert layout.decode_number(layout.encode_index(index)) == index
