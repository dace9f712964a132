"""Nodes of an indexed tree after an older block, from a snapshot of the database.

Which levels have history is drawn in ``fastnode/world_state/layout.py``; the readable form of this module is
``fastnode/_twins/older_nodes.py``.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from fastnode._ext.trees.indexed_tree import IndexedNodes

class OlderNodes:
    """Reader of the older nodes of one tree, whose newest ones are in ``nodes``; the prefixes are those of its keys."""

    def __init__(self, nodes: IndexedNodes, node_prefix: bytes, history_prefix: bytes, tile_prefix: bytes) -> None: ...
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
        """The stored nodes (hash 32 | changed u32) after ``block``, when the tree had ``size`` leaves, of ``wanted``:
        joined (level u8 | index u48).

        ``thin``: at that block only some levels have history, and the others follow from them.  ``get`` and the
        iterators are of one snapshot of the database; the iterators are those that nobody uses now.  LookupError for
        history that is not there, ValueError for what the tree cannot have.
        """
