"""An independent judge of roots and witnesses, in plain Python.

It has its own Poseidon2 from a table of its own, its own reading of the wire forms, its own trees.  The trees are the
textbook ones: every node of the newest state in a dictionary.

One permutation takes some 100 us here and a witness of 42 levels needs 43 of them, so nodes and leaves that have
been hashed once are remembered by their whole input, and the kernel's hash of one run stands in for the own one: every
``CHECKED_EACH``-th distinct input is hashed by both.  A witness that differs in one bit leads to inputs that are not
remembered.
"""

from __future__ import annotations

import base64
import gzip
import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fastnode import kernels

PARAMETERS = Path(__file__).parents[1] / "data" / "poseidon2_parameters.json.gz"

ZERO = bytes(32)
HEIGHTS = {"nullifier": 42, "note hash": 42, "public data": 40, "message": 36, "archive": 30}
GENESIS_LEAVES = 128
SLOTS_PER_TX = 64
MESSAGES_PER_CHECKPOINT = 1024
#: Distinct inputs of which one is hashed by this module too.
CHECKED_EACH = 128


# ---- Poseidon2 --------------------------------------------------------------------------------------


def _read_parameters() -> tuple[int, list[list[int]], list[int], list[int]]:
    table = json.loads(gzip.decompress(PARAMETERS.read_bytes()))
    full = [[int(text, 16) for text in row] for row in table["fullRoundConstants"]]
    partial = [int(text, 16) for text in table["partialRoundConstants"]]
    diagonal = [int(text, 16) for text in table["internalDiagonalMinusOne"]]
    assert table["externalMatrix"] == [[5, 7, 1, 3], [4, 6, 1, 1], [1, 3, 5, 7], [1, 1, 4, 6]]
    return int(table["modulus"], 16), full, partial, diagonal


P, _FULL, _PARTIAL, _DIAGONAL = _read_parameters()


def _mix(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    return (
        (5 * a + 7 * b + c + 3 * d) % P,
        (4 * a + 6 * b + c + d) % P,
        (a + 3 * b + 5 * c + 7 * d) % P,
        (a + b + 4 * c + 6 * d) % P,
    )


def permute(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    a, b, c, d = _mix(a, b, c, d)
    for row in _FULL[:4]:
        a, b, c, d = _mix(*(pow(lane + constant, 5, P) for lane, constant in zip((a, b, c, d), row, strict=True)))
    p = P
    d0, d1, d2, d3 = _DIAGONAL
    for constant in _PARTIAL:
        a += constant
        square = a * a % p
        a = square * square % p * a % p
        total = a + b + c + d
        a, b, c, d = (d0 * a + total) % p, (d1 * b + total) % p, (d2 * c + total) % p, (d3 * d + total) % p
    for row in _FULL[4:]:
        a, b, c, d = _mix(*(pow(lane + constant, 5, P) for lane, constant in zip((a, b, c, d), row, strict=True)))
    return a, b, c, d


def poseidon2(fields: Sequence[int]) -> int:
    """Hash of any number of fields: three at a time into the first lanes, the number in the last one."""
    a = b = c = 0
    d = len(fields) << 64
    for start in range(0, max(1, len(fields)), 3):
        group = [*fields[start : start + 3], 0, 0, 0]
        a, b, c, d = permute((a + group[0]) % P, (b + group[1]) % P, (c + group[2]) % P, d)
    return a


def _number(field: bytes) -> int:
    assert len(field) == 32
    value = int.from_bytes(field, "big")
    assert value < P, "a field is not below the modulus"
    return value


# ---- what a witness says ----------------------------------------------------------------------------


class LeafWitness(NamedTuple):
    """A leaf of an append-only tree and its path, lowest sibling first."""

    index: int
    path: bytes


class IndexedLeafWitness(NamedTuple):
    """A leaf of an indexed tree and its path; ``value`` is None in the nullifier tree."""

    index: int
    key: bytes
    value: bytes | None
    next_key: bytes
    next_index: int
    path: bytes


class WitnessRejectedError(AssertionError):
    """A witness does not prove what it should."""


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise WitnessRejectedError(reason)


# ---- witnesses as they are sent ---------------------------------------------------------------------


def _hex_field(text: str) -> bytes:
    assert len(text) == 66
    assert text.startswith("0x")
    assert text == text.lower()
    return bytes.fromhex(text[2:])


def _decimal(text: str) -> int:
    assert isinstance(text, str)
    assert str(int(text)) == text
    return int(text)


def _sibling_path(text: str, height: int) -> bytes:
    data = base64.b64decode(text, validate=True)
    assert int.from_bytes(data[:4], "big") == height
    assert len(data) == 4 + 32 * height
    return data[4:]


def read_membership_witness(value: Any, height: int) -> LeafWitness:
    """Note hash and archive: one string, the leaf index in 32 bytes and the path."""
    data = base64.b64decode(value, validate=True)
    assert len(data) == 32 + 32 * height
    return LeafWitness(int.from_bytes(data[:32], "big"), data[32:])


def read_message_witness(value: Any) -> LeafWitness:
    """L1 to L2 message: index and path side by side."""
    index, path = value
    return LeafWitness(_decimal(index), _sibling_path(path, HEIGHTS["message"]))


def read_nullifier_witness(value: Any) -> IndexedLeafWitness:
    preimage = value["leafPreimage"]
    return IndexedLeafWitness(
        _decimal(value["index"]),
        _hex_field(preimage["leaf"]["nullifier"]),
        None,
        _hex_field(preimage["nextKey"]),
        _decimal(preimage["nextIndex"]),
        _sibling_path(value["siblingPath"], HEIGHTS["nullifier"]),
    )


def read_public_data_witness(value: Any) -> IndexedLeafWitness:
    preimage = value["leafPreimage"]
    return IndexedLeafWitness(
        _decimal(value["index"]),
        _hex_field(preimage["leaf"]["slot"]),
        _hex_field(preimage["leaf"]["value"]),
        _hex_field(preimage["nextKey"]),
        _decimal(preimage["nextIndex"]),
        _sibling_path(value["siblingPath"], HEIGHTS["public data"]),
    )


# ---- hashing with a memory ----------------------------------------------------------------------------


class Verifier:
    """Hashes nodes and leaves, each distinct input once; judges witnesses.

    ``checked_each``: distinct inputs of which one is hashed by this module too; 1: the kernel hashes none.
    """

    def __init__(self, checked_each: int = CHECKED_EACH) -> None:
        self._checked_each = checked_each
        self._nodes: dict[bytes, bytes] = {}
        self._leaves: dict[tuple[bytes | int | None, ...], bytes] = {}
        zeros = [ZERO]
        for _ in range(max(HEIGHTS.values())):
            zeros.append(self.node(zeros[-1] + zeros[-1]))
        #: Roots of empty trees of heights 0, 1, 2, ...
        self.zeros = zeros

    @property
    def hashed(self) -> int:
        """Distinct inputs hashed so far."""
        return len(self._nodes) + len(self._leaves)

    def node(self, pair: bytes) -> bytes:
        """The parent of two joined nodes."""
        found = self._nodes.get(pair)
        if found is None:
            found = self._hash(pair[:32], pair[32:])
            self._nodes[pair] = found
        return found

    def indexed_leaf(self, key: bytes, value: bytes | None, next_key: bytes, next_index: int) -> bytes:
        """Hash of a leaf of the nullifier tree (``value`` None) or of the public data tree."""
        content = (key, value, next_key, next_index)
        found = self._leaves.get(content)
        if found is None:
            head = (key,) if value is None else (key, value)
            found = self._hash(*head, next_key, next_index.to_bytes(32, "big"))
            self._leaves[content] = found
        return found

    def _hash(self, *fields: bytes) -> bytes:
        is_checked = self.hashed % self._checked_each == 0
        if not is_checked:
            return kernels.poseidon2.hash_fields(b"".join(fields))
        own = poseidon2([_number(field) for field in fields]).to_bytes(32, "big")
        if self._checked_each > 1:
            assert kernels.poseidon2.hash_fields(b"".join(fields)) == own
        return own

    # ---- verdicts ------------------------------------------------------------------------------

    def root(self, leaf: bytes, index: int, path: bytes) -> bytes:
        """The root that a path leads to."""
        node = leaf
        nodes = self._nodes
        position = index
        for start in range(0, len(path), 32):
            sibling = path[start : start + 32]
            pair = sibling + node if position & 1 else node + sibling
            node = nodes.get(pair) or self.node(pair)
            position >>= 1
        _require(position == 0, f"leaf index {index} is outside of a tree of height {len(path) // 32}")
        return node

    def require_leaf(self, witness: LeafWitness, leaf: bytes, root: bytes, height: int) -> None:
        """The witness proves that ``leaf`` stands at its index below ``root``."""
        _require(len(witness.path) == 32 * height, "the path is not as long as the tree is high")
        _require(self.root(leaf, witness.index, witness.path) == root, "the path does not lead to the root")

    def require_indexed_leaf(self, witness: IndexedLeafWitness, root: bytes, height: int) -> None:
        """The witness proves that its leaf, as it describes it, stands below ``root``."""
        leaf = self.indexed_leaf(witness.key, witness.value, witness.next_key, witness.next_index)
        self.require_leaf(LeafWitness(witness.index, witness.path), leaf, root, height)

    def require_present(self, witness: IndexedLeafWitness, key: bytes, root: bytes, height: int) -> None:
        """The witness proves that ``key`` is in the tree."""
        _require(witness.key == key, "the witness is about another key")
        self.require_indexed_leaf(witness, root, height)

    def require_absent(self, witness: IndexedLeafWitness, key: bytes, root: bytes, height: int) -> None:
        """The witness proves that ``key`` is not in the tree: a leaf below it points past it."""
        _require(_number(witness.key) < _number(key), "the low leaf is not below the key")
        is_last = witness.next_key == ZERO
        _require(is_last or _number(key) < _number(witness.next_key), "the low leaf does not point past the key")
        _require(not is_last or witness.next_index == 0, "the last leaf points to an index")
        self.require_indexed_leaf(witness, root, height)


# ---- the trees, by the book -----------------------------------------------------------------------


class PlainTree:
    """A Merkle tree of fixed height with every node of its newest state."""

    def __init__(self, verifier: Verifier, height: int) -> None:
        self.root = verifier.zeros[height]
        self.size = 0
        self._verifier = verifier
        self._levels: list[dict[int, bytes]] = [{} for _ in range(height)]

    def set(self, leaves: Mapping[int, bytes]) -> None:
        """Put leaves at their indices."""
        changed = dict(leaves)
        node, zeros = self._verifier.node, self._verifier.zeros
        for level, nodes in enumerate(self._levels):
            nodes.update(changed)
            zero = zeros[level]
            changed = {
                parent: node(nodes.get(2 * parent, zero) + nodes.get(2 * parent + 1, zero))
                for parent in {index >> 1 for index in changed}
            }
        if leaves:
            self.root = changed[0]
            self.size = max(self.size, max(leaves) + 1)

    def append(self, leaves: Sequence[bytes]) -> None:
        self.set(dict(enumerate(leaves, self.size)))


class PlainIndexedTree:
    """An indexed tree whose sorted keys are a Python list; all leaves are hashed from their content."""

    def __init__(self, verifier: Verifier, height: int, genesis: Iterable[tuple[bytes, bytes | None]]) -> None:
        self._verifier = verifier
        self._tree = PlainTree(verifier, height)
        #: Keys in order, their indices, and their values.
        self.keys: list[bytes] = []
        self.index: dict[bytes, int] = {}
        self.value: dict[bytes, bytes | None] = {}
        leaves = list(genesis)
        for index, (key, value) in enumerate(leaves):
            self._add(key, value, index)
        self._finish({key for key, _ in leaves}, len(leaves))

    @property
    def root(self) -> bytes:
        return self._tree.root

    @property
    def size(self) -> int:
        return self._tree.size

    def insert(self, slots: Sequence[bytes | None]) -> None:
        """Nullifiers one after the other; None takes an index and stays empty."""
        touched = set()
        for offset, key in enumerate(slots):
            if key is not None:
                touched |= {key, self._add(key, None, self.size + offset)}
        self._finish(touched, self.size + len(slots))

    def write(self, writes: Iterable[tuple[bytes, bytes]]) -> None:
        """Public data writes one after the other: a new slot takes the next index, a known one keeps its own."""
        touched = set()
        size = self.size
        for key, value in writes:
            touched.add(key)
            if key in self.index:
                self.value[key] = value
            else:
                touched.add(self._add(key, value, size))
                size += 1
        self._finish(touched, size)

    def _add(self, key: bytes, value: bytes | None, index: int) -> bytes:
        """Put a new key in its place; returns the key below it (or the key itself at the very start)."""
        assert key not in self.index
        place = bisect_left(self.keys, key)
        self.keys.insert(place, key)
        self.index[key] = index
        self.value[key] = value
        return self.keys[max(0, place - 1)]

    def _finish(self, touched: set[bytes], size: int) -> None:
        self._tree.set({self.index[key]: self._leaf(key) for key in touched})
        self._tree.size = size

    def _leaf(self, key: bytes) -> bytes:
        next_key = self.next_key(key)
        return self._verifier.indexed_leaf(key, self.value[key], next_key, self.index[next_key] if any(next_key) else 0)

    def next_key(self, key: bytes) -> bytes:
        """The next greater key in the tree, zero for the greatest."""
        place = bisect_right(self.keys, key)
        return self.keys[place] if place < len(self.keys) else ZERO


class PlainState:
    """The five trees of a chain, from block bodies alone."""

    def __init__(self, verifier: Verifier, prefilled: Sequence[tuple[bytes, bytes]] = ()) -> None:
        def key(number: int) -> bytes:
            return number.to_bytes(32, "big")

        self.nullifiers = PlainIndexedTree(
            verifier, HEIGHTS["nullifier"], [(key(number), None) for number in range(GENESIS_LEAVES)]
        )
        filling: list[tuple[bytes, bytes]] = [(key(number), ZERO) for number in range(GENESIS_LEAVES - len(prefilled))]
        self.public_data = PlainIndexedTree(verifier, HEIGHTS["public data"], [*filling, *sorted(prefilled)])
        self.note_hashes = PlainTree(verifier, HEIGHTS["note hash"])
        self.messages = PlainTree(verifier, HEIGHTS["message"])
        self.archive = PlainTree(verifier, HEIGHTS["archive"])

    def apply(self, effects: Sequence[Any], messages: Sequence[bytes] | None) -> None:
        """One block: its tx effects, and for the first block of a checkpoint its messages without padding."""
        if messages is not None:
            self.messages.append([*messages, *[ZERO] * (MESSAGES_PER_CHECKPOINT - len(messages))])
        for effect in effects:
            notes = effect.note_hashes
            self.note_hashes.append([*notes, *[ZERO] * (SLOTS_PER_TX - len(notes))])
            nullifiers = effect.nullifiers
            self.nullifiers.insert([*nullifiers, *[None] * (SLOTS_PER_TX - len(nullifiers))])
        self.public_data.write(
            (write.leaf_slot, write.value) for effect in effects for write in effect.public_data_writes
        )

    def roots(self) -> dict[str, tuple[bytes, int]]:
        """Root and size of every tree."""
        trees = {
            "nullifier": self.nullifiers,
            "note hash": self.note_hashes,
            "public data": self.public_data,
            "message": self.messages,
            "archive": self.archive,
        }
        return {name: (tree.root, tree.size) for name, tree in trees.items()}
