"""Curve arithmetic against the textbook formulas, in the kernel and in its twin."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode._twins import grumpkin as twin
from fastnode.kernels import grumpkin as kernel
from fastnode.protocol import grumpkin
from fastnode.protocol.fields import MODULUS as P
from fastnode.protocol.grumpkin import GENERATOR, GROUP_ORDER

MODULES = [kernel, twin]
Point = tuple[int, int] | None

scalars = st.integers(0, (1 << 256) - 1) | st.integers(0, 20) | st.integers(GROUP_ORDER - 3, GROUP_ORDER + 3)


def affine_sum(left: Point, right: Point) -> Point:
    if left is None or right is None:
        return left or right
    (x1, y1), (x2, y2) = left, right
    if x1 == x2:
        if (y1 + y2) % P == 0:
            return None
        slope = 3 * x1 * x1 * pow(2 * y1, -1, P) % P
    else:
        slope = (y2 - y1) * pow(x2 - x1, -1, P) % P
    x = (slope * slope - x1 - x2) % P
    return x, (slope * (x1 - x) - y1) % P


def product(scalar: int) -> Point:
    result: Point = None
    power: Point = GENERATOR
    while scalar:
        if scalar & 1:
            result = affine_sum(result, power)
        power = affine_sum(power, power)
        scalar >>= 1
    return result


def joined(point: tuple[int, int]) -> bytes:
    return b"".join(coordinate.to_bytes(32, "big") for coordinate in point)


@pytest.mark.parametrize("module", MODULES)
@given(scalar=scalars, other=st.integers(1, GROUP_ORDER - 1))
@settings(max_examples=15)
def test_a_sum_is_the_textbook_one(module: Any, scalar: int, other: int) -> None:
    addend = product(other)
    assert addend is not None
    expected = affine_sum(product(scalar), addend)
    found = module.multiply_and_add(scalar.to_bytes(32, "big"), joined(GENERATOR), joined(addend))
    assert found == (None if expected is None else joined(expected))
    assert grumpkin.multiply_and_add(scalar, GENERATOR, addend) == expected
    assert expected is None or grumpkin.is_on_curve(expected)


def test_the_generator_has_the_group_order() -> None:
    assert grumpkin.is_on_curve(GENERATOR)
    assert not grumpkin.is_on_curve((1, 1))
    assert grumpkin.multiply_and_add(GROUP_ORDER, GENERATOR, GENERATOR) == GENERATOR
    assert grumpkin.multiply_and_add(0, GENERATOR, GENERATOR) == GENERATOR


def test_a_point_and_its_opposite_cancel_and_a_point_doubles() -> None:
    x, y = GENERATOR
    assert grumpkin.multiply_and_add(1, GENERATOR, (x, P - y)) is None
    assert grumpkin.multiply_and_add(GROUP_ORDER - 1, GENERATOR, GENERATOR) is None
    assert grumpkin.multiply_and_add(1, GENERATOR, GENERATOR) == product(2)


@pytest.mark.parametrize("module", MODULES)
def test_what_is_no_scalar_and_no_point_is_refused(module: Any) -> None:
    with pytest.raises(ValueError, match="a scalar has 32 bytes, not 31"):
        module.multiply_and_add(bytes(31), bytes(64), bytes(64))
    with pytest.raises(ValueError, match="a point has 64 bytes, not 64 and 63"):
        module.multiply_and_add(bytes(32), bytes(64), bytes(63))
