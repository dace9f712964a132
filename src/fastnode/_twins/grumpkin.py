"""Multiples of points of the Grumpkin curve, on Python integers.

Doubling and adding run in Jacobian coordinates (x = X / Z^2, y = Y / Z^3), which leaves one inversion at the end.
The stub ``fastnode/_ext/avm/grumpkin.pyi`` says what everything does.
"""

from __future__ import annotations

from typing import Final

__all__ = ["multiply_and_add"]

#: The modulus of the coordinates.
P: Final = 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001
COORDINATE_BYTES: Final = 32
SCALAR_BYTES: Final = 32
POINT_BYTES: Final = 2 * COORDINATE_BYTES

#: An affine point, or None for the point at infinity.
_Point = tuple[int, int] | None
_Jacobian = tuple[int, int, int]
_INFINITY: Final[_Jacobian] = (1, 1, 0)


def multiply_and_add(scalar: bytes, point: bytes, addend: bytes) -> bytes | None:
    if len(scalar) != SCALAR_BYTES:
        raise ValueError(f"a scalar has {SCALAR_BYTES} bytes, not {len(scalar)}")
    if len(point) != POINT_BYTES or len(addend) != POINT_BYTES:
        raise ValueError(f"a point has {POINT_BYTES} bytes, not {len(point)} and {len(addend)}")
    product = _multiply(int.from_bytes(scalar, "big"), _read(point))
    total = _affine(_add_affine(product, _read(addend)))
    if total is None:
        return None
    return b"".join(coordinate.to_bytes(COORDINATE_BYTES, "big") for coordinate in total)


def _read(point: bytes) -> tuple[int, int]:
    return int.from_bytes(point[:COORDINATE_BYTES], "big"), int.from_bytes(point[COORDINATE_BYTES:], "big")


def _affine(point: _Jacobian) -> _Point:
    x, y, z = point
    if not z:
        return None
    inverse = pow(z, -1, P)
    square = inverse * inverse % P
    return x * square % P, y * square * inverse % P


def _multiply(scalar: int, point: tuple[int, int]) -> _Jacobian:
    result = _INFINITY
    for bit in f"{scalar:b}":
        result = _double(result)
        if bit == "1":
            result = _add_affine(result, point)
    return result


def _double(point: _Jacobian) -> _Jacobian:
    x, y, z = point
    if not z:
        return point
    y_square = y * y % P
    s = 4 * x * y_square % P
    m = 3 * x * x % P  # the curve has a = 0
    x_new = (m * m - 2 * s) % P
    return x_new, (m * (s - x_new) - 8 * y_square * y_square) % P, 2 * y * z % P


def _add_affine(left: _Jacobian, right: tuple[int, int]) -> _Jacobian:
    """Mixed addition: the right operand has Z = 1."""
    x1, y1, z1 = left
    x2, y2 = right
    if not z1:
        return x2, y2, 1
    z_square = z1 * z1 % P
    h = (x2 * z_square - x1) % P
    r = (y2 * z_square * z1 - y1) % P
    if not h:
        return _double(left) if not r else _INFINITY
    h_square = h * h % P
    h_cube = h_square * h % P
    v = x1 * h_square % P
    x3 = (r * r - h_cube - 2 * v) % P
    return x3, (r * (v - x3) - y1 * h_cube) % P, z1 * h % P
