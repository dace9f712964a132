"""Pure-Python twin of ``fastnode._ext.trees.indexed_tree``: versioned nodes of an indexed Merkle tree.

Nodes change, so each carries the block that last changed it; the value it had before is kept as
*history*.  In memory are the latest nodes at ``first_level`` and above, and the most recent superseded
values of all levels, in one ring of bounded size whose oldest entries fall out first.

A stored node is ``value 32 | changed u32 BE``.  A tile holds the stored nodes of 32 neighbouring
leaves (levels 0 to 4) that are not empty, laid out as in ``tree_nodes`` with 36 bytes per node.

Only levels below ``depth(size)`` are kept: above, the tree is its left spine and zero nodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from fastnode._twins import poseidon2
from fastnode._twins.tree_nodes import TILE_LEVELS, node_key, pack_tile, tile_position, unpack_tile

NODE_BYTES = 36
HASH_BYTES = 32
#: Cost of one superseded node in the ring and its index; the extension's figure, kept for equal behaviour.
HISTORY_ENTRY_BYTES = 136


def depth(size: int) -> int:
    """Levels of the smallest subtree at the left that holds ``size`` leaves."""
    return (size - 1).bit_length() if size > 1 else 0


def kept_level(level: int) -> int:
    """The nearest level whose history is kept for good, down from ``level``: 0, 2, 5, 8, 11 and so on."""
    return level - (level + 1) % 3 if level > 1 else 0


def is_kept(level: int) -> bool:
    """True for such a level."""
    return kept_level(level) == level


class NodeUpdate:
    """Changes of a block; nothing of it is visible until :meth:`IndexedNodes.publish`."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.root = b""
        self.tiles: list[tuple[int, bytes]] = []
        #: (level || index, stored node) at TILE_LEVELS and above
        self.nodes: list[tuple[bytes, bytes]] = []
        #: (level || index, stored node it replaces) of the nodes that existed before the block
        self.history: list[tuple[bytes, bytes]] = []

    @property
    def thin_history(self) -> list[tuple[bytes, bytes]]:
        """The same of the levels whose history is kept for good."""
        return [(key, stored) for key, stored in self.history if is_kept(key[0])]


class IndexedNodes:
    """The nodes of one tree.  ``zeros`` holds the zero nodes of levels 0 to ``height``, 32 bytes each;
    ``history_bytes`` bounds the ring of superseded nodes; ``separator``, if any, is hashed before the children of each
    node."""

    def __init__(
        self,
        height: int,
        zeros: bytes,
        *,
        history_bytes: int,
        first_level: int = TILE_LEVELS,
        separator: bytes = b"",
    ) -> None:
        if len(separator) not in (0, HASH_BYTES):
            raise ValueError(f"a separator of {len(separator)} bytes")
        if len(zeros) != HASH_BYTES * (height + 1):
            raise ValueError(f"zeros must hold {height + 1} nodes")
        if first_level < TILE_LEVELS:
            raise ValueError(f"first_level must be at least {TILE_LEVELS}")
        self.height = height
        self.separator = separator
        self.first_level = first_level
        self.zeros = [zeros[i : i + HASH_BYTES] for i in range(0, len(zeros), HASH_BYTES)]
        self._latest: dict[bytes, bytes] = {}
        entries = history_bytes // HISTORY_ENTRY_BYTES
        self._history_limit = 1 << entries.bit_length() - 1 if entries else 0  # the ring's size is a power of two
        self._history: dict[bytes, list[tuple[int, bytes]]] = {}  # (superseding block, stored node), oldest first
        self._order: deque[tuple[int, bytes]] = deque()  # (superseding block, key)

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

        ``tiles`` has the tile of every index (empty bytes: none yet); ``fetch(level || index)`` returns the
        stored node of a level that is not in memory, or empty bytes.  When depth(size) exceeds
        depth(size_before), leaf 0 must be among the indexes, so that the old top becomes a stored node.
        Without ``history`` nothing of what is replaced is kept.
        """
        if list(indexes) != sorted(set(indexes)):
            raise ValueError("the indexes of an update must ascend")
        if not indexes or len(hashes) != HASH_BYTES * len(indexes):
            raise ValueError("one hash of 32 bytes per index, and at least one")
        if not 2 <= size <= 1 << self.height or indexes[-1] >= size:
            raise ValueError(f"leaf {indexes[-1]} does not fit a tree of {size} leaves and height {self.height}")
        if depth(size) > depth(size_before) and indexes[0] != 0:
            raise ValueError("a tree that grows a level must also set leaf 0")
        update = NodeUpdate(block)
        open_tiles = {index >> TILE_LEVELS: unpack_tile(tiles[index >> TILE_LEVELS], NODE_BYTES) for index in indexes}
        row = {index: hashes[i * HASH_BYTES : (i + 1) * HASH_BYTES] for i, index in enumerate(indexes)}
        stamp = block.to_bytes(4, "big")
        levels = depth(size)
        for level in range(levels):
            parents: dict[int, bytes] = {}
            for parent in dict.fromkeys(index >> 1 for index in row):
                left, right = (
                    row[child] if child in row else self._stored(level, child, open_tiles, fetch)[:HASH_BYTES]
                    for child in (2 * parent, 2 * parent + 1)
                )
                parents[parent] = poseidon2.hash_fields(self.separator + left + right)
            for index, value in row.items():
                key = node_key(level, index)
                if history and level < depth(size_before) and index << level < size_before:
                    update.history.append((key, self._stored(level, index, open_tiles, fetch)))
                if level < TILE_LEVELS:
                    nodes = open_tiles[index >> (TILE_LEVELS - level)]
                    nodes[tile_position(level, index)] = value + stamp
                else:
                    update.nodes.append((key, value + stamp))
            row = parents
        update.tiles = [(index, pack_tile(nodes)) for index, nodes in open_tiles.items()]
        update.root = row[0]
        for level in range(levels, self.height):
            update.root = poseidon2.hash_fields(self.separator + update.root + self.zeros[level])
        return update

    def _stored(
        self, level: int, index: int, tiles: Mapping[int, dict[int, bytes]], fetch: Callable[[bytes], bytes]
    ) -> bytes:
        if level < TILE_LEVELS:
            nodes = tiles[index >> (TILE_LEVELS - level)]
            stored = nodes.get(tile_position(level, index), b"")
        elif level >= self.first_level:
            stored = self._latest.get(node_key(level, index), b"")
        else:
            stored = fetch(node_key(level, index))
        return stored or self.zeros[level] + bytes(4)

    def publish(self, update: NodeUpdate) -> None:
        """Make ``update`` part of the memory.  Superseded values go first: a reader in another thread then
        finds either the old latest node or its history."""
        for key, stored in update.history:
            self.push_history(key, stored, update.block)
        self.load(update.nodes)

    def push_history(self, key: bytes, stored: bytes, block: int) -> None:
        """Remember that ``block`` replaced ``stored``; blocks come in ascending order."""
        if self._history_limit == 0:
            return
        self._history.setdefault(key, []).append((block, stored))
        self._order.append((block, key))
        if len(self._order) > self._history_limit:
            _, oldest = self._order.popleft()
            self._drop(oldest, 0)

    def pop_history(self, block: int) -> None:
        """Forget the values superseded by ``block``, which must be the newest."""
        while self._order and self._order[-1][0] == block:
            _, key = self._order.pop()
            self._drop(key, -1)

    def _drop(self, key: bytes, position: int) -> None:
        chain = self._history[key]
        chain.pop(position)
        if not chain:
            del self._history[key]

    def history_length(self) -> int:
        """Superseded nodes in memory."""
        return len(self._order)

    def load(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Set latest nodes: (level || index, stored node); empty bytes remove the node."""
        for key, stored in entries:
            level, index = key[0], int.from_bytes(key[1:], "big")
            if level < self.first_level:
                continue
            if level > self.height or index >> (self.height - level):
                raise ValueError(f"the tree has no node {index} of level {level}")
            if stored:
                self._latest[key] = bytes(stored)
            else:
                self._latest.pop(key, None)

    def load_next_level(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Take the level below ``first_level`` into the memory; it counts when it is whole."""
        level = self.first_level - 1
        if level < TILE_LEVELS:
            raise ValueError("the levels below are in tiles")
        nodes = {}
        for key, stored in entries:
            if key[0] != level or int.from_bytes(key[1:], "big") >> (self.height - level):
                raise ValueError(f"no node of level {level}")
            if len(stored) != NODE_BYTES:
                raise ValueError(f"a stored node of {len(stored)} bytes")
            nodes[key] = bytes(stored)
        self._latest.update(nodes)
        self.first_level = level

    def raise_first_level(self, level: int) -> None:
        """Keep only ``level`` and above in memory from now on."""
        self.first_level = max(self.first_level, level)
        self._latest = {key: stored for key, stored in self._latest.items() if key[0] >= self.first_level}

    def memory_bytes(self) -> int:
        return NODE_BYTES * len(self._latest) + HISTORY_ENTRY_BYTES * len(self._order)

    def path(
        self, index: int, block: int, size: int, tile: bytes, missing: list[int], *, use_memory: bool = True
    ) -> bytes:
        """Sibling path of leaf ``index`` after ``block``, when the tree had ``size`` leaves; lowest first.

        ``tile`` is the latest tile that holds the leaf.  Levels whose value at ``block`` is not in memory
        are appended to ``missing`` and left zero bytes for the caller to fill in.
        """
        if not 0 <= index < size:
            raise ValueError(f"leaf {index} is not in a tree of {size} leaves")
        path = bytearray(HASH_BYTES * self.height)
        nodes = unpack_tile(tile, NODE_BYTES)
        for level in range(self.height):
            sibling = (index >> level) ^ 1
            node = self._value_at(level, sibling, block, size, nodes, use_memory)
            if node is None:
                missing.append(level)
            else:
                path[level * HASH_BYTES : (level + 1) * HASH_BYTES] = node
        return bytes(path)

    def _value_at(
        self, level: int, index: int, block: int, size: int, nodes: dict[int, bytes], use_memory: bool
    ) -> bytes | None:
        if index << level >= size:
            return self.zeros[level]
        key = node_key(level, index)
        if level < TILE_LEVELS:
            stored = nodes.get(tile_position(level, index), b"")
        elif use_memory and level >= self.first_level:
            stored = self._latest.get(key, b"")
        else:
            return None
        if not stored:
            return self.zeros[level]
        if int.from_bytes(stored[HASH_BYTES:], "big") <= block:
            return stored[:HASH_BYTES]
        if use_memory:
            # A tile may be of an older view, and say of an undone block that it changed the node: only an entry
            # that covers the block will do.
            for superseding, stored in reversed(self._history.get(key, ())):
                if int.from_bytes(stored[HASH_BYTES:], "big") <= block < superseding:
                    return stored[:HASH_BYTES]
        return None
