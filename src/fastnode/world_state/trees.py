"""The five trees: numbers, names, heights, and how their nodes are hashed."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from fastnode.kernels import poseidon2
from fastnode.protocol.releases import Separators
from fastnode.records import dataclass

__all__ = [
    "ARCHIVE",
    "L1_TO_L2",
    "NODES_AT_OPEN",
    "NOTE_HASH",
    "NULLIFIER",
    "PUBLIC_DATA",
    "TREES",
    "Tree",
    "Trees",
    "zero_nodes",
]

#: At most this many nodes of one level of a tree are loaded before the first request is answered.
NODES_AT_OPEN: Final = 512


@dataclass(frozen=True, slots=True)
class Tree:
    """``id`` is the number clients and the network use; ``prefix`` the byte inside database keys.

    ``separator``: the field that is hashed before the children of a node; empty: none is.
    """

    id: int
    name: str
    height: int
    separator: bytes = b""

    @property
    def prefix(self) -> bytes:
        return bytes([self.id])


NULLIFIER = Tree(0, "nullifier tree", 42)
NOTE_HASH = Tree(1, "note hash tree", 42)
PUBLIC_DATA = Tree(2, "public data tree", 40)
L1_TO_L2 = Tree(3, "L1 to L2 message tree", 36)
ARCHIVE = Tree(4, "archive tree", 30)

#: In the order of their ids.
TREES = (NULLIFIER, NOTE_HASH, PUBLIC_DATA, L1_TO_L2, ARCHIVE)

_TALLEST = max(tree.height for tree in TREES)


class Trees(NamedTuple):
    """The trees of a release, by their ids."""

    nullifiers: Tree
    note_hashes: Tree
    public_data: Tree
    messages: Tree
    archive: Tree

    @classmethod
    def of(cls, separators: Separators) -> Trees:
        return cls(
            nullifiers=replace(NULLIFIER, separator=separators.nullifier_node),
            note_hashes=replace(NOTE_HASH, separator=separators.node),
            public_data=replace(PUBLIC_DATA, separator=separators.public_data_node),
            messages=replace(L1_TO_L2, separator=separators.node),
            archive=replace(ARCHIVE, separator=separators.node),
        )


@lru_cache(maxsize=8)
def _all_zero_nodes(separator: bytes) -> bytes:
    nodes = [bytes(32)]
    for _ in range(_TALLEST):
        nodes.append(poseidon2.hash_fields(separator + 2 * nodes[-1]))
    return b"".join(nodes)


def zero_nodes(tree: Tree) -> bytes:
    """Zero nodes of levels 0 to the tree's height, 32 bytes each: z_0 = 0, z_(k+1) = hash(z_k, z_k)."""
    return _all_zero_nodes(tree.separator)[: 32 * (tree.height + 1)]
