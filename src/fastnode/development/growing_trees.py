"""The five trees of a chain in the making: in memory, at the newest block, without a database or any history.

They give the roots that :class:`~fastnode.world_state.state.WorldState` gives, for a fraction of its time: nothing is
written, and nobody reads an older block.  Some 1.5 kB of memory for a transaction with three nullifiers.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from fastnode.archiver.source import GenesisRecord
from fastnode.kernels import append_tree, indexed_tree, poseidon2, tree_nodes
from fastnode.protocol.block import L2Block
from fastnode.protocol.constants import (
    GENESIS_INDEXED_LEAVES,
    L1_TO_L2_MESSAGES_PER_CHECKPOINT,
    NOTE_HASHES_PER_TX_MAX,
    NULLIFIERS_PER_TX_MAX,
)
from fastnode.protocol.fields import FIELD_BYTES, field_from_int
from fastnode.protocol.genesis import PrefilledPublicData, genesis_public_data
from fastnode.protocol.header import AppendOnlyTreeSnapshot, StateReference
from fastnode.world_state.apply import BlockDraft, Seal
from fastnode.world_state.trees import ARCHIVE, L1_TO_L2, NOTE_HASH, NULLIFIER, PUBLIC_DATA, Tree, zero_nodes

__all__ = ["GrowingTrees"]

ZERO_KEY: Final = bytes(FIELD_BYTES)
#: Keys are spread over lists by their first bits, so that a new one moves few others.
GROUP_BITS: Final = 12
GROUPS: Final = 1 << GROUP_BITS


class _SortedKeys:
    """A set of keys with the neighbours of each.  Key 0 comes first, so every key has one below."""

    def __init__(self) -> None:
        self._groups: list[list[bytes]] = [[] for _ in range(GROUPS)]

    def add(self, key: bytes) -> None:
        insort(self._groups[_group_of(key)], key)

    def below(self, key: bytes) -> bytes:
        number = _group_of(key)
        group = self._groups[number]
        position = bisect_left(group, key)
        while not position:
            number -= 1
            group = self._groups[number]
            position = len(group)
        return group[position - 1]

    def above(self, key: bytes) -> bytes:
        """The next key; 0 after the last one."""
        number = _group_of(key)
        group = self._groups[number]
        position = bisect_left(group, key) + 1
        while position >= len(group):
            number += 1
            if number == GROUPS:
                return ZERO_KEY
            group, position = self._groups[number], 0
        return group[position]


def _group_of(key: bytes) -> int:
    return int.from_bytes(key[:2], "big") >> (16 - GROUP_BITS)


class _IndexedLeaves:
    """An indexed tree.  Leaves are hashed from key, value (where the tree has values), next key and index."""

    def __init__(self, tree: Tree, hashes: Callable[[bytes], bytes], leaves: Sequence[tuple[bytes, bytes]]) -> None:
        self._nodes = indexed_tree.IndexedNodes(
            tree.height, zero_nodes(tree), history_bytes=0, separator=tree.separator
        )
        self._hashes = hashes
        self._tiles: defaultdict[int, bytes] = defaultdict(bytes)
        self._keys = _SortedKeys()
        self._places: dict[bytes, int] = {}
        self._values: dict[bytes, bytes] = {}
        self.size = 0
        self.root = b""
        self._set([(index, key, value) for index, (key, value) in enumerate(leaves)], (), len(leaves))

    def insert_padded(self, groups: Iterable[Sequence[bytes]], width: int) -> None:
        """Group g takes the places from the end of the tree on plus g times ``width``."""
        starts = [*enumerate(groups)]
        new = [
            (self.size + group * width + position, key, b"")
            for group, keys in starts
            for position, key in enumerate(keys)
        ]
        self._set(new, (), self.size + len(starts) * width)

    def write(self, writes: Iterable[tuple[bytes, bytes]]) -> None:
        """(key, value) in order; a new key takes the next place."""
        final = dict(writes)
        new = [key for key in final if key not in self._places]
        self._values.update((key, value) for key, value in final.items() if key in self._places)
        leaves = [(self.size + number, key, final[key]) for number, key in enumerate(new)]
        self._set(leaves, final.keys(), self.size + len(leaves))

    def _set(self, new: Sequence[tuple[int, bytes, bytes]], written: Iterable[bytes], size: int) -> None:
        changed = set(written)
        for index, key, value in new:
            self._keys.add(key)
            self._places[key] = index
            if value:
                self._values[key] = value
            changed.add(key)
        changed.update([self._keys.below(key) for _, key, _ in new if key != ZERO_KEY])
        size_before, self.size = self.size, size
        if indexed_tree.depth(size) > indexed_tree.depth(size_before):
            changed.add(ZERO_KEY)
        if changed:
            self._hash(size_before, sorted(changed, key=self._places.__getitem__))

    def _hash(self, size_before: int, keys: list[bytes]) -> None:
        places, values = self._places, self._values
        preimages = []
        for key in keys:
            above = self._keys.above(key)
            preimages.append(key + values.get(key, b"") + above + field_from_int(places[above]))
        hashes = self._hashes(b"".join(preimages))
        indexes = [places[key] for key in keys]
        update = self._nodes.update(0, size_before, self.size, indexes, hashes, self._tiles, _no_node, history=False)
        self._tiles.update(update.tiles)
        self._nodes.publish(update)
        self.root = update.root

    @property
    def snapshot(self) -> AppendOnlyTreeSnapshot:
        return AppendOnlyTreeSnapshot(self.root, self.size)


def _no_node(_key: bytes) -> bytes:
    return b""


class _Leaves:
    """An append-only tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._nodes = append_tree.AppendNodes(tree.height, zero_nodes(tree), separator=tree.separator)
        self._zeros = zero_nodes(tree)
        self._tile = b""
        self.size = 0
        self.root = self._zeros[-FIELD_BYTES:]

    def append(self, leaves: bytes) -> None:
        if not leaves:
            return
        tile = self._tile if self.size % tree_nodes.TILE_LEAVES else b""
        growth = self._nodes.append(self.size, self._frontier(), tile, leaves)
        self._nodes.publish(growth)
        newest = (growth.size - 1) >> tree_nodes.TILE_LEVELS
        self._tile = next((tile for index, tile in growth.tiles if index == newest), b"")
        self.size, self.root = growth.size, growth.root

    def _frontier(self) -> bytes:
        """Per level the complete node left of where the next leaf goes."""
        nodes = tree_nodes.unpack_tile(self._tile, append_tree.NODE_BYTES)
        frontier = bytearray(FIELD_BYTES * self._tree.height)
        for level in range(self._tree.height):
            if not self.size >> level & 1:
                continue
            index = (self.size >> level) - 1
            if level < tree_nodes.TILE_LEVELS:
                node = nodes.get(tree_nodes.tile_position(level, index))
            else:
                node = self._nodes.node(level, index)
            at = level * FIELD_BYTES
            frontier[at : at + FIELD_BYTES] = node or self._zeros[at : at + FIELD_BYTES]
        return bytes(frontier)

    @property
    def snapshot(self) -> AppendOnlyTreeSnapshot:
        return AppendOnlyTreeSnapshot(self.root, self.size)


class GrowingTrees:
    """The trees after the genesis of a chain; :meth:`build` makes one block after the other."""

    def __init__(self, genesis: GenesisRecord) -> None:
        prefilled = [PrefilledPublicData(slot, value) for slot, value in genesis.prefilled_public_data]
        keys = [(field_from_int(key), b"") for key in range(GENESIS_INDEXED_LEAVES)]
        self._nullifiers = _IndexedLeaves(NULLIFIER, poseidon2.hash_leaves_3, keys)
        self._public_data = _IndexedLeaves(PUBLIC_DATA, poseidon2.hash_leaves_4, genesis_public_data(prefilled))
        self._note_hashes = _Leaves(NOTE_HASH)
        self._messages = _Leaves(L1_TO_L2)
        self._archive = _Leaves(ARCHIVE)
        self._archive.append(genesis.block_hash)
        self.block_number = 0
        self.block_hash = genesis.block_hash

    def build(self, draft: BlockDraft, messages: Sequence[bytes], seal: Seal) -> tuple[L2Block, None]:
        """The next block, of this content; ``messages`` are those of its checkpoint, for the first block of it."""
        effects = draft.body.tx_effects
        last_archive = self._archive.snapshot
        if draft.index_within_checkpoint == 0:
            self._messages.append(_padded(messages, L1_TO_L2_MESSAGES_PER_CHECKPOINT))
        self._note_hashes.append(b"".join([_padded(effect.note_hashes, NOTE_HASHES_PER_TX_MAX) for effect in effects]))
        self._nullifiers.insert_padded([effect.nullifiers for effect in effects], NULLIFIERS_PER_TX_MAX)
        self._public_data.write(
            (write.leaf_slot, write.value) for effect in effects for write in effect.public_data_writes
        )
        header = seal(
            last_archive,
            StateReference.of_trees(
                l1_to_l2_message_tree=self._messages.snapshot,
                note_hash_tree=self._note_hashes.snapshot,
                nullifier_tree=self._nullifiers.snapshot,
                public_data_tree=self._public_data.snapshot,
            ),
        )
        self.block_number += 1
        self.block_hash = header.hash()
        self._archive.append(self.block_hash)
        number, index = draft.checkpoint_number, draft.index_within_checkpoint
        return L2Block(self._archive.snapshot, header, draft.body, number, index), None

    def commit(self, _prepared: None) -> None:
        """Nothing is left to do."""


def _padded(leaves: Sequence[bytes], count: int) -> bytes:
    return b"".join(leaves).ljust(count * FIELD_BYTES, b"\0")
