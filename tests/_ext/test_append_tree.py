"""The append_tree kernel and its twin: the same growth, the same paths, the roots of the textbook."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.merkle import root_from, root_of, zero_nodes

from fastnode._twins import append_tree as twin
from fastnode.kernels import append_tree as kernel
from fastnode.kernels import tree_nodes

HEIGHT = 10
FIELD_MODULUS = 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001
GROWTH_FIELDS = ("size_before", "size", "root", "edge", "tiles", "nodes")

ZEROS = zero_nodes(HEIGHT)


class Tree:
    """One tree with what its owner would keep in a database."""

    def __init__(self, module: Any, *, first_level: int = 5) -> None:
        self.module = module
        self.nodes = module.AppendNodes(HEIGHT, b"".join(ZEROS), first_level=first_level)
        self.leaves: list[bytes] = []
        self.tiles: dict[int, bytes] = {}
        self.stored: dict[bytes, bytes] = {}
        self.edges: dict[int, bytes] = {0: b""}

    def append(self, leaves: list[bytes]) -> Any:
        size = len(self.leaves)
        growth = self.nodes.append(size, self.frontier(), self.tiles.get(size >> 5, b""), b"".join(leaves))
        self.nodes.publish(growth)
        self.leaves += leaves
        self.tiles.update(growth.tiles)
        self.stored.update(growth.nodes)
        self.edges[growth.size] = growth.edge
        return growth

    def frontier(self) -> bytes:
        size = len(self.leaves)
        nodes = []
        for level in range(HEIGHT):
            index = (size >> level) - 1
            nodes.append(self.node(level, index) if size >> level & 1 else b"\xff" * 32)
        return b"".join(nodes)

    def node(self, level: int, index: int) -> bytes:
        if level < 5:
            nodes = tree_nodes.unpack_tile(self.tiles.get(index >> (5 - level), b""), 32)
            found = nodes.get(tree_nodes.tile_position(level, index))
        else:
            found = self.stored.get(bytes([level]) + index.to_bytes(6, "big"))
        return found if found is not None else ZEROS[level]

    def path(self, index: int, size: int, *, use_memory: bool = True) -> bytes:
        missing: list[int] = []
        tile = self.tiles.get(index >> 5, b"")
        path = bytearray(self.nodes.path(index, size, tile, self.edges[size], missing, use_memory=use_memory))
        for level in missing:
            assert path[32 * level : 32 * level + 32] == bytes(32)
            path[32 * level : 32 * level + 32] = self.node(level, (index >> level) ^ 1)
        return bytes(path)


def random_leaves(rng: random.Random, count: int) -> list[bytes]:
    """Every fourth run or so is padding, as are some leaves of the others."""
    if rng.random() < 0.25:
        return [bytes(32)] * count
    return mixed_leaves(rng, count)


def mixed_leaves(rng: random.Random, count: int) -> list[bytes]:
    return [rng.choice((bytes(32), b"\0" + rng.randbytes(31), b"\0" + rng.randbytes(31))) for _ in range(count)]


runs = st.lists(st.one_of(st.integers(0, 5), st.integers(28, 36), st.integers(60, 130)), min_size=1, max_size=8)


@given(runs, st.integers(0, 2**32), st.sampled_from([5, 6, 8]))
@settings(max_examples=40)
def test_kernel_and_twin_grow_alike(counts: list[int], seed: int, first_level: int) -> None:
    rng = random.Random(seed)
    ours, readable = Tree(kernel, first_level=first_level), Tree(twin, first_level=first_level)
    for count in counts:
        leaves = random_leaves(rng, count)
        growth, expected = ours.append(leaves), readable.append(leaves)
        assert {name: getattr(growth, name) for name in GROWTH_FIELDS} == {
            name: getattr(expected, name) for name in GROWTH_FIELDS
        }
        assert ours.nodes.memory_bytes() == readable.nodes.memory_bytes()


@given(runs, st.integers(0, 2**32))
@settings(max_examples=40)
def test_every_size_keeps_its_root_and_its_paths(counts: list[int], seed: int) -> None:
    rng = random.Random(seed)
    tree, roots = Tree(kernel), {}
    for count in counts:
        growth = tree.append(random_leaves(rng, count))
        roots[growth.size] = growth.root
        assert growth.root == root_of(tree.leaves, HEIGHT)
    for size, root in roots.items():
        for index in {rng.randrange(size) for _ in range(6)} if size else ():
            for use_memory in (True, False):
                assert root_from(tree.leaves[index], index, tree.path(index, size, use_memory=use_memory)) == root


def test_a_full_tree_has_a_root_and_no_room() -> None:
    rng = random.Random(1)
    tree = Tree(kernel)
    tree.append(mixed_leaves(rng, 1000))
    growth = tree.append(mixed_leaves(rng, 24))
    assert growth.root == root_of(tree.leaves, HEIGHT)
    assert growth.edge == b""
    assert root_from(tree.leaves[1023], 1023, tree.path(1023, 1024)) == growth.root
    with pytest.raises(ValueError, match="no room for 1025 leaves"):
        tree.append([bytes(32)])


def test_padding_is_neither_hashed_nor_stored() -> None:
    growth = Tree(kernel).append([bytes(32)] * 512)
    assert (growth.tiles, growth.nodes, growth.root) == ([], [], ZEROS[HEIGHT])


def test_a_growth_that_is_not_published_leaves_no_trace() -> None:
    rng = random.Random(2)
    tree = Tree(kernel)
    tree.append(mixed_leaves(rng, 100))
    before = tree.nodes.memory_bytes(), tree.path(7, 100)
    tree.nodes.append(100, tree.frontier(), tree.tiles[3], b"".join(mixed_leaves(rng, 64)))
    assert (tree.nodes.memory_bytes(), tree.path(7, 100)) == before


def test_leaves_after_an_undo_replace_those_before_it() -> None:
    rng = random.Random(3)
    tree = Tree(kernel)
    tree.append(mixed_leaves(rng, 70))
    root, size = root_of(tree.leaves, HEIGHT), 70
    tree.append(mixed_leaves(rng, 200))
    del tree.leaves[size:]
    tree.nodes.resize(size)  # tiles stay as they are: nodes in them that are not complete any more do no harm
    assert root_from(tree.leaves[69], 69, tree.path(69, size)) == root
    growth = tree.append(mixed_leaves(rng, 90))
    assert growth.root == root_of(tree.leaves, HEIGHT)
    for index in range(160):
        assert root_from(tree.leaves[index], index, tree.path(index, 160)) == growth.root


def test_levels_that_leave_the_memory_are_asked_for() -> None:
    tree = Tree(kernel)
    tree.append(mixed_leaves(random.Random(4), 900))
    assert tree.nodes.node(5, 3) == tree.node(5, 3)
    tree.nodes.raise_first_level(7)
    assert tree.nodes.first_level == 7
    assert tree.nodes.node(5, 3) is None
    missing: list[int] = []
    tree.nodes.path(40, 900, tree.tiles[1], tree.edges[900], missing)
    assert missing == [5, 6]


def test_levels_come_back_into_the_memory_one_by_one() -> None:
    tree = Tree(kernel)
    tree.append(mixed_leaves(random.Random(4), 900))
    whole, path = tree.nodes.memory_bytes(), tree.path(40, 900)
    tree.nodes.raise_first_level(7)
    for level in (6, 5):
        entries = [(key, node) for key, node in tree.stored.items() if key[0] == level]
        with pytest.raises(ValueError, match=f"no room for node 900 of level {level}"):
            tree.nodes.load_next_level(900, [*entries, (bytes([level]) + (900).to_bytes(6, "big"), bytes(32))])
        with pytest.raises(ValueError, match=f"no node of level {level}"):
            tree.nodes.load_next_level(900, [(bytes([level + 1]) + bytes(6), bytes(32))])
        assert tree.nodes.first_level == level + 1
        tree.nodes.load_next_level(900, entries)
        assert tree.nodes.first_level == level
    missing: list[int] = []
    assert tree.nodes.path(40, 900, tree.tiles[1], tree.edges[900], missing) == path
    assert (missing, tree.nodes.memory_bytes()) == ([], whole)
    with pytest.raises(ValueError, match="in tiles"):
        tree.nodes.load_next_level(900, [])


def test_stored_nodes_are_loaded_again() -> None:
    tree = Tree(kernel)
    tree.append(mixed_leaves(random.Random(5), 700))
    again = kernel.AppendNodes(HEIGHT, b"".join(ZEROS))
    again.resize(700)
    again.load(tree.stored.items())
    missing: list[int] = []
    path = again.path(3, 700, tree.tiles[0], tree.edges[700], missing)
    assert (path, missing) == (tree.path(3, 700), [])
    assert again.memory_bytes() == tree.nodes.memory_bytes()


def test_what_does_not_fit_is_refused() -> None:
    nodes = kernel.AppendNodes(HEIGHT, b"".join(ZEROS))
    frontier = bytes(32 * HEIGHT)
    with pytest.raises(ValueError, match="zeros must hold"):
        kernel.AppendNodes(HEIGHT, bytes(32))
    with pytest.raises(ValueError, match="first_level must be at least 5"):
        kernel.AppendNodes(HEIGHT, b"".join(ZEROS), first_level=4)
    with pytest.raises(ValueError, match="whole nodes"):
        nodes.append(0, frontier, b"", bytes(33))
    with pytest.raises(ValueError, match="whole nodes"):
        nodes.append(0, bytes(5), b"", bytes(32))
    with pytest.raises(ValueError, match="not below the field modulus"):
        nodes.append(0, frontier, b"", FIELD_MODULUS.to_bytes(32, "big"))
    with pytest.raises(ValueError, match="does not match its bitmap"):
        nodes.path(0, 3, bytes(7) + b"\x01", bytes(32), [])
    with pytest.raises(ValueError, match="leaf 3 is not in a tree of 3 leaves"):
        nodes.path(3, 3, b"", bytes(32), [])
    with pytest.raises(ValueError, match="an edge of 5 bytes for 3 leaves"):
        nodes.path(0, 3, b"", bytes(5), [])
