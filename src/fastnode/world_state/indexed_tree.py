"""An indexed tree in the database: nullifiers and public data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import islice, pairwise
from typing import Final, NamedTuple

from fastnode.errors import BlockRejected, DatabaseError
from fastnode.kernels import (
    indexed_tree,
    layouts,
    leaf_cache,
    older_nodes,
    poseidon2,
    state_answers,
    tree_nodes,
    witness_text,
)
from fastnode.records import dataclass
from fastnode.world_state.append_only import Change, filled
from fastnode.world_state.layout import (
    HASH_BYTES,
    LEAF,
    LEAF_HISTORY,
    NODE,
    NODE_HISTORY,
    TILE,
    LeafRecord,
    LeafState,
    inverted,
    u32,
    u48,
)
from fastnode.world_state.levels import Levels
from fastnode.world_state.snapshot import Snapshot
from fastnode.world_state.trees import Tree, zero_nodes

__all__ = ["IndexedTree", "LeafChanges", "NewLeaf", "TreeSize"]

ZERO_KEY: Final = bytes(HASH_BYTES)
LEAVES_PER_RUN: Final = 4096

#: (index, key, value, block of insertion); the value is empty in the nullifier tree.
NewLeaf = tuple[int, bytes, bytes, int]


class TreeSize(NamedTuple):
    """A tree by its number of leaves and its root."""

    size: int
    root: bytes


class _OpenLeaf:
    """A leaf while a block is prepared."""

    __slots__ = ("before", "index", "inserted", "key", "next_index", "next_key", "predecessor", "value")

    def __init__(
        self, key: bytes, index: int, inserted: int, predecessor: bytes, value: bytes, before: LeafState | None
    ) -> None:
        self.key = key
        self.index = index
        self.inserted = inserted
        self.predecessor = predecessor
        self.value = value
        self.before = before
        self.next_index = before.next_index if before else 0
        self.next_key = before.next_key if before else ZERO_KEY

    def content(self) -> tuple[bytes, bytes, bytes, int]:
        """Bytes to hash."""
        return self.key, self.value, self.next_key, self.next_index


@dataclass(slots=True)
class LeafChanges:
    """Changes of a block, or of a run of blocks that ends with it; ``nodes`` is None when no leaf changes."""

    block: int
    size: int
    root: bytes
    leaves: list[_OpenLeaf] = field(default_factory=list)
    nodes: indexed_tree.NodeUpdate | None = None
    #: False: what it replaces is not kept.
    has_history: bool = True

    def changed_leaves(self) -> list[tuple[int, bytes]]:
        """(index, key) of every changed leaf."""
        return [(leaf.index, leaf.key) for leaf in self.leaves]


class IndexedTree:
    """Reads take a snapshot and the block they refer to; the memory of nodes is shared."""

    def __init__(self, tree: Tree, *, value_bytes: int, memory_bytes: int, history_bytes: int, leaf_bytes: int) -> None:
        self.tree = tree
        self.nodes = indexed_tree.IndexedNodes(
            tree.height, zero_nodes(tree), history_bytes=history_bytes, separator=tree.separator
        )
        #: Tiles and leaves that were asked for.
        self.leaves = leaf_cache.LeafCache(leaf_bytes)
        self._value_bytes = value_bytes
        self._zeros = zero_nodes(tree)
        self._leaf_prefix = LEAF + tree.prefix
        self._leaf_history_prefix = LEAF_HISTORY + tree.prefix
        self._tile_prefix = TILE + tree.prefix
        self.answers = state_answers.TreeAnswers(self.nodes, self.leaves, tree.id, self._leaf_prefix, self._tile_prefix)
        self._node_prefix = NODE + tree.prefix
        self._node_history_prefix = NODE_HISTORY + tree.prefix
        self._older_nodes = older_nodes.OlderNodes(
            self.nodes, self._node_prefix, self._node_history_prefix, self._tile_prefix
        )
        self._levels = Levels(
            self.nodes, tree.height, self._node_prefix, node_bytes=indexed_tree.NODE_BYTES, memory_bytes=memory_bytes
        )

    # ---- reads ---------------------------------------------------------------------------------

    def find(self, snapshot: Snapshot, key: bytes) -> LeafRecord | None:
        """The leaf with this key, whenever it was inserted."""
        data = snapshot.get(self._leaf_prefix + inverted(key))
        return LeafRecord.unpack(key, data) if data is not None else None

    def low(self, snapshot: Snapshot, key: bytes, block: int) -> LeafRecord:
        """The leaf with the greatest key <= ``key`` of those inserted at or before ``block``."""
        record = self._newest_low(snapshot, key)
        while record.inserted > block:
            # All keys not above ``key`` at that block are below this one's, and this one's predecessor was the
            # greatest of them when it was inserted, so none of them is above the predecessor.
            found = self.find(snapshot, record.predecessor)
            if found is None:
                raise DatabaseError(f"{self.tree.name}: leaf 0x{record.predecessor.hex()} is lost")
            record = found
        return record

    def _newest_low(self, snapshot: Snapshot, key: bytes) -> LeafRecord:
        return LeafRecord.unpack(*self.newest_low_entry(snapshot, key))

    def newest_low_entry(self, snapshot: Snapshot, key: bytes) -> tuple[bytes, bytes]:
        """Key and stored record of the leaf with the greatest key <= ``key``, whenever it was inserted."""
        found = witness_text.low_entry(snapshot.iterators, snapshot.make_iterator, self._leaf_prefix, key)
        if found is None:
            raise DatabaseError(f"{self.tree.name}: no leaf at or below 0x{key.hex()}")
        return found

    def state(self, snapshot: Snapshot, record: LeafRecord, block: int) -> LeafState:
        """The leaf's content after ``block``, at or after its insertion."""
        if record.state.changed <= block:
            return record.state
        return LeafState.unpack(self.past_state(snapshot, record.key, block))

    def past_state(self, snapshot: Snapshot, key: bytes, block: int) -> bytes:
        """The stored state of a leaf after ``block``, which has another one now."""
        prefix = self._leaf_history_prefix + inverted(key)
        found = snapshot.first(prefix + u32(block + 1), prefix)
        if found is None:
            raise DatabaseError(f"{self.tree.name}: leaf 0x{key.hex()} has no history at block {block}")
        return found[1]

    def path(self, snapshot: Snapshot, index: int, block: int, size: int, *, use_memory: bool) -> bytes:
        """Sibling path of leaf ``index`` after ``block``, when the tree had ``size`` leaves; lowest first."""
        tile = snapshot.get(self._tile_prefix + u48(index >> tree_nodes.TILE_LEVELS)) or b""
        missing: list[int] = []
        path = self.nodes.path(index, block, size, tile, missing, use_memory=use_memory)
        if not missing:
            return path
        wanted = b"".join([bytes([level]) + u48(index >> level ^ 1) for level in missing])
        found = self._older(snapshot, wanted, block, size)
        nodes = dict(zip(missing, range(0, len(found), indexed_tree.NODE_BYTES), strict=True))
        return filled(path, missing, lambda level: found[nodes[level] : nodes[level] + HASH_BYTES])

    def node(self, snapshot: Snapshot, level: int, index: int, block: int, size: int) -> bytes:
        """Any node below the top after ``block``, when the tree had ``size`` leaves, from the database alone."""
        return self._older(snapshot, bytes([level]) + u48(index), block, size)[:HASH_BYTES]

    def _older(self, snapshot: Snapshot, wanted: bytes, block: int, size: int) -> bytes:
        """The stored nodes after ``block`` of joined (level u8 || index u48), from the database alone."""
        reads = snapshot.get, snapshot.iterators, snapshot.make_iterator
        try:
            return self._older_nodes.read(wanted, block, size, block < snapshot.thin, *reads)
        except LookupError as error:
            raise DatabaseError(f"{self.tree.name}: {error.args[0]}") from error

    def stored_leaves(self, snapshot: Snapshot, keys: bytes) -> list[bytes | None]:
        """The record of each of some joined keys as it is stored; None if there is no such leaf."""
        get, prefix, stored = snapshot.get, self._leaf_prefix, inverted(keys)
        return [get(prefix + stored[at : at + HASH_BYTES]) for at in range(0, len(stored), HASH_BYTES)]

    def leaf_with(
        self, snapshot: Snapshot, key: bytes, data: bytes, value: bytes, block: int
    ) -> tuple[int, bytes] | None:
        """Index of the leaf with this key, and what is hashed if its value after ``block`` is ``value``.

        ``data`` is the record of :meth:`stored_leaves`.  None if there was no such leaf at that block.
        """
        tail = len(data) - layouts.TAIL_BYTES
        if int.from_bytes(data[tail + layouts.TAIL_INSERTED : tail + layouts.TAIL_PREDECESSOR], "big") > block:
            return None
        index = int.from_bytes(data[tail + layouts.TAIL_INDEX : tail + layouts.TAIL_INSERTED], "big")
        state = data
        if int.from_bytes(data[layouts.LEAF_CHANGED : layouts.LEAF_NEXT_INDEX], "big") > block:
            state = self.past_state(snapshot, key, block)
        next_index = state[layouts.LEAF_NEXT_INDEX : layouts.LEAF_NEXT_KEY]
        next_key = state[layouts.LEAF_NEXT_KEY : layouts.LEAF_VALUE]
        return index, key + value + next_key + next_index.rjust(HASH_BYTES, b"\0")

    def hash_leaves(self, contents: bytes) -> bytes:
        """Hashes of leaves, 32 bytes each, from what :meth:`leaf_with` gave, joined."""
        return poseidon2.hash_leaves_4(contents) if self._value_bytes else poseidon2.hash_leaves_3(contents)

    def descending_leaves(self, snapshot: Snapshot) -> Iterator[list[LeafRecord]]:
        """All leaves from the greatest key down, in runs."""
        skip = len(self._leaf_prefix)
        with snapshot.scan(self._leaf_prefix) as entries:
            while run := list(islice(entries, LEAVES_PER_RUN)):
                yield [LeafRecord.unpack(inverted(key[skip:]), data) for key, data in run]

    def hashes(self, records: Sequence[LeafRecord]) -> list[bytes]:
        """The leaf hash of each record."""
        hashes = self._leaf_hashes(
            [(record.key, record.state.value, record.state.next_key, record.state.next_index) for record in records]
        )
        return [hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)]

    # ---- prepare -------------------------------------------------------------------------------

    def insert_padded(
        self,
        snapshot: Snapshot,
        before: TreeSize,
        groups: Sequence[tuple[int, Sequence[bytes]]],
        width: int,
        *,
        block: int,
        history: bool = True,
    ) -> LeafChanges:
        """Insert the keys of (block, keys) groups, the last of ``block``; group g takes the indexes from
        ``size + g * width``, unused ones stay empty.  Without ``history`` what is replaced is not kept.

        BlockRejected when a key is already there or comes twice."""
        new: list[NewLeaf] = []
        seen: set[bytes] = set()
        for group, (number, keys) in enumerate(groups):
            for position, key in enumerate(keys):
                if key in seen:
                    raise BlockRejected(f"block {number}: the {self.tree.name} would hold 0x{key.hex()} twice")
                seen.add(key)
                new.append((before.size + group * width + position, key, b"", number))
        return self._prepare(snapshot, block, before, before.size + width * len(groups), new, {}, history=history)

    def write_sequence(
        self,
        snapshot: Snapshot,
        before: TreeSize,
        writes: Sequence[tuple[int, bytes, bytes]],
        *,
        block: int,
        history: bool = True,
    ) -> LeafChanges:
        """Apply (block, key, value) writes in order: a new key takes the next index, a known one keeps its place."""
        final: dict[bytes, bytes] = {key: value for _, key, value in writes}
        first = {key: number for number, key, _ in reversed(writes)}
        new: list[NewLeaf] = []
        rewritten: dict[bytes, _OpenLeaf] = {}
        # dict keeps the place of the first write of a key, which is the one that takes the index
        for key, value in final.items():
            record = self.find(snapshot, key)
            if record is None:
                new.append((before.size + len(new), key, value, first[key]))
            else:
                rewritten[key] = self._reopen(record)
                rewritten[key].value = value
        return self._prepare(snapshot, block, before, before.size + len(new), new, rewritten, history=history)

    def _reopen(self, record: LeafRecord) -> _OpenLeaf:
        return _OpenLeaf(
            record.key, record.index, record.inserted, record.predecessor, record.state.value, record.state
        )

    def _prepare(
        self,
        snapshot: Snapshot,
        block: int,
        before: TreeSize,
        size: int,
        new: list[NewLeaf],
        leaves: dict[bytes, _OpenLeaf],
        *,
        history: bool,
    ) -> LeafChanges:
        self._link(snapshot, new, leaves)
        if indexed_tree.depth(size) > indexed_tree.depth(before.size) and ZERO_KEY not in leaves:
            leaves[ZERO_KEY] = self._reopen(self._newest_low(snapshot, ZERO_KEY))
        changes = LeafChanges(block, size, before.root, has_history=history)
        if leaves:
            changes.leaves = sorted(leaves.values(), key=lambda leaf: leaf.index)
            changes.nodes = self._update_nodes(snapshot, block, before.size, size, changes.leaves, history=history)
            changes.root = changes.nodes.root
        return changes

    def _link(self, snapshot: Snapshot, new: list[NewLeaf], leaves: dict[bytes, _OpenLeaf]) -> None:
        """Chain the new leaves in, in ascending order of keys; the result does not depend on that order."""
        below: _OpenLeaf | None = None  # leaf left of the next new key
        stack: list[_OpenLeaf] = []  # candidates for predecessors: new leaves of this gap with rising indexes
        for index, key, value, block in sorted(new, key=lambda leaf: leaf[1]):
            if below is None or (below.next_key != ZERO_KEY and below.next_key <= key):
                below = self._leaf_below(snapshot, block, key, leaves)
                stack = [below]
            while len(stack) > 1 and stack[-1].index > index:
                stack.pop()
            leaf = _OpenLeaf(key, index, block, stack[-1].key, value, None)
            leaf.next_key, leaf.next_index = below.next_key, below.next_index
            below.next_key, below.next_index = key, index
            leaves[key] = leaf
            stack.append(leaf)
            below = leaf

    def _leaf_below(self, snapshot: Snapshot, block: int, key: bytes, leaves: dict[bytes, _OpenLeaf]) -> _OpenLeaf:
        record = self._newest_low(snapshot, key)
        if record.key == key:
            raise BlockRejected(f"block {block}: 0x{key.hex()} is already in the {self.tree.name}")
        return leaves.setdefault(record.key, self._reopen(record))

    def _update_nodes(
        self, snapshot: Snapshot, block: int, size_before: int, size: int, leaves: list[_OpenLeaf], *, history: bool
    ) -> indexed_tree.NodeUpdate:
        indexes = [leaf.index for leaf in leaves]
        first_new_tile = -(-size_before // tree_nodes.TILE_LEAVES)
        tiles = {}
        for tile in {index >> tree_nodes.TILE_LEVELS for index in indexes}:
            stored = snapshot.get(self._tile_prefix + u48(tile)) if tile < first_new_tile else None
            tiles[tile] = stored or b""

        def fetch(key: bytes) -> bytes:
            return snapshot.get(self._node_prefix + key) or b""

        hashes = self._leaf_hashes(map(_OpenLeaf.content, leaves))
        return self.nodes.update(block, size_before, size, indexes, hashes, tiles, fetch, history=history)

    def _leaf_hashes(self, leaves: Iterable[tuple[bytes, bytes, bytes, int]]) -> bytes:
        """Hashes of (key, value, next key, next index), 32 bytes each.  An indexed leaf that exists is never empty."""
        preimages = b"".join(
            [
                key + value + next_key + next_index.to_bytes(HASH_BYTES, "big")
                for key, value, next_key, next_index in leaves
            ]
        )
        return poseidon2.hash_leaves_4(preimages) if self._value_bytes else poseidon2.hash_leaves_3(preimages)

    # ---- write and undo ------------------------------------------------------------------------

    def changes(self, prepared: LeafChanges, *, is_thin: bool = False) -> Iterator[Change]:
        """Entries that a prepared block writes; with ``is_thin`` its history is from the beginning."""
        stamp = u32(prepared.block)
        for leaf in prepared.leaves:
            inverted_key = inverted(leaf.key)
            if leaf.before is not None and prepared.has_history:
                yield self._leaf_history_prefix + inverted_key + stamp, leaf.before.pack()
            state = LeafState(prepared.block, leaf.next_index, leaf.next_key, leaf.value)
            record = LeafRecord(leaf.key, state, leaf.index, leaf.inserted, leaf.predecessor)
            yield self._leaf_prefix + inverted_key, record.pack()
        if prepared.nodes is None:
            return
        for tile_index, tile in prepared.nodes.tiles:
            yield self._tile_prefix + u48(tile_index), tile
        for key, stored in prepared.nodes.nodes:
            yield self._node_prefix + key, stored
        for key, stored in prepared.nodes.thin_history if is_thin else prepared.nodes.history:
            yield self._node_history_prefix + key + stamp, stored

    def publish(self, prepared: LeafChanges) -> None:
        """Make a written block part of the memory."""
        if prepared.nodes is not None:
            self.nodes.publish(prepared.nodes)
            self.leaves.drop([index for index, _ in prepared.nodes.tiles])
            self._keep_within_limit()

    def undo(
        self, snapshot: Snapshot, block: int, size_before: int, size: int, leaves: list[tuple[int, bytes]]
    ) -> tuple[list[Change], list[tuple[bytes, bytes]]]:
        """(database changes, memory changes) that take ``block`` back; the latter go to :meth:`revert`."""
        changes: list[Change] = []
        restored: list[tuple[bytes, bytes]] = []
        tiles: dict[int, dict[int, bytes]] = {}
        for level, index in self._nodes_above(leaves, size):
            stored = self._superseded(snapshot, level, index, block, size_before, changes)
            if level < tree_nodes.TILE_LEVELS:
                tile_index = index >> (tree_nodes.TILE_LEVELS - level)
                if tile_index not in tiles:
                    tile = snapshot.get(self._tile_prefix + u48(tile_index)) or b""
                    tiles[tile_index] = tree_nodes.unpack_tile(tile, indexed_tree.NODE_BYTES)
                _set_or_remove(tiles[tile_index], tree_nodes.tile_position(level, index), stored)
            else:
                key = bytes([level]) + u48(index)
                changes.append((self._node_prefix + key, stored or None))
                restored.append((key, stored))
        for tile_index, nodes in tiles.items():
            changes.append((self._tile_prefix + u48(tile_index), tree_nodes.pack_tile(nodes) if nodes else None))
        changes.extend(self._leaves_before(snapshot, block, leaves))
        return changes, restored

    def _nodes_above(self, leaves: list[tuple[int, bytes]], size: int) -> Iterator[tuple[int, int]]:
        """(level, index) of every stored node that a change of these leaves touches."""
        row = sorted({index for index, _ in leaves})
        for level in range(indexed_tree.depth(size)):
            for index in row:
                yield level, index
            row = list(dict.fromkeys(index >> 1 for index in row))

    def _superseded(
        self, snapshot: Snapshot, level: int, index: int, block: int, size_before: int, changes: list[Change]
    ) -> bytes:
        """The stored node that ``block`` replaced, empty if it was new; its history entry is dropped."""
        if not _is_replaced(level, index, size_before):
            return b""
        if block <= snapshot.thin and not indexed_tree.is_kept(level):
            return self._older(snapshot, bytes([level]) + u48(index), block - 1, size_before)
        key = self._node_history_prefix + bytes([level]) + u48(index) + u32(block)
        stored = snapshot.get(key)
        if stored is None:
            raise DatabaseError(f"{self.tree.name}: node ({level}, {index}) has no history at block {block}")
        changes.append((key, None))
        return stored

    def _leaves_before(self, snapshot: Snapshot, block: int, leaves: list[tuple[int, bytes]]) -> Iterator[Change]:
        for _, key in leaves:
            record = self.find(snapshot, key)
            if record is None:
                raise DatabaseError(f"{self.tree.name}: leaf 0x{key.hex()} is lost")
            if record.inserted == block:
                yield self._leaf_prefix + inverted(key), None
                continue
            history_key = self._leaf_history_prefix + inverted(key) + u32(block)
            state = snapshot.get(history_key)
            if state is None:
                raise DatabaseError(f"{self.tree.name}: leaf 0x{key.hex()} has no history at block {block}")
            before = LeafRecord(key, LeafState.unpack(state), record.index, record.inserted, record.predecessor)
            yield self._leaf_prefix + inverted(key), before.pack()
            yield history_key, None

    def revert(self, block: int, restored: list[tuple[bytes, bytes]]) -> None:
        """Remove an undone block from the memory."""
        self.nodes.pop_history(block)
        self.nodes.load(restored)
        self.leaves.clear()

    def repeat(
        self,
        block: int,
        history: Iterable[tuple[bytes, bytes]],
        nodes: Iterable[tuple[bytes, bytes]],
        tiles: Iterable[int],
    ) -> None:
        """Make part of the memory what another process has written for ``block``: by level u8 || index u48 what was
        replaced, and the newest nodes; which tiles have changed.  Superseded values go first, as when a block is
        published."""
        for key, stored in history:
            self.nodes.push_history(key, stored, block)
        self.nodes.load(nodes)
        self.leaves.drop(tiles)
        self._keep_within_limit()

    def prune(
        self, block: int, size_before: int, size: int, leaves: list[tuple[int, bytes]], *, is_thin: bool
    ) -> Iterator[Change]:
        """Drop the values that ``block`` replaced."""
        for level, index in self._nodes_above(leaves, size):
            if _is_replaced(level, index, size_before) and (not is_thin or indexed_tree.is_kept(level)):
                yield self._node_history_prefix + bytes([level]) + u48(index) + u32(block), None
        for _, key in leaves:
            yield self._leaf_history_prefix + inverted(key) + u32(block), None

    def thin(self, block: int, size_before: int, size: int, leaves: list[tuple[int, bytes]]) -> Iterator[Change]:
        """Drop of the nodes that ``block`` replaced those that follow from others."""
        for level, index in self._nodes_above(leaves, size):
            if _is_replaced(level, index, size_before) and not indexed_tree.is_kept(level):
                yield self._node_history_prefix + bytes([level]) + u48(index) + u32(block), None

    # ---- memory --------------------------------------------------------------------------------

    def open(self, snapshot: Snapshot, size: int) -> None:
        """Load the uppermost nodes of a tree of ``size`` leaves: no more than takes a few milliseconds."""
        self._levels.choose_at_open(size)
        self._levels.load(snapshot, indexed_tree.depth(size))

    def load_next_level(self, snapshot: Snapshot, size: int) -> bool:
        """Load one more level of the newest tree; False when there is none, or no room for it."""
        level = self._levels.next_to_load(size)
        if level is None:
            return False
        with self._levels.stored(snapshot, level) as entries:
            self.nodes.load_next_level(entries)
        return True

    def remember_block(
        self, snapshot: Snapshot, block: int, size_before: int, size: int, leaves: list[tuple[int, bytes]]
    ) -> None:
        """Put what ``block`` replaced back into the memory; blocks come in ascending order."""
        ignored: list[Change] = []
        for level, index in self._nodes_above(leaves, size):
            stored = self._superseded(snapshot, level, index, block, size_before, ignored)
            if stored:
                self.nodes.push_history(bytes([level]) + u48(index), stored, block)

    def _keep_within_limit(self) -> None:
        self._levels.keep_within_limit(history_bytes=self.nodes.history_length() * indexed_tree.HISTORY_ENTRY_BYTES)

    # ---- genesis -------------------------------------------------------------------------------

    def genesis(self, entries: Sequence[tuple[bytes, bytes]]) -> LeafChanges:
        """A tree of these (key, value) leaves in ascending order, each pointing to the next."""
        leaves = [_OpenLeaf(key, index, 0, ZERO_KEY, value, None) for index, (key, value) in enumerate(entries)]
        for leaf, following in pairwise(leaves):
            leaf.next_key, leaf.next_index = following.key, following.index
            following.predecessor = leaf.key
        indexes = [leaf.index for leaf in leaves]
        tiles = dict.fromkeys((index >> tree_nodes.TILE_LEVELS for index in indexes), b"")
        hashes = self._leaf_hashes(map(_OpenLeaf.content, leaves))
        nodes = self.nodes.update(0, 0, len(leaves), indexes, hashes, tiles, lambda _: b"")
        return LeafChanges(0, len(leaves), nodes.root, leaves, nodes)


def _is_replaced(level: int, index: int, size_before: int) -> bool:
    """True if a changed node was stored, or a zero node below the top, when the tree had ``size_before`` leaves."""
    return level < indexed_tree.depth(size_before) and index << level < size_before


def _set_or_remove(nodes: dict[int, bytes], position: int, stored: bytes) -> None:
    if stored:
        nodes[position] = stored
    else:
        nodes.pop(position, None)
