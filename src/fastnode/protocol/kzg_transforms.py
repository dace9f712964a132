"""The discrete Fourier transform over the scalar field of BLS12-381 and over points of its curve."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from fastnode.protocol.fields import FIELD_BYTES

if TYPE_CHECKING:
    from py_arkworks_bls12381 import G1Point

__all__ = ["BLS_ORDER", "bits_reversed", "roots_in_order", "transform", "transform_points"]

BLS_ORDER: Final = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
_GENERATOR: Final = 7  # of the field's multiplicative group

T = TypeVar("T")


@functools.cache
def _roots(size: int) -> tuple[int, ...]:
    """The roots of one of an order, a power of two, as powers of the first."""
    first = pow(_GENERATOR, (BLS_ORDER - 1) // size, BLS_ORDER)
    found = [1]
    for _ in range(size - 1):
        found.append(found[-1] * first % BLS_ORDER)
    return tuple(found)


@functools.cache
def roots_in_order(size: int) -> tuple[int, ...]:
    """Those of an order, a power of two, in the order of their places' reversed bits."""
    return tuple(bits_reversed(_roots(size)))


def bits_reversed(items: Sequence[T]) -> list[T]:
    """Each item at the place whose bits are those of its own, reversed; the length is a power of two."""
    bits = len(items).bit_length() - 1
    return [items[int(f"{place:0{bits}b}"[::-1], 2)] for place in range(len(items))]


def transform(values: Sequence[int], *, inverse: bool = False) -> list[int]:
    """The discrete Fourier transform over the scalar field; the length is a power of two."""
    size = len(values)
    out, roots = bits_reversed(values), _roots(size)
    half = 1
    while half < size:
        step = size // (2 * half)
        for start in range(0, size, 2 * half):
            for place in range(half):
                low, high = start + place, start + place + half
                turned = out[high] * roots[-place * step if inverse else place * step] % BLS_ORDER
                out[high] = (out[low] - turned) % BLS_ORDER
                out[low] = (out[low] + turned) % BLS_ORDER
        half *= 2
    if not inverse:
        return out
    share = pow(size, -1, BLS_ORDER)
    return [value * share % BLS_ORDER for value in out]


def transform_points(points: Sequence[G1Point], *, inverse: bool = False) -> list[G1Point]:
    """The same over points of the curve."""
    from py_arkworks_bls12381 import Scalar

    size = len(points)
    out = bits_reversed(points)
    roots = [Scalar.from_be_bytes(root.to_bytes(FIELD_BYTES, "big")) for root in _roots(size)]
    half = 1
    while half < size:
        step = size // (2 * half)
        for start in range(0, size, 2 * half):
            for place in range(half):
                low, high = start + place, start + place + half
                turned = out[high] * roots[-place * step if inverse else place * step] if place else out[high]
                out[high] = out[low] - turned
                out[low] = out[low] + turned
        half *= 2
    if not inverse:
        return out
    share = Scalar.from_be_bytes(pow(size, -1, BLS_ORDER).to_bytes(FIELD_BYTES, "big"))
    return [point * share for point in out]
