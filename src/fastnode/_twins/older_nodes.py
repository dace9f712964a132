"""Pure-Python twin of ``fastnode._ext.trees.older_nodes``: nodes of an indexed tree after an older block.

Where history is thin, a node between two kept levels is hashed from those of the kept level below it: two of them, or
four.  It is as old as the newest of these.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastnode._twins import poseidon2
from fastnode._twins.indexed_tree import HASH_BYTES, NODE_BYTES, kept_level
from fastnode._twins.tree_nodes import TILE_LEVELS, node_key, tile_position, unpack_tile

if TYPE_CHECKING:
    from fastnode._twins.indexed_tree import IndexedNodes

_KEY_BYTES = 7
_NO_BLOCK = bytes(4)


class OlderNodes:
    """The stub ``fastnode/_ext/trees/older_nodes.pyi`` says what everything does."""

    def __init__(self, nodes: IndexedNodes, node_prefix: bytes, history_prefix: bytes, tile_prefix: bytes) -> None:
        self._nodes = nodes
        self._node_prefix, self._history_prefix, self._tile_prefix = node_prefix, history_prefix, tile_prefix

    def read(
        self,
        wanted: bytes,
        block: int,
        size: int,
        thin: bool,
        get: Callable[[bytes], bytes | None],
        iterators: deque[Any],
        make_iterator: Callable[[], Any],
    ) -> bytes:
        if len(wanted) % _KEY_BYTES:
            raise ValueError(f"keys of nodes in {len(wanted)} bytes")
        if size > 1 << self._nodes.height:
            raise ValueError(f"no tree of {size} leaves")
        iterator = iterators.pop() if iterators else make_iterator()
        try:
            found = []
            for at in range(0, len(wanted), _KEY_BYTES):
                level, index = wanted[at], int.from_bytes(wanted[at + 1 : at + _KEY_BYTES], "big")
                if level >= self._nodes.height or index >> (self._nodes.height - level):
                    raise ValueError(f"the tree has no node {index} below the top of level {level}")
                found.append(self._node(level, index, block, size, thin, get, iterator.first))
            return b"".join(found)
        finally:
            iterators.append(iterator)

    def _node(self, level: int, index: int, block: int, size: int, thin: bool, get: Any, first: Any) -> bytes:
        if index << level >= size:
            return self._zero(level)
        newest = self._newest(level, index, get)
        if _changed(newest) <= block:
            return newest
        if thin and kept_level(level) != level:
            left, right = (
                self._node(level - 1, child, block, size, thin, get, first) for child in (2 * index, 2 * index + 1)
            )
            pair = left[:HASH_BYTES] + right[:HASH_BYTES]
            return poseidon2.hash_fields(self._nodes.separator + pair) + max(left[HASH_BYTES:], right[HASH_BYTES:])
        prefix = self._history_prefix + node_key(level, index)
        entry = first(prefix + (block + 1).to_bytes(4, "big"))
        if entry is not None and entry[0].startswith(prefix) and len(entry[0]) == len(prefix) + len(_NO_BLOCK):
            stored: bytes = entry[1]
            if len(stored) != NODE_BYTES:
                raise ValueError("a stored node of another length")
            if _changed(stored) <= block:
                return stored
        raise LookupError(f"node ({level}, {index}) has no history at block {block}")

    def _newest(self, level: int, index: int, get: Any) -> bytes:
        if level < TILE_LEVELS:
            tile = get(self._tile_prefix + (index >> (TILE_LEVELS - level)).to_bytes(6, "big")) or b""
            return unpack_tile(tile, NODE_BYTES).get(tile_position(level, index)) or self._zero(level)
        stored: bytes | None = get(self._node_prefix + node_key(level, index))
        if stored is not None and len(stored) != NODE_BYTES:
            raise ValueError("a stored node of another length")
        return self._zero(level) if stored is None else stored

    def _zero(self, level: int) -> bytes:
        return self._nodes.zeros[level] + _NO_BLOCK


def _changed(stored: bytes) -> int:
    return int.from_bytes(stored[HASH_BYTES:], "big")
