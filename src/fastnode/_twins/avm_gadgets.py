"""The public virtual machine's functions over many cells: hashing, curve addition, digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastnode._twins.avm_instructions import MODULUS as P

# ---- SHA-256 ------------------------------------------------------------------------------------------

SHA_STATE: Final = 8
SHA_BLOCK: Final = 16
_SHA_ROUNDS: Final = 64
_MASK_32: Final = (1 << 32) - 1


def _first_primes(count: int) -> list[int]:
    primes: list[int] = []
    candidate = 2
    while len(primes) < count:
        if all(candidate % prime for prime in primes):
            primes.append(candidate)
        candidate += 1
    return primes


def _cube_root(value: int) -> int:
    """The integer part, by Newton's method from above."""
    root = 1 << -(-value.bit_length() // 3)
    while True:
        smaller = (2 * root + value // root**2) // 3
        if smaller >= root:
            return root
        root = smaller


#: The first 32 bits of the fractional parts of the cube roots of the first primes.
_SHA_CONSTANTS: Final = [_cube_root(prime << 96) & _MASK_32 for prime in _first_primes(_SHA_ROUNDS)]


def _rotate_right_32(value: int, count: int) -> int:
    return (value >> count | value << 32 - count) & _MASK_32


def sha256_compression(state: Sequence[int], block: Sequence[int]) -> list[int]:
    """The compression function of FIPS 180-4 on words, with the addition of ``state`` at its end."""
    words = list(block)
    for i in range(SHA_BLOCK, _SHA_ROUNDS):
        early, late = words[i - 15], words[i - 2]
        small_0 = _rotate_right_32(early, 7) ^ _rotate_right_32(early, 18) ^ early >> 3
        small_1 = _rotate_right_32(late, 17) ^ _rotate_right_32(late, 19) ^ late >> 10
        words.append(words[i - 16] + small_0 + words[i - 7] + small_1 & _MASK_32)
    a, b, c, d, e, f, g, h = state
    for word, constant in zip(words, _SHA_CONSTANTS, strict=True):
        big_1 = _rotate_right_32(e, 6) ^ _rotate_right_32(e, 11) ^ _rotate_right_32(e, 25)
        chosen = e & f ^ ~e & g
        first = h + big_1 + chosen + constant + word
        big_0 = _rotate_right_32(a, 2) ^ _rotate_right_32(a, 13) ^ _rotate_right_32(a, 22)
        second = big_0 + (a & b ^ a & c ^ b & c)
        a, b, c, d, e, f, g, h = first + second & _MASK_32, a, b, c, d + first & _MASK_32, e, f, g
    return [old + new & _MASK_32 for old, new in zip(state, (a, b, c, d, e, f, g, h), strict=True)]


# ---- Keccak -------------------------------------------------------------------------------------------

KECCAK_LANES: Final = 25
_KECCAK_ROUNDS: Final = 24
_MASK_64: Final = (1 << 64) - 1


def _round_constants() -> list[int]:
    """Bits 2^j - 1 of each constant come from a shift register of 8 bits."""
    register, constants = 1, []
    for _ in range(_KECCAK_ROUNDS):
        constant = 0
        for j in range(7):
            constant |= (register & 1) << (1 << j) - 1
            register <<= 1
            if register >> 8:
                register ^= 0x171
        constants.append(constant)
    return constants


def _lane_walk() -> list[tuple[int, int, int]]:
    """(from lane, to lane, rotation) of the steps rho and pi; lane (x, y) is number x + 5y."""
    rotations = {(0, 0): 0}
    x, y = 1, 0
    for t in range(_KECCAK_ROUNDS):
        rotations[x, y] = (t + 1) * (t + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    return [(x + 5 * y, y + 5 * ((2 * x + 3 * y) % 5), rotation) for (x, y), rotation in rotations.items()]


_KECCAK_CONSTANTS: Final = _round_constants()
_KECCAK_WALK: Final = _lane_walk()


def _rotate_left_64(value: int, count: int) -> int:
    return (value << count | value >> 64 - count) & _MASK_64


def keccak_f1600(lanes: Sequence[int]) -> list[int]:
    """The permutation of FIPS 202; lane (x, y) is number x + 5y."""
    state = list(lanes)
    for constant in _KECCAK_CONSTANTS:
        parity = [state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20] for x in range(5)]
        spread = [parity[(x + 4) % 5] ^ _rotate_left_64(parity[(x + 1) % 5], 1) for x in range(5)]
        moved = [0] * KECCAK_LANES
        for source, target, rotation in _KECCAK_WALK:
            moved[target] = _rotate_left_64(state[source] ^ spread[source % 5], rotation)
        for row in range(0, KECCAK_LANES, 5):
            for x in range(5):
                state[row + x] = moved[row + x] ^ ~moved[row + (x + 1) % 5] & moved[row + (x + 2) % 5]
        state[0] ^= constant
    return state


# ---- curve --------------------------------------------------------------------------------------------

#: x, y, is infinity.  The coordinates of the point at infinity count for nothing.
CurvePoint = tuple[int, int, int]
INFINITY: Final[CurvePoint] = (0, 0, 1)


def is_on_curve(point: CurvePoint) -> bool:
    """Grumpkin: y^2 = x^3 - 17."""
    x, y, is_infinity = point
    return bool(is_infinity) or (y * y - x * x * x + 17) % P == 0


def add_points(left: CurvePoint, right: CurvePoint) -> CurvePoint:
    """The sum of two points of the curve."""
    if left[2]:
        return INFINITY if right[2] else right
    if right[2]:
        return left
    (x1, y1, _), (x2, y2, _) = left, right
    if x1 != x2:
        slope = (y2 - y1) * pow(x2 - x1, -1, P)
    elif y1 == y2:  # no point has y = 0
        slope = 3 * x1 * x1 * pow(2 * y1, -1, P)
    else:
        return INFINITY
    x = (slope * slope - x1 - x2) % P
    return x, (slope * (x1 - x) - y1) % P, 0


# ---- digits -------------------------------------------------------------------------------------------


def _digit_count(radix: int) -> int:
    count, rest = 0, P - 1
    while rest:
        rest //= radix
        count += 1
    return count


#: Digits of the largest field element, by radix from 0 to 256.
DIGIT_COUNTS: Final = [0, 0, *(_digit_count(radix) for radix in range(2, 257))]


def digits(value: int, radix: int, count: int) -> list[int] | None:
    """``count`` digits, most significant first; None when the value has more."""
    result = []
    for _ in range(count):
        value, digit = divmod(value, radix)
        result.append(digit)
    return None if value else result[::-1]
