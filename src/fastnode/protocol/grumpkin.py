"""The Grumpkin curve, y^2 = x^3 - 17 over the scalar field of BN254: points that addresses are made of."""

from __future__ import annotations

from typing import Final

from fastnode.kernels import grumpkin as kernel
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.fields import MODULUS as P

__all__ = ["GENERATOR", "GROUP_ORDER", "is_on_curve", "multiply_and_add"]

B: Final = P - 17
#: Order of the group: the base field modulus of BN254.
GROUP_ORDER: Final = 0x30644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD47
#: The generator.
GENERATOR: Final = (1, 17631683881184975370165255887551781615748388533673675138860)


def is_on_curve(point: tuple[int, int]) -> bool:
    x, y = point
    return (y * y - x * x * x - B) % P == 0


def multiply_and_add(scalar: int, point: tuple[int, int], addend: tuple[int, int]) -> tuple[int, int] | None:
    """``scalar * point + addend`` of affine points, with 0 <= ``scalar`` < 2^256; None: the point at infinity."""
    total = kernel.multiply_and_add(scalar.to_bytes(FIELD_BYTES, "big"), _joined(point), _joined(addend))
    if total is None:
        return None
    return int.from_bytes(total[:FIELD_BYTES], "big"), int.from_bytes(total[FIELD_BYTES:], "big")


def _joined(point: tuple[int, int]) -> bytes:
    x, y = point
    return x.to_bytes(FIELD_BYTES, "big") + y.to_bytes(FIELD_BYTES, "big")
