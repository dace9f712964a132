"""The older_nodes kernel and its twin: every node of every block, from a database with all history or a thin one."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests._ext.test_indexed_tree import HEIGHT, ZEROS, Tree, random_block

from fastnode._twins import indexed_tree as indexed_twin
from fastnode._twins import older_nodes as twin
from fastnode.kernels import indexed_tree
from fastnode.kernels import older_nodes as kernel
from fastnode.world_state.layout import u32, u48

NODE, HISTORY, TILE = b"N\0", b"H\0", b"T\0"


class Entries:
    """A database in memory: a snapshot's get, and iterators."""

    def __init__(self, entries: dict[bytes, bytes]) -> None:
        self.get = entries.get
        self._sorted = sorted(entries.items())
        self.iterators: deque[Any] = deque()

    def make_iterator(self) -> Entries:
        return self

    def first(self, key: bytes) -> tuple[bytes, bytes] | None:
        at = bisect_left(self._sorted, (key, b""))
        return self._sorted[at] if at < len(self._sorted) else None


def entries_of(tree: Tree, thin: int) -> dict[bytes, bytes]:
    found = {NODE + key: stored for key, stored in tree.stored.items()}
    found |= {TILE + u48(index): tile for index, tile in tree.tiles.items()}
    for number, update in enumerate(tree.updates):
        history = update.thin_history if number <= thin else update.history
        found |= {HISTORY + key + u32(number): stored for key, stored in history}
    return found


def grown(module: Any, seed: int, blocks: int, history_bytes: int = 0) -> Tree:
    rng = random.Random(seed)
    tree = Tree(module, history_bytes=history_bytes)
    for _ in range(blocks):
        tree.update(*random_block(rng, len(tree.leaves)))
    return tree


def nodes_of(tree: Tree, block: int) -> dict[bytes, bytes]:
    """(level || index) -> node at a block, of all nodes of levels that had nodes then."""
    leaves, tiles, stored = tree.states[block]
    found = {}
    for level in range(indexed_twin.depth(len(leaves))):
        for index in range((len(leaves) - 1 >> level) + 2):
            node = stored.get(bytes([level]) + u48(index), b"")
            if level < 5:
                tile = tiles.get(index >> (5 - level), b"")
                node = twin.unpack_tile(tile, 36).get(twin.tile_position(level, index), b"")
            found[bytes([level]) + u48(index)] = node or ZEROS[level] + bytes(4)
    return found


@given(st.integers(0, 2**32), st.sampled_from([0, 1 << 20]))
@settings(max_examples=8, deadline=None)
def test_kernel_and_twin_find_every_node_of_every_block(seed: int, history_bytes: int) -> None:
    rng = random.Random(seed)
    blocks = rng.randrange(2, 12)
    thin = rng.randrange(-1, blocks)
    for module, older in ((indexed_tree, kernel), (indexed_twin, twin)):
        tree = grown(module, seed, blocks, history_bytes)
        read = older.OlderNodes(tree.nodes, NODE, HISTORY, TILE).read
        data = Entries(entries_of(tree, thin))
        for block in range(blocks):
            expected = nodes_of(tree, block)
            size = len(tree.states[block][0])
            found = read(b"".join(expected), block, size, block < thin, data.get, data.iterators, data.make_iterator)
            assert [found[at : at + 36] for at in range(0, len(found), 36)] == list(expected.values())
        assert len(data.iterators) == 1


@pytest.mark.parametrize(("indexes", "module"), [(indexed_tree, kernel), (indexed_twin, twin)], ids=["kernel", "twin"])
def test_a_snapshot_that_is_behind_the_memory_has_its_own_nodes(indexes: Any, module: Any) -> None:
    tree = grown(indexes, 3, 6)
    data, older = Entries(entries_of(tree, -1)), nodes_of(tree, 5)
    size = len(tree.leaves)
    tree.update(size, {index: bytes([1]) * 32 for index in range(0, size, 3)})
    read = module.OlderNodes(tree.nodes, NODE, HISTORY, TILE).read
    found = read(b"".join(older), 5, size, False, data.get, data.iterators, data.make_iterator)
    assert found == b"".join(older.values())


@pytest.mark.parametrize(("indexes", "module"), [(indexed_tree, kernel), (indexed_twin, twin)], ids=["kernel", "twin"])
@pytest.mark.parametrize("thin", [False, True])
def test_history_that_is_not_there_is_named_and_no_other_is_taken_for_it(indexes: Any, module: Any, thin: bool) -> None:
    tree = grown(indexes, 5, 8)
    stored = entries_of(tree, 7 if thin else -1)
    kept = [key for key in stored if key[:3] == HISTORY + b"\5" and key[-4:] == u32(4)]
    del stored[kept[0]]
    data, index = Entries(stored), int.from_bytes(kept[0][3:9], "big")
    read = module.OlderNodes(tree.nodes, NODE, HISTORY, TILE).read
    where = 3, len(tree.states[3][0]), thin, data.get, data.iterators, data.make_iterator
    for wanted in (bytes([5]) + u48(index), bytes([6]) + u48(index >> 1)):
        with pytest.raises(LookupError, match=rf"node \({'5' if thin or wanted[0] == 5 else '6'}, .*block 3"):
            read(wanted, *where)
        if not thin:
            break


@pytest.mark.parametrize(("indexes", "module"), [(indexed_tree, kernel), (indexed_twin, twin)], ids=["kernel", "twin"])
def test_what_no_tree_has_is_refused(indexes: Any, module: Any) -> None:
    tree = grown(indexes, 1, 2)
    data = Entries({NODE + bytes([5]) + u48(0): b"short"})
    read = module.OlderNodes(tree.nodes, NODE, HISTORY, TILE).read
    for wanted, size in ((b"\5", 64), (bytes([HEIGHT]) + u48(0), 64), (bytes([5]) + u48(128), 64), (b"", 1 << 13)):
        with pytest.raises(ValueError, match=r"keys of nodes|the tree has no node|no tree of"):
            read(wanted, 1, size, False, data.get, data.iterators, data.make_iterator)
    with pytest.raises(ValueError, match="another length"):
        read(bytes([5]) + u48(0), 0, 64, False, data.get, data.iterators, data.make_iterator)
