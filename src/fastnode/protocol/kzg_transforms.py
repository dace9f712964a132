"""The discrete Fourier transform over the scalar field of BLS12-381 and over points of its curve."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from fastnode.protocol.fields import FIELD_BYTES

if TYPE_CHECKING:
    from py_arkworks_bls12381 import G1Point, Scalar

__all__ = ["BLS_ORDER", "bits_reversed", "roots_in_order", "scalar_of", "transform"]

BLS_ORDER: Final = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
_GENERATOR: Final = 7  # of the field's multiplicative group

T = TypeVar("T")
Term = TypeVar("Term", "Scalar", "G1Point")


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


def transform(values: Sequence[Term], *, inverse: bool = False) -> list[Term]:
    """The discrete Fourier transform of scalars or of points of the curve; the length is a power of two."""
    size = len(values)
    out, roots = bits_reversed(values), _scalar_roots(size)
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
    share = scalar_of(pow(size, -1, BLS_ORDER))
    return [value * share for value in out]


def scalar_of(value: int) -> Scalar:
    """Of a number from 0 to below ``BLS_ORDER``."""
    from py_arkworks_bls12381 import Scalar

    return Scalar.from_be_bytes(value.to_bytes(FIELD_BYTES, "big"))


@functools.cache
def _scalar_roots(size: int) -> tuple[Scalar, ...]:
    return tuple(scalar_of(root) for root in _roots(size))
