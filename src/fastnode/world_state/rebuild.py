"""The world state of one block, made of its leaves alone: each tree whole in one pass, in bounded memory.

    rows of leaves ──► K or V ──► hashes by index (sorted in a file) ──► subtrees of 2^17 places: T, N ──► N, root

Nothing is believed: links, hashes and nodes are worked out, and the root and size of each tree are those that the block
names, or the tree is refused.  Blocks before it cannot be asked for; its leaves have the blocks in which they were
inserted, which follow from the sizes of the trees after each block.

A tree that is whole is marked, and is not made again after a crash; the tip is written when all five are.
"""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Final

import numpy as np

from fastnode.archiver.source import GenesisRecord
from fastnode.errors import VerificationError
from fastnode.kernels import indexed_tree, poseidon2, tree_nodes
from fastnode.protocol.releases import TreeRules
from fastnode.storage.database import SharedDatabase
from fastnode.world_state.append_only import AppendOnlyTree
from fastnode.world_state.forest import Forest
from fastnode.world_state.genesis import compute_genesis
from fastnode.world_state.indexed_tree import IndexedTree
from fastnode.world_state.layout import (
    BLOCK,
    EDGE,
    GENESIS_KEY,
    HASH_BYTES,
    INDEX_BYTES,
    LEAF,
    LEAF_ROW_BYTES,
    NODE,
    REBUILT_KEY,
    SCHEMA_KEY,
    SCHEMA_VERSION,
    TILE,
    TIP_KEY,
    VALUE,
    BlockRecord,
    pack_place,
    pack_tip,
    u32,
    u48,
)
from fastnode.world_state.leaves import as_u48
from fastnode.world_state.snapshot import Snapshot
from fastnode.world_state.sorted_rows import SortedHashes
from fastnode.world_state.state import WORLD_STATE_DIRECTORY
from fastnode.world_state.stored_nodes import Array, numbers
from fastnode.world_state.trees import PUBLIC_DATA, TREES, Tree, zero_nodes

__all__ = ["Progress", "RowsOf", "make_indexed_tree", "rebuild"]

#: Leaves of a subtree that is hashed in memory: 2^17.
_SUBTREE_LEVELS: Final = 17
#: Leaves that are linked and hashed at a time.
_ROWS: Final = 8192
#: Entries in one write.
_ENTRIES: Final = 8192

#: Packed rows of a tree, whole ones, some at a time: leaves.py.
RowsOf = Callable[[Tree], Iterable[bytes]]
#: Told how many leaves of a tree came since it was called before.
Progress = Callable[[Tree, int], None]


def rebuild(
    directory: Path,
    genesis: GenesisRecord,
    records: Iterable[BlockRecord],
    rows_of: RowsOf,
    rules: TreeRules,
    *,
    on_leaves: Progress = lambda tree, count: None,
) -> None:
    """Make ``<directory>/world_state`` hold the trees after the last of ``records``, which are those of all blocks
    from 1 on; what an earlier call has left there is used.

    VerificationError, naming the tree, when the rows do not give the root and size that the block has.
    """
    path = directory / WORLD_STATE_DIRECTORY
    workspace = directory / "rebuilding"
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir(parents=True)
    database = SharedDatabase.open(path, create=True)
    try:
        _Rebuild(database, genesis, records, rules, workspace, on_leaves).run(rows_of)
    finally:
        database.release()
        shutil.rmtree(workspace, ignore_errors=True)


def make_indexed_tree(
    tree: IndexedTree, database: SharedDatabase, sizes: Array, rows: Iterable[bytes], workspace: Path
) -> bytes:
    """Write the leaves and nodes of one tree whose size after each block from the genesis on is in ``sizes``; its root.

    ``workspace`` is a file that is made and removed.  ValueError for rows that make no tree of this size.
    """
    making = _IndexedMaking(tree, database, sizes, workspace, len(sizes) - 1)
    try:
        return making.make(_batches(rows, LEAF_ROW_BYTES[tree.tree.id]), lambda tree, count: None)
    finally:
        making.close()


class _Rebuild:
    def __init__(
        self,
        database: SharedDatabase,
        genesis: GenesisRecord,
        records: Iterable[BlockRecord],
        rules: TreeRules,
        workspace: Path,
        on_leaves: Progress,
    ) -> None:
        self._database = database
        self._genesis = genesis
        self._workspace = workspace
        self._on_leaves = on_leaves
        self._forest = Forest.within(0, rules)
        before = compute_genesis(self._forest, genesis).record
        self._newest = before
        #: By tree id: its size after each block from the genesis on.
        self._sizes = tuple(array("Q") for _ in TREES)
        self._write_records(chain([before], records))

    def _write_records(self, records: Iterator[BlockRecord]) -> None:
        while some := list(islice(records, _ENTRIES)):
            self._database.write([(BLOCK + u32(record.number), record.pack()) for record in some])
            for tree_sizes, found in zip(
                self._sizes, zip(*(record.sizes for record in some), strict=True), strict=True
            ):
                tree_sizes.extend(found)
            self._newest = some[-1]

    def run(self, rows_of: RowsOf) -> None:
        if self._database.get(TIP_KEY) is not None:
            return
        for tree in TREES:
            mark = REBUILT_KEY + tree.prefix
            if self._database.get(mark) is None:
                self._make(tree, rows_of(tree))
                self._database.write([(mark, b"")])
        self._finish()

    def _make(self, tree: Tree, rows: Iterable[bytes]) -> None:
        found = self._forest.in_order[tree.id]
        sizes = np.frombuffer(self._sizes[tree.id], np.uint64)
        file = self._workspace / f"tree-{tree.id}"
        if isinstance(found, IndexedTree):
            making: _Making = _IndexedMaking(found, self._database, sizes, file, self._newest.number)
        else:
            making = _AppendOnlyMaking(found, self._database, sizes, file)
        try:
            root = making.make(_batches(rows, LEAF_ROW_BYTES[tree.id]), self._on_leaves)
        except ValueError as error:
            raise VerificationError(f"the {tree.name}: {error}") from error
        finally:
            making.close()
        if root != self._newest.roots[tree.id]:
            raise VerificationError(
                f"the {tree.name}: its leaves give the root 0x{root.hex()}, block {self._newest.number} has "
                f"0x{self._newest.roots[tree.id].hex()}"
            )

    def _finish(self) -> None:
        """Write what is no leaf and no node; the tip last: it makes the rest count."""
        snapshot = Snapshot(self._database)
        try:
            for tree in self._forest.append_only:
                size = self._newest.sizes[tree.tree.id]
                # A block's header refers to the archive before the block, so that is kept too.
                for kept in (size, size - 1) if tree is self._forest.archive else (size,):
                    edge, _ = tree.edge_and_root(snapshot, kept)
                    self._database.write([(EDGE + tree.tree.prefix + u48(kept), edge)])
        finally:
            snapshot.close()
        self._database.write(
            [
                (SCHEMA_KEY, b"%d" % SCHEMA_VERSION),
                (GENESIS_KEY, self._genesis.block_hash + self._genesis.archive_root),
                *((REBUILT_KEY + tree.prefix, None) for tree in TREES),
                (TIP_KEY, pack_tip(self._newest.number, self._newest.number)),
            ]
        )


def _batches(rows: Iterable[bytes], row_bytes: int) -> Iterator[Array]:
    """The rows as matrices of up to _ROWS.  ValueError for a row that is cut off."""
    rest = b""
    for some in rows:
        joined = rest + some
        whole = len(joined) // row_bytes * row_bytes
        found = np.frombuffer(joined, np.uint8, whole).reshape(-1, row_bytes)
        rest = joined[whole:]
        for begin in range(0, len(found), _ROWS):
            yield found[begin : begin + _ROWS]
    if rest:
        raise ValueError("a leaf is cut off")


class _Making:
    """One tree while it is made.  ``sizes``: of the tree after each block from the genesis on."""

    def __init__(self, tree: Tree, database: SharedDatabase, sizes: Array, file: Path, stamp: bytes) -> None:
        self._tree = tree
        self._database = database
        self._sizes = sizes
        self._size = int(sizes[-1])
        self._zeros = zero_nodes(tree)
        self._sorted = SortedHashes(file)
        self._tile_prefix = TILE + tree.prefix
        self._node_prefix = NODE + tree.prefix
        self._stamp = np.frombuffer(stamp, np.uint8)

    def close(self) -> None:
        self._sorted.close()

    def make(self, batches: Iterator[Array], on_leaves: Progress) -> bytes:
        """Write the tree; its root.  ValueError for leaves that make no tree of this size."""
        for rows in batches:
            self._take(rows)
            on_leaves(self._tree, len(rows))
        self._end()
        top = min(_SUBTREE_LEVELS, self._tree.height)
        indexes, nodes = [], []
        for number, places, hashes in self._sorted.ranges(top):
            indexes.append(np.array([number], np.uint64))
            nodes.append(self._climb(places, hashes, 0, top)[1])
        if not indexes:
            return self._zeros[-HASH_BYTES:]
        return self._climb(np.concatenate(indexes), np.concatenate(nodes), top, self._tree.height)[1].tobytes()

    def _take(self, rows: Array) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        """All rows have come."""

    def _place(self, indexes: Array) -> Array:
        """Blocks in which the leaves with these indexes were inserted; ValueError beyond the size."""
        if len(indexes) and int(indexes.max()) >= self._size:
            raise ValueError(f"it has a leaf {int(indexes.max())}, its size is {self._size}")
        return np.searchsorted(self._sizes, indexes, side="right").astype(np.uint64)

    def _write(self, keys: list[bytes], values: list[bytes]) -> None:
        for begin in range(0, len(keys), _ENTRIES):
            self._database.fill(keys[begin : begin + _ENTRIES], values[begin : begin + _ENTRIES])

    # ---- nodes ---------------------------------------------------------------------------------

    def _climb(self, indexes: Array, nodes: Array, level: int, top: int) -> tuple[Array, Array]:
        """Write the nodes of the levels from ``level`` to below ``top`` above these; those of ``top``."""
        low: list[tuple[Array, Array]] = []
        for current in range(level, top):
            if current < tree_nodes.TILE_LEVELS:
                low.append((indexes, nodes))
                if current == tree_nodes.TILE_LEVELS - 1:
                    self._write_tiles(low)
            else:
                self._write_nodes(current, indexes, nodes)
            indexes, nodes = self._parents(current, indexes, nodes)
        return indexes, nodes

    def _parents(self, level: int, indexes: Array, nodes: Array) -> tuple[Array, Array]:
        above = indexes >> np.uint64(1)
        is_first = np.ones(len(above), np.bool_)
        is_first[1:] = above[1:] != above[:-1]
        parents = above[is_first]
        pairs = np.empty((2 * len(parents), HASH_BYTES), np.uint8)
        pairs[:] = np.frombuffer(self._zero(level), np.uint8)
        pairs[2 * (np.cumsum(is_first) - 1) + (indexes & np.uint64(1)).astype(np.int64)] = nodes
        hashes = poseidon2.hash_nodes(pairs.tobytes(), self._tree.separator)
        return parents, np.frombuffer(hashes, np.uint8).reshape(-1, HASH_BYTES)

    def _zero(self, level: int) -> bytes:
        return self._zeros[level * HASH_BYTES : (level + 1) * HASH_BYTES]

    def _is_stored(self, level: int, indexes: Array) -> Array:
        raise NotImplementedError

    def _stamped(self, nodes: Array) -> Array:
        """The nodes as they are stored."""
        stamps = np.broadcast_to(self._stamp, (len(nodes), len(self._stamp)))
        return np.concatenate([nodes, stamps], axis=1)

    def _write_nodes(self, level: int, indexes: Array, nodes: Array) -> None:
        chosen = self._is_stored(level, indexes)
        prefix = self._node_prefix + bytes([level])
        keys = _rows(prefix, as_u48(indexes[chosen]))
        self._write(keys, _split(self._stamped(nodes[chosen])))

    def _write_tiles(self, levels: list[tuple[Array, Array]]) -> None:
        """Tiles of the nodes of all levels of tiles; their form is drawn in _twins/tree_nodes.py."""
        tiles, positions, stored = [], [], []
        for level, (indexes, nodes) in enumerate(levels):
            chosen = self._is_stored(level, indexes)
            tiles.append(indexes[chosen] >> np.uint64(tree_nodes.TILE_LEVELS - level))
            within = indexes[chosen] & np.uint64((tree_nodes.TILE_LEAVES >> level) - 1)
            positions.append(within + np.uint64(64 - (64 >> level)))
            stored.append(nodes[chosen])
        tile, position, node = np.concatenate(tiles), np.concatenate(positions), np.concatenate(stored)
        order = np.lexsort((position, tile))
        tile, position = tile[order], position[order]
        content = self._stamped(node[order])
        begins = np.flatnonzero(np.concatenate([[True], tile[1:] != tile[:-1]]))
        bitmaps = np.bitwise_or.reduceat(np.uint64(1) << position, begins).astype(">u8").tobytes()
        width, body = content.shape[1], content.tobytes()
        ends = [*begins[1:].tolist(), len(tile)]
        values = [
            bitmaps[8 * number : 8 * number + 8] + body[width * begin : width * end]
            for number, (begin, end) in enumerate(zip(begins.tolist(), ends, strict=True))
        ]
        self._write(_rows(self._tile_prefix, as_u48(tile[begins])), values)


class _IndexedMaking(_Making):
    """Rows come from the greatest key down, so the row before one is the leaf that it points to."""

    def __init__(self, tree: IndexedTree, database: SharedDatabase, sizes: Array, file: Path, block: int) -> None:
        super().__init__(tree.tree, database, sizes, file, u32(block))
        self._indexed = tree
        self._depth = indexed_tree.depth(self._size)
        self._has_values = tree.tree.id == PUBLIC_DATA.id
        #: The row that waits for the next one, which is the leaf below it; none yet: no rows.
        self._waiting: Array | None = None
        self._is_first = True
        #: Key and index of the leaf above the one that waits.
        self._above = np.zeros(HASH_BYTES + INDEX_BYTES, np.uint8)

    def _take(self, rows: Array) -> None:
        if self._waiting is not None:
            rows = np.concatenate([self._waiting, rows])
        self._waiting = rows[-1:]
        self._put(rows[:-1], rows[1:, :HASH_BYTES])

    def _end(self) -> None:
        if self._waiting is None:
            raise ValueError("it has no leaves")
        self._put(self._waiting, np.zeros((1, HASH_BYTES), np.uint8))

    def _put(self, rows: Array, below: Array) -> None:
        """``below``: keys of the leaves below the rows."""
        if not len(rows):
            return
        keys, indexes = rows[:, :HASH_BYTES], rows[:, HASH_BYTES : HASH_BYTES + INDEX_BYTES]
        above = np.concatenate([self._above[np.newaxis], rows[:-1, : HASH_BYTES + INDEX_BYTES]])
        self._above = rows[-1, : HASH_BYTES + INDEX_BYTES].copy()
        values = rows[:, HASH_BYTES + INDEX_BYTES :]
        self._require_descending(keys, above[:, :HASH_BYTES])
        found = numbers(indexes)
        inserted = self._place(found)
        contents = np.zeros((len(rows), 4 if self._has_values else 3, HASH_BYTES), np.uint8)
        contents[:, 0] = keys
        if self._has_values:
            contents[:, 1] = values
        contents[:, -2] = above[:, :HASH_BYTES]
        contents[:, -1, HASH_BYTES - INDEX_BYTES :] = above[:, HASH_BYTES:]
        hashes = self._indexed.hash_leaves(contents.tobytes())
        self._sorted.add(found, np.frombuffer(hashes, np.uint8).reshape(-1, HASH_BYTES))
        stamps = np.broadcast_to(self._stamp, (len(rows), 4))
        records = np.concatenate(
            [
                stamps,
                above[:, HASH_BYTES:],
                above[:, :HASH_BYTES],
                values,
                indexes,
                inserted.astype(">u4").view(np.uint8).reshape(-1, 4),
                below,
            ],
            axis=1,
        )
        self._write(_rows(LEAF + self._tree.prefix, ~keys), _split(records))

    def _require_descending(self, keys: Array, above: Array) -> None:
        """ValueError unless each key is smaller than the one above it; the first of all has none, which is zero."""
        mine, theirs = (np.ascontiguousarray(each).view(">u8").reshape(-1, 4) for each in (keys, above))
        is_less = np.zeros(len(mine), np.bool_)
        is_same = np.ones(len(mine), np.bool_)
        for word in range(4):
            is_less |= is_same & (mine[:, word] < theirs[:, word])
            is_same &= mine[:, word] == theirs[:, word]
        is_less[0] |= self._is_first
        self._is_first = False
        if not is_less.all():
            raise ValueError(f"0x{keys[int(np.argmin(is_less))].tobytes().hex()} is out of order")

    def _is_stored(self, level: int, indexes: Array) -> Array:
        return np.full(len(indexes), level < self._depth)


class _AppendOnlyMaking(_Making):
    """Rows come from the lowest index up."""

    def __init__(self, tree: AppendOnlyTree, database: SharedDatabase, sizes: Array, file: Path) -> None:
        super().__init__(tree.tree, database, sizes, file, b"")
        self._value_prefix = VALUE + tree.tree.prefix
        self._next = 0

    def _take(self, rows: Array) -> None:
        indexes = numbers(rows[:, :INDEX_BYTES])
        if int(indexes[0]) < self._next or (indexes[1:] <= indexes[:-1]).any():
            raise ValueError(f"its leaves after leaf {self._next} are out of order")
        self._next = int(indexes[-1]) + 1
        leaves = rows[:, INDEX_BYTES:]
        if not leaves.any(axis=1).all():
            raise ValueError("it has an empty leaf")
        blocks = self._place(indexes)
        self._sorted.add(indexes, leaves)
        first: dict[bytes, bytes] = {}
        for leaf, index, block in zip(_split(leaves), indexes.tolist(), blocks.tolist(), strict=True):
            if leaf not in first and self._is_new(leaf, index):
                first[leaf] = pack_place(index, block)
        self._write([self._value_prefix + leaf for leaf in first], list(first.values()))

    def _is_new(self, leaf: bytes, index: int) -> bool:
        """True unless the value has a place before ``index``; the place itself may be there from before a crash."""
        place = self._database.get(self._value_prefix + leaf)
        return place is None or int.from_bytes(place[:INDEX_BYTES], "big") >= index

    def _is_stored(self, level: int, indexes: Array) -> Array:
        return indexes < np.uint64(self._size >> level)


def _rows(head: bytes, tails: Array) -> list[bytes]:
    rows = np.empty((len(tails), len(head) + tails.shape[1]), np.uint8)
    rows[:, : len(head)] = np.frombuffer(head, np.uint8)
    rows[:, len(head) :] = tails
    return _split(rows)


def _split(rows: Array) -> list[bytes]:
    # numpy makes the objects: a tenth of the time that slices of one bytes object take.
    found: list[bytes] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}")[:, 0].tolist()
    return found
