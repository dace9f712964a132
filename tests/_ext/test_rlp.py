"""RLP, and the kernel's twin."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode._twins import rlp as twin
from fastnode.kernels import rlp
from fastnode.p2p.encoding import rlp as write

KERNELS = [rlp, twin]
each_kernel = pytest.mark.parametrize("kernel", KERNELS)
MAXIMA = {"items_max": 1000, "depth_max": 10}

items = st.recursive(st.binary(max_size=70), lambda children: st.lists(children, max_size=5), max_leaves=12)


@each_kernel
@given(item=items)
def test_an_item_is_read_as_it_was_written(kernel: Any, item: Any) -> None:
    assert kernel.decode(write(item), **MAXIMA) == item


@each_kernel
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
def test_other_forms_are_refused(kernel: Any, data: bytes) -> None:
    with pytest.raises(ValueError, match="RLP"):
        kernel.decode(data, **MAXIMA)


@each_kernel
def test_neither_many_items_nor_deep_lists_are_built(kernel: Any) -> None:
    assert len(kernel.decode(write([b""] * 9), items_max=10, depth_max=1)) == 9
    with pytest.raises(ValueError, match="more items"):
        kernel.decode(write([b""] * 10), items_max=10, depth_max=1)
    deep = b"\xc0"
    for _ in range(50):
        deep = bytes([0xC0 + len(deep)]) + deep
    with pytest.raises(ValueError, match="deeper than allowed"):
        kernel.decode(deep, items_max=1000, depth_max=10)


@given(data=st.binary(max_size=100))
def test_both_say_the_same_of_any_bytes(data: bytes) -> None:
    outcomes = []
    for kernel in KERNELS:
        try:
            outcomes.append(kernel.decode(data, items_max=20, depth_max=3))
        except ValueError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
