"""Merkle trees as textbooks have them, for what the kernels and views say.  They hash with the fast kernel."""

from __future__ import annotations

from collections.abc import Sequence

from fastnode.kernels import poseidon2


def poseidon2_of(fields: Sequence[bytes]) -> bytes:
    """Poseidon2 without a separator."""
    return poseidon2.hash_fields(b"".join(fields))


def zero_nodes(height: int) -> list[bytes]:
    """Node of each level, from the leaves to the root, of a tree without leaves."""
    nodes = [bytes(32)]
    for _ in range(height):
        nodes.append(poseidon2.hash_pair(nodes[-1], nodes[-1]))
    return nodes


def root_of(leaves: Sequence[bytes], height: int) -> bytes:
    row = list(leaves)
    for zero in zero_nodes(height)[:-1]:
        row += [zero] * (len(row) % 2 or 2 * (not row))
        row = [poseidon2.hash_pair(row[i], row[i + 1]) for i in range(0, len(row), 2)]
    return row[0]


def root_from(leaf: bytes, index: int, path: bytes) -> bytes:
    """The root that a leaf has with a sibling path."""
    for start in range(0, len(path), 32):
        sibling = path[start : start + 32]
        leaf = poseidon2.hash_pair(sibling, leaf) if index & 1 else poseidon2.hash_pair(leaf, sibling)
        index >>= 1
    return leaf
