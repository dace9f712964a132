"""Versioned nodes of an indexed Merkle tree.

Stored nodes and the history are drawn in the readable form of this module,
``fastnode/_twins/indexed_tree.py``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

NODE_BYTES: int
HISTORY_ENTRY_BYTES: int

def depth(size: int) -> int:
    """Levels of the smallest subtree at the left that holds ``size`` leaves."""

def is_kept(level: int) -> bool:
    """True for the levels whose history is kept for good: see ``world_state/layout.py``."""

class NodeUpdate:
    """Changes of a block; nothing of it is visible until :meth:`IndexedNodes.publish`."""

    @property
    def block(self) -> int: ...
    @property
    def root(self) -> bytes: ...
    @property
    def tiles(self) -> list[tuple[int, bytes]]:
        """(tile index, tile) of every tile with changed leaves."""

    @property
    def nodes(self) -> list[tuple[bytes, bytes]]:
        """(level u8 || index u48, stored node) at TILE_LEVELS and above."""

    @property
    def history(self) -> list[tuple[bytes, bytes]]:
        """(level || index, stored node it replaces) of the nodes that existed before the block, on all levels."""

    @property
    def thin_history(self) -> list[tuple[bytes, bytes]]:
        """The same of the levels whose history is kept for good."""

class IndexedNodes:
    """The newest nodes of one tree at ``first_level`` and above, and the newest superseded nodes of all levels.

    ``zeros`` holds the zero nodes of levels 0 to ``height``, 32 bytes each; ``history_bytes`` bounds the
    superseded ones, of which the oldest go first; ``separator``, if any, is hashed before the children of each node.
    ValueError: ``zeros`` or ``separator`` of another length, ``first_level`` below TILE_LEVELS.
    """

    def __init__(
        self, height: int, zeros: bytes, *, history_bytes: int, first_level: int = 5, separator: bytes = b""
    ) -> None: ...
    @property
    def height(self) -> int: ...
    @property
    def first_level(self) -> int: ...
    def update(
        self,
        block: int,
        size_before: int,
        size: int,
        indexes: Sequence[int],
        hashes: bytes,
        tiles: Mapping[int, bytes],
        fetch: Callable[[bytes], bytes],
        *,
        history: bool = True,
    ) -> NodeUpdate:
        """Set the leaves ``indexes`` (ascending) to ``hashes`` (32 bytes each) in block ``block``.

        Each changed node is hashed once, level by level, without the GIL.  ``tiles`` has the tile of every
        index (empty bytes: none yet); ``fetch(level || index)`` returns the stored node of a level that is
        not in memory, or empty bytes.  When depth(size) exceeds depth(size_before), leaf 0 must be among the
        indexes, so that the old top becomes a stored node.  Without ``history`` nothing of what is replaced is
        kept.  ValueError: anything that does not fit.
        """

    def publish(self, update: NodeUpdate) -> None:
        """Make ``update`` part of the memory; updates are published in the order of their blocks."""

    def push_history(self, key: bytes, stored: bytes, block: int) -> None:
        """Remember that ``block`` replaced ``stored``; blocks come in ascending order."""

    def pop_history(self, block: int) -> None:
        """Forget the values superseded by ``block``, which must be the newest."""

    def history_length(self) -> int:
        """Superseded nodes in memory."""

    def load(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Set newest nodes: (level || index, stored node); empty bytes remove the node.

        ValueError for a node that a tree of this height does not have.
        """

    def load_next_level(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Take one more level, the one below ``first_level``, into the memory.

        ``entries`` are the stored nodes of that level; none of them counts before all are there.  No update is
        published meanwhile.  ValueError: the level is in tiles, or an entry is no node of it.
        """

    def raise_first_level(self, level: int) -> None:
        """Keep only ``level`` and above in memory from now on."""

    def memory_bytes(self) -> int: ...
    def path(
        self, index: int, block: int, size: int, tile: bytes, missing: list[int], *, use_memory: bool = True
    ) -> bytes:
        """Sibling path of leaf ``index`` after ``block``, when the tree had ``size`` leaves; lowest first.

        ``tile`` is the newest tile that holds the leaf, or an older one that is not older than ``block``.
        Levels whose value at ``block`` is not in memory are appended to ``missing`` and left zero bytes for
        the caller to fill in.  ValueError: no such leaf, or a tile that does not match its bitmap.
        """
