"""Keys and values of the world state database.

Integers are big-endian: ``tree`` u8, ``level`` u8, ``index`` u48, ``block`` u32, ``size`` u48.  ``~key``
is a leaf key (nullifier or slot) with every bit inverted, so that ascending database order is descending
key order and *the greatest key not above k* is one seek.

    M"schema"                        schema version, decimal text
    M"genesis"                       genesis block hash 32 | genesis archive root 32
    M"tip"                           newest block u32 | oldest block with history u32
    M"reset"                         empty; there while all trees are being removed
    M"thin"                          newest block with thin history u32; absent for none
    M"dropped"                       bytes of dropped history that may still be on the disk, u64; absent for none
    M"rebuilt" tree                  empty; there while the trees are made of their leaves alone: this one is whole
    B block                          block record: five trees x (root 32 | size u48), id order |
                                     block hash 32 | checkpoint number u32
    V tree leaf                      index u48 | block u32          first place of a leaf in an append-only tree
    E tree size                      edge nodes, 32 each            partial nodes of an append-only tree
    T tree index>>5                  tile                           levels 0..4, newest; see _twins/append_tree.py
    N tree level index               node 32 [| changed u32]        level 5 and up, newest; complete ones only in an
                                                                    append-only tree; absent means zero node
    H tree level index block         node 32 | changed u32          what ``block`` replaced in an indexed tree
    K tree ~key                      leaf record                    newest state of an indexed leaf
    P tree ~key block                leaf state                     what ``block`` replaced
    U block                          changed leaves of the indexed trees: per tree u32 count, then
                                     (index u48 | key 32) each

    leaf state     changed u32 | next index u48 | next key 32 [| value 32 in the public data tree]
    leaf record    leaf state | index u48 | inserted in block u32 | predecessor key 32

``changed`` is the block that set the value.  To read a node or leaf at block b: the newest value if it was
changed at or before b, else the first H or P entry with block > b.  A node that had no leaf below it at b
is a zero node and needs no look-up, so new nodes leave no history.

History is thin up to block M"thin": what those blocks replaced has H entries of the levels 0, 2, 5, 8, 11 and so on
only.  A node of another level, if it has changed since, is hashed from the two or four nodes of the kept level below
it, and its ``changed`` is the newest of theirs.  After M"thin" all levels have H, so that nothing near the tip is
slower; it follows the finalized block at a distance.

``predecessor`` is the low leaf at the time of insertion; of a leaf that came with a snapshot of leaves, the one at the
block of that snapshot, before which nobody can ask.  The low leaf at block b is found from the newest
one by following predecessors until one was inserted at or before b: keys are hashes, so that takes
about ln(leaves now / leaves then) steps, however many leaves came since.

One synced batch per block holds all five trees, the block record and the tip.

A run of blocks is applied as one step, in one batch: what it changes has the number of its last block, which is then
the oldest block with history.  There is no H, P or U of it and no E between; leaves and V have the blocks in which they
were inserted, and there is a B for each block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from fastnode.kernels import layouts
from fastnode.records import dataclass
from fastnode.storage.database import SharedDatabase
from fastnode.storage.migration import Batch, Migration, version_after
from fastnode.storage.structs import placed


def _begin_thin_history(_database: SharedDatabase) -> Iterable[Batch]:
    """Nothing is thin yet; version 1 would take what becomes thin for damage."""
    return ()


#: From each version of the layout to the next.
MIGRATIONS: tuple[Migration, ...] = (_begin_thin_history,)
SCHEMA_VERSION = version_after(MIGRATIONS)

SCHEMA_KEY = b"Mschema"
GENESIS_KEY = b"Mgenesis"
TIP_KEY = b"Mtip"
THIN_KEY = b"Mthin"
RESET_KEY = b"Mreset"
DROPPED_KEY = b"Mdropped"
REBUILT_KEY = b"Mrebuilt"

BLOCK = b"B"
VALUE = b"V"
EDGE = b"E"
TILE = b"T"
NODE = b"N"
NODE_HISTORY = b"H"
LEAF = b"K"
LEAF_HISTORY = b"P"
CHANGED = b"U"

INDEX_BYTES = layouts.INDEX_BYTES
BLOCK_BYTES = layouts.NUMBER_BYTES
HASH_BYTES = layouts.HASH_BYTES
TREE_COUNT = 5

#: Bytes of a packed leaf, by tree id: leaves.py.
LEAF_ROW_BYTES = (38, 38, 70, 38, 38)

_INVERT = bytes(255 - byte for byte in range(256))


def u32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def u48(number: int) -> bytes:
    return number.to_bytes(6, "big")


def inverted(key: bytes) -> bytes:
    """``~key``; its own inverse."""
    return key.translate(_INVERT)


# ---- tip and blocks ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """Roots and sizes of the five trees after a block, in the order of the tree ids."""

    number: int
    roots: tuple[bytes, ...]
    sizes: tuple[int, ...]
    block_hash: bytes
    checkpoint_number: int

    def pack(self) -> bytes:
        trees = b"".join(root + u48(size) for root, size in zip(self.roots, self.sizes, strict=True))
        return trees + self.block_hash + u32(self.checkpoint_number)

    @classmethod
    def unpack(cls, number: int, data: bytes) -> BlockRecord:
        step = HASH_BYTES + INDEX_BYTES
        ends = range(0, TREE_COUNT * step, step)
        tail = TREE_COUNT * step
        return cls(
            number=number,
            roots=tuple(data[at : at + HASH_BYTES] for at in ends),
            sizes=tuple(int.from_bytes(data[at + HASH_BYTES : at + step], "big") for at in ends),
            block_hash=data[tail : tail + HASH_BYTES],
            checkpoint_number=int.from_bytes(data[tail + HASH_BYTES : tail + HASH_BYTES + 4], "big"),
        )


_TIP = struct.Struct(">II")


def pack_tip(newest: int, oldest: int) -> bytes:
    return _TIP.pack(newest, oldest)


def unpack_tip(data: bytes) -> tuple[int, int]:
    newest, oldest = _TIP.unpack(data)
    return newest, oldest


# ---- leaves of indexed trees -------------------------------------------------------------------

_STATE_HEAD = placed(
    (layouts.LEAF_CHANGED, "I"),
    (layouts.LEAF_NEXT_INDEX, "6s"),
    (layouts.LEAF_NEXT_KEY, "32s"),
    size=layouts.LEAF_VALUE,
)
_RECORD_TAIL = placed(
    (layouts.TAIL_INDEX, "6s"),
    (layouts.TAIL_INSERTED, "I"),
    (layouts.TAIL_PREDECESSOR, "32s"),
    size=layouts.TAIL_BYTES,
)


@dataclass(frozen=True, slots=True)
class LeafState:
    """An indexed leaf at some block; ``value`` is empty in the nullifier tree."""

    changed: int
    next_index: int
    next_key: bytes
    value: bytes

    def pack(self) -> bytes:
        return _STATE_HEAD.pack(self.changed, u48(self.next_index), self.next_key) + self.value

    @classmethod
    def unpack(cls, data: bytes) -> LeafState:
        changed, next_index, next_key = _STATE_HEAD.unpack_from(data)
        return cls(changed, int.from_bytes(next_index, "big"), next_key, data[_STATE_HEAD.size :])


@dataclass(frozen=True, slots=True)
class LeafRecord:
    """An indexed leaf: its newest state and what never changes."""

    key: bytes
    state: LeafState
    index: int
    inserted: int
    predecessor: bytes

    def pack(self) -> bytes:
        return self.state.pack() + _RECORD_TAIL.pack(u48(self.index), self.inserted, self.predecessor)

    @classmethod
    def unpack(cls, key: bytes, data: bytes) -> LeafRecord:
        tail = len(data) - _RECORD_TAIL.size
        index, inserted, predecessor = _RECORD_TAIL.unpack_from(data, tail)
        return cls(key, LeafState.unpack(data[:tail]), int.from_bytes(index, "big"), inserted, predecessor)


# ---- first place of an append-only leaf --------------------------------------------------------


def pack_place(index: int, block: int) -> bytes:
    return u48(index) + u32(block)


def unpack_place(data: bytes) -> tuple[int, int]:
    index, block = data[: layouts.PLACE_BLOCK], data[layouts.PLACE_BLOCK : layouts.PLACE_BYTES]
    return int.from_bytes(index, "big"), int.from_bytes(block, "big")


# ---- changed leaves of a block -----------------------------------------------------------------

_CHANGED_BYTES = INDEX_BYTES + HASH_BYTES


def pack_changed(leaves_by_tree: list[list[tuple[int, bytes]]]) -> bytes:
    """(index, key) of the leaves a block changed, for each indexed tree in the order of the ids."""
    parts = []
    for leaves in leaves_by_tree:
        parts.append(u32(len(leaves)))
        parts.extend(u48(index) + key for index, key in leaves)
    return b"".join(parts)


def unpack_changed(data: bytes, trees: int) -> list[list[tuple[int, bytes]]]:
    """Leaves as :func:`pack_changed` takes them; of damaged bytes, whatever number they begin with, what is there."""
    result, at = [], 0
    for _ in range(trees):
        count = int.from_bytes(data[at : at + 4], "big")
        at += 4
        entries = range(at, min(at + count * _CHANGED_BYTES, len(data)), _CHANGED_BYTES)
        result.append(
            [(int.from_bytes(data[i : i + 6], "big"), data[i + INDEX_BYTES : i + _CHANGED_BYTES]) for i in entries]
        )
        at += count * _CHANGED_BYTES
    return result
