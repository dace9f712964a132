"""RLP, read by the kernel."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.kernels import rlp
from fastnode.protocol.rlp import encode as write

MAXIMA = {"items_max": 1000, "depth_max": 10}

items = st.recursive(st.binary(max_size=70), lambda children: st.lists(children, max_size=5), max_leaves=12)


@given(item=items)
def test_an_item_is_read_as_it_was_written(item: Any) -> None:
    assert rlp.decode(write(item), **MAXIMA) == item


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x81\x01",  # one byte that stands for itself
        b"\xb8\x01a",  # a short one with a length of a length
        b"\xb9\x00\x38" + bytes(56),  # a length that begins with zero
        b"\x83ab",
        b"\xc3\x83ab",
        b"\x01\x02",
        b"\xff" * 9,
        b"\xbb\xff\xff\xff\xff",
    ],
)
def test_other_forms_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="RLP"):
        rlp.decode(data, **MAXIMA)


@given(data=st.binary(max_size=40))
def test_anything_is_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert write(rlp.decode(data, **MAXIMA)) == data


def test_neither_many_items_nor_deep_lists_are_built() -> None:
    assert len(rlp.decode(write([b""] * 9), items_max=10, depth_max=1)) == 9
    with pytest.raises(ValueError, match="more items"):
        rlp.decode(write([b""] * 10), items_max=10, depth_max=1)
    deep = b"\xc0"
    for _ in range(50):
        deep = bytes([0xC0 + len(deep)]) + deep
    with pytest.raises(ValueError, match="deeper than allowed"):
        rlp.decode(deep, items_max=1000, depth_max=10)
