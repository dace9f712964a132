"""Final blocks applied in runs: the same chain and the same answers as block by block, whatever happens in between."""

from __future__ import annotations

import random
import shutil
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from tests.killed import killed, script_command

from fastnode import kernels
from fastnode.archiver import gathered_run
from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.source import CheckpointRecord, TipsRecord
from fastnode.archiver.store import ArchiverStore
from fastnode.chain_data import ChainData, ChainOptions
from fastnode.data_check import check_data
from fastnode.development.synthetic_chain import ChainShape, write_synthetic_chain
from fastnode.errors import BlockRejected, BlockUnavailable, ChainFileError, DatabaseError
from fastnode.protocol.block import L2Block
from fastnode.protocol.effects import Body
from fastnode.protocol.tips import TipId
from fastnode.sources.chain_file import ChainFileSource
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.storage.database import SharedDatabase
from fastnode.storage.leveldb_copy import copy_leveldb
from fastnode.world_state.apply import PreparedBlock
from fastnode.world_state.layout import BLOCK_BYTES, CHANGED, LEAF_HISTORY, NODE_HISTORY
from fastnode.world_state.replica import WorldStateReplica
from fastnode.world_state.state import WorldState
from fastnode.world_state.view import WorldStateView

pytestmark = pytest.mark.skipif(kernels.USING_TWINS, reason="a matter of order, not of hashing")

Contents = Callable[[ArchiverStore], dict[bytes, bytes]]
SYNC = ChainOptions(world_state_history_from="sync", world_state_cache_mb=16)
SHAPE = ChainShape(blocks=40, txs=3, nullifiers=4, writes=3, blocks_per_checkpoint=2, proposed=1, vary=True, seed=5)
FINAL = 31  # of 20 checkpoints the sixteenth, which blocks that do not fit a blob may move
KILLS = 5
RUN_S = 0.03


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chain") / "chain.jsonl"
    write_synthetic_chain(path, SHAPE)
    return path


@contextmanager
def opened(directory: Path, file: Path, options: ChainOptions = SYNC) -> Iterator[tuple[ChainData, Ingestor]]:
    with ChainData.open(directory, options=options) as data:
        adopt_chain_file(data.store, file)
        ingestor = data.open_ingestor(verify=True)
        ingestor.catch_up()
        yield data, ingestor


@pytest.fixture(scope="module")
def block_by_block(chain: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChainData]:
    with opened(tmp_path_factory.mktemp("whole"), chain, ChainOptions(world_state_cache_mb=16)) as (data, ingestor):
        import_chain_file(ingestor, chain)
        yield data


def assert_same_answers(
    given: WorldStateView, expected: WorldStateView, rng: random.Random, bodies: list[Body]
) -> None:
    """At each block that both can be asked for."""
    effects = [effect for body in bodies for effect in body.tx_effects]
    for block in range(given.oldest, given.tip.number + 1):
        assert given.record(block) == expected.record(block)
        for effect in rng.sample(effects, 12):
            nullifier, other = rng.choice(effect.nullifiers), b"\0" + rng.randbytes(31)
            notes = list(effect.note_hashes)
            assert given.find_leaves(0, [nullifier], block) == expected.find_leaves(0, [nullifier], block)
            assert given.find_leaves(1, notes, block) == expected.find_leaves(1, notes, block)
            for key in (nullifier, other):
                one, two = (view.low_nullifier_witness_json(key, block) for view in (given, expected))
                assert one == two
            for slot in [write.leaf_slot for write in effect.public_data_writes] + [other]:
                one, two = (view.public_data_witness_json(slot, block) for view in (given, expected))
                assert one == two
            for note in notes:
                assert given.note_hash_witness(note, block) == expected.note_hash_witness(note, block)
        hashes = [expected.block_hash(number) for number in rng.sample(range(given.tip.number), 5)]
        for block_hash in hashes:
            assert given.block_hash_witness(block_hash, block) == expected.block_hash_witness(block_hash, block)


def bodies_of(file: Path) -> list[Body]:
    with ChainFileSource(file) as source:
        return [
            block.body
            for record in source.records()
            if isinstance(record, CheckpointRecord)
            for block in record.published.checkpoint.blocks
        ]


@pytest.mark.parametrize("seed", range(4))
def test_runs_of_any_length_give_the_chain_and_the_answers_of_single_blocks(
    seed: int,
    chain: Path,
    block_by_block: ChainData,
    tmp_path: Path,
    contents: Contents,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(gathered_run, "BLOCKS_MAX", rng.choice([1, 2, 5, 100]))
    monkeypatch.setattr(gathered_run, "LEAVES_MAX", rng.choice([10, 100, 10_000]))
    monkeypatch.setattr(gathered_run, "BYTES_MAX", rng.choice([50_000, 1 << 20]))
    monkeypatch.setattr(gathered_run, "SECONDS_MAX", rng.choice([0.0, 0.05, 100.0]))
    with opened(tmp_path, chain) as (data, ingestor):
        import_chain_file(ingestor, chain)
        assert data.state.view.oldest == ingestor.view.tips.finalized.block.number > 20
        assert contents(data.store) == contents(block_by_block.store)
        assert_same_answers(data.state.view, block_by_block.state.view, rng, bodies_of(chain))
        with pytest.raises(BlockUnavailable, match="is below the oldest available block"):
            data.state.view.record(data.state.view.oldest - 1)
        # Blocks above can be taken back, and come again; those of a run cannot.
        final = data.state.view.oldest
        ingestor.undo_above(final)
        assert data.state.view.tip.roots == block_by_block.state.view.record(final).roots
        with pytest.raises(DatabaseError, match="keeps history from block"):
            ingestor.undo_above(final - 1)
        import_chain_file(ingestor, chain)
        assert contents(data.store) == contents(block_by_block.store)
    with ChainData.open(tmp_path, options=SYNC) as data:
        assert check_data(data).problems == []
        assert_same_answers(data.state.view, block_by_block.state.view, rng, bodies_of(chain))


@pytest.mark.parametrize("bytes_max", [60_000, 1 << 30])
def test_trees_that_were_removed_are_built_again_in_runs(
    bytes_max: int, chain: Path, tmp_path: Path, block_by_block: ChainData, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, chain) as (_, ingestor):
        import_chain_file(ingestor, chain)
    shutil.rmtree(tmp_path / "world_state")
    monkeypatch.setattr(gathered_run, "BYTES_MAX", bytes_max)
    lengths = _lengths_of_runs(monkeypatch)
    with opened(tmp_path, chain) as (data, ingestor):
        view = data.state.view
        assert view.tip == block_by_block.state.view.tip
        assert view.oldest == sum(lengths) == ingestor.view.tips.finalized.block.number
        assert (len(lengths) == 1) is (bytes_max > 60_000)
        assert check_data(data).problems == []


def _lengths_of_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of blocks of the runs that are committed from now on."""
    lengths: list[int] = []
    commit = WorldState.commit

    def counted(state: WorldState, prepared: PreparedBlock) -> None:
        commit(state, prepared)
        if not prepared.has_history:
            lengths.append(prepared.record.number - prepared.first + 1)

    monkeypatch.setattr(WorldState, "commit", counted)
    return lengths


def test_tips_that_move_do_not_end_a_run(chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = _lengths_of_runs(monkeypatch)
    with ChainData.open(tmp_path, options=SYNC) as data, ChainFileSource(chain) as source:
        adopt_chain_file(data.store, chain)
        ingestor = data.open_ingestor(verify=True)
        ingestor.catch_up()
        ingestor.final_checkpoint = 9
        for record in source.records():
            ingestor.apply(record)
            view = ingestor.view
            checkpointed = view.tips.checkpointed.checkpoint.number
            if checkpointed and not isinstance(record, TipsRecord):
                final, proven = (view.tip_of_checkpoint(max(1, checkpointed - back)) for back in (3, 2))
                final = max(final, view.tips.finalized, key=lambda tip: tip.block.number)
                ingestor.set_tips(replace(view.tips, proven=max(final, proven, key=_number), finalized=final))
        last = data.store.open_view().checkpoint(9)
        assert last is not None
        assert lengths[0] == last.last_block
        assert check_data(data).problems == []


def _number(tip: TipId) -> int:
    return tip.block.number


def test_blocks_outside_a_checkpoint_are_applied_one_by_one_whatever_is_said_to_be_final(
    chain: Path, tmp_path: Path
) -> None:
    """So that they can be taken back when the checkpoint turns out to have others."""
    with ChainData.open(tmp_path, options=SYNC) as data, ChainFileSource(chain) as source:
        adopt_chain_file(data.store, chain)
        ingestor = data.open_ingestor(verify=True)
        ingestor.catch_up()
        ingestor.final_checkpoint = 1000
        record = next(source.records())
        assert isinstance(record, CheckpointRecord)
        for block in record.published.checkpoint.blocks:
            ingestor.add_block(block, record.l1_to_l2_messages if block.index_within_checkpoint == 0 else ())
        assert data.state.view.oldest == 0
        ingestor.undo_above(0)
        assert data.state.block_number == ingestor.view.tip_number == 0


@pytest.mark.parametrize("seed", range(2))
def test_a_short_history_gives_way_when_what_is_final_is_known_late(
    seed: int, chain: Path, block_by_block: ChainData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr("fastnode.world_state.state.SHORT_HISTORY_CHECKPOINTS", 5)
    monkeypatch.setattr("fastnode.world_state.state.PRUNED_BLOCKS_PER_STEP", rng.choice([1, 3, 64]))
    before = rng.randrange(1, 5)
    with opened(tmp_path, chain) as (data, ingestor):
        _add_checkpoints(ingestor, chain, before)
        assert data.state.view.oldest == 0 < data.state.block_number
        if rng.random() < 0.5:
            ingestor.undo_above(data.state.block_number - 1)
        import_chain_file(ingestor, chain)
        final = data.state.view.oldest
        assert final == ingestor.view.tips.finalized.block.number
        assert data.state.view.tip == block_by_block.state.view.tip
        assert _blocks_with_history(data) == set(range(final + 1, SHAPE.blocks + 1))
        assert check_data(data).problems == []
        assert_same_answers(data.state.view, block_by_block.state.view, rng, bodies_of(chain))


def test_a_longer_history_stays(chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastnode.world_state.state.SHORT_HISTORY_CHECKPOINTS", 5)
    with opened(tmp_path, chain) as (data, ingestor):
        _add_checkpoints(ingestor, chain, 5)
        import_chain_file(ingestor, chain)
        assert data.state.view.oldest == 0
        assert _blocks_with_history(data) == set(range(1, SHAPE.blocks + 1))


def _add_checkpoints(ingestor: Ingestor, chain: Path, count: int) -> None:
    with ChainFileSource(chain) as source:
        for record in islice(source.records(), count):
            ingestor.apply(record)


def _blocks_with_history(data: ChainData) -> set[int]:
    """Blocks of which anything says what they replaced."""
    found = set()
    with data.state.database.snapshot().iterator(include_value=False) as keys:
        for key in keys:
            if key[:1] in (NODE_HISTORY, LEAF_HISTORY, CHANGED):
                found.add(int.from_bytes(key[-BLOCK_BYTES:], "big"))
    return found


def test_a_view_that_a_reader_holds_answers_as_before_while_runs_come(
    chain: Path, block_by_block: ChainData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathered_run, "BLOCKS_MAX", 6)
    held: list[WorldStateView] = []
    rng = random.Random(3)
    with ChainData.open(tmp_path, options=SYNC) as data:
        adopt_chain_file(data.store, chain)
        ingestor = data.open_ingestor(verify=True, on_commit=lambda _: held.append(data.state.view))
        ingestor.catch_up()
        import_chain_file(ingestor, chain)
        bodies = bodies_of(chain)
        assert len({view.tip.number for view in held}) > 5
        for view in rng.sample(held, 6):
            assert_same_answers(view, block_by_block.state.view, rng, bodies[: view.tip.number])


def test_a_copy_repeats_runs(
    chain: Path, block_by_block: ChainData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker, say, answers from it while the primary catches up."""
    monkeypatch.setattr(gathered_run, "BLOCKS_MAX", 7)
    monkeypatch.setattr("fastnode.world_state.state.SHORT_HISTORY_CHECKPOINTS", 3)
    with opened(tmp_path / "first", chain) as (data, ingestor):
        _add_checkpoints(ingestor, chain, 2)
        (tmp_path / "copy").mkdir()
        copy_leveldb(data.state.path, tmp_path / "copy" / data.state.path.name)
        rules = data.store.chain.release.trees
        copy = WorldStateReplica(tmp_path / "copy", rules, cache_mb=16, write_buffer_bytes=1 << 20)
        copy.load_nodes()
        data.state.database.watch_writes(copy.repeat)
        held = [copy.view]
        ingestor = data.open_ingestor(verify=True, on_commit=lambda _: held.append(copy.publish()))
        import_chain_file(ingestor, chain)
        rng, bodies = random.Random(4), bodies_of(chain)
        for view in [*rng.sample(held, 4), copy.publish()]:
            assert_same_answers(view, block_by_block.state.view, rng, bodies[: view.tip.number])
        assert copy.view.oldest == data.state.view.oldest > 20
        copy.close()


def test_with_a_limit_of_history_the_checkpoints_within_it_are_applied_one_by_one(chain: Path, tmp_path: Path) -> None:
    with opened(tmp_path, chain, replace(SYNC, world_state_checkpoint_history=9)) as (data, ingestor):
        import_chain_file(ingestor, chain)
        oldest = ingestor.view.block_info(data.state.view.oldest)
        assert oldest is not None
        assert oldest.checkpoint_number == data.state.view.tip.checkpoint_number - 9


def test_all_history_is_kept_unless_the_setting_says_otherwise(block_by_block: ChainData) -> None:
    assert block_by_block.state.view.oldest == 0


@pytest.mark.parametrize("seed", range(3))
def test_the_bad_block_of_a_run_is_named_and_those_before_it_stay(
    seed: int, chain: Path, block_by_block: ChainData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block whose content is another one than its header was made of: only the trees tell."""
    rng = random.Random(seed)
    monkeypatch.setattr(gathered_run, "BLOCKS_MAX", rng.choice([3, 9, 100]))
    bad = rng.choice([number for number, body in enumerate(bodies_of(chain)[:FINAL], 1) if body.tx_effects])
    with ChainData.open(tmp_path, options=SYNC) as data:
        adopt_chain_file(data.store, chain)
        ingestor = data.open_ingestor(verify=False)
        ingestor.final_checkpoint = 1000
        with pytest.raises(BlockRejected, match=f"block {bad}: the root of the"):
            _add_all(ingestor, chain, bad)
        before = next(block for block in range(bad - 1, -1, -1) if _ends_a_checkpoint(data, block))
        assert (ingestor.view.tip_number, data.state.block_number) == (before, before)
        # Another source is right, and nothing of this one keeps it from runs.
        lengths = _lengths_of_runs(monkeypatch)
        import_chain_file(ingestor, chain)
        assert data.state.block_number == SHAPE.blocks
        assert data.state.view.oldest == before + sum(lengths) == ingestor.view.tips.finalized.block.number
        assert check_data(data).problems == []
        assert_same_answers(data.state.view, block_by_block.state.view, rng, bodies_of(chain))


def test_what_was_imported_before_a_line_that_is_refused_stays(chain: Path, tmp_path: Path) -> None:
    lines = chain.read_bytes().splitlines(keepends=True)
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(b"".join([*lines[:9], lines[9][:-9] + b"\n", lines[-1]]))
    with opened(tmp_path / "data", chain) as (data, ingestor):
        with pytest.raises(ChainFileError, match="line 10: not JSON"):
            import_chain_file(ingestor, broken)
        assert data.state.block_number == data.state.view.oldest == ingestor.view.tip_number
        assert ingestor.view.tips.checkpointed.checkpoint.number == 7


def _add_all(ingestor: Ingestor, chain: Path, bad: int) -> None:
    with ChainFileSource(chain) as source:
        for record in source.records():
            if isinstance(record, CheckpointRecord):
                checkpoint = record.published.checkpoint
                blocks = tuple(_spoiled(block) if block.number == bad else block for block in checkpoint.blocks)
                published = replace(record.published, checkpoint=replace(checkpoint, blocks=blocks))
                ingestor.add_checkpoint(published, record.l1_to_l2_messages)
    ingestor.flush()


def _ends_a_checkpoint(data: ChainData, number: int) -> bool:
    with data.store.open_view() as view:
        info = view.block_info(number)
        checkpoint = None if info is None else view.checkpoint(info.checkpoint_number)
        return number == 0 or (checkpoint is not None and checkpoint.last_block == number)


def _spoiled(block: L2Block) -> L2Block:
    first, *others = block.body.tx_effects
    changed = replace(first, nullifiers=(b"\1" * 32, *first.nullifiers[1:]))
    return replace(block, body=Body((changed, *others)))


# ---- interruptions ----------------------------------------------------------------------------


def test_the_machine_may_stop_before_any_write(
    chain: Path, block_by_block: ChainData, tmp_path: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write is synced, so what a file system loses are the writes that were not made."""
    monkeypatch.setattr(gathered_run, "BLOCKS_MAX", 8)
    write, left = SharedDatabase.write, [0]

    def counted(database: SharedDatabase, changes: object) -> None:
        if left[0] == 0:
            raise DatabaseError("the machine has stopped")
        left[0] -= 1
        write(database, changes)  # type: ignore[arg-type]

    for count in (*range(1, 11), 15):
        directory = tmp_path / str(count)
        monkeypatch.setattr(SharedDatabase, "write", counted)
        left[0] = count
        with pytest.raises(DatabaseError, match="stopped"), opened(directory, chain) as (_, ingestor):
            import_chain_file(ingestor, chain)
        monkeypatch.setattr(SharedDatabase, "write", write)
        with opened(directory, chain) as (data, ingestor):
            assert data.state.block_number == ingestor.view.tip_number
            assert data.state.check() == []
            if count % 5 == 0:
                import_chain_file(ingestor, chain)
                assert contents(data.store) == contents(block_by_block.store)
                assert data.state.view.tip == block_by_block.state.view.tip
        shutil.rmtree(directory)


IMPORT_IN_RUNS = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from fastnode.archiver import gathered_run
    from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
    from fastnode.chain_data import ChainData, ChainOptions

    def say(view):
        sys.stdout.write(".")
        sys.stdout.flush()
        sys.stdin.buffer.read(1)

    file, directory, gathered_run.BLOCKS_MAX = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    say(None)
    with ChainData.open(directory, options=ChainOptions(world_state_history_from="sync")) as data:
        adopt_chain_file(data.store, file)
        ingestor = data.open_ingestor(verify=True, on_commit=say)
        ingestor.catch_up()
        import_chain_file(ingestor, file)
    """
)


def test_runs_may_be_killed_at_any_moment(chain: Path, block_by_block: ChainData, tmp_path: Path) -> None:
    moments = random.Random(7)
    directory = tmp_path / "killed"
    for _ in range(KILLS):
        command = script_command(IMPORT_IN_RUNS, chain, directory, moments.choice([1, 4, 10]))
        killed(command, after=moments.randrange(4), delay_s=moments.uniform(0, RUN_S))
        with opened(directory, chain) as (data, ingestor):
            tip = data.state.block_number
            assert tip == ingestor.view.tip_number
            assert data.state.view.tip == block_by_block.state.view.record(tip)
            assert check_data(data).problems == []
        if tip > FINAL - 8:
            shutil.rmtree(directory)
    with opened(directory, chain) as (data, ingestor):
        import_chain_file(ingestor, chain)
        assert data.state.view.tip == block_by_block.state.view.tip
