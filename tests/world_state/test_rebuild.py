"""Trees made of their leaves alone: the same nodes and answers as block by block, and a refusal that names the tree."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.snapshots.conftest import import_checkpoints

from fastnode.chain_data import ChainData
from fastnode.errors import BlockUnavailable, VerificationError
from fastnode.world_state.layout import BLOCK, EDGE, LEAF_ROW_BYTES, NODE, TILE, VALUE
from fastnode.world_state.rebuild import rebuild
from fastnode.world_state.sorted_rows import SortedHashes
from fastnode.world_state.state import WorldState
from fastnode.world_state.trees import L1_TO_L2, NULLIFIER, PUBLIC_DATA, TREES, Tree

CHECKPOINTS, NEWEST, PAST = 6, 9, 5


@pytest.fixture(scope="module")
def data(sample_chain: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChainData]:
    """A chain whose state has all history."""
    directory = import_checkpoints(sample_chain, CHECKPOINTS, tmp_path_factory.mktemp("imported") / "data")
    with ChainData.open(directory) as opened:
        yield opened


def make(data: ChainData, target: Path, block: int, change: Callable[[Tree, bytes], bytes] | None = None) -> WorldState:
    """A state of the leaves after a block; ``change`` may spoil the rows of a tree."""
    genesis, rules = data.store.load_genesis(), data.store.chain.release.trees
    leaves, view = data.state.leaves_at(block), data.state.view

    def rows_of(tree: Tree) -> list[bytes]:
        rows = b"".join(leaves.rows(tree))
        return [rows if change is None else change(tree, rows)]

    target.mkdir(exist_ok=True)
    rebuild(target, genesis, [view.record(number) for number in range(1, block + 1)], rows_of, rules)
    return WorldState(target, genesis, cache_mb=1, rules=rules)


def stored(state: WorldState, kind: bytes) -> dict[bytes, bytes]:
    with state.view.snapshot.scan(kind) as entries:
        return dict(entries)


def test_trees_of_leaves_are_the_trees_that_the_blocks_made(data: ChainData, tmp_path: Path) -> None:
    newest = data.state.block_number
    with make(data, tmp_path / "made", newest) as made:
        assert (made.view.tip, made.view.oldest) == (data.state.view.tip, newest)
        assert made.check() == []
        for kind in (BLOCK, VALUE):
            assert stored(made, kind) == stored(data.state, kind)
        for kind in (TILE, NODE):  # they differ in the blocks of which a node is
            assert stored(made, kind).keys() == stored(data.state, kind).keys()
        assert stored(made, EDGE).items() <= stored(data.state, EDGE).items()
        for tree in TREES:
            index = data.state.view.tip.sizes[tree.id] // 2
            assert made.view.sibling_path(tree.id, index, newest) == data.state.view.sibling_path(
                tree.id, index, newest
            )
        some = [key[2:].translate(bytes(range(255, -1, -1))) for key in stored(data.state, b"K\0")][:50]
        assert made.view.find_leaves(NULLIFIER.id, some, newest) == data.state.view.find_leaves(0, some, newest)


def test_leaves_of_a_past_block_have_the_values_of_that_block(data: ChainData, tmp_path: Path) -> None:
    with make(data, tmp_path / "made", PAST) as made:
        assert made.view.tip == data.state.view.record(PAST)
        assert made.check() == []
        rows = b"".join(data.state.leaves_at(PAST).rows(PUBLIC_DATA))
        size = LEAF_ROW_BYTES[PUBLIC_DATA.id]
        for row in (rows[at : at + size] for at in range(0, len(rows), size)):
            assert data.state.view.public_data_value(row[:32], PAST) == row[38:]


def test_the_state_goes_on_from_its_leaves_and_back_to_them_and_no_further(data: ChainData, tmp_path: Path) -> None:
    with make(data, tmp_path / "made", PAST) as made, data.store.open_view() as chain:
        for number in range(PAST + 1, data.state.block_number + 1):
            block = chain.load_block(number)
            assert block is not None
            is_first = block.index_within_checkpoint == 0
            messages = chain.l1_to_l2_messages(block.checkpoint_number) if is_first else []
            made.commit(made.prepare(block, messages))
        assert made.view.tip == data.state.view.tip
        assert made.check() == []
        made.undo_above(PAST)
        assert made.view.tip == data.state.view.record(PAST)
        assert made.check() == []
        with pytest.raises(BlockUnavailable, match=f"below the oldest available block {PAST}"):
            made.view.record(PAST - 1)
        with pytest.raises(Exception, match=f"keeps history from block {PAST} on"):
            made.undo_above(PAST - 1)


@pytest.mark.parametrize("tree", [tree for tree in TREES if tree is not L1_TO_L2], ids=lambda tree: tree.name)
@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_in_a_leaf_is_refused_by_the_name_of_its_tree(
    data: ChainData, tmp_path: Path, tree: Tree, seed: int
) -> None:
    def flip(of: Tree, rows: bytes) -> bytes:
        if of is not tree:
            return rows
        bit = random.Random(seed).randrange(8 * len(rows))
        return rows[: bit // 8] + bytes([rows[bit // 8] ^ 1 << bit % 8]) + rows[bit // 8 + 1 :]

    with pytest.raises(VerificationError, match=f"the {tree.name}: "):
        make(data, tmp_path / "made", data.state.block_number, flip)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:-1], "a leaf is cut off"),
        (lambda rows: rows[38:], "give the root"),
        (lambda rows: rows[38:76] + rows[:38] + rows[76:], "out of order"),
        (lambda rows: rows[:38] + rows, "out of order"),
        (lambda rows: rows + rows[:38], "out of order"),
        (lambda rows: rows[:32] + rows[70:76] + rows[38:], "comes twice"),
        (lambda rows: rows[:32] + b"\xff" * 6 + rows[38:], "its size is"),
        (lambda rows: b"\xff" * 32 + rows[32:], "modulus"),
        (lambda rows: b"", "it has no leaves"),
    ],
)
def test_leaves_that_make_no_tree_are_refused(
    data: ChainData, tmp_path: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    with pytest.raises(VerificationError, match=f"the nullifier tree: .*({message})"):
        make(data, tmp_path / "made", PAST, lambda tree, rows: change(rows) if tree is NULLIFIER else rows)


def test_a_rebuild_that_was_broken_off_goes_on_with_the_tree_that_is_missing(data: ChainData, tmp_path: Path) -> None:
    taken = []

    def fail(tree: Tree, rows: bytes) -> bytes:
        taken.append(tree)
        if len(taken) == 3:
            raise KeyboardInterrupt
        return rows

    with pytest.raises(KeyboardInterrupt):
        make(data, tmp_path / "made", PAST, fail)
    with make(data, tmp_path / "made", PAST, fail) as made:
        assert made.check() == []
    assert taken == [*TREES[:3], *TREES[2:]]


@pytest.mark.parametrize("run_rows", [1, 7, 1000])
def test_hashes_come_back_in_order_however_they_were_given(tmp_path: Path, run_rows: int) -> None:
    generator = np.random.default_rng(run_rows)
    indexes = generator.permutation(300).astype(np.uint64) * np.uint64(3)
    rows = SortedHashes(tmp_path / "rows", run_rows=run_rows)
    for some in np.array_split(indexes, 40):
        rows.add(some, np.repeat(some.astype(np.uint8)[:, np.newaxis], 32, axis=1))
    found = list(rows.ranges(6))
    assert [number for number, _, _ in found] == sorted({int(index) >> 6 for index in indexes})
    assert np.concatenate([places for _, places, _ in found]).tolist() == sorted(indexes.tolist())
    for _, places, hashes in found:
        assert (hashes[:, 0] == places.astype(np.uint8)).all()
    rows.close()
    assert list(tmp_path.iterdir()) == []
