"""Chains made of random blocks, and what the trees should say about them.

The roots come from ``PlainState`` (the textbook trees of verifier.py), the contents from dictionaries.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.world_state.verifier import (
    HEIGHTS,
    ZERO,
    IndexedLeafWitness,
    LeafWitness,
    PlainState,
    Verifier,
)

from fastnode.archiver.source import GenesisRecord
from fastnode.protocol.block import L2Block
from fastnode.protocol.effects import Body, PublicDataWrite, TxEffect
from fastnode.protocol.genesis import GENESIS_BLOCK_HEADER_HASH
from fastnode.protocol.header import (
    EMPTY_SNAPSHOT,
    AppendOnlyTreeSnapshot,
    BlockHeader,
    GasFees,
    GlobalVariables,
    StateReference,
)
from fastnode.protocol.releases import FOUR
from fastnode.world_state.apply import BlockDraft
from fastnode.world_state.state import WorldState
from fastnode.world_state.view import WorldStateView

#: In the order of the tree ids.
TREE_NAMES = ("nullifier", "note hash", "public data", "message", "archive")
#: Root of an archive that holds only the hash of block 0 without prefilled data.
GENESIS_ARCHIVE_ROOT = bytes.fromhex("15684c8c3d2106918d3860f777e50555b7166adff47df13cc652e2e5a50bf5c7")
Roots = dict[str, tuple[bytes, int]]


def genesis_record() -> GenesisRecord:
    """A network without prefilled data; its hash and root are constants of the protocol."""
    state = StateReference.of_trees(EMPTY_SNAPSHOT, EMPTY_SNAPSHOT, EMPTY_SNAPSHOT, EMPTY_SNAPSHOT)
    header = header_over(EMPTY_SNAPSHOT, state, 0)
    return GenesisRecord(header, GENESIS_BLOCK_HEADER_HASH, GENESIS_ARCHIVE_ROOT, (), (), (), {})


def header_over(last_archive: AppendOnlyTreeSnapshot, state: StateReference, number: int) -> BlockHeader:
    variables = GlobalVariables(1, 1, number, number, number, bytes(20), ZERO, GasFees(0, 0))
    return BlockHeader(last_archive, state, ZERO, variables, 0, 0)


def seal(number: int) -> Callable[[AppendOnlyTreeSnapshot, StateReference], BlockHeader]:
    return lambda last_archive, state: header_over(last_archive, state, number)


def random_field(rng: random.Random) -> bytes:
    return b"\0" + rng.randbytes(31)


def tx_effect(
    rng: random.Random, note_hashes: Sequence[bytes], nullifiers: Sequence[bytes], writes: Sequence[PublicDataWrite]
) -> TxEffect:
    return TxEffect(0, random_field(rng), 0, tuple(note_hashes), tuple(nullifiers), (), tuple(writes), (), (), ())


def open_state(directory: Path, *, cache_mb: int = 16, history: int = 0) -> WorldState:
    return WorldState(directory, genesis_record(), cache_mb=cache_mb, history=history, rules=FOUR.trees)


@dataclass(frozen=True)
class Content:
    """Additions of one block."""

    effects: tuple[TxEffect, ...]
    messages: tuple[bytes, ...] | None  # None: not the first block of its checkpoint


@dataclass
class Model:
    """A chain's contents by block number, and the roots after each block."""

    verifier: Verifier
    contents: list[Content] = field(default_factory=list)
    roots: list[Roots] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._plain = PlainState(self.verifier)
        self._plain.archive.append([GENESIS_BLOCK_HEADER_HASH])
        self.roots.append(self._plain.roots())
        self.hashes.append(GENESIS_BLOCK_HEADER_HASH)
        self.checkpoints.append(0)

    @property
    def tip(self) -> int:
        return len(self.contents)

    def apply(self, content: Content, block_hash: bytes) -> None:
        self._plain.apply(content.effects, content.messages)
        self._plain.archive.append([block_hash])
        self.contents.append(content)
        self.roots.append(self._plain.roots())
        self.hashes.append(block_hash)
        self.checkpoints.append(self.checkpoints[-1] + (content.messages is not None))

    def undo_above(self, number: int) -> None:
        """Start again: what has been hashed before is remembered by the verifier."""
        contents, hashes = self.contents[:number], self.hashes[1 : number + 1]
        self.contents, self.roots, self.hashes, self.checkpoints = [], [], [], []
        self.__post_init__()
        for content, block_hash in zip(contents, hashes, strict=True):
            self.apply(content, block_hash)

    # ---- contents as dictionaries ----------------------------------------------------------

    def note_hashes(self, block: int) -> dict[bytes, tuple[int, int]]:
        """Note hash -> (index, block of insertion), of the first place it has."""
        found: dict[bytes, tuple[int, int]] = {}
        size = 0
        for number, content in enumerate(self.contents[:block], 1):
            for effect in content.effects:
                for position, note_hash in enumerate(effect.note_hashes):
                    found.setdefault(note_hash, (size + position, number))
                size += 64
        return found

    def nullifiers(self, block: int) -> dict[bytes, tuple[int, int]]:
        """Nullifier -> (index, block of insertion); those of the genesis are of block 0."""
        found = {number.to_bytes(32, "big"): (number, 0) for number in range(128)}
        size = 128
        for number, content in enumerate(self.contents[:block], 1):
            for effect in content.effects:
                for position, nullifier in enumerate(effect.nullifiers):
                    found[nullifier] = size + position, number
                size += 64
        return found

    def public_data(self, block: int) -> dict[bytes, bytes]:
        """Slot -> value."""
        values = {number.to_bytes(32, "big"): ZERO for number in range(128)}
        for content in self.contents[:block]:
            for effect in content.effects:
                values.update((write.leaf_slot, write.value) for write in effect.public_data_writes)
        return values

    def messages(self, block: int) -> dict[bytes, int]:
        """Message -> index of the first place it has."""
        found: dict[bytes, int] = {}
        size = 0
        for content in self.contents[:block]:
            if content.messages is not None:
                for position, message in enumerate(content.messages):
                    found.setdefault(message, size + position)
                size += 1024
        return found


class Maker:
    """Makes random contents that fit behind a model's newest block."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._slots = [number.to_bytes(32, "big") for number in range(5)]
        self._low = 1000

    def content(self, *, txs: int, most: int, is_first: bool | None = None, messages: int = 3) -> Content:
        """``most`` note hashes, nullifiers and writes for each transaction, at most."""
        rng = self.rng
        first = rng.random() < 0.6 if is_first is None else is_first
        return Content(
            effects=tuple(self._effect(most) for _ in range(txs)),
            messages=tuple(random_field(rng) for _ in range(rng.randint(0, messages))) if first else None,
        )

    def _effect(self, most: int) -> TxEffect:
        rng = self.rng
        writes = [PublicDataWrite(self._slot(), random_field(rng)) for _ in range(rng.randint(0, most))]
        return tx_effect(
            rng,
            [random_field(rng) for _ in range(rng.randint(0, most))],
            [self._nullifier() for _ in range(rng.randint(1, max(1, most)))],
            writes,
        )

    def _nullifier(self) -> bytes:
        """Mostly anywhere; at times next to the one before, so that low leaves lie within one block."""
        if self.rng.random() < 0.8:
            return random_field(self.rng)
        self._low += self.rng.randint(1, 3)
        return self._low.to_bytes(32, "big")

    def _slot(self) -> bytes:
        if self.rng.random() < 0.5:
            return self.rng.choice(self._slots)
        self._slots.append(random_field(self.rng))
        return self._slots[-1]


def build(state: WorldState, content: Content, checkpoint: int) -> L2Block:
    """Put a block of this content on top and return it."""
    number = state.block_number + 1
    index = 0 if content.messages is not None else 1
    draft = BlockDraft(Body(content.effects), checkpoint, index)
    block, prepared = state.build(draft, content.messages or (), seal(number))
    state.commit(prepared)
    return block


def grow(state: WorldState, model: Model, content: Content) -> L2Block:
    """Put a block of this content on top of both."""
    checkpoint = model.checkpoints[-1] + (content.messages is not None)
    block = build(state, content, checkpoint)
    model.apply(content, block.hash())
    return block


def grow_in_a_run(state: WorldState, model: Model, contents: Sequence[Content]) -> None:
    """Put blocks of these contents on top of both, in one step; the textbook makes their headers."""
    run: list[tuple[L2Block, Sequence[bytes]]] = []
    for content in contents:
        number, before = model.tip + 1, model.roots[-1]["archive"]
        model.apply(content, ZERO)
        after = {name: AppendOnlyTreeSnapshot(*model.roots[-1][name]) for name in TREE_NAMES}
        model.undo_above(number - 1)
        reference = StateReference.of_trees(
            after["message"], after["note hash"], after["nullifier"], after["public data"]
        )
        header = header_over(AppendOnlyTreeSnapshot(*before), reference, number)
        model.apply(content, header.hash())
        archive = AppendOnlyTreeSnapshot(*model.roots[-1]["archive"])
        index = 0 if content.messages is not None else 1
        block = L2Block(archive, header, Body(content.effects), model.checkpoints[-1], index)
        run.append((block, content.messages or ()))
    state.commit(state.prepare_run(run))


# ---- what a view says, judged -----------------------------------------------------------------------


def assert_roots(view: WorldStateView, model: Model, block: int) -> None:
    record = view.record(block)
    stored = dict(zip(TREE_NAMES, zip(record.roots, record.sizes, strict=True), strict=True))
    assert stored == model.roots[block]
    assert record.block_hash == model.hashes[block]


class Judge:
    """Takes one random look after the other at a view, and compares it with the model."""

    def __init__(self, model: Model, rng: random.Random) -> None:
        self._model = model
        self._rng = rng
        self._known: dict[tuple[str, int], dict[bytes, object]] = {}
        self.verdicts = 0

    def _contents(self, what: str, block: int) -> dict[bytes, object]:
        key = what, block
        if key not in self._known:
            self._known[key] = getattr(self._model, what)(block)
        return self._known[key]

    def look(self, view: WorldStateView, block: int) -> None:
        """One look into each tree at ``block``."""
        self.look_for_note_hash(view, block)
        self.look_for_nullifier(view, block)
        self.look_for_low_nullifier(view, block)
        self.look_for_public_data(view, block)
        self.look_for_message(view, block)
        self.look_for_block_hash(view, block)

    def _pick(self, what: str, block: int) -> bytes:
        """Something that is there at the newest block: perhaps not yet at this one."""
        newest = self._contents(what, self._model.tip)
        keys = self._known.setdefault((what + " keys", self._model.tip), dict(enumerate(newest)))  # type: ignore[arg-type]
        if not keys or self._rng.random() < 0.1:
            return random_field(self._rng)
        return keys[self._rng.randrange(len(keys))]  # type: ignore[index, return-value]

    def look_for_note_hash(self, view: WorldStateView, block: int) -> None:
        note_hash = self._pick("note_hashes", block)
        expected = self._contents("note_hashes", block).get(note_hash)
        assert view.find_leaves(1, [note_hash], block) == [expected]
        witness = view.note_hash_witness(note_hash, block)
        self._judge_leaf(witness, note_hash, expected[0] if expected else None, "note hash", block)  # type: ignore[index]

    def look_for_message(self, view: WorldStateView, block: int) -> None:
        message = self._pick("messages", block)
        expected = self._contents("messages", block).get(message)
        self._judge_leaf(view.message_witness(message, block), message, expected, "message", block)

    def look_for_block_hash(self, view: WorldStateView, block: int) -> None:
        self.require_block_hash(view, self._rng.randrange(self._model.tip + 1), block)

    def require_block_hash(self, view: WorldStateView, number: int, block: int) -> None:
        """The hash of block ``number`` is in the archive before ``block``, if it is older."""
        block_hash = self._model.hashes[number]
        witness = view.block_hash_witness(block_hash, block)
        self._judge_leaf(witness, block_hash, number if number < block else None, "archive", block - 1)

    def _judge_leaf(self, witness: object, leaf: bytes, index: object, tree: str, block: int) -> None:
        self.verdicts += 1
        if index is None:
            assert witness is None
            return
        assert witness is not None
        given = LeafWitness(witness.index, witness.path)  # type: ignore[attr-defined]
        assert given.index == index
        self._model.verifier.require_leaf(given, leaf, self._model.roots[block][tree][0], HEIGHTS[tree])

    def look_for_nullifier(self, view: WorldStateView, block: int) -> None:
        self.verdicts += 1
        nullifier = self._pick("nullifiers", block)
        expected = self._contents("nullifiers", block).get(nullifier)
        assert view.find_leaves(0, [nullifier], block) == [expected]
        witness = view.nullifier_witness(nullifier, block)
        if expected is None:
            assert witness is None
            return
        assert witness is not None
        given = IndexedLeafWitness(witness.index, witness.key, None, witness.next_key, witness.next_index, witness.path)
        root = self._model.roots[block]["nullifier"][0]
        self._model.verifier.require_present(given, nullifier, root, HEIGHTS["nullifier"])

    def look_for_low_nullifier(self, view: WorldStateView, block: int) -> None:
        self.verdicts += 1
        nullifier = self._pick("nullifiers", block)
        witness = view.low_nullifier_witness(nullifier, block)
        given = IndexedLeafWitness(witness.index, witness.key, None, witness.next_key, witness.next_index, witness.path)
        verifier, root = self._model.verifier, self._model.roots[block]["nullifier"][0]
        if nullifier in self._contents("nullifiers", block):
            verifier.require_present(given, nullifier, root, HEIGHTS["nullifier"])
        else:
            verifier.require_absent(given, nullifier, root, HEIGHTS["nullifier"])

    def look_for_public_data(self, view: WorldStateView, block: int) -> None:
        self.verdicts += 1
        slot = self._pick("public_data", block)
        value = self._contents("public_data", block).get(slot)
        assert view.public_data_value(slot, block) == (value or ZERO)
        witness = view.public_data_witness(slot, block)
        given = IndexedLeafWitness(
            witness.index, witness.key, witness.value, witness.next_key, witness.next_index, witness.path
        )
        verifier, root = self._model.verifier, self._model.roots[block]["public data"][0]
        if value is None:
            verifier.require_absent(given, slot, root, HEIGHTS["public data"])
        else:
            verifier.require_present(given, slot, root, HEIGHTS["public data"])
            assert witness.value == value
