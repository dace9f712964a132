"""Every witness leads to the root of its block: 100,000 random ones over random trees and all their past blocks.

The trees get their blocks from generated chains; the judge (``verifier.py``) computes the roots and all hashes on
its own, from the block bodies alone.  What must be in a tree at a block is known from a plain model.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.effort import tries
from tests.world_state import verifier as plain
from tests.world_state.verifier import HEIGHTS, ZERO, IndexedLeafWitness, LeafWitness, PlainState, Verifier

from fastnode.archiver.source import CheckpointRecord
from fastnode.development.synthetic_chain import ChainShape, write_synthetic_chain
from fastnode.kernels import USING_TWINS, witness_text
from fastnode.protocol.releases import FOUR
from fastnode.sources.chain_file import ChainFileSource
from fastnode.world_state import state as state_module
from fastnode.world_state.state import WorldState
from fastnode.world_state.view import WorldStateView
from fastnode.world_state.witnesses import (
    IndexedWitness,
    nullifier_json,
    public_data_json,
)

NULLIFIER, NOTE_HASH, PUBLIC_DATA, MESSAGE, ARCHIVE = range(5)
WITNESSES_IN_ALL = 100_000
#: Share of the witnesses that also goes through its JSON form.
RENDERED_SHARE = 0.1
LAST_FIELD = plain.P - 1


# ---- chains and what is known about them ------------------------------------------------------


@dataclass
class Model:
    """Content of a chain, block by block."""

    roots: list[dict[str, tuple[bytes, int]]] = field(default_factory=list)  # by block number
    #: Key -> block that inserted it.
    nullifiers: dict[bytes, int] = field(default_factory=dict)
    #: Leaf -> (index, block that inserted it).
    notes: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    messages: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    blocks: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    #: Slot -> ascending (block, value after it).
    slots: dict[bytes, list[tuple[int, bytes]]] = field(default_factory=dict)

    def value(self, slot: bytes, block: int) -> bytes | None:
        """Value of a slot after a block, None before it was written."""
        history = self.slots.get(slot, [])
        found = bisect_right(history, block, key=lambda entry: entry[0])
        return history[found - 1][1] if found else None


@dataclass
class Chain:
    """A generated chain in the trees, and all that is known about it."""

    state: WorldState
    model: Model

    @property
    def view(self) -> WorldStateView:
        return self.state.view


class Follower:
    """Applies the blocks of a chain file to the trees, to the judge's own trees, and to the model."""

    def __init__(self, verifier: Verifier, source: ChainFileSource, state: WorldState) -> None:
        self._source = source
        self._state = state
        self._plain = PlainState(verifier, source.genesis.prefilled_public_data)
        self._plain.archive.append([source.genesis.block_hash])
        self.model = Model()
        for key in self._plain.nullifiers.keys:
            self.model.nullifiers[key] = 0
        for slot in self._plain.public_data.keys:
            self.model.slots[slot] = [(0, self._plain.public_data.value[slot] or ZERO)]
        self.model.blocks[source.genesis.block_hash] = (0, 0)
        self.model.roots.append(self._plain.roots())

    def follow(self) -> None:
        for record in self._source.records():
            if isinstance(record, CheckpointRecord):
                messages: tuple[bytes, ...] | None = record.l1_to_l2_messages
                for block in record.published.checkpoint.blocks:
                    self._apply(block, messages)
                    messages = None

    def _apply(self, block: Any, messages: tuple[bytes, ...] | None) -> None:
        self._state.commit(self._state.prepare(block, messages or ()))
        number, model = block.number, self.model
        note_size, message_size = self._plain.note_hashes.size, self._plain.messages.size
        self._plain.apply(block.body.tx_effects, messages)
        self._plain.archive.append([block.hash()])
        model.roots.append(self._plain.roots())
        model.blocks[block.hash()] = (number, number)
        for index, message in enumerate(messages or (), message_size):
            model.messages.setdefault(message, (index, number))
        for start, effect in zip(range(note_size, 1 << 42, plain.SLOTS_PER_TX), block.body.tx_effects, strict=False):
            for index, note in enumerate(effect.note_hashes, start):
                model.notes.setdefault(note, (index, number))
            model.nullifiers |= dict.fromkeys(effect.nullifiers, number)
            for write in effect.public_data_writes:
                model.slots.setdefault(write.leaf_slot, []).append((number, write.value))


def grow(verifier: Verifier, directory: Path, shape: ChainShape, *, cache_mb: int, is_thin: bool = False) -> Chain:
    """``is_thin``: the history of all blocks but the last one is."""
    path = directory / "chain.jsonl"
    write_synthetic_chain(path, shape)
    with ChainFileSource(path) as source:
        state = WorldState(directory, source.genesis, cache_mb=cache_mb, rules=FOUR.trees)
        try:
            follower = Follower(verifier, source, state)
            follower.follow()
        except BaseException:
            state.close()
            raise
    assert state.view.tip.number == shape.blocks
    if is_thin:
        state.settle(shape.blocks - 1)
        while state.thin():
            pass
        assert state.view.thin == shape.blocks - 1
    return Chain(state, follower.model)


def reopened(chain: Chain, directory: Path, *, cache_mb: int) -> Chain:
    """The same trees read back from disk."""
    chain.state.close()
    with ChainFileSource(directory / "chain.jsonl") as source:
        return Chain(WorldState(directory, source.genesis, cache_mb=cache_mb, rules=FOUR.trees), chain.model)


# ---- one question and its proof -----------------------------------------------------------------


class Judge:
    """Asks a view and has every answer proven; counts what was proven."""

    def __init__(self, verifier: Verifier, chain: Chain, source: random.Random) -> None:
        self._verifier = verifier
        self._model = chain.model
        self._view = chain.view
        self._source = source
        self.proven = {"present": 0, "absent": 0}

    def root(self, tree: str, block: int) -> bytes:
        return self._model.roots[block][tree][0]

    # ---- nullifiers ------------------------------------------------------------------------------

    def ask_nullifier(self, key: bytes, block: int) -> None:
        root, height = self.root("nullifier", block), HEIGHTS["nullifier"]
        present = self._model.nullifiers.get(key, block + 1) <= block
        found = self._view.nullifier_witness(key, block)
        assert (found is not None) == present
        if found is not None:
            witness = self._as_sent(found, nullifier_json, plain.read_nullifier_witness)
            self._verifier.require_present(witness, key, root, height)
            self.proven["present"] += 1
        low = self._view.low_nullifier_witness(key, block)
        witness = self._as_sent(low, nullifier_json, plain.read_nullifier_witness)
        self._require_low(witness, key, root, height, present=present)

    # ---- public data -----------------------------------------------------------------------------

    def ask_slot(self, slot: bytes, block: int) -> None:
        value = self._model.value(slot, block)
        assert self._view.public_data_value(slot, block) == (value or ZERO)
        low = self._view.public_data_witness(slot, block)
        witness = self._as_sent(low, public_data_json, plain.read_public_data_witness)
        root, height = self.root("public data", block), HEIGHTS["public data"]
        self._require_low(witness, slot, root, height, present=value is not None)
        assert value is None or witness.value == value

    def _require_low(self, witness: IndexedLeafWitness, key: bytes, root: bytes, height: int, *, present: bool) -> None:
        if present:
            self._verifier.require_present(witness, key, root, height)
            self.proven["present"] += 1
        else:
            self._verifier.require_absent(witness, key, root, height)
            self.proven["absent"] += 1

    def _as_sent(
        self,
        given: IndexedWitness,
        render: Callable[[IndexedWitness], bytes],
        read: Callable[[Any], IndexedLeafWitness],
    ) -> IndexedLeafWitness:
        if self._source.random() < RENDERED_SHARE:
            return read(orjson.loads(render(given)))
        return IndexedLeafWitness(
            given.index, given.key, given.value or None, given.next_key, given.next_index, given.path
        )

    # ---- append-only trees -------------------------------------------------------------------------

    def ask_note(self, note: bytes, block: int) -> None:
        found = self._view.note_hash_witness(note, block)
        if self._is_there(found, self._model.notes.get(note), block):
            witness = LeafWitness(found.index, found.path)
            if self._source.random() < RENDERED_SHARE:
                assert (
                    plain.read_membership_witness(orjson.loads(witness_text.membership(found.index, found.path)), 42)
                    == witness
                )
            self._require_leaf(witness, note, "note hash", block)

    def ask_message(self, message: bytes, block: int) -> None:
        found = self._view.message_witness(message, block)
        if self._is_there(found, self._model.messages.get(message), block):
            witness = plain.read_message_witness(orjson.loads(witness_text.message(found.index, found.path)))
            self._require_leaf(witness, message, "message", block)

    def ask_block(self, block_hash: bytes, block: int) -> None:
        """The archive that a block refers to is that of the block before it."""
        found = self._view.block_hash_witness(block_hash, block)
        if self._is_there(found, self._model.blocks.get(block_hash), block - 1):
            witness = plain.read_membership_witness(orjson.loads(witness_text.membership(found.index, found.path)), 30)
            self._require_leaf(witness, block_hash, "archive", block - 1)

    def _is_there(self, found: Any, place: tuple[int, int] | None, block: int) -> bool:
        expected = place is not None and place[1] <= block
        assert (found is not None) == expected
        assert found is None or place is None or found.index == place[0]
        return expected

    def _require_leaf(self, witness: LeafWitness, leaf: bytes, tree: str, block: int) -> None:
        self._verifier.require_leaf(witness, leaf, self.root(tree, block), HEIGHTS[tree])
        self.proven["present"] += 1

    # ---- any place ---------------------------------------------------------------------------------

    def ask_padding(self, tree_id: int, index: int, block: int) -> None:
        """The path of an empty leaf: zero stands there."""
        tree = {NULLIFIER: "nullifier", NOTE_HASH: "note hash", MESSAGE: "message"}[tree_id]
        path = self._view.sibling_path(tree_id, index, block)
        self._require_leaf(LeafWitness(index, path), ZERO, tree, block)


def _near(source: random.Random, keys: list[bytes]) -> bytes:
    """A key that is there (now, perhaps not yet at the block asked about), one beside it, or any other."""
    kind = source.randrange(8)
    if kind < 4:
        return source.choice(keys)
    if kind == 4:
        value = (int.from_bytes(source.choice(keys), "big") + source.choice((-1, 1))) % plain.P
        return value.to_bytes(32, "big")
    if kind == 5:
        return source.choice((ZERO, (128).to_bytes(32, "big"), LAST_FIELD.to_bytes(32, "big")))
    return source.randrange(plain.P).to_bytes(32, "big")


class Sweep:
    """Random questions about a chain, to the newest block and to all before it."""

    def __init__(self, verifier: Verifier, chain: Chain, seed: int) -> None:
        self._source = random.Random(seed)
        self.judge = Judge(verifier, chain, self._source)
        model = chain.model
        self._tip = chain.view.tip.number
        self._nullifiers, self._slots = list(model.nullifiers), list(model.slots)
        self._notes, self._messages = [*model.notes, ZERO], [*model.messages, ZERO]
        self._blocks = list(model.blocks)

    @property
    def proven(self) -> int:
        return sum(self.judge.proven.values())

    def run(self, count: int) -> None:
        source, judge = self._source, self.judge
        while self.proven < count:
            block = source.choice((self._tip, source.randint(0, self._tip)))
            kind = source.randrange(10)
            if kind < 4:
                judge.ask_nullifier(_near(source, self._nullifiers), block)
            elif kind < 7:
                judge.ask_slot(_near(source, self._slots), block)
            elif kind == 7:
                judge.ask_note(source.choice(self._notes), block)
            elif kind == 8:
                judge.ask_message(source.choice(self._messages), block)
            else:
                judge.ask_block(source.choice(self._blocks), block)


# ---- the sweep ------------------------------------------------------------------------------------

#: Shape, MiB of memory, and whether the trees are read back from disk first.
SWEEPS = [
    pytest.param(ChainShape(blocks=40, txs=4, nullifiers=8, writes=8, vary=True, seed=11), 256, False, id="in memory"),
    pytest.param(ChainShape(blocks=40, txs=4, nullifiers=8, writes=8, vary=True, seed=12), 0, False, id="no memory"),
    pytest.param(ChainShape(blocks=60, txs=2, nullifiers=4, writes=3, vary=True, seed=13), 256, True, id="reopened"),
    pytest.param(ChainShape(blocks=12, txs=3, nullifiers=64, writes=64, l2_to_l1=0, seed=14), 1, True, id="full txs"),
    pytest.param(
        ChainShape(blocks=100, txs=1, nullifiers=2, writes=1, blocks_per_checkpoint=2, vary=True, seed=15),
        0,
        True,
        id="many blocks",
    ),
    pytest.param(ChainShape(blocks=40, txs=4, nullifiers=8, writes=8, vary=True, seed=16), 0, True, id="thin history"),
]


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return Verifier()


@pytest.mark.parametrize(("shape", "cache_mb", "reopen"), SWEEPS)
def test_random_witnesses_lead_to_the_roots_of_their_blocks(
    shape: ChainShape,
    cache_mb: int,
    reopen: bool,
    verifier: Verifier,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_module, "THIN_BEHIND_CHECKPOINTS", 0)
    is_thin = request.node.callspec.id == "thin history"
    chain = grow(verifier, tmp_path, shape, cache_mb=cache_mb, is_thin=is_thin)
    try:
        if reopen:
            chain = reopened(chain, tmp_path, cache_mb=cache_mb)
        sweep = Sweep(verifier, chain, seed=shape.seed)
        sweep.run(WITNESSES_IN_ALL // len(SWEEPS))
        assert sweep.proven >= WITNESSES_IN_ALL // len(SWEEPS)
        assert min(sweep.judge.proven.values()) > sweep.proven // 10
    finally:
        chain.state.close()


# ---- shapes that hypothesis thinks of -----------------------------------------------------------

shapes = st.builds(
    ChainShape,
    blocks=st.integers(1, 5),
    txs=st.integers(0, 2),
    nullifiers=st.integers(1, 5),
    note_hashes=st.integers(0, 5),
    writes=st.integers(0, 5),
    l1_to_l2=st.integers(0, 3),
    blocks_per_checkpoint=st.integers(1, 3),
    seed=st.integers(0, 1000),
    vary=st.booleans(),
)


@given(shape=shapes, cache_mb=st.sampled_from([0, 256]), is_thin=st.booleans())
@settings(
    max_examples=5 if USING_TWINS else tries(10, 100),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_every_leaf_of_any_chain_is_proven_at_every_block(
    shape: ChainShape, cache_mb: int, is_thin: bool, verifier: Verifier, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_module, "THIN_BEHIND_CHECKPOINTS", 0)
        chain = grow(verifier, tmp_path_factory.mktemp("shape"), shape, cache_mb=cache_mb, is_thin=is_thin)
    try:
        judge = Judge(verifier, chain, random.Random(shape.seed))
        for block in range(shape.blocks + 1):
            _ask_everything(judge, chain.model, block)
    finally:
        chain.state.close()


def _ask_everything(judge: Judge, model: Model, block: int) -> None:
    for key in [*model.nullifiers, LAST_FIELD.to_bytes(32, "big")]:
        judge.ask_nullifier(key, block)
    for slot in [*model.slots, LAST_FIELD.to_bytes(32, "big")]:
        judge.ask_slot(slot, block)
    for note in [*model.notes, ZERO]:
        judge.ask_note(note, block)
    for message in [*model.messages, ZERO]:
        judge.ask_message(message, block)
    for block_hash in model.blocks:
        judge.ask_block(block_hash, block)
    for tree_id, name, index in _padding(model, block):
        if index < model.roots[block][name][1]:
            judge.ask_padding(tree_id, index, block)


def _padding(model: Model, block: int) -> Iterator[tuple[int, str, int]]:
    """The last place of every full run of leaves, which these shapes never fill."""
    sizes = {name: size for name, (_, size) in model.roots[block].items()}
    yield from ((NOTE_HASH, "note hash", index) for index in range(63, sizes["note hash"], 64))
    yield from ((NULLIFIER, "nullifier", index) for index in range(191, sizes["nullifier"], 64))
    yield from ((MESSAGE, "message", index) for index in range(1023, sizes["message"], 1024))
