"""Witnesses as JSON, straight from leaf records and sibling paths.

The readable form of everything here is ``fastnode/_twins/witness_text.py``; records are drawn in world_state/layout.py.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from fastnode._ext.trees.indexed_tree import IndexedNodes

def low_entry(
    iterators: deque[Any], make_iterator: Callable[[], Any], prefix: bytes, key: bytes
) -> tuple[bytes, bytes] | None:
    """Key and record of the stored leaf with the greatest key <= ``key``; None if there is none behind ``prefix``.

    One of ``iterators`` over the database is used, or a new one, and kept there; each is used by one thread at a time.
    """

def unchanged(
    nodes: IndexedNodes,
    key: bytes,
    record: bytes,
    block: int,
    size: int,
    tile_prefix: bytes,
    get: Callable[[bytes], bytes | None],
) -> bytes | None:
    """NullifierMembershipWitness, or PublicDataWitness if the record has a value, of a leaf after ``block``.

    ``size`` is that of the tree after ``block``; ``get`` reads the tile of the leaf.  None if the leaf was inserted or
    has changed after the block, or if a node of the path is not in memory.  ValueError for lengths that do not fit.
    """

def message(index: int, path: bytes) -> bytes:
    """``["index","path"]`` of an L1 to L2 message.  ValueError as in :func:`membership`."""

def membership(index: int, path: bytes) -> bytes:
    """MembershipWitness: one JSON string.  ValueError for a path that is no whole number of nodes, or of too many."""
