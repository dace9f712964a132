"""Thin history: of what old blocks replaced only some levels are kept, and every answer is as before."""

from __future__ import annotations

import random
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.killed import killed, script_command
from tests.world_state.chain import Content, Judge, Maker, Model, assert_roots, build, grow, open_state, random_field
from tests.world_state.verifier import Verifier

from fastnode.errors import DatabaseError
from fastnode.kernels import indexed_tree
from fastnode.protocol.block import L2Block
from fastnode.world_state import state as state_module
from fastnode.world_state.layout import DROPPED_KEY, NODE_HISTORY, SCHEMA_KEY, THIN_KEY, TILE, u32
from fastnode.world_state.state import WorldState
from fastnode.world_state.view import WorldStateView

BLOCKS = 24
FINAL = 21
BEHIND = 4
#: The newest block of a checkpoint so far behind the final one: each block is a checkpoint of its own here.
THIN = FINAL - BEHIND


@pytest.fixture(autouse=True)
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "THIN_BEHIND_CHECKPOINTS", BEHIND)
    monkeypatch.setattr(state_module, "PRUNED_BLOCKS_PER_STEP", 4)


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return Verifier()


def thinned(state: WorldState, final: int = FINAL) -> WorldState:
    state.settle(final)
    while state.thin():
        pass
    return state


def contents(seed: int, blocks: int = BLOCKS) -> list[Content]:
    rng = random.Random(seed)
    maker = Maker(rng)
    maker._low = 10_000 * seed  # nullifiers of no other chain
    return [maker.content(txs=rng.choice([0, 1, 2, 3]), most=8, is_first=True) for _ in range(blocks)]


def answers(view: WorldStateView, keys: list[bytes]) -> list[Any]:
    """Paths of every used leaf, leaves and values at every block."""
    found: list[Any] = []
    for block in range(view.oldest, view.tip.number + 1):
        for tree in (0, 2):
            size = view.record(block).sizes[tree]
            indexes = sorted({*range(0, size, 64), *range(65, size, 192), *range(0, min(size, 256), 17)})
            found += [view.sibling_path(tree, index, block) for index in indexes]
        for key in keys:
            found.append(view.low_nullifier_witness(key, block))
            found.append(view.public_data_witness(key, block))
            found.append(view.nullifier_witness_json(key, block))
            found.append(view.public_data_value(key, block))
            found.append(view.find_leaves(0, [key], block))
    return found


def asked_keys(rng: random.Random, blocks: list[Content]) -> list[bytes]:
    effects = [effect for content in blocks for effect in content.effects]
    known = [nullifier for effect in effects for nullifier in effect.nullifiers]
    known += [write.leaf_slot for effect in effects for write in effect.public_data_writes]
    return [*rng.sample(known, 8), *(random_field(rng) for _ in range(2))]


def entries(state: WorldState, prefix: bytes = b"") -> dict[bytes, bytes]:
    with state.view.snapshot.scan(prefix) as found:
        return dict(found)


def newest_entries(state: WorldState) -> dict[bytes, bytes]:
    """All but the history of nodes; a tile of an append-only tree may keep what an undo took away."""
    kept = {key: value for key, value in entries(state).items() if key[:1] not in (NODE_HISTORY, b"M")}
    return {key: value for key, value in kept.items() if key[:1] != TILE or key[1] in (0, 2)}


def differing(found: dict[bytes, bytes], expected: dict[bytes, bytes]) -> list[bytes]:
    return [key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)]


def levels_by_block(state: WorldState) -> dict[bool, set[int]]:
    """Levels with history of blocks up to the newest thin one, and above it."""
    found: dict[bool, set[int]] = {True: set(), False: set()}
    for key in entries(state, NODE_HISTORY):
        found[int.from_bytes(key[-4:], "big") <= state.view.thin].add(key[2])
    return found


@pytest.mark.parametrize(("seed", "cache_mb"), [(1, 0), (2, 16)])
def test_every_answer_at_every_block_is_as_before_and_a_proof(
    tmp_path: Path, verifier: Verifier, seed: int, cache_mb: int
) -> None:
    rng, model, blocks = random.Random(seed), Model(verifier), contents(seed)
    keys = asked_keys(rng, blocks)
    with open_state(tmp_path, cache_mb=cache_mb) as state:
        for content in blocks:
            grow(state, model, content)
        older = state.view
        before, entries_before = answers(older, keys), len(entries(state, NODE_HISTORY))
        assert older.thin == 0
        thinned(state)
        assert state.view.thin == THIN
        assert not state.thin()
        levels = levels_by_block(state)
        assert all(map(indexed_tree.is_kept, levels[True]))
        assert levels[False] == set(range(max(levels[False]) + 1))
        assert len(entries(state, NODE_HISTORY)) < entries_before * 2 // 3
        assert answers(state.view, keys) == before
        assert answers(older, keys) == before, "a view reads what it was made of"
        older.close()
        judge = Judge(model, rng)
        for block in range(BLOCKS + 1):
            assert_roots(state.view, model, block)
            judge.look(state.view, block)
        assert state.check() == []
    with open_state(tmp_path, cache_mb=cache_mb) as state:
        state.remember_newest_blocks()
        assert answers(state.view, keys) == before


def test_blocks_far_behind_the_final_one_have_it_from_the_beginning(tmp_path: Path) -> None:
    blocks: list[tuple[L2Block, Content]] = []
    with open_state(tmp_path / "later") as state:
        for number, content in enumerate(contents(4), 1):
            blocks.append((build(state, content, number), content))
        expected = entries(thinned(state))
    with open_state(tmp_path / "at once") as state:
        for block, content in blocks:
            state.commit(state.prepare(block, content.messages or (), FINAL))
            assert state.view.thin == min(block.number, THIN)
        assert differing(entries(state), expected) == [DROPPED_KEY]
        assert state.check() == []


def test_blocks_after_others_with_more_history_have_as_much(tmp_path: Path) -> None:
    """Thin history has no gaps; the rest follows in the background."""
    blocks: list[tuple[L2Block, Content]] = []
    with open_state(tmp_path / "made") as state:
        for number, content in enumerate(contents(6), 1):
            blocks.append((build(state, content, number), content))
    with open_state(tmp_path / "followed") as state:
        for block, content in blocks:
            state.commit(state.prepare(block, content.messages or (), FINAL if block.number > 10 else 0))
        assert state.view.thin == 0
        assert thinned(state).view.thin == THIN
        assert state.check() == []


@pytest.mark.parametrize("target", [THIN + 2, THIN, THIN - 7, 0])
def test_a_return_to_any_block_leaves_the_trees_of_that_block(tmp_path: Path, verifier: Verifier, target: int) -> None:
    """Below what is thin too: an older copy of the chain was put back, say."""
    rng, model, blocks = random.Random(target), Model(verifier), contents(7)
    with open_state(tmp_path / "short") as state:
        for number, content in enumerate(blocks[:target], 1):
            build(state, content, number)
        expected = newest_entries(state)
    with open_state(tmp_path / "long", cache_mb=0) as state:
        for content in blocks:
            grow(state, model, content)
        thinned(state).undo_above(target)
        model.undo_above(target)
        assert state.view.thin == min(target, THIN)
        assert differing(newest_entries(state), expected) == []
        assert state.check() == []
        for content in contents(8, BLOCKS - target):
            grow(state, model, content)
        judge = Judge(model, rng)
        for block in range(BLOCKS + 1):
            judge.look(state.view, block)
        assert thinned(state).check() == []
        for block in range(BLOCKS + 1):
            judge.look(state.view, block)


def test_thin_history_is_dropped_as_a_whole_when_it_falls_out_of_the_window(tmp_path: Path) -> None:
    with open_state(tmp_path) as state:
        for number, content in enumerate(contents(9), 1):
            build(state, content, number)
        thinned(state)
    with open_state(tmp_path, history=2) as state:
        state.settle(FINAL)
        while state.prune():
            pass
        assert state.view.oldest == FINAL
        assert not state.thin()
        assert all(int.from_bytes(key[-4:], "big") > FINAL for key in entries(state, NODE_HISTORY))
        assert state.check() == []


def test_a_database_of_the_version_before_is_read_as_it_is_and_becomes_thin(tmp_path: Path) -> None:
    blocks = contents(10)
    keys = asked_keys(random.Random(10), blocks)
    with open_state(tmp_path) as state:
        for number, content in enumerate(blocks, 1):
            build(state, content, number)
        before = answers(state.view, keys)
        assert THIN_KEY not in entries(state)
        state.database.write([(SCHEMA_KEY, b"1")])
    with open_state(tmp_path) as state:
        assert state.database.get(SCHEMA_KEY) == b"2"
        assert (state.view.thin, answers(state.view, keys)) == (0, before)
        assert answers(thinned(state).view, keys) == before
        assert state.check() == []


def test_history_that_a_thin_block_lacks_is_an_error_that_names_the_node(tmp_path: Path) -> None:
    """Not another node's value: a kept entry that is gone leaves the next newer one."""
    with open_state(tmp_path, cache_mb=0) as state:
        for number, content in enumerate(contents(11), 1):
            build(state, content, number)
        thinned(state)
        key = next(key for key in entries(state, NODE_HISTORY + b"\0\5") if int.from_bytes(key[-4:], "big") == 12)
        state.database.write([(key, None)])
        state._open()
        index = int.from_bytes(key[3:9], "big")
        assert state.view.thin > 12
        with pytest.raises(DatabaseError, match=rf"nullifier tree: node \(5, {index}\) has no history at block 11"):
            state.view.sibling_path(0, (index ^ 1) << 5, 11)
        assert any("(5, " in fault for fault in state.check())


#: Says a dot for each step, so that a kill hits work and not the start or the end of a process.
THIN_OUT = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from tests.world_state.chain import open_state
    from fastnode.world_state import state as state_module

    state_module.THIN_BEHIND_CHECKPOINTS = int(sys.argv[2])
    state_module.PRUNED_BLOCKS_PER_STEP = 1

    def say():
        sys.stdout.write(".")
        sys.stdout.flush()
        sys.stdin.buffer.read(1)

    with open_state(Path(sys.argv[1])) as state:
        say()
        state.settle(int(sys.argv[3]))
        while state.thin():
            say()
    """
)


def test_thinning_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    moments, blocks = random.Random(12), contents(12)
    keys = asked_keys(moments, blocks)
    with open_state(tmp_path) as state:
        for number, content in enumerate(blocks, 1):
            build(state, content, number)
        before = answers(state.view, keys)
    thin, kills = 0, 0
    while thin < THIN - 3:
        delay_s = moments.random() * 0.004
        command = script_command(THIN_OUT, tmp_path, BEHIND, FINAL)
        kills += killed(command, after=moments.randint(1, 2), delay_s=delay_s, ahead=1)
        with open_state(tmp_path) as state:
            assert state.view.thin > thin
            thin = state.view.thin
            assert answers(state.view, keys) == before
            assert state.check() == []
    assert kills >= 3
    with open_state(tmp_path) as state:
        assert answers(thinned(state).view, keys) == before
        assert entries(state)[THIN_KEY] == u32(THIN)
