"""Answers from the indexed trees of one view, in plain Python: the readable form of the state_answers kernel.

The stub ``fastnode/_ext/wire/state_answers.pyi`` says what everything does.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fastnode._twins import poseidon2
from fastnode._twins.witness_text import leaf_key, low_entry, membership, message, tail_of, unchanged

if TYPE_CHECKING:
    from fastnode._ext.trees.leaf_cache import LeafCache
    from fastnode._twins.append_tree import AppendNodes
    from fastnode._twins.indexed_tree import IndexedNodes

__all__ = [
    "BLOCK_HASH_WITNESS",
    "LOW_NULLIFIER_WITNESS",
    "MESSAGE_WITNESS",
    "NOTE_HASH_WITNESS",
    "NULLIFIER_WITNESS",
    "PUBLIC_DATA_WITNESS",
    "STORAGE",
    "AppendAnswers",
    "LeafSlots",
    "StateAnswers",
    "StateQuestion",
    "TreeAnswers",
]

STORAGE: Final = 0
PUBLIC_DATA_WITNESS: Final = 1
NULLIFIER_WITNESS: Final = 2
LOW_NULLIFIER_WITNESS: Final = 3
NOTE_HASH_WITNESS: Final = 4
MESSAGE_WITNESS: Final = 5
BLOCK_HASH_WITNESS: Final = 6

_FIELD_BYTES: Final = 32
_PLACES_MAX: Final = 1 << 24
_LEARNT_MAX: Final = 32
_ZERO: Final = b'"0x' + b"0" * 64 + b'"'
_CHANGED: Final = struct.Struct(">I")
_INSERTED: Final = struct.Struct(">6xI")
_VALUE: Final = slice(42, 74)
#: Index and block of an append-only leaf.
_PLACE_BYTES: Final = 10
_INDEX_BYTES: Final = 6
_TILE_LEVELS: Final = 5


class LeafSlots:
    def __init__(self, places: int, separator: bytes) -> None:
        if not 1 <= places <= _PLACES_MAX or places & (places - 1):
            raise ValueError(f"{places} places are no power of two up to {_PLACES_MAX}")
        self._separator = _field(separator)
        self._places: dict[tuple[bytes, bytes], bytes] = {}
        self._places_max = places

    def find(self, contract: bytes, slot: bytes) -> bytes:
        known = _field(contract), _field(slot)
        found = self._places.get(known)
        if found is None:
            found = poseidon2.hash_fields(self._separator + contract + slot)
            if len(self._places) >= self._places_max:
                self._places.clear()
            self._places[known] = found
        return found

    def knows(self, contract: bytes, slot: bytes) -> bool:
        return (_field(contract), _field(slot)) in self._places

    def learn(self, pairs: list[tuple[bytes, bytes]]) -> None:
        for contract, slot in [pair for pair in pairs if not self.knows(*pair)][:_LEARNT_MAX]:
            self.find(contract, slot)


class TreeAnswers:
    def __init__(
        self, nodes: IndexedNodes, leaves: LeafCache, tree: int, leaf_prefix: bytes, tile_prefix: bytes
    ) -> None:
        self.nodes, self.leaves, self.tree = nodes, leaves, tree
        self.leaf_prefix, self.tile_prefix = leaf_prefix, tile_prefix


class AppendAnswers:
    def __init__(
        self, nodes: AppendNodes, tree: int, place_prefix: bytes, tile_prefix: bytes, edge_prefix: bytes
    ) -> None:
        self.nodes, self.tree = nodes, tree
        self.place_prefix, self.tile_prefix, self.edge_prefix = place_prefix, tile_prefix, edge_prefix


class StateAnswers:
    def __init__(
        self,
        *,
        nullifiers: TreeAnswers,
        public_data: TreeAnswers,
        note_hashes: AppendAnswers,
        messages: AppendAnswers,
        archive: AppendAnswers,
        slots: LeafSlots,
        get: Callable[[bytes], bytes | None],
        iterators: deque[Any],
        make_iterator: Callable[[], Any],
        records: Mapping[int, Any],
        oldest: int,
        memory_limit: int,
    ) -> None:
        self._nullifiers, self._public_data, self._slots = nullifiers, public_data, slots
        self._note_hashes, self._messages, self._archive = note_hashes, messages, archive
        self._get, self._iterators, self._make_iterator = get, iterators, make_iterator
        self._records, self.oldest, self.memory_limit = records, oldest, memory_limit
        self._generations = {id(tree): tree.leaves.generation for tree in (nullifiers, public_data)}

    def low_nullifier_witness(self, nullifier: bytes, block: int) -> bytes | None:
        return self._low_witness(self._nullifiers, nullifier, block)

    def public_data_witness(self, leaf_slot: bytes, block: int) -> bytes | None:
        return self._low_witness(self._public_data, leaf_slot, block)

    def nullifier_witness(self, nullifier: bytes, block: int) -> bytes | None:
        size = self._size(self._nullifiers, block)
        key = _field(nullifier)
        if size is None:
            return None
        record = self._own(self._nullifiers, key, size)
        if record is None or _INSERTED.unpack_from(record, tail_of(record))[0] > block:
            return b""
        return self._unchanged(self._nullifiers, key, record, block, size)

    def note_hash_witness(self, note_hash: bytes, block: int) -> bytes | None:
        return self._place_witness(self._note_hashes, note_hash, block, membership)

    def message_witness(self, leaf: bytes, block: int) -> bytes | None:
        return self._place_witness(self._messages, leaf, block, message)

    def block_hash_witness(self, block_hash: bytes, block: int) -> bytes | None:
        return self._place_witness(self._archive, block_hash, block, membership)

    def _place_witness(
        self, tree: AppendAnswers, leaf: bytes, block: int, render: Callable[[int, bytes], bytes]
    ) -> bytes | None:
        _field(leaf)
        record = self._records.get(block)
        if record is None or not self.oldest <= block <= self.memory_limit:
            return None
        # The archive that the block's header names has the blocks before it.
        size = block if tree is self._archive else record.sizes[tree.tree]
        if tree is self._archive and size == 0:
            return None
        place = self._get(tree.place_prefix + leaf)
        if place is None:
            return b""
        if len(place) != _PLACE_BYTES:
            raise ValueError(f"a place of {len(place)} bytes")
        index = int.from_bytes(place[:_INDEX_BYTES], "big")
        if index >= size:
            return b""
        missing: list[int] = []
        tile = self._stored(tree.tile_prefix, index >> _TILE_LEVELS)
        path = tree.nodes.path(index, size, tile, self._stored(tree.edge_prefix, size), missing)
        return None if missing or block > self.memory_limit else render(index, path)

    def _stored(self, prefix: bytes, index: int) -> bytes:
        return self._get(prefix + index.to_bytes(_INDEX_BYTES, "big")) or b""

    def learn(self, pairs: list[tuple[bytes, bytes]]) -> None:
        self._slots.learn(pairs)

    def storage(self, contract: bytes, slot: bytes, block: int) -> bytes | None:
        if block not in self._records or block < self.oldest:
            return None
        size = self._size(self._public_data, block)
        record = self._own(self._public_data, self._slots.find(contract, slot), size)
        if record is None:
            return _ZERO
        tail = tail_of(record)
        if tail != _VALUE.stop:
            raise ValueError(f"a leaf record of {len(record)} bytes in the public data tree")
        if _INSERTED.unpack_from(record, tail)[0] > block:
            return _ZERO
        if _CHANGED.unpack_from(record)[0] > block:
            return None
        return b'"0x%b"' % record[_VALUE].hex().encode()

    def _size(self, tree: TreeAnswers, block: int) -> int | None:
        record = self._records.get(block)
        if record is None or not self.oldest <= block <= self.memory_limit:
            return None
        size: int = record.sizes[tree.tree]
        return size

    def _low_witness(self, tree: TreeAnswers, key: bytes, block: int) -> bytes | None:
        size = self._size(tree, block)
        if size is None:
            return None
        found = self._low(tree, _field(key))
        return None if found is None else self._unchanged(tree, *found, block, size)

    def _low(self, tree: TreeAnswers, key: bytes) -> tuple[bytes, bytes] | None:
        """The leaf with the greatest key <= ``key``, and its record."""
        found = tree.leaves.low(key) if self._is_newest(tree) else None
        if found is None:
            found = low_entry(self._iterators, self._make_iterator, tree.leaf_prefix, key)
            if found is not None:
                tail_of(found[1])
                tree.leaves.keep_leaf(key, *found, self._generations[id(tree)])
        return found

    def _own(self, tree: TreeAnswers, key: bytes, size: int | None) -> bytes | None:
        """The record of the leaf with this key."""
        # If the whole tree has room, the leaf below one that is not there is worth finding: it answers for all
        # keys up to the next one.
        if self._is_newest(tree) and (
            tree.leaves.low(key) is not None or tree.leaves.has_room_for(-1 if size is None else size)
        ):
            found = self._low(tree, key)
            return found[1] if found is not None and found[0] == key else None
        record = self._get(leaf_key(tree.leaf_prefix, key))
        if record is not None:
            tail_of(record)
            tree.leaves.keep_leaf(key, key, record, self._generations[id(tree)])
        return record

    def _is_newest(self, tree: TreeAnswers) -> bool:
        return self._generations[id(tree)] == tree.leaves.generation

    def _unchanged(self, tree: TreeAnswers, key: bytes, record: bytes, block: int, size: int) -> bytes | None:
        def tile_of(tile_key: bytes) -> bytes | None:
            index = int.from_bytes(tile_key[len(tree.tile_prefix) :], "big")
            tile = tree.leaves.tile(index) if self._is_newest(tree) else None
            if tile is None:
                tile = self._get(tile_key) or b""
                tree.leaves.keep_tile(index, tile, self._generations[id(tree)])
            return tile

        witness = unchanged(tree.nodes, key, record, block, size, tree.tile_prefix, tile_of)
        return witness if block <= self.memory_limit else None


class StateQuestion:
    def __init__(
        self, kind: int, otherwise: Callable[..., bytes | None], *, find: Callable[..., int] | None = None
    ) -> None:
        names = {
            STORAGE: "storage",
            PUBLIC_DATA_WITNESS: "public_data_witness",
            NULLIFIER_WITNESS: "nullifier_witness",
            LOW_NULLIFIER_WITNESS: "low_nullifier_witness",
            NOTE_HASH_WITNESS: "note_hash_witness",
            MESSAGE_WITNESS: "message_witness",
            BLOCK_HASH_WITNESS: "block_hash_witness",
        }
        if kind not in names:
            raise ValueError(f"question {kind}")
        self._name = names[kind]
        self._otherwise, self._find = otherwise, find
        self.prepare = self._learn if kind == STORAGE else None

    def __call__(self, view: Any, block: Any, *values: bytes) -> bytes | None:
        found: bytes | None = None
        number = block
        if type(block) is bytes:
            number = view.chain.blocks.number_of(block)
        elif type(block) is not int and self._find is not None:
            number = self._find(view, block)
        if type(number) is int and view.state is not None:
            found = getattr(view.state.answers, self._name)(*values, number)
        if found is None:
            return self._otherwise(view, block, *values)
        return found or None

    def _learn(self, calls: list[tuple[Any, ...]]) -> None:
        if calls and calls[0][0].state is not None:
            calls[0][0].state.answers.learn([call[2:] for call in calls])


def _field(field: bytes) -> bytes:
    if len(field) != _FIELD_BYTES:
        raise ValueError(f"a field of {len(field)} bytes")
    return field
