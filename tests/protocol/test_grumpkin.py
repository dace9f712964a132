"""Curve arithmetic against the textbook formulas."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.protocol import grumpkin
from fastnode.protocol.grumpkin import GENERATOR, GROUP_ORDER, P

scalars = st.integers(0, GROUP_ORDER - 1) | st.integers(0, 20)


def _affine_sum(left: grumpkin.Point, right: grumpkin.Point) -> grumpkin.Point:
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


def _affine_product(scalar: int) -> grumpkin.Point:
    result, power = None, GENERATOR
    while scalar:
        if scalar & 1:
            result = _affine_sum(result, power)
        power = _affine_sum(power, power)
        scalar >>= 1
    return result


def test_the_generator_has_the_group_order() -> None:
    assert grumpkin.is_on_curve(GENERATOR)
    assert grumpkin.multiply(GROUP_ORDER, GENERATOR) is None
    assert grumpkin.multiply(GROUP_ORDER + 1, GENERATOR) == GENERATOR
    assert grumpkin.multiply(0, GENERATOR) is None
    assert not grumpkin.is_on_curve((1, 1))


@given(scalars)
@settings(max_examples=20)
def test_a_product_is_the_textbook_one(scalar: int) -> None:
    found = grumpkin.multiply(scalar, GENERATOR)
    assert found == _affine_product(scalar)
    assert found is None or grumpkin.is_on_curve(found)


@given(scalars, scalars)
@settings(max_examples=20)
def test_a_sum_is_the_product_of_the_sum(left: int, right: int) -> None:
    a, b = grumpkin.multiply(left, GENERATOR), grumpkin.multiply(right, GENERATOR)
    total = grumpkin.multiply((left + right) % GROUP_ORDER, GENERATOR)
    assert grumpkin.add(a, b) == total
    if b is not None:
        assert grumpkin.multiply_and_add(left, GENERATOR, b) == total


def test_a_point_and_its_opposite_cancel_and_a_point_doubles() -> None:
    x, y = GENERATOR
    assert grumpkin.add(GENERATOR, (x, P - y)) is None
    assert grumpkin.add(GENERATOR, GENERATOR) == grumpkin.multiply(2, GENERATOR)
    assert grumpkin.add(GENERATOR, None) == grumpkin.add(None, GENERATOR) == GENERATOR
