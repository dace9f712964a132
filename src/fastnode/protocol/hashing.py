"""The two hash functions of the protocol, in the forms its rules use.

Poseidon2 hashes fields (blocks, trees, addresses); SHA-256 truncated to a field hashes what L1 must
be able to recompute (messages, checkpoint headers).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from fastnode.kernels import poseidon2
from fastnode.protocol.fields import field_from_int


def poseidon2_hash(fields: Sequence[bytes]) -> bytes:
    """Poseidon2 of n fields (n >= 0), 32 bytes; ValueError for a field not below the modulus."""
    return poseidon2.hash_fields(b"".join(fields))


def poseidon2_hash_with_separator(separator: int, fields: Sequence[bytes]) -> bytes:
    """Poseidon2 with the domain separator as the first field; the length counts it."""
    return poseidon2.hash_fields(field_from_int(separator) + b"".join(fields))


def poseidon2_unbalanced_root(leaves: Sequence[bytes]) -> bytes:
    """Root over n >= 1 leaves: the left subtree takes the largest power of two below n.

    A single leaf is its own root.  ValueError for no leaves.
    """
    if not leaves:
        raise ValueError("an unbalanced tree needs at least one leaf")
    # Pairing neighbours level by level and carrying an odd last node up gives exactly that shape,
    # and lets the kernel hash a whole level in one call.
    level = b"".join(leaves)
    while len(level) > 32:
        paired = len(level) // 64 * 64
        level = poseidon2.hash_pairs(level[:paired]) + level[paired:]
    return level


def sha256_to_field(data: bytes) -> bytes:
    """SHA-256 made to fit a field: the last byte of the digest is dropped, a zero byte put in front."""
    return b"\0" + sha256(data).digest()[:31]
