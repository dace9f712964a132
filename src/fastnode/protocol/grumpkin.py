"""The Grumpkin curve, y^2 = x^3 - 17 over the scalar field of BN254, on Python integers.

Only public values pass through here (contract addresses), so nothing is constant-time.  Doubling and
adding run in Jacobian coordinates (x = X / Z^2, y = Y / Z^3), which leaves one inversion at the end.
"""

from __future__ import annotations

from typing import Final

from fastnode.protocol.fields import MODULUS as P

B: Final = P - 17
#: Order of the group: the base field modulus of BN254.
GROUP_ORDER: Final = 0x30644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD47
#: The generator.
GENERATOR: Final = (1, 17631683881184975370165255887551781615748388533673675138860)

#: An affine point, or None for the point at infinity.
Point = tuple[int, int] | None
_Jacobian = tuple[int, int, int]
_INFINITY: Final[_Jacobian] = (1, 1, 0)


def is_on_curve(point: tuple[int, int]) -> bool:
    x, y = point
    return (y * y - x * x * x - B) % P == 0


def add(left: Point, right: Point) -> Point:
    """Sum of two affine points."""
    if right is None:
        return left
    return _affine(_add_affine(_jacobian(left), right))


def multiply(scalar: int, point: tuple[int, int]) -> Point:
    """``scalar`` times an affine point; ``scalar`` >= 0."""
    return _affine(_multiply(scalar, point))


def multiply_and_add(scalar: int, point: tuple[int, int], addend: tuple[int, int]) -> Point:
    """``scalar * point + addend`` with a single inversion."""
    return _affine(_add_affine(_multiply(scalar, point), addend))


def _jacobian(point: Point) -> _Jacobian:
    return _INFINITY if point is None else (*point, 1)


def _affine(point: _Jacobian) -> Point:
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
