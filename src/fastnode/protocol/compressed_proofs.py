"""Compressed proofs of transactions: 32 bytes for each value, where the fields of a proof take 32 to 128.

The record of a release says which kinds of values follow each other:

    s   a scalar of BN254                      32 bytes <- 1 field
    p   a point of BN254                       32 bytes <- 4 fields: x and y in two limbs each
    t   a scalar of Grumpkin                   32 bytes <- 2 fields: its limbs
    q   a point of Grumpkin                    32 bytes <- 2 fields: x and y

The low limb has 136 bits.  Of a point there is x, and in the highest bit whether y is the larger of the two roots;
zeros are the point at infinity.  The public inputs of the transaction may stand in front, as scalars.
"""

from __future__ import annotations

from typing import Final

from fastnode.errors import DecodeError
from fastnode.protocol.fields import FIELD_BYTES, MODULUS
from fastnode.protocol.releases import Release

__all__ = ["compressed_bytes", "decompressed"]

#: The base field of BN254, which is the scalar field of Grumpkin.
_BASE: Final = 0x30644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD47
_LARGER_ROOT: Final = 1 << 255
_LIMB_BITS: Final = 136
_LIMB_MASK: Final = (1 << _LIMB_BITS) - 1
#: MODULUS - 1 = odd * 2^28, and a root of unity of that order: 5 is no square.
_TWOS: Final = 28
_ODD: Final = (MODULUS - 1) >> _TWOS
_UNITY: Final = pow(5, _ODD, MODULUS)


def compressed_bytes(release: Release) -> int:
    """Length of a compressed proof of the release, without the transaction's public inputs."""
    return FIELD_BYTES * sum(count for count, _ in release.compressed_proof)


def decompressed(content: bytes, release: Release) -> bytes:
    """The joined fields of a proof, its public inputs left out.  Takes some 30 ms.  DecodeError for what is none."""
    given = len(content) - compressed_bytes(release)
    if given < 0 or given % FIELD_BYTES:
        raise DecodeError(f"a compressed proof of {len(content)} bytes, expected {compressed_bytes(release)}")
    fields: list[bytes] = []
    place = given
    for count, kind in release.compressed_proof:
        read = _READERS[kind]
        for _ in range(count):
            for value in read(int.from_bytes(content[place : place + FIELD_BYTES], "big")):
                fields.append(value.to_bytes(FIELD_BYTES, "big"))
            place += FIELD_BYTES
    return b"".join(fields)


def _below(value: int, modulus: int, what: str) -> int:
    if value >= modulus:
        raise DecodeError(f"a compressed proof with a {what} that is out of range")
    return value


def _scalar(value: int) -> tuple[int, ...]:
    return (_below(value, MODULUS, "scalar of BN254"),)


def _long_scalar(value: int) -> tuple[int, ...]:
    return _limbs(_below(value, _BASE, "scalar of Grumpkin"))


def _limbs(value: int) -> tuple[int, int]:
    return value & _LIMB_MASK, value >> _LIMB_BITS


def _point(value: int) -> tuple[int, ...]:
    if not value:
        return (0, 0, 0, 0)
    x = _below(value & ~_LARGER_ROOT, _BASE, "point of BN254")
    square = (x * x * x + 3) % _BASE
    y = _chosen(pow(square, (_BASE + 1) // 4, _BASE), square, value, _BASE, "BN254")
    return *_limbs(x), *_limbs(y)


def _long_point(value: int) -> tuple[int, ...]:
    if not value:
        return (0, 0)
    x = _below(value & ~_LARGER_ROOT, MODULUS, "point of Grumpkin")
    square = (x * x * x - 17) % MODULUS
    return x, _chosen(_root(square), square, value, MODULUS, "Grumpkin")


def _chosen(root: int, square: int, value: int, modulus: int, curve: str) -> int:
    """The root that the highest bit of ``value`` means."""
    if root * root % modulus != square:
        raise DecodeError(f"a compressed proof with a point that is not on the curve {curve}")
    is_larger = root > (modulus - 1) // 2
    return (modulus - root) % modulus if is_larger != bool(value & _LARGER_ROOT) else root


def _root(square: int) -> int:
    """A square root below MODULUS, by Tonelli and Shanks; any number where there is none."""
    power = pow(square, (_ODD - 1) // 2, MODULUS)
    root = square * power % MODULUS
    rest, unity, twos = root * power % MODULUS, _UNITY, _TWOS
    while rest not in (0, 1):
        order, grown = 0, rest
        while grown != 1 and order < twos:
            grown = grown * grown % MODULUS
            order += 1
        if order >= twos:
            return 0 if square else root
        for _ in range(twos - order - 1):
            unity = unity * unity % MODULUS
        root = root * unity % MODULUS
        unity = unity * unity % MODULUS
        rest, twos = rest * unity % MODULUS, order
    return root


_READERS: Final = {"s": _scalar, "p": _point, "t": _long_scalar, "q": _long_point}
