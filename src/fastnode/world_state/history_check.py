"""Check of the history, all blocks of it in one pass: every replaced node is recomputed from the leaves.

A node of an indexed tree has versions, each from the block that set it to the one that replaced it.  Those of a level
follow from those of the level below it: a parent changes with each change of a child.  So a level is read in the order
of the database, the next one is hashed from it in one batch, and compared with what is stored:

    P, K   leaves and what they were    ──hashed──►  H of level 0        as sums of digests: the orders differ
    U      what each block changed      ◄─────────►  the blocks of P, K  as sums of digests too
    H, N, T of level n                  ──hashed──►  H, N, T of level n + 1
    H, N of the uppermost level         ──hashed──►  the roots of the block records

The newest nodes and leaves are taken to be right.  When sums differ, the entries are looked for one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

import numpy as np

from fastnode.errors import DatabaseError
from fastnode.kernels import indexed_tree, poseidon2, tree_nodes
from fastnode.records import dataclass
from fastnode.world_state.append_only import AppendOnlyTree
from fastnode.world_state.indexed_tree import IndexedTree
from fastnode.world_state.layout import (
    BLOCK,
    BLOCK_BYTES,
    CHANGED,
    HASH_BYTES,
    INDEX_BYTES,
    LEAF,
    LEAF_HISTORY,
    NODE_HISTORY,
    TREE_COUNT,
    LeafRecord,
    LeafState,
    inverted,
    pack_changed,
    u32,
    u48,
    unpack_changed,
)
from fastnode.world_state.stored_nodes import Array, entries, nodes_of_tiles, numbers
from fastnode.world_state.trees import NULLIFIER, PUBLIC_DATA, Tree, zero_nodes
from fastnode.world_state.view import WorldStateView

__all__ = ["SEED_BYTES", "Blocks", "VersionCheck", "check_changed_leaves", "check_edges"]

#: Nodes of the lowest level of a span.
SPAN_NODES: Final = 1 << 15
#: Lowest levels of spans: those whose history is thin have that of these levels.
BOTTOMS: Final = (0, 14, 29)
#: Leaves, versions or blocks in one batch.
BATCH: Final = 4096
#: Faults named for each tree.
FAULTS_MAX: Final = 8
#: Ids of the indexed trees, in the order of lists of changed leaves.
INDEXED: Final = (NULLIFIER.id, PUBLIC_DATA.id)
#: Not replaced.
NEWEST: Final = 2**32 - 1

_RECORD_BYTES: Final = TREE_COUNT * (HASH_BYTES + INDEX_BYTES) + HASH_BYTES + BLOCK_BYTES
_TREE_BYTES: Final = HASH_BYTES + INDEX_BYTES
#: Random bytes of a check: who has damaged the database cannot know what would leave its sums as they are.
SEED_BYTES: Final = 8 * 16

Advance = Callable[[float], None]


class Blocks:
    """The records of the blocks from the oldest with history to the newest.

    ``seed``: SEED_BYTES, the same for all whose sums are compared.
    """

    def __init__(self, view: WorldStateView, seed: bytes) -> None:
        self.view = view
        self._seeds = np.frombuffer(seed, np.uint64)
        self.oldest, self.tip = view.oldest, view.tip.number
        with view.snapshot.scan_range(BLOCK + u32(0), BLOCK + u32(self.tip + 1)) as records:
            found = list(records)
        order = [int.from_bytes(key[1:], "big") for key, _ in found]
        if order != list(range(self.tip + 1)) or any(len(value) != _RECORD_BYTES for _, value in found):
            raise DatabaseError("a block record is missing or cut off")
        self._records = np.frombuffer(b"".join([value for _, value in found]), np.uint8).reshape(-1, _RECORD_BYTES)

    def sizes(self, tree: Tree, first: int) -> Array:
        """Leaves after the blocks from ``first`` on."""
        at = tree.id * _TREE_BYTES + HASH_BYTES
        return numbers(self._records[first:, at : at + INDEX_BYTES])

    def roots(self, tree: Tree, first: int) -> Array:
        """Roots after the blocks from ``first`` on, a row each."""
        at = tree.id * _TREE_BYTES
        return self._records[first:, at : at + HASH_BYTES]

    def digest(self, *columns: Array) -> int:
        """Sum of the rows' digests, whatever their order; ``columns`` are of numbers, or of 32 bytes."""
        words = []
        for column in columns:
            if column.ndim == 2:
                words += list(np.ascontiguousarray(column).view(np.uint64).T)
            else:
                words.append(column.astype(np.uint64))
        if not len(words[0]):
            return 0
        digest = np.full(len(words[0]), self._seeds[0], np.uint64)
        for word, seed in zip(words, self._seeds[1:], strict=False):
            digest = (digest ^ (word + seed)) * np.uint64(0xBF58476D1CE4E5B9)
            digest = (digest ^ (digest >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
            digest ^= digest >> np.uint64(32)
        return int(digest.sum())


def _fault(tree: Tree, block: int, what: str) -> str:
    return f"block {block}: {tree.name}: {what}"


# ---- versions of nodes -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Versions:
    """Versions of nodes of a level, sorted by index and block; ``node`` has a row of 32 bytes for each."""

    index: Array
    since: Array
    until: Array
    node: Array

    def only(self, chosen: Array) -> _Versions:
        return _Versions(self.index[chosen], self.since[chosen], self.until[chosen], self.node[chosen])


class _Reader:
    """Reads the stored versions of an indexed tree."""

    def __init__(self, tree: Tree, view: WorldStateView) -> None:
        self._tree = tree
        self._snapshot = view.snapshot
        self._zeros = zero_nodes(tree)
        #: Newest nodes of the levels of tiles, below a span.
        self._low: list[tuple[Array, Array]] = []

    def zero(self, level: int) -> bytes:
        return self._zeros[level * HASH_BYTES : (level + 1) * HASH_BYTES]

    def read_tiles(self, first: int, stop: int) -> None:
        """Take the tiles of leaves into work."""
        self._low = nodes_of_tiles(self._snapshot, self._tree, indexed_tree.NODE_BYTES, first, stop)

    def read(self, level: int, first: int, stop: int) -> _Versions:
        """The versions of the nodes from ``first`` to ``stop`` of a level; below TILE_LEVELS of those in work."""
        place = self._snapshot, self._tree, level, first, stop, indexed_tree.NODE_BYTES
        old_index, until, old = entries(*place, NODE_HISTORY, BLOCK_BYTES)
        if level < tree_nodes.TILE_LEVELS:
            index, newest = self._low[level]
        else:
            index, _, newest = entries(*place)
        stored = np.concatenate([old, newest])
        versions = _Versions(
            index=np.concatenate([old_index, index]),
            since=numbers(stored[:, HASH_BYTES:]),
            until=np.concatenate([until, np.full(len(index), NEWEST, np.uint64)]),
            node=stored[:, :HASH_BYTES],
        )
        versions = versions.only(np.lexsort((versions.until, versions.index)))
        # A node that was there without any leaf was a zero node, of no block.
        is_nothing = (versions.since == 0) & (versions.node == np.frombuffer(self.zero(level), np.uint8)).all(axis=1)
        return versions.only(~is_nothing) if is_nothing.any() else versions


class VersionCheck:
    """Check of the nodes' history, span by span: each can be looked at alone, in any order and in any process."""

    def __init__(self, indexed: IndexedTree, blocks: Blocks) -> None:
        self._indexed, self._tree, self._blocks = indexed, indexed.tree, blocks
        self._reader = _Reader(indexed.tree, blocks.view)
        self._oldest = np.uint64(blocks.oldest)
        self._thin = np.uint64(blocks.view.thin)
        self._size = blocks.view.tip.sizes[indexed.tree.id]
        self._depths = [indexed_tree.depth(size) for size in blocks.sizes(indexed.tree, blocks.oldest).tolist()]

    @staticmethod
    def spans(size: int) -> list[tuple[int, int]]:
        """Lowest level and first node of each span of a tree of ``size`` leaves."""
        depth = indexed_tree.depth(size)
        return [
            (bottom, first)
            for bottom in BOTTOMS
            if bottom < depth
            for first in range(0, (size - 1 >> bottom) + 1, SPAN_NODES)
        ]

    def check_spans(self, spans: Sequence[tuple[int, int]], advance: Advance) -> tuple[int, list[str]]:
        """The sum of the replaced nodes of leaves, and faults; ``advance`` is told which part is done."""
        faults: list[str] = []
        found_sum = 0
        depth = indexed_tree.depth(self._size)
        for done, (bottom, first) in enumerate(spans, 1):
            top = min(depth, *(above for above in BOTTOMS if above > bottom), self._tree.height)
            stop = first + SPAN_NODES
            if bottom == 0:
                self._reader.read_tiles(first, stop)
            versions = self._reader.read(bottom, first, stop)
            if bottom == 0:
                found_sum += self._sum_of_replaced(versions)
            faults.extend(islice(self._climb(versions, bottom, top, depth), FAULTS_MAX))
            advance(done / len(spans))
        return found_sum, faults[:FAULTS_MAX]

    def _sum_of_replaced(self, versions: _Versions) -> int:
        replaced = versions.only(versions.until != NEWEST)
        return self._blocks.digest(replaced.index, replaced.since, replaced.until, replaced.node)

    def _climb(self, versions: _Versions, bottom: int, top: int, depth: int) -> Iterator[str]:
        """Compare the nodes above those of a span, up to level ``top``."""
        for level in range(bottom, top):
            if not len(versions.index):
                return
            parents = self._parents(versions, level)
            yield from self._compare_roots(parents, level + 1)
            if level + 1 == depth:
                return
            first = int(versions.index[0]) >> 1
            stop = (int(versions.index[-1]) >> 1) + 1
            stored = self._reader.read(level + 1, first, stop)
            if level + 1 < tree_nodes.TILE_LEVELS:
                stored = stored.only((stored.index >= first) & (stored.index < stop))
            parents = self._without_unstored(parents, level + 1)
            kept = parents
            if not indexed_tree.is_kept(level + 1):
                kept = parents.only(parents.until > self._thin)
            fault = self._first_difference(stored, kept, level + 1)
            if fault is not None:
                yield fault
                return
            versions = parents

    def _parents(self, children: _Versions, level: int) -> _Versions:
        shift, origin = np.uint64(32), children.index[0] & ~np.uint64(1)
        index = children.index - origin
        is_base = children.since <= self._oldest
        changes = np.unique(((index >> np.uint64(1)) << shift | children.since)[~is_base])
        base = np.unique(index[is_base] >> np.uint64(1))
        base_since = np.zeros(len(base), np.uint64)
        np.maximum.at(base_since, np.searchsorted(base, index[is_base] >> np.uint64(1)), children.since[is_base])
        events = np.sort(np.concatenate([base << shift | base_since, changes]))
        parent, since = events >> shift, events & np.uint64(NEWEST)
        order = index << shift | children.since
        pairs = np.empty((len(events), 2, HASH_BYTES), np.uint8)
        for side in (0, 1):
            child = 2 * parent + np.uint64(side)
            place = np.searchsorted(order, child << shift | since, side="right").astype(np.int64) - 1
            is_there = (place >= 0) & (index[np.maximum(place, 0)] == child)
            pairs[:, side] = np.frombuffer(self._reader.zero(level), np.uint8)
            pairs[is_there, side] = children.node[place[is_there]]
        until = np.full(len(events), NEWEST, np.uint64)
        is_followed = np.flatnonzero(parent[1:] == parent[:-1])
        until[is_followed] = since[is_followed + 1]
        return _Versions(parent + (origin >> np.uint64(1)), since, until, self._hashed(pairs))

    def _hashed(self, pairs: Array) -> Array:
        hashes = poseidon2.hash_nodes(pairs.tobytes(), self._tree.separator)
        return np.frombuffer(hashes, np.uint8).reshape(-1, HASH_BYTES)

    def _without_unstored(self, versions: _Versions, level: int) -> _Versions:
        """While a tree has fewer levels its leftmost nodes are the top or above it, and are not stored."""
        grown = next((at for at, depth in enumerate(self._depths) if depth > level), 0)
        if not grown:
            return versions
        return versions.only((versions.index != 0) | (versions.since >= np.uint64(self._blocks.oldest + grown)))

    def _first_difference(self, stored: _Versions, parents: _Versions, level: int) -> str | None:
        count = min(len(stored.index), len(parents.index))
        is_same = (
            (stored.index[:count] == parents.index[:count])
            & (stored.since[:count] == parents.since[:count])
            & (stored.until[:count] == parents.until[:count])
            & (stored.node[:count] == parents.node[:count]).all(axis=1)
        )
        if is_same.all() and len(stored.index) == len(parents.index):
            return None
        at = int(np.argmin(is_same)) if not is_same.all() else count
        rows = [rows for rows in (stored, parents) if at < len(rows.index)]
        index, until = min((int(rows.index[at]), int(rows.until[at])) for rows in rows)
        block = self._blocks.tip if until == NEWEST else until - 1
        told = [
            f"0x{rows.node[at].tobytes().hex()} from block {rows.since[at]} on"
            if at < len(rows.index) and (rows.index[at], rows.until[at]) == (index, until)
            else "not there"
            for rows in (stored, parents)
        ]
        return _fault(self._tree, block, f"node ({level}, {index}) is {told[0]}, its leaves give: {told[1]}")

    def _compare_roots(self, versions: _Versions, level: int) -> Iterator[str]:
        """Compare the roots of the blocks after which the tree had ``level`` levels."""
        if len(versions.index) and versions.index[0] == 0:
            tops = versions.only(versions.index == 0)
            blocks = self._blocks.oldest + np.flatnonzero(np.array(self._depths) == level)
            place = np.searchsorted(tops.since, blocks.astype(np.uint64), side="right") - 1
            used, which = np.unique(place[place >= 0], return_inverse=True)
            if len(used):
                roots = self._folded(tops.node[used], level)[which]
                stored = self._blocks.roots(self._tree, self._blocks.oldest)[blocks[place >= 0] - self._blocks.oldest]
                for at in np.flatnonzero((roots != stored).any(axis=1)).tolist():
                    yield _fault(
                        self._tree,
                        int(blocks[place >= 0][at]),
                        f"the leaves give the root 0x{roots[at].tobytes().hex()}, "
                        f"stored is 0x{stored[at].tobytes().hex()}",
                    )

    def _folded(self, nodes: Array, level: int) -> Array:
        """Roots over leftmost nodes of a level, with nothing to the right of them."""
        for current in range(level, self._tree.height):
            pairs = np.empty((len(nodes), 2, HASH_BYTES), np.uint8)
            pairs[:, 0], pairs[:, 1] = nodes, np.frombuffer(self._reader.zero(current), np.uint8)
            nodes = self._hashed(pairs)
        return nodes

    def look_for_leaves(self) -> Iterator[str]:
        """Name the leaves whose history and that of their nodes differ: the sums of both are not the same."""
        tree, snapshot = self._tree, self._blocks.view.snapshot
        prefix, found = NODE_HISTORY + tree.prefix + b"\0", 0
        for batch in _leaf_batches(self._indexed, self._blocks.view):
            hashes = self._indexed.hashes(batch.replaced)
            for leaf, leaf_hash, until in zip(batch.replaced, hashes, batch.until, strict=True):
                stored = snapshot.get(prefix + u48(leaf.index) + u32(until)) or b""
                if stored != leaf_hash + u32(leaf.state.changed):
                    found += 1
                    yield _fault(
                        tree, until - 1, f"leaf {leaf.index} gives 0x{leaf_hash.hex()}, its node is 0x{stored.hex()}"
                    )
                if found == FAULTS_MAX:
                    return
        if not found:
            yield _fault(tree, self._blocks.oldest, "nodes of leaves were replaced that no leaf had")


# ---- leaves ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _LeafBatch:
    """Leaves as they are, as they were, and the block that replaced each of the latter."""

    newest: list[LeafRecord]
    replaced: list[LeafRecord]
    until: list[int]


def _leaf_batches(indexed: IndexedTree, view: WorldStateView) -> Iterator[_LeafBatch]:
    """All leaves with their history.  DatabaseError for history that belongs to no leaf."""
    tree = indexed.tree
    leaf_prefix, history_prefix = LEAF + tree.prefix, LEAF_HISTORY + tree.prefix
    skip = len(leaf_prefix)
    with view.snapshot.scan(leaf_prefix) as leaves, view.snapshot.scan(history_prefix) as history:
        old = next(history, None)
        while run := list(islice(leaves, BATCH)):
            batch = _LeafBatch([], [], [])
            for key, data in run:
                record = LeafRecord.unpack(inverted(key[skip:]), data)
                batch.newest.append(record)
                while old is not None and old[0][skip:-BLOCK_BYTES] <= key[skip:]:
                    if old[0][skip:-BLOCK_BYTES] != key[skip:]:
                        raise DatabaseError(f"leaf 0x{inverted(old[0][skip:-BLOCK_BYTES]).hex()} is lost")
                    state = LeafState.unpack(old[1])
                    leaf = LeafRecord(record.key, state, record.index, record.inserted, record.predecessor)
                    batch.replaced.append(leaf)
                    batch.until.append(int.from_bytes(old[0][-BLOCK_BYTES:], "big"))
                    old = next(history, None)
            yield batch
        if old is not None:
            raise DatabaseError(f"leaf 0x{inverted(old[0][skip:-BLOCK_BYTES]).hex()} is lost")


def check_changed_leaves(indexed: IndexedTree, blocks: Blocks, faults: list[str]) -> int:
    """Add the faults of the leaves' history to ``faults``; the sum of what was replaced, which that of
    :meth:`VersionCheck.check_spans` over all spans must be."""
    tree, oldest = indexed.tree, blocks.oldest
    sizes = blocks.sizes(tree, 0)
    leaf_sum = change_sum = 0
    predecessors = _Predecessors(blocks)
    for batch in _leaf_batches(indexed, blocks.view):
        replaced = batch.replaced
        faults.extend(predecessors.faults_of(tree, batch.newest))
        index, since, keys = _columns(replaced)
        until = np.array(batch.until, np.uint64)
        hashes = np.frombuffer(b"".join(indexed.hashes(replaced)), np.uint8).reshape(-1, HASH_BYTES)
        leaf_sum += blocks.digest(index, since, until, hashes)
        change_sum += _change_sum(blocks, index, since, keys)
        newest_index, newest_since, newest_keys = _columns(batch.newest)
        change_sum += _change_sum(blocks, newest_index, newest_since, newest_keys)
        inserted = np.array([leaf.inserted for leaf in batch.newest], np.int64)
        is_wrong = np.searchsorted(sizes, newest_index, side="right") != inserted
        for at in np.flatnonzero(is_wrong).tolist()[:FAULTS_MAX]:
            leaf = batch.newest[at]
            faults.append(
                _fault(tree, min(leaf.inserted, blocks.tip), f"leaf {leaf.index} was not inserted in that block")
            )
    faults.extend(predecessors.faults_at_end(tree))
    for block in range(oldest + 1, blocks.tip + 1):
        changed = blocks.view.snapshot.get(CHANGED + u32(block))
        if changed is None:
            faults.append(f"block {block}: what it changed is not stored")
            return leaf_sum
        listed = unpack_changed(changed, len(INDEXED))
        if pack_changed(listed) != changed or any(len(key) != HASH_BYTES for each in listed for _, key in each):
            faults.append(f"block {block}: what it changed is cut off")
            return leaf_sum
        leaves = listed[INDEXED.index(tree.id)]
        change_sum -= _change_sum(
            blocks,
            np.array([index for index, _ in leaves], np.uint64),
            np.full(len(leaves), block, np.uint64),
            np.frombuffer(b"".join([key for _, key in leaves]), np.uint8).reshape(-1, HASH_BYTES),
        )
    if change_sum % 2**64:
        faults.extend(_look_for_changes(indexed, blocks))
    return leaf_sum


class _Predecessors:
    """Check of each leaf's low leaf at the time of its insertion: the next lower key that was there before it.

    Nobody follows the predecessor of a leaf that is as old as the history.
    """

    def __init__(self, blocks: Blocks) -> None:
        self._oldest = blocks.oldest
        self._found = 0
        #: Leaves of rising indexes whose predecessor is still to come, keys falling.
        self._waiting: list[LeafRecord] = []

    def faults_of(self, tree: Tree, leaves: Sequence[LeafRecord]) -> Iterator[str]:
        """The faults that the next leaves, the greatest key first, show."""
        waiting, oldest = self._waiting, self._oldest
        for leaf in leaves:
            while waiting and waiting[-1].index > leaf.index:
                above = waiting.pop()
                if above.predecessor != leaf.key:
                    yield from self._fault(tree, above)
            if leaf.inserted > oldest:
                waiting.append(leaf)

    def faults_at_end(self, tree: Tree) -> Iterator[str]:
        for leaf in self._waiting:
            yield from self._fault(tree, leaf)

    def _fault(self, tree: Tree, leaf: LeafRecord) -> Iterator[str]:
        self._found += 1
        if self._found <= FAULTS_MAX:
            yield _fault(tree, leaf.inserted, f"leaf {leaf.index} was not inserted behind 0x{leaf.predecessor.hex()}")


def _columns(leaves: list[LeafRecord]) -> tuple[Array, Array, Array]:
    """Indexes, blocks that set them, and keys."""
    return (
        np.array([leaf.index for leaf in leaves], np.uint64),
        np.array([leaf.state.changed for leaf in leaves], np.uint64),
        np.frombuffer(b"".join([leaf.key for leaf in leaves]), np.uint8).reshape(-1, HASH_BYTES),
    )


def _change_sum(blocks: Blocks, index: Array, since: Array, keys: Array) -> int:
    chosen = since > np.uint64(blocks.oldest)
    return blocks.digest(index[chosen], since[chosen], keys[chosen])


def _look_for_changes(indexed: IndexedTree, blocks: Blocks) -> Iterator[str]:
    """Name the blocks of which it is not stored, or stored wrongly, what they changed."""
    tree, snapshot = indexed.tree, blocks.view.snapshot
    expected: dict[int, set[tuple[int, bytes]]] = {}
    for batch in _leaf_batches(indexed, blocks.view):
        for leaf in (*batch.newest, *batch.replaced):
            if leaf.state.changed > blocks.oldest:
                expected.setdefault(leaf.state.changed, set()).add((leaf.index, leaf.key))
    found = 0
    for block in range(blocks.oldest + 1, blocks.tip + 1):
        stored = unpack_changed(snapshot.get(CHANGED + u32(block)) or b"", len(INDEXED))[INDEXED.index(tree.id)]
        if set(stored) != expected.get(block, set()):
            yield _fault(tree, block, "the leaves that it changed are not those that are listed")
            found += 1
        if found == FAULTS_MAX:
            return
    if not found:
        yield _fault(tree, blocks.tip, "leaves were changed by blocks that do not list them")


# ---- append-only trees: the edges of smaller trees -------------------------------------------------------


def check_edges(tree: AppendOnlyTree, blocks: Blocks, advance: Advance) -> Iterator[str]:
    """The faults of the edges of older blocks, and of their roots."""
    sizes = blocks.sizes(tree.tree, blocks.oldest)[:-1]
    roots = blocks.roots(tree.tree, blocks.oldest)
    newest = blocks.view.tip.sizes[tree.tree.id]
    found = 0
    for first in range(0, len(sizes), BATCH):
        some = sizes[first : first + BATCH]
        different, which = np.unique(some, return_inverse=True)
        edges, computed = _edges_and_roots(tree, blocks, different)
        for at in np.flatnonzero((computed[which] != roots[first : first + len(some)]).any(axis=1)).tolist():
            stored = roots[first + at].tobytes().hex()
            root = computed[which[at]].tobytes().hex()
            block = blocks.oldest + first + at
            yield _fault(tree.tree, block, f"the leaves give the root 0x{root}, stored is 0x{stored}")
            found += 1
        for size, edge in zip(different.tolist(), edges, strict=True):
            if size != newest and tree.stored_edge(blocks.view.snapshot, size) != edge:
                block = blocks.oldest + int(np.searchsorted(sizes, np.uint64(size)))
                yield _fault(tree.tree, block, f"the edge of {size} leaves does not follow from its nodes")
                found += 1
        if found >= FAULTS_MAX:
            return
        advance((first + len(some)) / len(sizes))


def _edges_and_roots(tree: AppendOnlyTree, blocks: Blocks, sizes: Array) -> tuple[list[bytes], Array]:
    """As :meth:`AppendOnlyTree.edge_and_root` of each size, in one pass over the levels."""
    height, snapshot = tree.tree.height, blocks.view.snapshot
    nodes = np.zeros((len(sizes), HASH_BYTES), np.uint8)
    edges: list[list[bytes]] = [[] for _ in sizes]
    counts = sizes.tolist()
    zeros = zero_nodes(tree.tree)
    simple = {at for at, size in enumerate(counts) if size in (0, 1 << height)}
    for level in range(height):
        rows = [at for at, size in enumerate(counts) if size & ((2 << level) - 1) and at not in simple]
        if not rows:
            continue
        zero = np.frombuffer(zeros, np.uint8)[level * HASH_BYTES : (level + 1) * HASH_BYTES]
        pairs = np.empty((len(rows), 2, HASH_BYTES), np.uint8)
        left: dict[int, Array] = {}
        for place, at in enumerate(rows):
            size = counts[at]
            has_begun = size & ((1 << level) - 1) != 0
            if size >> level & 1:
                index = (size >> level) - 1
                if index not in left:
                    left[index] = np.frombuffer(tree.complete_node(snapshot, level, index), np.uint8)
                pairs[place, 0], pairs[place, 1] = left[index], nodes[at] if has_begun else zero
            else:
                pairs[place, 0], pairs[place, 1] = nodes[at], zero
        hashes = poseidon2.hash_nodes(pairs.tobytes(), tree.tree.separator)
        nodes[rows] = np.frombuffer(hashes, np.uint8).reshape(-1, HASH_BYTES)
        for place, at in enumerate(rows):
            if level + 1 < counts[at].bit_length():
                edges[at].append(hashes[place * HASH_BYTES : (place + 1) * HASH_BYTES])
    for at in simple:
        nodes[at] = np.frombuffer(tree.edge_and_root(snapshot, counts[at])[1], np.uint8)
    return [b"".join(edge) for edge in edges], nodes
