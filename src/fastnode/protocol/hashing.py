"""The two hash functions of the protocol, in the forms its rules use.

Poseidon2 hashes fields (blocks, trees, addresses); SHA-256 truncated to a field hashes what L1 must
be able to recompute (messages, checkpoint headers).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from fastnode.kernels import poseidon2
from fastnode.protocol.fields import ZERO_FIELD, field_from_int

#: The highest SHA tree of the protocol: the 1,024 messages of a checkpoint.
SHA_TREE_HEIGHT_MAX: Final = 10


def poseidon2_hash_with_separator(separator: int, fields: Sequence[bytes]) -> bytes:
    """Poseidon2 with the domain separator as the first field; the length counts it.

    32 bytes; ValueError for a field not below the modulus.
    """
    return poseidon2.hash_fields(field_from_int(separator) + b"".join(fields))


def poseidon2_unbalanced_root(leaves: Sequence[bytes], separator: bytes = b"") -> bytes:
    """Root over n >= 1 leaves: the left subtree takes the largest power of two below n.

    A single leaf is its own root; ``separator``, if any, is hashed before each two children.  ValueError for no leaves.
    """
    return poseidon2_unbalanced_levels(leaves, separator)[-1]


def poseidon2_unbalanced_levels(leaves: Sequence[bytes], separator: bytes = b"") -> list[bytes]:
    """Levels of that tree, the nodes of each joined: the leaves first, the root last.

    A node without a neighbour is in the next level too.  ValueError for no leaves.
    """
    if not leaves:
        raise ValueError("an unbalanced tree needs at least one leaf")
    # Pairing neighbours level by level and carrying an odd last node up gives exactly that shape,
    # and lets the kernel hash a whole level in one call.
    levels = [b"".join(leaves)]
    while len(level := levels[-1]) > 32:
        paired = len(level) // 64 * 64
        levels.append(poseidon2.hash_nodes(level[:paired], separator) + level[paired:])
    return levels


def sha256_to_field(data: bytes) -> bytes:
    """SHA-256 made to fit a field: the last byte of the digest is dropped, a zero byte put in front."""
    return b"\0" + sha256(data).digest()[:31]


def _sha_zero_nodes(height: int) -> tuple[bytes, ...]:
    nodes = [ZERO_FIELD]
    for _ in range(height):
        nodes.append(sha256_to_field(nodes[-1] * 2))
    return tuple(nodes)


#: Roots of the empty SHA trees of heights 0, 1, 2, ...
SHA_ZERO_NODES: Final = _sha_zero_nodes(SHA_TREE_HEIGHT_MAX)


def sha256_padded_levels(leaves: Sequence[bytes], height: int) -> list[list[bytes]]:
    """The levels of a balanced SHA tree, leaves first, each cut off behind its last stored node.

    The tree has ``2 ** height`` leaves, the missing ones zero; a node behind a level's end is
    ``SHA_ZERO_NODES[level]``.  ValueError for more leaves than fit.
    """
    if len(leaves) > 1 << height:
        raise ValueError(f"{len(leaves)} leaves do not fit a tree of height {height}")
    levels = [list(leaves)]
    for depth in range(height):
        nodes = levels[-1]
        if len(nodes) % 2:
            nodes = [*nodes, SHA_ZERO_NODES[depth]]
        levels.append([sha256_to_field(nodes[i] + nodes[i + 1]) for i in range(0, len(nodes), 2)])
    return levels


def sha256_padded_root(leaves: Sequence[bytes], height: int) -> bytes:
    """Root of a balanced SHA tree of ``2 ** height`` leaves, the missing ones zero."""
    top = sha256_padded_levels(leaves, height)[-1]
    return top[0] if top else SHA_ZERO_NODES[height]
