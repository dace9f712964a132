"""The five trees of a chain in the making: in memory, at the newest block, without a database or any history.

They give the roots that :class:`~fastnode.world_state.state.WorldState` gives, for a fraction of its time: nothing is
written, nobody reads an older block, and the state trees are hashed for many blocks at a time.  Some 1.6 kB of memory
for a transaction with three nullifiers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from fastnode.archiver.source import GenesisRecord
from fastnode.development.tree_versions import Changes, TreeVersions
from fastnode.kernels import poseidon2
from fastnode.protocol.block import L2Block
from fastnode.protocol.constants import (
    GENESIS_INDEXED_LEAVES,
    L1_TO_L2_MESSAGES_PER_CHECKPOINT,
    NOTE_HASHES_PER_TX_MAX,
    NULLIFIERS_PER_TX_MAX,
)
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import field_from_int, split_fields
from fastnode.protocol.genesis import PrefilledPublicData, genesis_public_data
from fastnode.protocol.header import AppendOnlyTreeSnapshot, StateReference
from fastnode.world_state.apply import BlockDraft, Seal
from fastnode.world_state.trees import ARCHIVE, L1_TO_L2, NOTE_HASH, NULLIFIER, PUBLIC_DATA, Tree, zero_nodes

__all__ = ["BlockContent", "GrowingTrees"]

#: Leaves are spread over lists by the first bits of their keys, so that a new one moves few others.
GROUP_BITS: Final = 13
GROUPS: Final = 1 << GROUP_BITS


class BlockContent(NamedTuple):
    """Content of a block for the trees; messages of its checkpoint, if it is the first block of it."""

    effects: Sequence[TxEffect]
    messages: Sequence[bytes] | None


class _Leaf:
    """A leaf of an indexed tree."""

    __slots__ = ("above", "key", "place", "value")

    def __init__(self, key: bytes, place: int, value: bytes) -> None:
        self.key = key
        self.place = place
        self.value = value
        #: The leaf with the next key; of the last one the first.
        self.above = self


def _group_of(key: bytes) -> int:
    return int.from_bytes(key[:2], "big") >> 16 - GROUP_BITS


class _IndexedLeaves:
    """An indexed tree.  Leaves are hashed from key, value (where the tree has values), next key and index.

    New leaves come in groups that take ``width`` places each.
    """

    def __init__(
        self, tree: Tree, width: int, hashes: Callable[[bytes], bytes], leaves: Sequence[tuple[bytes, bytes]]
    ) -> None:
        self._nodes = TreeVersions(tree, width.bit_length() - 1)
        self._width = width
        self._hashes = hashes
        (key, value), *others = leaves  # key 0, below all others
        #: By key.
        self._groups: list[list[_Leaf]] = [[] for _ in range(GROUPS)]
        self._groups[0].append(_Leaf(key, 0, value))
        for place, (key, value) in enumerate(others, 1):
            self._insert(key, place, value)
        self.size = len(leaves)
        changes = Changes()
        changes.filled = [width] * (len(leaves) // width)
        known = [leaf for group in self._groups for leaf in group]
        self._end_block(changes, sorted(known, key=attrgetter("place")))
        self._grow(changes)

    def insert(self, blocks: Iterable[Iterable[Sequence[bytes]]]) -> list[AppendOnlyTreeSnapshot]:
        """Groups of keys, block by block; the tree after each block."""
        changes, sizes = Changes(), []
        for groups in blocks:
            changed: dict[_Leaf, None] = {}
            for keys in groups:
                for place, key in enumerate(keys, self.size):
                    changed.update(dict.fromkeys(self._insert(key, place, b"")))
                changes.filled.append(len(keys))
                self.size += self._width
            self._end_block(changes, changed)
            sizes.append(self.size)
        return [*map(AppendOnlyTreeSnapshot, self._grow(changes), sizes)]

    def write(self, blocks: Iterable[Iterable[tuple[bytes, bytes]]]) -> list[AppendOnlyTreeSnapshot]:
        """Keys with values, block by block; a new key takes the next place.  The tree after each block."""
        changes, sizes = Changes(), []
        for writes in blocks:
            changed: dict[_Leaf, None] = {}
            for key, value in writes:
                leaf = self._find(key)
                if leaf is None:
                    changed.update(dict.fromkeys(self._insert(key, self.size, value)))
                    changes.filled.append(1)
                    self.size += 1
                else:
                    leaf.value = value
                    changed[leaf] = None
            self._end_block(changes, changed)
            sizes.append(self.size)
        return [*map(AppendOnlyTreeSnapshot, self._grow(changes), sizes)]

    def _find(self, key: bytes) -> _Leaf | None:
        group, position = self._place_of(key)
        leaf = group[position] if position < len(group) else None
        return leaf if leaf is not None and leaf.key == key else None

    def _place_of(self, key: bytes) -> tuple[list[_Leaf], int]:
        """The group of a key, and the first leaf in it that is not below the key."""
        group = self._groups[_group_of(key)]
        return group, bisect_left(group, key, key=attrgetter("key"))

    def _insert(self, key: bytes, place: int, value: bytes) -> tuple[_Leaf, _Leaf]:
        """Make a leaf; it and the one below it, which points to it now."""
        leaf = _Leaf(key, place, value)
        group, position = self._place_of(key)
        group.insert(position, leaf)
        number = _group_of(key)
        while not position:
            number -= 1
            group = self._groups[number]
            position = len(group)
        below = group[position - 1]
        leaf.above, below.above = below.above, leaf
        return leaf, below

    def _end_block(self, changes: Changes, leaves: Iterable[_Leaf]) -> None:
        for leaf in leaves:
            above = leaf.above
            changes.places.append(leaf.place)
            changes.contents += (leaf.key, leaf.value, above.key, field_from_int(above.place))
        changes.end_version()

    def _grow(self, changes: Changes) -> list[bytes]:
        return self._nodes.grow(changes, self._hashes(b"".join(changes.contents)))


class _Leaves:
    """An append-only tree whose leaves come in groups that take ``width`` places each."""

    def __init__(self, tree: Tree, width: int) -> None:
        self._nodes = TreeVersions(tree, width.bit_length() - 1)
        self._width = width
        self._size = 0

    def append(self, blocks: Iterable[Iterable[Sequence[bytes]]]) -> list[AppendOnlyTreeSnapshot]:
        """Groups of leaves, block by block; the tree after each block."""
        changes, sizes = Changes(), []
        for groups in blocks:
            for leaves in groups:
                changes.filled.append(len(leaves))
                changes.places += range(self._size, self._size + len(leaves))
                changes.contents += leaves
                self._size += self._width
            changes.end_version()
            sizes.append(self._size)
        return [*map(AppendOnlyTreeSnapshot, self._nodes.grow(changes, b"".join(changes.contents)), sizes)]


class _Archive:
    """The tree of block hashes, each of which follows from the root before it: one leaf at a time."""

    def __init__(self) -> None:
        self._zeros = split_fields(zero_nodes(ARCHIVE))
        #: By level the newest node that is the left one of its pair.
        self._left = list(self._zeros)
        self._size = 0
        self._root = self._zeros[-1]

    def append(self, leaf: bytes) -> None:
        node = leaf
        for level in range(ARCHIVE.height):
            if self._size >> level & 1:
                pair = self._left[level] + node
            else:
                self._left[level] = node
                pair = node + self._zeros[level]
            node = poseidon2.hash_nodes(pair, ARCHIVE.separator)
        self._root = node
        self._size += 1

    @property
    def snapshot(self) -> AppendOnlyTreeSnapshot:
        return AppendOnlyTreeSnapshot(self._root, self._size)


class GrowingTrees:
    """The trees after the genesis of a chain.

    :meth:`grow` takes the content of blocks, :meth:`build` makes one of them after the other.
    """

    def __init__(self, genesis: GenesisRecord) -> None:
        prefilled = [PrefilledPublicData(slot, value) for slot, value in genesis.prefilled_public_data]
        keys = [(field_from_int(key), b"") for key in range(GENESIS_INDEXED_LEAVES)]
        self._nullifiers = _IndexedLeaves(NULLIFIER, NULLIFIERS_PER_TX_MAX, poseidon2.hash_leaves_3, keys)
        self._public_data = _IndexedLeaves(PUBLIC_DATA, 1, poseidon2.hash_leaves_4, genesis_public_data(prefilled))
        self._note_hashes = _Leaves(NOTE_HASH, NOTE_HASHES_PER_TX_MAX)
        self._messages = _Leaves(L1_TO_L2, L1_TO_L2_MESSAGES_PER_CHECKPOINT)
        self._archive = _Archive()
        self._archive.append(genesis.block_hash)
        self._states: deque[StateReference] = deque()
        self.block_number = 0
        self.block_hash = genesis.block_hash

    def grow(self, blocks: Sequence[BlockContent]) -> None:
        """Work out the states after the next blocks, before any of them is built."""
        effects = [block.effects for block in blocks]
        self._states += map(
            StateReference.of_trees,
            self._messages.append([] if block.messages is None else [block.messages] for block in blocks),
            self._note_hashes.append([effect.note_hashes for effect in of_block] for of_block in effects),
            self._nullifiers.insert([effect.nullifiers for effect in of_block] for of_block in effects),
            self._public_data.write(
                [(write.leaf_slot, write.value) for effect in of_block for write in effect.public_data_writes]
                for of_block in effects
            ),
        )

    def build(self, draft: BlockDraft, _messages: Sequence[bytes], seal: Seal) -> tuple[L2Block, None]:
        """The next block, of the content that :meth:`grow` was told."""
        header = seal(self._archive.snapshot, self._states.popleft())
        self.block_number += 1
        self.block_hash = header.hash()
        self._archive.append(self.block_hash)
        number, index = draft.checkpoint_number, draft.index_within_checkpoint
        return L2Block(self._archive.snapshot, header, draft.body, number, index), None

    def commit(self, _prepared: None) -> None:
        """Nothing is left to do."""
