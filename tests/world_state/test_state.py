"""Applying blocks: what is believed, what is refused and leaves no trace, what survives a restart."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.world_state.chain import (
    Content,
    Judge,
    Maker,
    Model,
    assert_roots,
    build,
    genesis_record,
    grow,
    open_state,
    random_field,
    seal,
    tx_effect,
)
from tests.world_state.conftest import SampleBlocks
from tests.world_state.verifier import Verifier

from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.store import ArchiverStore
from fastnode.errors import BlockRejected, BlockUnavailable, DatabaseError, DataDirectoryError, StartError
from fastnode.protocol.block import L2Block
from fastnode.protocol.effects import Body, PublicDataWrite
from fastnode.protocol.header import AppendOnlyTreeSnapshot, StateReference
from fastnode.protocol.releases import FOUR
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.world_state import levels as levels_module
from fastnode.world_state.apply import BlockDraft
from fastnode.world_state.layout import RESET_KEY, SCHEMA_KEY, TIP_KEY
from fastnode.world_state.state import WorldState

WRONG = bytes.fromhex("0" * 60 + "beef")


def everything(state: WorldState) -> dict[bytes, bytes]:
    with state.view.snapshot.scan(b"") as entries:
        return dict(entries)


# ---- the bundled chain ------------------------------------------------------------------------------


def test_the_bundled_chain_is_imported_with_every_root(sample_path: Path, sample: SampleBlocks, tmp_path: Path) -> None:
    with (
        ArchiverStore.open(tmp_path) as store,
        WorldState(tmp_path, sample.genesis, rules=FOUR.trees) as state,
    ):
        adopt_chain_file(store, sample_path)
        ingestor = Ingestor(store, state=state)
        assert import_chain_file(ingestor, sample_path).new_blocks == 106
        tip = state.view.tip
        assert tip.number == 106
        assert tip.roots[4] == ingestor.view.block_info(106).archive_root  # type: ignore[union-attr]
        assert state.check() == []
        ingestor.close()


def test_trees_that_are_behind_the_chain_catch_up(sample_path: Path, sample: SampleBlocks, tmp_path: Path) -> None:
    with ArchiverStore.open(tmp_path) as store:
        adopt_chain_file(store, sample_path)
        ingestor = Ingestor(store)
        import_chain_file(ingestor, sample_path)
        ingestor.close()
    with (
        ArchiverStore.open(tmp_path) as store,
        WorldState(tmp_path, sample.genesis, rules=FOUR.trees) as state,
    ):
        sample.apply(state, upto=40)
        ingestor = Ingestor(store, state=state)
        assert ingestor.catch_up() == 66
        assert state.block_number == 106
        ingestor.close()


def test_a_reorg_through_the_ingestor_takes_the_trees_along(
    sample_path: Path, sample: SampleBlocks, tmp_path: Path
) -> None:
    with (
        ArchiverStore.open(tmp_path) as store,
        WorldState(tmp_path, sample.genesis, rules=FOUR.trees) as state,
    ):
        adopt_chain_file(store, sample_path)
        ingestor = Ingestor(store, state=state)
        import_chain_file(ingestor, sample_path)
        roots = state.view.record(50).roots
        ingestor.undo_above(50)
        assert (state.block_number, state.view.tip.roots) == (50, roots)
        assert state.check() == []
        import_chain_file(ingestor, sample_path)
        assert state.block_number == 106
        ingestor.close()


def test_trees_are_built_anew_for_a_target_without_history(
    sample_path: Path, sample: SampleBlocks, tmp_path: Path
) -> None:
    """Readers of the old view go on meanwhile, and blocks can be added afterwards."""
    with (
        ArchiverStore.open(tmp_path) as store,
        WorldState(tmp_path, sample.genesis, history=2, rules=FOUR.trees) as state,
    ):
        adopt_chain_file(store, sample_path)
        ingestor = Ingestor(store, state=state)
        import_chain_file(ingestor, sample_path)
        with pytest.raises(DatabaseError, match="keeps history from block"):
            ingestor.undo_above(20)
        old, roots = state.view, state.view.tip.roots
        seen: list[tuple[int, int]] = []
        assert ingestor.rebuild_above(20, lambda done, total: seen.append((done, total))) == 86
        assert seen[-1] == (20, 20)
        assert (state.block_number, state.block_hash) == (20, sample.blocks[19][0].hash())
        assert state.check() == []
        assert old.record(106).roots == roots
        import_chain_file(ingestor, sample_path)
        assert state.view.tip.roots == roots
        ingestor.close()


def test_a_reset_that_was_cut_short_is_finished_by_the_next_opening(sample: SampleBlocks, tmp_path: Path) -> None:
    with WorldState(tmp_path, sample.genesis, rules=FOUR.trees) as state:
        genesis = everything(state)
        sample.apply(state, upto=10)
        state._database.write([(RESET_KEY, b""), (SCHEMA_KEY, None), (TIP_KEY, None)])
    with WorldState(tmp_path, sample.genesis, rules=FOUR.trees) as state:
        assert state.block_number == 0
        assert everything(state) == genesis
        sample.apply(state, upto=10)
        assert state.check() == []


# ---- refusals ---------------------------------------------------------------------------------------


def with_state(block: L2Block, **trees: AppendOnlyTreeSnapshot) -> L2Block:
    state = block.header.state
    names = ("l1_to_l2_message_tree", "note_hash_tree", "nullifier_tree", "public_data_tree")
    changed = StateReference.of_trees(*[trees.get(name, getattr(state, name)) for name in names])
    return replace(block, header=replace(block.header, state=changed))


def lies_about(tree: str) -> Callable[[L2Block], L2Block]:
    def change(block: L2Block) -> L2Block:
        return with_state(block, **{tree: replace(getattr(block.header.state, tree), root=WRONG)})

    return change


def lies_about_last_archive(block: L2Block) -> L2Block:
    return replace(block, header=replace(block.header, last_archive=replace(block.header.last_archive, root=WRONG)))


def lies_about_archive(block: L2Block) -> L2Block:
    return replace(block, archive=replace(block.archive, root=WRONG))


@pytest.mark.parametrize(
    ("change", "tree"),
    [
        (lies_about("l1_to_l2_message_tree"), "L1 to L2 message tree"),
        (lies_about("note_hash_tree"), "note hash tree"),
        (lies_about("nullifier_tree"), "nullifier tree"),
        (lies_about("public_data_tree"), "public data tree"),
        (lies_about_last_archive, "archive tree"),
        (lies_about_archive, "archive tree"),
    ],
)
def test_a_wrong_root_is_refused_by_name_and_nothing_is_written(
    sample: SampleBlocks, tmp_path: Path, change: Callable[[L2Block], L2Block], tree: str
) -> None:
    with WorldState(tmp_path, sample.genesis, rules=FOUR.trees) as state:
        sample.apply(state, upto=7)
        before, memory = everything(state), state.memory_bytes()
        block, messages = sample.blocks[7]
        with pytest.raises(BlockRejected, match=rf"^block 8: the root of the {tree} is 0x[0-9a-f]+, .* 0x0+beef$"):
            state.prepare(change(block), messages)
        assert everything(state) == before
        assert state.memory_bytes() == memory
        state.commit(state.prepare(block, messages))
        assert state.check() == []


def test_a_wrong_size_is_refused_by_name(sample: SampleBlocks, tmp_path: Path) -> None:
    with WorldState(tmp_path, sample.genesis, rules=FOUR.trees) as state:
        block, messages = sample.blocks[0]
        tree = replace(block.header.state.note_hash_tree, next_available_leaf_index=1)
        with pytest.raises(BlockRejected, match=r"^block 1: the size of the note hash tree is \d+, .* says 1$"):
            state.prepare(with_state(block, note_hash_tree=tree), messages)


def test_missing_messages_are_a_wrong_root(sample: SampleBlocks, tmp_path: Path) -> None:
    with WorldState(tmp_path, sample.genesis, rules=FOUR.trees) as state:
        number = next(i for i, (_, messages) in enumerate(sample.blocks) if messages)
        sample.apply(state, upto=number)
        with pytest.raises(BlockRejected, match="L1 to L2 message tree"):
            state.prepare(sample.blocks[number][0], ())


def test_only_the_next_block_fits(sample: SampleBlocks, tmp_path: Path) -> None:
    with WorldState(tmp_path, sample.genesis, rules=FOUR.trees) as state:
        with pytest.raises(BlockRejected, match="block 2: the world state is at block 0"):
            state.prepare(*sample.blocks[1])
        prepared = state.prepare(*sample.blocks[0])
        state.commit(prepared)
        with pytest.raises(DatabaseError, match="block 1 was prepared, the world state is at block 1"):
            state.commit(prepared)


def draft(*nullifiers: list[bytes], writes: int = 0) -> BlockDraft:
    rng = random.Random(1)
    pairs = [PublicDataWrite(random_field(rng), random_field(rng)) for _ in range(writes)]
    return BlockDraft(Body(tuple(tx_effect(rng, (), keys, pairs) for keys in nullifiers)), 1, 0)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (draft([bytes(32)]), "is already in the nullifier tree"),
        (draft([bytes(31) + b"\x05"]), "is already in the nullifier tree"),
        (draft([WRONG, WRONG]), "would hold 0x.*beef twice"),
        (draft([WRONG], [WRONG]), "would hold 0x.*beef twice"),
        (draft([bytes([0, *divmod(i, 256), *bytes(29)]) for i in range(1, 66)]), "nullifiers .* is 65, at most 64"),
    ],
)
def test_nullifiers_that_cannot_be_inserted_are_refused(state: WorldState, content: BlockDraft, reason: str) -> None:
    before = everything(state)
    with pytest.raises(BlockRejected, match=reason):
        state.build(content, (), seal(1))
    assert everything(state) == before


def test_more_messages_than_a_checkpoint_has_are_refused(state: WorldState) -> None:
    with pytest.raises(BlockRejected, match=r"L1->L2 messages is 1025, at most 1024 allowed"):
        state.build(draft([WRONG]), [WRONG] * 1025, seal(1))


def test_messages_belong_to_the_first_block_of_a_checkpoint(state: WorldState) -> None:
    with pytest.raises(BlockRejected, match="expected none after a first block"):
        state.build(replace(draft([WRONG]), index_within_checkpoint=1), [WRONG], seal(1))


# ---- genesis and opening ----------------------------------------------------------------------------


def test_a_genesis_with_another_archive_root_is_refused_with_both_roots(tmp_path: Path) -> None:
    genesis = genesis_record()
    with pytest.raises(StartError, match=rf"archive root computed .* 0x{genesis.archive_root.hex()}, .* 0x0+beef"):
        WorldState(tmp_path, replace(genesis, archive_root=WRONG), rules=FOUR.trees)
    with open_state(tmp_path) as state:  # nothing was kept of the refused one
        assert state.check() == []


def test_prefilled_data_makes_another_genesis(tmp_path: Path) -> None:
    prefilled = replace(genesis_record(), prefilled_public_data=((WRONG, WRONG),))
    with pytest.raises(StartError, match="computed from the prefilled public data"):
        WorldState(tmp_path, prefilled, rules=FOUR.trees)


def test_prefilled_data_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    twice = replace(genesis_record(), prefilled_public_data=((WRONG, WRONG), (WRONG, WRONG)))
    with pytest.raises(StartError, match="repeat"):
        WorldState(tmp_path, twice, rules=FOUR.trees)


def test_the_trees_of_another_chain_are_refused(sample: SampleBlocks, tmp_path: Path) -> None:
    open_state(tmp_path).close()
    with pytest.raises(DataDirectoryError, match="holds the trees of another chain"):
        WorldState(tmp_path, sample.genesis, rules=FOUR.trees)


def test_a_second_opening_is_refused(state: WorldState) -> None:
    with pytest.raises(DataDirectoryError, match="in use by another fastnode process"):
        WorldState(state.path.parent, genesis_record(), rules=FOUR.trees)


@pytest.mark.parametrize(
    ("version", "reason"),
    [(b"3", "newer than this fastnode's 2"), (b"0", "which no fastnode wrote"), (b"x", "is not a fastnode")],
)
def test_another_schema_is_refused(tmp_path: Path, version: bytes, reason: str) -> None:
    with open_state(tmp_path) as state:
        state._database.write([(SCHEMA_KEY, version)])
    with pytest.raises(DataDirectoryError, match=reason):
        open_state(tmp_path)


def test_closing_twice_is_allowed_and_a_closed_view_says_so(tmp_path: Path) -> None:
    state = open_state(tmp_path)
    view = state.view
    state.close()
    state.close()
    assert view.note_hash_witness(WRONG, 0) is None  # a reader may outlive the state
    view.close()
    view.close()
    with pytest.raises(DatabaseError, match="closed"):
        view.note_hash_witness(WRONG, 0)


# ---- undo, restart, history -------------------------------------------------------------------------


def test_undoing_everything_leaves_the_database_of_the_genesis(tmp_path: Path) -> None:
    maker = Maker(random.Random(1))
    with open_state(tmp_path) as state:
        before = everything(state)
        for number in range(1, 13):
            build(state, maker.content(txs=3, most=40, is_first=True), number)
        state.undo_above(0)
        after = everything(state)
    # A tile that lost some of its leaves keeps their nodes, which are not read.
    assert {key: value for key, value in after.items() if key not in before} == {}
    assert {key for key in before if after[key] != before[key]} <= {key for key in before if key[:1] == b"T"}


def test_undo_above_the_tip_changes_nothing(state: WorldState) -> None:
    state.undo_above(0)
    state.undo_above(7)
    assert state.block_number == 0


def test_a_restart_finds_the_same_trees_and_the_same_history(tmp_path: Path) -> None:
    rng = random.Random(2)
    model, maker = Model(Verifier()), Maker(rng)
    with open_state(tmp_path) as state:
        for _ in range(10):
            grow(state, model, maker.content(txs=2, most=6))
        memory = state.memory_bytes()
    with open_state(tmp_path) as state:
        for block in range(11):
            assert_roots(state.view, model, block)
        state.load_nodes()
        state.remember_newest_blocks()
        for block in range(11):
            assert_roots(state.view, model, block)
        assert state.memory_bytes() == memory
        grow(state, model, maker.content(txs=2, most=6))
        assert_roots(state.view, model, 11)


def test_a_restart_answers_with_few_nodes_in_memory_and_loads_the_others_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levels_module, "NODES_AT_OPEN", 1)
    rng = random.Random(12)
    model, maker = Model(Verifier()), Maker(rng)
    with open_state(tmp_path) as state:
        for _ in range(12):
            grow(state, model, maker.content(txs=6, most=40))
        memory = state.memory_bytes()
    with open_state(tmp_path) as state:
        uppermost = state.memory_bytes()
        assert_roots(state.view, model, 12)
        loaded = []
        state.load_nodes(lambda: loaded.append(state.memory_bytes()) or assert_roots(state.view, model, 12))
        state.remember_newest_blocks()
        assert uppermost < loaded[0] < loaded[-1] <= state.memory_bytes() == memory
        for block in range(13):
            assert_roots(state.view, model, block)
        grow(state, model, maker.content(txs=2, most=6))
        assert_roots(state.view, model, 13)


@pytest.mark.parametrize("levels", [None, 0, 1, 3])
def test_blocks_are_undone_and_made_before_all_nodes_are_loaded(
    levels: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``levels`` loaded before the work was interrupted, None for no attempt."""
    monkeypatch.setattr(levels_module, "NODES_AT_OPEN", 1)
    rng = random.Random(13)
    model, maker = Model(Verifier()), Maker(rng)
    with open_state(tmp_path) as state:
        for _ in range(12):
            grow(state, model, maker.content(txs=6, most=40))
    with open_state(tmp_path) as state:
        if levels is not None:
            with pytest.raises(InterruptedError):
                state.load_nodes(interrupted_after(levels))
        state.undo_above(9)
        model.undo_above(9)
        for block in range(10):
            assert_roots(state.view, model, block)
        for _ in range(3):
            grow(state, model, maker.content(txs=6, most=40))
        for block in range(13):
            assert_roots(state.view, model, block)
        assert state.check() == []


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_undo_in_the_middle_of_loading_is_nothing_that_loading_takes_back(
    steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``steps`` of either kind of loading done before the undo."""
    monkeypatch.setattr(levels_module, "NODES_AT_OPEN", 1)
    rng = random.Random(14)
    model, maker = Model(Verifier()), Maker(rng)
    with open_state(tmp_path) as state:
        for _ in range(14):
            grow(state, model, maker.content(txs=6, most=40))
    with open_state(tmp_path) as state:

        def undo_above(block: int) -> None:
            state.undo_above(block)
            model.undo_above(block)

        state.load_nodes(once_after(steps, lambda: undo_above(11)))
        for block in range(12):
            assert_roots(state.view, model, block)
        assert state.check() == []
        state.remember_newest_blocks(once_after(steps, lambda: undo_above(8)))
        for _ in range(3):
            grow(state, model, maker.content(txs=6, most=40))
        for block in range(12):
            assert_roots(state.view, model, block)
        assert state.check() == []


def once_after(steps: int, action: Callable[[], None]) -> Callable[[], None]:
    left = [steps]

    def on_step() -> None:
        if left[0] == 0:
            action()
        left[0] -= 1

    return on_step


def interrupted_after(levels: int) -> Callable[[], None]:
    left = [levels]

    def on_level() -> None:
        if left[0] == 0:
            raise InterruptedError
        left[0] -= 1

    return on_level


def test_history_below_the_window_is_dropped_and_said_so(tmp_path: Path) -> None:
    rng = random.Random(3)
    model, maker = Model(Verifier()), Maker(rng)
    with open_state(tmp_path, history=3) as state:
        for _ in range(20):
            grow(state, model, maker.content(txs=2, most=6, is_first=True))
        # Checkpoints 18, 19 and 20, and the block they were built on.
        assert state.view.oldest == 17
        assert_roots(state.view, model, 17)
        for read in (
            lambda: state.view.note_hash_witness(WRONG, 16),
            lambda: state.view.public_data_value(WRONG, 16),
            lambda: state.view.find_leaves(0, [WRONG], 16),
        ):
            with pytest.raises(BlockUnavailable, match="Block 16 is below the oldest available block 17"):
                read()
        with pytest.raises(DatabaseError, match=r"cannot go back to block 16: .* history from block 17 on"):
            state.undo_above(16)
        state.undo_above(17)
        assert state.check() == []


def test_history_that_an_undo_may_need_is_kept_however_short_the_window(tmp_path: Path) -> None:
    maker = Maker(random.Random(8))
    with open_state(tmp_path, history=1) as state:
        for number in range(1, 6):
            build(state, maker.content(txs=1, most=4, is_first=True), number)
        state.settle(4)
        for number in range(6, 101):
            build(state, maker.content(txs=1, most=4, is_first=True), number)
        assert state.view.oldest == 4
        state.undo_above(90)
        state.settle(70)
        assert 4 < state.view.oldest < 70, "some blocks at a time"
        while state.prune():
            pass
        assert state.view.oldest == 70
        state.undo_above(70)
        assert state.check() == []


def test_every_block_of_the_window_can_be_read(tmp_path: Path) -> None:
    rng = random.Random(8)
    model, maker = Model(Verifier()), Maker(rng)
    with open_state(tmp_path, history=2) as state:
        for _ in range(24):
            grow(state, model, maker.content(txs=1, most=4, is_first=True))
            judge, oldest = Judge(model, rng), state.view.oldest
            for block in range(oldest, model.tip + 1):
                judge.look(state.view, block)
            # The archive that a header refers to is the one before its block, of the oldest block too.
            for number in range(oldest):
                judge.require_block_hash(state.view, number, oldest)


def test_dropped_history_takes_no_room(tmp_path: Path) -> None:
    def keys(directory: Path, history: int) -> int:
        maker = Maker(random.Random(4))
        with open_state(directory, history=history) as state:
            for number in range(1, 31):
                build(state, maker.content(txs=2, most=6, is_first=True), number)
            return sum(key[:1] in (b"H", b"P", b"U") for key in everything(state))

    assert keys(tmp_path / "window", 2) < keys(tmp_path / "all", 0) // 5


def test_a_longer_window_may_be_asked_for_later(tmp_path: Path) -> None:
    maker = Maker(random.Random(5))
    contents = [maker.content(txs=1, most=3, is_first=True) for _ in range(12)]
    with open_state(tmp_path, history=2) as state:
        for number, content in enumerate(contents[:8], 1):
            build(state, content, number)
        assert state.view.oldest == 6
    with open_state(tmp_path, history=0) as state:
        for number, content in enumerate(contents[8:], 9):
            build(state, content, number)
        assert state.view.oldest == 6
        assert state.view.public_data_value(WRONG, 6) == bytes(32)


# ---- check ------------------------------------------------------------------------------------------


def damaged(state: WorldState, prefix: bytes, position: int) -> None:
    """Flip one bit of the first value below a key prefix."""
    with state.view.snapshot.scan(prefix) as entries:
        key, value = next(entries)
    changed = bytearray(value)
    changed[position] ^= 1
    state._database.write([(key, bytes(changed))])


@pytest.mark.parametrize(
    ("prefix", "position", "tree"),
    [
        (b"T\x01", 40, "note hash tree"),
        (b"V\x01", 5, "note hash tree"),
        (b"K\x00", 20, "nullifier tree"),
        (b"K\x02", 60, "public data tree"),
        (b"T\x04", 40, "archive tree"),
        # Nodes above the leaves: inside a tile (its last one), above the tiles, and the block that set one.
        (b"T\x01", -1, "note hash tree"),
        (b"T\x00", -36, "nullifier tree"),
        (b"T\x02", -36, "public data tree"),
        (b"T\x02", -1, "public data tree"),
        (b"N\x00\x05", 3, "nullifier tree"),
        (b"N\x00\x06", 35, "nullifier tree"),
        (b"N\x01\x06", 3, "note hash tree"),
        (b"N\x03\x0a", 3, "L1 to L2 message tree"),
    ],
)
def test_damage_is_found(tmp_path: Path, prefix: bytes, position: int, tree: str) -> None:
    faults = faults_after(tmp_path, lambda state: damaged(state, prefix, position))
    assert faults
    assert all(fault.startswith(f"block 3: {tree}: ") for fault in faults)


@pytest.mark.parametrize(
    ("prefix", "position", "tree"),
    [
        (b"H\x00\x00", 3, "nullifier tree"),
        (b"H\x00\x07", 3, "nullifier tree"),
        (b"H\x02\x01", 3, "public data tree"),
        (b"P\x00", 6, "nullifier tree"),
        (b"P\x02", -1, "public data tree"),
        (b"E\x04\x00\x00\x00\x00\x00\x03", 3, "archive tree"),
        (b"B\x00\x00\x00\x01", 3, "nullifier tree"),
        (b"B\x00\x00\x00\x01", 41, "note hash tree"),
    ],
)
def test_damage_of_the_history_is_found(tmp_path: Path, prefix: bytes, position: int, tree: str) -> None:
    faults = faults_after(tmp_path, lambda state: damaged(state, prefix, position))
    assert faults
    assert all(re.match(rf"block [0-2]: {tree}: ", fault) for fault in faults)


@pytest.mark.parametrize(("prefix", "reason"), [(b"U", "lacks the key"), (b"H\x00", "has no history at block")])
def test_history_that_is_gone_is_found_when_it_is_remembered(tmp_path: Path, prefix: bytes, reason: str) -> None:
    def forget(state: WorldState) -> None:
        with state.view.snapshot.scan(prefix) as entries:
            state._database.write([(next(entries)[0], None)])

    with pytest.raises(DatabaseError, match=reason):
        faults_after(tmp_path, forget)


def faults_after(directory: Path, harm: Callable[[WorldState], None]) -> list[str]:
    maker = Maker(random.Random(6))
    with open_state(directory) as state:
        for number in range(1, 4):
            build(state, maker.content(txs=2, most=6, is_first=True), number)
        assert state.check() == []
        harm(state)
    with open_state(directory) as state:
        state.load_nodes()
        state.remember_newest_blocks()
        return state.check()


def test_a_check_tells_how_far_it_is(state: WorldState) -> None:
    maker, said = Maker(random.Random(7)), []
    build(state, maker.content(txs=2, most=6), 1)
    assert state.check(progress=lambda done, total: said.append((done, total))) == []
    assert said == sorted(said)
    assert said[-1][0] == said[-1][1] > 0


def test_an_empty_block_changes_only_the_archive(state: WorldState) -> None:
    before: Any = state.view.tip
    build(state, Content((), None), 0)
    after = state.view.tip
    assert [old == new for old, new in zip(before.roots, after.roots, strict=True)] == [True, True, True, True, False]
    assert state.check() == []
