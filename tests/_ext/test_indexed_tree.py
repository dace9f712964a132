"""The indexed_tree kernel and its twin: the same updates, the same paths at every block, whatever is undone."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.merkle import root_from, root_of, zero_nodes

from fastnode._twins import indexed_tree as twin
from fastnode.kernels import indexed_tree as kernel

HEIGHT = 12
FIELD_MODULUS = 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001
UPDATE_FIELDS = ("block", "root", "tiles", "nodes")

ZEROS = zero_nodes(HEIGHT)


class Tree:
    """One tree with what its owner would keep in a database, and all its states."""

    def __init__(self, module: Any, *, history_bytes: int) -> None:
        self.module = module
        self.nodes = module.IndexedNodes(HEIGHT, b"".join(ZEROS), history_bytes=history_bytes)
        self.tiles: dict[int, bytes] = {}
        self.stored: dict[bytes, bytes] = {}
        self.leaves: list[bytes] = []
        self.updates: list[Any] = []
        self.states: list[tuple[list[bytes], dict[int, bytes], dict[bytes, bytes]]] = []

    def update(self, size: int, hashes: dict[int, bytes], *, history: bool = True) -> Any:
        """Block ``len(states)`` sets these leaves and makes the tree this large."""
        indexes = sorted(hashes)
        update = self.nodes.update(
            len(self.states),
            len(self.leaves),
            size,
            indexes,
            b"".join(hashes[index] for index in indexes),
            {index >> 5: self.tiles.get(index >> 5, b"") for index in indexes},
            lambda key: self.stored.get(key, b""),
            history=history,
        )
        self.nodes.publish(update)
        self.leaves = self.leaves + [bytes(32)] * (size - len(self.leaves))
        for index, value in hashes.items():
            self.leaves[index] = value
        self.tiles = self.tiles | dict(update.tiles)
        self.stored = self.stored | dict(update.nodes)
        self.updates.append(update)
        self.states.append((self.leaves, self.tiles, self.stored))
        return update

    def undo(self) -> None:
        update = self.updates.pop()
        self.states.pop()
        self.leaves, self.tiles, self.stored = self.states[-1]
        self.nodes.pop_history(update.block)
        before = dict(update.history)
        self.nodes.load([(key, before.get(key, b"")) for key, _ in update.nodes])

    def path(
        self, index: int, block: int, *, tiles: dict[int, bytes] | None = None, use_memory: bool = True
    ) -> tuple[bytes, list[int]]:
        missing: list[int] = []
        tile = (self.tiles if tiles is None else tiles).get(index >> 5, b"")
        size = len(self.states[block][0])
        return self.nodes.path(index, block, size, tile, missing, use_memory=use_memory), missing


def random_block(rng: random.Random, size: int) -> tuple[int, dict[int, bytes]]:
    """Size after the block, and the leaves that it sets: new ones, some of them empty, and old ones."""
    new = rng.choice([0, 1, 2, 31, 33, 64]) if size else 40
    after = min(size + new, 1 << HEIGHT)
    chosen = {index for index in range(size, after) if rng.random() < 0.8}
    chosen |= {rng.randrange(after) for _ in range(rng.choice([1, 3, 12]))}
    if twin.depth(after) > twin.depth(size):
        chosen.add(0)
    return after, {index: b"\0" + rng.randbytes(31) for index in chosen}


@given(st.integers(0, 2**32), st.sampled_from([0, 8, 200, 100_000]))
@settings(max_examples=15)
def test_kernel_and_twin_agree_through_updates_and_undos(seed: int, entries: int) -> None:
    rng = random.Random(seed)
    history_bytes = entries * kernel.HISTORY_ENTRY_BYTES
    trees = [Tree(module, history_bytes=history_bytes) for module in (kernel, twin)]
    for _ in range(25):
        if len(trees[0].states) > 1 and rng.random() < 0.25:
            for tree in trees:
                tree.undo()
        else:
            block = random_block(rng, len(trees[0].leaves))
            ours, expected = (tree.update(*block) for tree in trees)
            assert [getattr(ours, name) for name in UPDATE_FIELDS] == [
                getattr(expected, name) for name in UPDATE_FIELDS
            ]
            assert sorted(ours.history) == sorted(expected.history)
            assert ours.root == root_of(trees[0].leaves, HEIGHT)
        assert len({tree.nodes.history_length() for tree in trees}) == 1
        for _ in range(4):
            number = rng.randrange(len(trees[0].states))
            index = rng.randrange(len(trees[0].states[number][0]))
            use_memory = rng.random() < 0.8
            (path, missing), readable = (tree.path(index, number, use_memory=use_memory) for tree in trees)
            assert (path, missing) == readable


@given(st.integers(0, 2**32))
@settings(max_examples=15)
def test_a_path_at_any_block_leads_to_the_root_of_that_block(seed: int) -> None:
    rng = random.Random(seed)
    tree = Tree(kernel, history_bytes=1 << 24)
    for _ in range(40):
        tree.update(*random_block(rng, len(tree.leaves)))
    for number, (leaves, _, _) in enumerate(tree.states):
        for index in {rng.randrange(len(leaves)) for _ in range(4)}:
            path, missing = tree.path(index, number)
            assert missing == []
            assert root_from(leaves[index], index, path) == tree.updates[number].root


def test_history_of_many_changes_is_found_at_every_block() -> None:
    rng = random.Random(1)
    tree = Tree(kernel, history_bytes=1 << 24)
    tree.update(64, {index: b"\0" + rng.randbytes(31) for index in range(64)})
    for _ in range(1500):
        tree.update(64, {rng.randrange(64): b"\0" + rng.randbytes(31)})
    for number in range(0, 1501, 7):
        index = rng.randrange(64)
        path, missing = tree.path(index, number)
        assert missing == []
        assert root_from(tree.states[number][0][index], index, path) == tree.updates[number].root


@pytest.mark.parametrize("module", [kernel, twin], ids=["kernel", "twin"])
def test_an_update_without_history_keeps_nothing_of_what_it_replaces(module: Any) -> None:
    rng = random.Random(11)
    tree = Tree(module, history_bytes=1 << 20)
    for _ in range(4):
        tree.update(*random_block(rng, len(tree.leaves)))
    kept, path = tree.nodes.history_length(), tree.path(3, 3)
    changed = {index: b"\0" + rng.randbytes(31) for index in range(0, len(tree.leaves), 2)}
    update = tree.update(len(tree.leaves), changed, history=False)
    assert (update.history, tree.nodes.history_length()) == ([], kept)
    assert update.root == root_of(tree.leaves, HEIGHT)
    assert root_from(tree.leaves[3], 3, tree.path(3, 4)[0]) == update.root
    # Missing nodes are asked for, never made up.
    now, missing = tree.path(3, 3)
    assert missing
    for level in set(range(HEIGHT)) - set(missing):
        assert now[32 * level : 32 * level + 32] == path[0][32 * level : 32 * level + 32]


def test_the_oldest_history_falls_out_and_is_asked_for() -> None:
    rng = random.Random(2)
    tree = Tree(kernel, history_bytes=256 * kernel.HISTORY_ENTRY_BYTES)
    tree.update(64, {index: b"\0" + rng.randbytes(31) for index in range(64)})
    for _ in range(400):
        tree.update(64, {rng.randrange(64): b"\0" + rng.randbytes(31)})
    assert tree.nodes.history_length() == 256
    assert tree.path(5, 399)[1] == []
    path, missing = tree.path(5, 1)
    assert missing
    assert all(path[32 * level : 32 * level + 32] == bytes(32) for level in missing)


def test_a_tile_of_an_undone_block_gives_no_wrong_path() -> None:
    tree = Tree(kernel, history_bytes=1 << 20)
    first, second, third = (bytes([0, value]) * 16 for value in (1, 2, 3))
    tree.update(4, dict.fromkeys(range(4), first))
    tree.update(4, {1: second})
    tree.update(4, {1: third})
    abandoned = tree.tiles  # says that block 2 set leaf 1
    tree.undo()
    tree.update(4, {2: third})
    # Leaf 1 had its second value after block 1: that is neither in this tile nor, any more, in the history.
    path, missing = tree.path(0, 1, tiles=abandoned)
    assert missing == [0]
    path, missing = tree.path(0, 0, tiles=abandoned)
    assert (path[:32], missing) == (first, [])


def test_an_update_that_is_not_published_leaves_no_trace() -> None:
    rng = random.Random(3)
    tree = Tree(kernel, history_bytes=1 << 20)
    tree.update(*random_block(rng, 0))
    tree.update(*random_block(rng, len(tree.leaves)))
    before = tree.path(3, 1), tree.nodes.memory_bytes(), tree.nodes.history_length()
    tree.nodes.update(2, len(tree.leaves), len(tree.leaves), [0], bytes(32), {0: tree.tiles[0]}, lambda _: b"")
    assert (tree.path(3, 1), tree.nodes.memory_bytes(), tree.nodes.history_length()) == before


def test_levels_that_leave_the_memory_are_fetched() -> None:
    rng = random.Random(4)
    tree = Tree(kernel, history_bytes=0)
    while len(tree.leaves) < 300:
        tree.update(*random_block(rng, len(tree.leaves)))
    tree.nodes.raise_first_level(7)
    assert tree.nodes.first_level == 7
    size, hashes = random_block(rng, len(tree.leaves))
    assert tree.update(size, hashes).root == root_of(tree.leaves, HEIGHT)
    assert tree.path(40, len(tree.states) - 1)[1] == [5, 6]


def test_levels_come_back_into_the_memory_one_by_one() -> None:
    rng = random.Random(4)
    tree = Tree(kernel, history_bytes=0)
    while len(tree.leaves) < 300:
        tree.update(*random_block(rng, len(tree.leaves)))
    newest = len(tree.states) - 1
    whole, path = tree.nodes.memory_bytes(), tree.path(40, newest)
    tree.nodes.raise_first_level(7)
    for level in (6, 5):
        entries = [(key, stored) for key, stored in tree.stored.items() if key[0] == level]
        for wrong in ((bytes([level + 1]) + bytes(6), bytes(36)), (bytes([level]) + b"\xff" * 6, bytes(36))):
            with pytest.raises(ValueError, match=f"no node of level {level}"):
                tree.nodes.load_next_level([*entries, wrong])
        with pytest.raises(ValueError, match="a stored node of 32 bytes"):
            tree.nodes.load_next_level([(bytes([level]) + bytes(6), bytes(32))])
        assert tree.nodes.first_level == level + 1
        tree.nodes.load_next_level(entries)
        assert tree.nodes.first_level == level
    assert (tree.path(40, newest), tree.nodes.memory_bytes()) == (path, whole)
    with pytest.raises(ValueError, match="in tiles"):
        tree.nodes.load_next_level([])


def test_history_may_be_put_back_after_a_restart() -> None:
    rng = random.Random(5)
    tree = Tree(kernel, history_bytes=1 << 20)
    for _ in range(20):
        tree.update(*random_block(rng, len(tree.leaves)))
    again = Tree(kernel, history_bytes=1 << 20)
    again.nodes.load(tree.stored.items())
    for update in tree.updates:
        for key, stored in update.history:
            again.nodes.push_history(key, stored, update.block)
    again.tiles, again.states = tree.tiles, tree.states
    for number, (leaves, _, _) in enumerate(tree.states):
        index = rng.randrange(len(leaves))
        assert again.path(index, number) == tree.path(index, number)


def test_what_does_not_fit_is_refused() -> None:
    nodes = kernel.IndexedNodes(HEIGHT, b"".join(ZEROS), history_bytes=0)

    def update(size_before: int, size: int, indexes: list[int], hashes: bytes, tile: bytes = b"") -> None:
        nodes.update(1, size_before, size, indexes, hashes, dict.fromkeys(range(200), tile), lambda _: b"")

    with pytest.raises(ValueError, match="one hash of 32 bytes per index"):
        update(0, 4, [0, 1], bytes(32))
    with pytest.raises(ValueError, match="at least one"):
        update(4, 4, [], b"")
    with pytest.raises(ValueError, match="leaf 4 does not fit a tree of 4 leaves"):
        update(4, 4, [4], bytes(32))
    with pytest.raises(ValueError, match="does not fit"):
        update(4, 1 << HEIGHT + 1, [4], bytes(32))
    with pytest.raises(ValueError, match="must also set leaf 0"):
        update(4, 5, [4], bytes(32))
    with pytest.raises(ValueError, match="must ascend"):
        update(4, 4, [2, 1], bytes(64))
    with pytest.raises(ValueError, match="must ascend"):
        update(4, 4, [2, 2], bytes(64))
    with pytest.raises(ValueError, match="does not match its bitmap"):
        update(4, 4, [2], bytes(32), b"\x01" + bytes(40))
    with pytest.raises(ValueError, match="field modulus"):
        update(4, 4, [2], FIELD_MODULUS.to_bytes(32, "big"))
    with pytest.raises(ValueError, match="leaf 4 is not in a tree of 4 leaves"):
        nodes.path(4, 0, 4, b"", [])
    with pytest.raises(ValueError, match="zeros must hold"):
        kernel.IndexedNodes(HEIGHT, bytes(32), history_bytes=0)
    with pytest.raises(ValueError, match="first_level must be at least 5"):
        kernel.IndexedNodes(HEIGHT, b"".join(ZEROS), history_bytes=0, first_level=4)


@pytest.mark.parametrize("module", [kernel, twin], ids=["kernel", "twin"])
@pytest.mark.parametrize(("level", "index"), [(HEIGHT + 1, 0), (63, 0), (HEIGHT, 1), (5, 1 << (HEIGHT - 5))])
def test_a_node_that_the_tree_does_not_have_is_not_loaded(module: Any, level: int, index: int) -> None:
    nodes = module.IndexedNodes(HEIGHT, b"".join(ZEROS), history_bytes=0)
    key = bytes([level]) + index.to_bytes(6, "big")
    for stored in (b"", bytes(module.NODE_BYTES)):
        with pytest.raises(ValueError, match="has no node"):
            nodes.load([(key, stored)])
    nodes.load([(bytes([5]) + ((1 << (HEIGHT - 5)) - 1).to_bytes(6, "big"), b"")])
