"""Answers from the indexed trees: kernel and twin give what a leaf record says, and leave the rest to others."""

from __future__ import annotations

from collections import deque
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests._ext.test_append_tree import Tree as AppendTree
from tests._ext.test_witness_text import Iterator

from fastnode._twins import append_tree as twin_append
from fastnode._twins import indexed_tree as twin_tree
from fastnode._twins import state_answers as twin
from fastnode._twins import witness_text as witness_twin
from fastnode.kernels import append_tree as kernel_append
from fastnode.kernels import block_text, leaf_cache
from fastnode.kernels import indexed_tree as kernel_tree
from fastnode.kernels import state_answers as kernel
from fastnode.kernels import witness_text as kernel_text
from fastnode.protocol.constants import SEPARATOR_PUBLIC_LEAF_SLOT
from fastnode.protocol.fields import MODULUS, field_from_int
from fastnode.protocol.siloing import public_leaf_slot
from fastnode.world_state.layout import LeafRecord, LeafState, inverted, pack_place, u48
from fastnode.world_state.trees import PUBLIC_DATA, zero_nodes

MODULES = [kernel, twin]
SEPARATOR = field_from_int(SEPARATOR_PUBLIC_LEAF_SLOT)
HEIGHT = 40
OLDEST, TIP = 3, 9
#: Leaves of the append-only tree; it has more of them than a tile holds.
LEAVES_OF_BLOCK = 4
CONTRACT, SLOT = field_from_int(5), field_from_int(6)
NULLIFIER, BETWEEN = field_from_int(100), field_from_int(150)
ZERO = b'"0x' + b"0" * 64 + b'"'
fields = st.integers(0, MODULUS - 1).map(field_from_int)


@cache
def append_tree(module: Any) -> AppendTree:
    """Each leaf twice, so that every other one is not the first of its kind."""
    grown = AppendTree(kernel_append if module is kernel else twin_append)
    for number in range(LEAVES_OF_BLOCK * TIP):
        grown.append([field_from_int(number // 2)])
    return grown


def entries_of(grown: AppendTree) -> dict[bytes, bytes]:
    entries = {b"edge " + u48(size): edge for size, edge in grown.edges.items()}
    entries |= {b"tile a " + u48(index): tile for index, tile in grown.tiles.items()}
    places = {leaf: index for index, leaf in reversed(list(enumerate(grown.leaves)))}
    return entries | {b"place " + leaf: pack_place(index, 0) for leaf, index in places.items()}


class State:
    """A view's, over leaves in a dict."""

    def __init__(
        self, module: Any, *, changed: int = 2, inserted: int = 2, slots: int = 16, kept_bytes: int = 1 << 16
    ) -> None:
        tree, self.text = (
            (kernel_tree, kernel_text) if module is kernel else (twin_tree, witness_twin)
        )  # a nodes object is of one or the other
        self.nodes = tree.IndexedNodes(HEIGHT, zero_nodes(PUBLIC_DATA), history_bytes=0)
        state = LeafState(changed, 1, bytes(32), b"")
        self.nullifier = LeafRecord(NULLIFIER, state, 0, inserted, bytes(32)).pack()
        value = LeafState(changed, 1, bytes(32), field_from_int(77))
        self.leaf_slot = public_leaf_slot(CONTRACT, SLOT)
        self.public = LeafRecord(self.leaf_slot, value, 0, inserted, bytes(32)).pack()
        self.entries = {b"n" + inverted(NULLIFIER): self.nullifier, b"p" + inverted(self.leaf_slot): self.public}
        self.records = {
            number: SimpleNamespace(sizes=(1, LEAVES_OF_BLOCK * number, 1)) for number in (2, OLDEST, 5, TIP)
        }
        self.on_get: Any = lambda: None
        self.slots = module.LeafSlots(slots, SEPARATOR)
        self.kept = [leaf_cache.LeafCache(kept_bytes), leaf_cache.LeafCache(kept_bytes)]
        grown = append_tree(module)
        self.entries.update(entries_of(grown))
        note_hashes, archive = (
            module.AppendAnswers(grown.nodes, tree, b"place ", b"tile a ", b"edge ") for tree in (1, 4)
        )
        self.answers = module.StateAnswers(
            note_hashes=note_hashes,
            messages=note_hashes,
            archive=archive,
            nullifiers=module.TreeAnswers(self.nodes, self.kept[0], 0, b"n", b"tile n"),
            public_data=module.TreeAnswers(self.nodes, self.kept[1], 2, b"p", b"tile p"),
            slots=self.slots,
            get=self.get,
            iterators=deque(),
            make_iterator=lambda: Iterator(self.entries),
            records=self.records,
            oldest=OLDEST,
            memory_limit=TIP,
        )

    def get(self, key: bytes) -> bytes | None:
        self.on_get()
        return self.entries.get(key)

    def witness(self, key: bytes, record: bytes, block: int) -> bytes | None:
        found: bytes | None = self.text.unchanged(self.nodes, key, record, block, 1, b"", self.entries.get)
        return found


@pytest.mark.parametrize("module", MODULES)
def test_witnesses_are_those_of_the_leaf_records(module: Any) -> None:
    state = State(module)
    answers = state.answers
    expected = state.witness(NULLIFIER, state.nullifier, 5)
    assert expected is not None
    assert answers.low_nullifier_witness(BETWEEN, 5) == answers.nullifier_witness(NULLIFIER, 5) == expected
    assert answers.nullifier_witness(BETWEEN, 5) == b""
    above = field_from_int(MODULUS - 1)
    assert answers.public_data_witness(above, TIP) == state.witness(state.leaf_slot, state.public, TIP)
    assert answers.low_nullifier_witness(field_from_int(99), 5) is None  # no leaf at all: others say so


@pytest.mark.parametrize("module", MODULES)
def test_witnesses_of_places_are_the_paths_of_the_tree(module: Any) -> None:
    state, grown = State(module), append_tree(module)
    answers, text = state.answers, state.text
    for block in (OLDEST, 5, TIP):
        size = LEAVES_OF_BLOCK * block
        for number in (0, 1, size // 2 - 1):
            leaf, index = field_from_int(number), 2 * number
            path = grown.path(index, size)
            assert answers.note_hash_witness(leaf, block) == text.membership(index, path)
            assert answers.message_witness(leaf, block) == text.message(index, path)
        assert answers.note_hash_witness(field_from_int(size // 2), block) == b""
        assert answers.message_witness(field_from_int(1000), block) == b""
        # The archive before a block has the blocks below it.
        assert answers.block_hash_witness(field_from_int(1), block) == text.membership(2, grown.path(2, block))
        assert answers.block_hash_witness(field_from_int((block + 1) // 2), block) == b""


@pytest.mark.parametrize("module", MODULES)
def test_places_that_need_more_than_memory_are_left_to_others(module: Any) -> None:
    state = State(module)
    asks = (state.answers.note_hash_witness, state.answers.message_witness, state.answers.block_hash_witness)
    leaf = field_from_int(1)
    for ask in asks:
        assert ask(leaf, 2) is ask(leaf, 4) is ask(leaf, TIP + 1) is None
        with pytest.raises(ValueError, match="31 bytes"):
            ask(bytes(31), 5)

    def begin_undo() -> None:
        state.answers.memory_limit = OLDEST

    state.on_get = begin_undo
    assert state.answers.note_hash_witness(leaf, 5) is None
    state.answers.memory_limit, state.on_get = TIP, lambda: None
    assert state.answers.note_hash_witness(leaf, 5)
    state.entries[b"place " + leaf] = bytes(9)
    with pytest.raises(ValueError, match="a place of 9 bytes"):
        state.answers.note_hash_witness(leaf, 5)


@pytest.mark.parametrize("module", MODULES)
def test_storage_is_the_value_of_the_leaf_or_zero(module: Any) -> None:
    answers = State(module).answers
    for _ in range(2):  # hashed, and known
        assert answers.storage(CONTRACT, SLOT, 5) == b'"0x%064x"' % 77
    assert answers.storage(SLOT, CONTRACT, 5) == ZERO


@pytest.mark.parametrize("module", MODULES)
def test_what_takes_history_is_left_to_others(module: Any) -> None:
    changed_later = State(module, changed=6).answers
    assert changed_later.storage(CONTRACT, SLOT, 5) is None
    assert changed_later.nullifier_witness(NULLIFIER, 5) is None
    assert changed_later.low_nullifier_witness(BETWEEN, 5) is None
    inserted_later = State(module, changed=6, inserted=6).answers
    assert inserted_later.storage(CONTRACT, SLOT, 5) == ZERO
    assert inserted_later.nullifier_witness(NULLIFIER, 5) == b""
    assert inserted_later.public_data_witness(field_from_int(MODULUS - 1), 5) is None


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("block", [2, 4, TIP + 1])
def test_blocks_that_cannot_be_asked_about_are_left_to_others(module: Any, block: int) -> None:
    answers = State(module).answers
    assert answers.storage(CONTRACT, SLOT, block) is None
    assert answers.nullifier_witness(NULLIFIER, block) is None
    assert answers.low_nullifier_witness(NULLIFIER, block) is None


@pytest.mark.parametrize("module", MODULES)
def test_after_an_undo_has_begun_no_path_comes_from_memory(module: Any) -> None:
    state = State(module)

    def begin_undo() -> None:
        state.answers.memory_limit = OLDEST

    state.on_get = begin_undo
    assert state.answers.nullifier_witness(NULLIFIER, 5) is None
    assert state.answers.memory_limit == OLDEST
    state.on_get = lambda: None
    assert state.answers.low_nullifier_witness(NULLIFIER, 5) is None
    assert state.answers.low_nullifier_witness(NULLIFIER, OLDEST) is not None
    assert state.answers.storage(CONTRACT, SLOT, 5) == b'"0x%064x"' % 77  # a leaf is not from memory


@pytest.mark.parametrize("module", MODULES)
def test_what_was_read_once_is_not_read_again_until_a_block_changes_it(module: Any) -> None:
    state = State(module)
    reads: list[None] = []
    state.on_get = lambda: reads.append(None)

    def ask() -> list[bytes | None]:
        answers = state.answers
        return [
            answers.nullifier_witness(NULLIFIER, 5),
            answers.low_nullifier_witness(BETWEEN, 5),
            answers.public_data_witness(state.leaf_slot, TIP),
            answers.storage(CONTRACT, SLOT, TIP),
        ]

    first = ask()
    assert None not in first
    count = len(reads)
    assert ask() == first
    assert len(reads) == count
    for kept in state.kept:
        kept.drop([0])
    assert ask() == first  # this view is not of the newest state any more: it reads its snapshot
    assert ask() == first
    assert len(reads) > count
    assert all(kept.tile(0) is None and kept.low(NULLIFIER) is None for kept in state.kept)


@pytest.mark.parametrize("module", MODULES)
def test_one_leaf_says_what_is_not_between_it_and_the_next_where_the_tree_has_room(module: Any) -> None:
    small, large = State(module), State(module, kept_bytes=0)
    reads: list[State] = []
    for state in (small, large):
        state.on_get = lambda state=state: reads.append(state)
        for number in range(101, 110):
            assert state.answers.nullifier_witness(field_from_int(number), TIP) == b""
    assert reads == [large] * 9
    small.entries.clear()  # nothing is read any more
    assert small.answers.nullifier_witness(field_from_int(110), TIP) == b""
    assert small.answers.low_nullifier_witness(field_from_int(99), TIP) is None


@pytest.mark.parametrize("module", MODULES)
def test_what_was_read_while_a_block_came_is_not_kept(module: Any) -> None:
    state = State(module)
    state.on_get = lambda: [kept.drop([0]) for kept in state.kept]
    assert state.answers.nullifier_witness(NULLIFIER, 5) == state.witness(NULLIFIER, state.nullifier, 5)
    assert state.answers.storage(CONTRACT, SLOT, TIP) == b'"0x%064x"' % 77
    assert all(kept.tile(0) is None for kept in state.kept)
    assert state.kept[0].low(NULLIFIER) is state.kept[1].low(state.leaf_slot) is None


@pytest.mark.parametrize("module", MODULES)
def test_a_question_asks_the_view_and_then_others(module: Any) -> None:
    state = State(module, changed=6)
    view = SimpleNamespace(state=SimpleNamespace(answers=state.answers))
    asked: list[Any] = []

    def otherwise(*arguments: Any) -> bytes:
        asked.append(arguments)
        return b"otherwise"

    def question(name: str) -> Any:
        return module.StateQuestion(getattr(module, name), otherwise)

    assert question("STORAGE")(view, TIP, CONTRACT, SLOT) == b'"0x%064x"' % 77
    assert question("NULLIFIER_WITNESS")(view, TIP, BETWEEN) is None
    assert question("NULLIFIER_WITNESS")(view, TIP, NULLIFIER) == question("LOW_NULLIFIER_WITNESS")(view, TIP, BETWEEN)
    assert question("PUBLIC_DATA_WITNESS")(view, TIP, state.leaf_slot).startswith(b'{"index":"0"')
    assert asked == []
    blocks = block_text.Blocks({b"H" + CONTRACT: TIP.to_bytes(4, "big")}.get, TIP)
    view.chain = SimpleNamespace(blocks=blocks)
    for name, values in (("STORAGE", (CONTRACT, SLOT)), ("LOW_NULLIFIER_WITNESS", (BETWEEN,))):
        assert question(name)(view, CONTRACT, *values) == question(name)(view, TIP, *values)
        found = module.StateQuestion(getattr(module, name), otherwise, find=lambda view, block: TIP)
        assert found(view, "tip", *values) == question(name)(view, TIP, *values)
    assert asked == []
    assert question("LOW_NULLIFIER_WITNESS")(view, SLOT, BETWEEN) == b"otherwise"
    assert asked.pop() == (view, SLOT, BETWEEN)
    no_state = SimpleNamespace(state=None)
    for where, block in ((view, 5), (view, "tip"), (view, True), (no_state, TIP)):
        assert question("STORAGE")(where, block, CONTRACT, SLOT) == b"otherwise"
        assert question("LOW_NULLIFIER_WITNESS")(where, block, BETWEEN) == b"otherwise"
    assert asked[:2] == [(view, 5, CONTRACT, SLOT), (view, 5, BETWEEN)]
    assert len(asked) == 8
    for name in ("NOTE_HASH_WITNESS", "MESSAGE_WITNESS", "BLOCK_HASH_WITNESS"):
        ask = getattr(state.answers, name.lower())
        assert question(name)(view, TIP, field_from_int(1)) == ask(field_from_int(1), TIP)
        assert question(name)(view, TIP, field_from_int(1000)) is None
    with pytest.raises(ValueError, match="question 7"):
        module.StateQuestion(7, otherwise)


@pytest.mark.parametrize("module", MODULES)
def test_what_does_not_fit_is_refused(module: Any) -> None:
    state = State(module)
    for ask in (
        state.answers.nullifier_witness,
        state.answers.low_nullifier_witness,
        state.answers.public_data_witness,
    ):
        with pytest.raises(ValueError, match="31 bytes"):
            ask(bytes(31), 5)
    with pytest.raises(ValueError, match="33 bytes"):
        state.answers.storage(CONTRACT, bytes(33), 5)
    with pytest.raises(ValueError, match="modulus"):
        state.answers.storage(CONTRACT, field_from_int(MODULUS - 1)[:31] + b"\xff", 5)
    state.entries[b"p" + inverted(state.leaf_slot)] = state.nullifier
    with pytest.raises(ValueError, match="leaf record"):
        state.answers.storage(CONTRACT, SLOT, 5)
    for places in (0, 3, 1 << 25):
        with pytest.raises(ValueError, match="places"):
            module.LeafSlots(places, SEPARATOR)


@given(st.lists(st.tuples(fields, fields), min_size=1, max_size=4))
def test_leaf_slots_are_hashes_however_few_are_kept(pairs: list[tuple[bytes, bytes]]) -> None:
    for module in MODULES:
        slots = module.LeafSlots(1, SEPARATOR)
        for contract, slot in pairs + pairs:
            assert slots.find(contract, slot) == public_leaf_slot(contract, slot)


@given(st.lists(st.tuples(fields, fields), max_size=6))
def test_keys_that_were_learnt_are_those_that_would_be_found(pairs: list[tuple[bytes, bytes]]) -> None:
    for module in MODULES:
        slots = module.LeafSlots(1024, SEPARATOR)
        slots.learn(pairs)
        slots.learn(pairs + pairs)
        for contract, slot in pairs:
            assert slots.find(contract, slot) == public_leaf_slot(contract, slot)


@pytest.mark.parametrize("module", MODULES)
def test_all_low_slots_of_a_contract_are_kept_beside_each_other(module: Any) -> None:
    slots = module.LeafSlots(1024, SEPARATOR)
    pairs = [(CONTRACT, field_from_int(number)) for number in range(70)]
    slots.learn(pairs)
    assert [slots.knows(*pair) for pair in pairs] == [True] * 32 + [False] * 38
    slots.learn(pairs[:40])
    assert all(slots.knows(*pair) for pair in pairs[:40])
    for contract, slot in pairs:
        assert slots.find(contract, slot) == public_leaf_slot(contract, slot)
    assert all(slots.knows(*pair) for pair in pairs)
    with pytest.raises(ValueError, match="modulus"):
        slots.learn([(CONTRACT, b"\xff" * 32)])
    with pytest.raises(ValueError, match="31 bytes"):
        slots.learn([(CONTRACT, bytes(31))])


@pytest.mark.parametrize("module", MODULES)
def test_a_question_for_storage_prepares_what_others_will_ask(module: Any) -> None:
    state = State(module)
    slots = state.slots
    view = SimpleNamespace(state=SimpleNamespace(answers=state.answers))
    question = module.StateQuestion(module.STORAGE, None)
    question.prepare([])
    question.prepare([(SimpleNamespace(state=None), TIP, CONTRACT, SLOT)])
    assert not slots.knows(CONTRACT, SLOT)
    question.prepare([(view, TIP, CONTRACT, SLOT), (view, "tip", SLOT, SLOT)])
    assert slots.knows(CONTRACT, SLOT)
    assert slots.knows(SLOT, SLOT)
    assert module.StateQuestion(module.NULLIFIER_WITNESS, None).prepare is None


@pytest.mark.parametrize("module", MODULES)
def test_slots_that_differ_in_one_bit_are_told_apart(module: Any) -> None:
    slots = module.LeafSlots(1, SEPARATOR)
    assert slots.find(bytes(32), bytes(32)) == public_leaf_slot(bytes(32), bytes(32))
    for bit in range(0, 253, 11):
        other = (1 << bit).to_bytes(32, "big")
        assert slots.find(other, bytes(32)) == public_leaf_slot(other, bytes(32))
        assert slots.find(bytes(32), other) == public_leaf_slot(bytes(32), other)
