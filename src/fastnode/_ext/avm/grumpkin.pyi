"""Multiples of points of the Grumpkin curve, y^2 = x^3 - 17 over the scalar field of BN254, without the interpreter.

The readable form is ``fastnode/_twins/grumpkin.py``.  Only public values pass through here (contract addresses), so
nothing is constant-time.
"""

def multiply_and_add(scalar: bytes, point: bytes, addend: bytes) -> bytes | None:
    """``scalar * point + addend``; None for the point at infinity.

    The scalar is any number of 256 bits, big-endian (32 bytes).  Points are x and y (64 bytes), each below the field
    modulus, and on the curve: neither is looked at.  ValueError for other lengths.
    """
