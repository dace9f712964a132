"""Bodies of old blocks are dropped for good, whole checkpoints at a time, and nothing else is."""

from __future__ import annotations

import os
import random
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from tests.killed import killed, script_command
from tests.log_index.chain import older_form

from fastnode.archiver import forms, layout, packing, pruning
from fastnode.archiver.check import check_database
from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.chain_data import ChainData
from fastnode.data_check import check_data
from fastnode.errors import BlockPruned, DatabaseError, DataDirectoryError, Refused, StartError
from fastnode.kernels import block_text
from fastnode.log_index import layout as log_layout
from fastnode.log_index.check import check_indexes
from fastnode.log_index.known_tags import KnownTags
from fastnode.log_index.layout import TagCount
from fastnode.log_index.range_queries import AnswerLimits, find_class_logs, find_public_logs, span_of_blocks
from fastnode.log_index.tag_queries import private_logs_by_tags, public_logs_by_tags
from fastnode.sources.chain_export import export_chain_file
from fastnode.sources.chain_import import import_chain_file
from fastnode.sources.rollback import SyncOperator
from fastnode.sources.sync_control import SyncControl
from fastnode.storage import giving_back

KILLS = 240 if os.environ.get("FASTNODE_LONG") else 3
TIP, FINAL = 106, 92
LIMITS = AnswerLimits(logs=1 << 20, size=1 << 30)


@pytest.fixture(scope="module")
def whole(chain_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded chain with everything."""
    path = tmp_path_factory.mktemp("whole") / "data"
    return Path(shutil.copytree(chain_directory, path))


@pytest.fixture(scope="module")
def whole_view(whole: Path) -> Iterator[ChainView]:
    with ArchiverStore.open(whole, create=False) as store, store.open_view() as view:
        yield view


@pytest.fixture
def directory(whole: Path, whole_view: ChainView, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "data", ignore=shutil.ignore_patterns("LOCK")))


@pytest.fixture
def data(directory: Path) -> Iterator[ChainData]:
    with ChainData.open(directory, create=False) as data:
        yield data


@pytest.fixture
def ingestor(data: ChainData) -> Ingestor:
    ingestor = data.open_ingestor(verify=False)
    ingestor.catch_up()
    return ingestor


def prune(ingestor: Ingestor, keep: int) -> int:
    """The oldest body afterwards."""
    while ingestor.prune_bodies(keep):
        pass
    return ingestor.view.oldest_body


def require_same(view: ChainView, whole: ChainView) -> None:
    """Every answer is that of a chain with everything, or that it is pruned."""
    oldest = view.oldest_body
    for number in range(view.tip_number + 1):
        assert view.header_json(number) == whole.header_json(number)
        assert view.tx_hashes(number) == whole.tx_hashes(number)
        assert view.l2_to_l1_messages_of_block(number) == whole.l2_to_l1_messages_of_block(number)
        for tx_hash in view.tx_hashes(number) or []:
            assert view.tx_location(tx_hash) == whole.tx_location(tx_hash)
            if number >= oldest:
                effect = block_text.mined(forms.INDEXED_EFFECT, tx_hash, view.blocks)
                assert effect == block_text.mined(forms.INDEXED_EFFECT, tx_hash, whole.blocks)
        if 0 < number < oldest:
            with pytest.raises(BlockPruned) as pruned:
                view.blocks.text(forms.L2_BLOCK, number)
            assert (pruned.value.number, pruned.value.oldest) == (number, oldest)
        else:
            form = forms.L2_BLOCK
            assert view.blocks.text(form, number) == whole.blocks.text(form, number)
    span = span_of_blocks(oldest, view.tip_number + 1)
    for find in (find_public_logs, find_class_logs):
        assert find(view, span, LIMITS) == find(whole, span, LIMITS)
        if oldest > 1:
            with pytest.raises(BlockPruned):
                find(view, span_of_blocks(0, view.tip_number), LIMITS)
    assert view.tip_number < TIP or same_tags(view, whole)


def same_tags(view: ChainView, whole: ChainView) -> bool:
    tags = KnownTags(1 << 16)
    for key, value in whole.scan(log_layout.PRIVATE_COUNT, log_layout.after_prefix(log_layout.PUBLIC_COUNT)):
        tag_key = log_layout.tag_key_of_count(key)
        owner, tag = tag_key[:-32], tag_key[-32:]
        for page in range(-(-TagCount.decode(value).logs // 10)):
            ask = (tags, owner, tag, page) if owner else (tags, tag, page)
            read = public_logs_by_tags if owner else private_logs_by_tags
            expected = read(whole, *ask)  # type: ignore[operator]
            if any(log["blockNumber"] < view.oldest_body for log in orjson.loads(expected)[0]):
                with pytest.raises(BlockPruned):
                    read(view, *ask)  # type: ignore[operator]
            else:
                assert read(view, *ask) == expected  # type: ignore[operator]
    return True


# ---- what goes and what stays --------------------------------------------------------------------


@pytest.mark.parametrize("keep", [1, 40])
def test_bodies_below_the_newest_final_ones_are_dropped(
    data: ChainData, ingestor: Ingestor, whole_view: ChainView, keep: int
) -> None:
    oldest = prune(ingestor, keep)
    info = whole_view.block_info(oldest)
    assert info is not None
    assert info.index_within_checkpoint == 0
    assert FINAL - keep - 4 < oldest <= FINAL + 1 - keep
    require_same(ingestor.view, whole_view)
    report = check_data(data)
    assert report.problems == []
    assert (report.blocks, report.transactions) == (TIP, 137)


@pytest.mark.parametrize("steps", [0, 3])
def test_logs_of_an_older_version_go_with_their_bodies(
    directory: Path, whole_view: ChainView, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before they are rewritten, and while half of them are."""
    monkeypatch.setattr(packing, "TEXTS_PER_STEP", 40 * packing.TEXTS_PER_ENTRY)
    with ArchiverStore.open(directory, create=False) as store:
        store.database.write(older_form(whole_view).items())
        store.database.write([(layout.KEY_NOT_PACKED, log_layout.PRIVATE_PAGE)])
    with ChainData.open(directory, create=False) as data:
        ingestor = data.open_ingestor(verify=False)
        ingestor.catch_up()
        for _ in range(steps):
            assert ingestor.pack_texts()
        for keep in (60, 20):
            prune(ingestor, keep)
            require_same(ingestor.view, whole_view)
            assert check_data(data).problems == []
        while ingestor.pack_texts():
            pass
        require_same(ingestor.view, whole_view)
        assert check_data(data).problems == []


@pytest.mark.parametrize("keep", [FINAL, TIP, 1_000_000_000])
def test_a_chain_that_is_short_enough_loses_nothing(ingestor: Ingestor, keep: int) -> None:
    assert not ingestor.prune_bodies(keep)
    assert ingestor.view.oldest_body == 1
    assert ingestor.view.get(layout.KEY_OLDEST_BODY) is None


def test_nothing_above_the_finalized_block_goes(ingestor: Ingestor) -> None:
    ingestor.undo_above(50)
    finalized = ingestor.view.tips.finalized.block.number
    assert finalized < 50
    assert prune(ingestor, 1) <= finalized


def test_fewer_and_then_more_blocks_may_be_kept(ingestor: Ingestor, whole_view: ChainView) -> None:
    first = prune(ingestor, 60)
    second = prune(ingestor, 20)
    assert first < second
    assert prune(ingestor, 60) == second, "what is gone does not come back"
    require_same(ingestor.view, whole_view)


def test_a_view_from_before_still_has_all(ingestor: Ingestor, whole_view: ChainView) -> None:
    before = ingestor.view
    prune(ingestor, 5)
    require_same(before, whole_view)


@pytest.mark.parametrize("seed", range(1 if KILLS < 100 else 60))
def test_pruning_and_undoing_in_any_order_gives_the_same_chain(
    data: ChainData, ingestor: Ingestor, whole_view: ChainView, sample_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        ingestor.prune_bodies(rng.randint(1, 90))
        target = rng.randint(0, TIP)
        before = ingestor.view.tip_number
        first = whole_view.block_info(target + 1)
        cut = TIP + 1 if first is None else first.number - first.index_within_checkpoint
        if target < before and cut < ingestor.view.oldest_body:
            with pytest.raises(DatabaseError, match="bodies"):
                ingestor.undo_above(target)
            assert ingestor.view.tip_number == before
        else:
            ingestor.undo_above(target)
        assert chain_problems(data) == []
        if rng.random() < 0.7:
            import_chain_file(ingestor, sample_path)
    import_chain_file(ingestor, sample_path)
    require_same(ingestor.view, whole_view)
    assert check_data(data).problems == []


# ---- what is refused ---------------------------------------------------------------------------------


def test_a_rollback_into_pruned_blocks_is_refused_and_changes_nothing(ingestor: Ingestor) -> None:
    oldest = prune(ingestor, 40)
    operator = SyncOperator(SyncControl(), ingestor)
    for target in (1, oldest - 1, FINAL - 20):
        info = ingestor.view.block_info(target)
        checkpoint = None if info is None else ingestor.view.checkpoint(info.checkpoint_number)
        assert checkpoint is not None
        operator._control.leave()
        with pytest.raises(Refused, match=f"kept from block {oldest} on"):
            operator.roll_back_to(checkpoint.last_block, force=True)
    assert ingestor.view.tip_number == TIP
    assert ingestor._state is not None
    assert ingestor._state.block_number == TIP


def test_state_trees_that_are_gone_cannot_be_built_from_pruned_blocks(directory: Path) -> None:
    with ChainData.open(directory, create=False) as data:
        ingestor = data.open_ingestor(verify=False)
        ingestor.catch_up()
        prune(ingestor, 40)
    shutil.rmtree(directory / "world_state")
    with (
        ChainData.open(directory, create=False) as data,
        pytest.raises(DatabaseError, match="bodies of blocks are kept from block"),
    ):
        data.open_ingestor(verify=False).catch_up()


def test_an_index_that_is_gone_cannot_be_built_from_pruned_blocks(directory: Path) -> None:
    with ChainData.open(directory, create=False) as data:
        ingestor = data.open_ingestor(verify=False)
        ingestor.catch_up()
        prune(ingestor, 40)
        batch = data.store.write_batch()
        batch.delete(log_layout.LOG_HEAD)
        batch.commit()
    with ChainData.open(directory, create=False) as data, pytest.raises(DataDirectoryError, match="index of logs"):
        data.open_ingestor(verify=False)


def test_an_export_begins_where_bodies_are(ingestor: Ingestor, tmp_path: Path) -> None:
    oldest = prune(ingestor, 40)
    with pytest.raises(StartError, match=f"kept from block {oldest} on"):
        export_chain_file(ingestor.view, tmp_path / "chain.jsonl")
    assert not (tmp_path / "chain.jsonl").exists()
    summary = export_chain_file(ingestor.view, tmp_path / "chain.jsonl", first_block=oldest)
    assert (summary.first_block, summary.last_block) == (oldest, TIP)


def chain_problems(data: ChainData) -> list[str]:
    """Findings in the chain database; the state does not know of bodies."""
    report = check_database(data.store)
    if report.problems:
        return report.problems
    with data.store.open_view() as view:
        problems, notes = check_indexes(view)
    assert notes == []
    return problems


# ---- the check finds what is wrong -------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["receipt", "hashes", "messages", "oldest", "count", "header"])
def test_the_check_finds_damage_in_what_is_left_of_pruned_blocks(
    data: ChainData, ingestor: Ingestor, damage: str
) -> None:
    oldest = prune(ingestor, 40)
    view = ingestor.view
    number = next(number for number in range(1, oldest) if view.l2_to_l1_messages_of_block(number) not in ([], [[]]))
    batch = data.store.write_batch()
    if damage == "receipt":
        batch.delete(layout.TRANSACTION + (view.tx_hashes(number) or [b""])[0])
    elif damage == "hashes":
        batch.put(layout.tx_hashes_key(number), bytes(32))
    elif damage == "messages":
        batch.put(layout.l2_to_l1_key(number), orjson.dumps([["0x" + "11" * 32]]))
    elif damage == "oldest":
        batch.put(layout.KEY_OLDEST_BODY, layout.encode_number(1))
    elif damage == "count":
        prefix = log_layout.PRIVATE_COUNT
        key, value = next(pair for pair in view.scan(prefix, log_layout.after_prefix(prefix)) if len(pair[1]) == 8)
        batch.put(key, value[:4] + log_layout.encode_number(0))
    else:
        record = view.get(layout.block_key(number)) or b""
        batch.put(layout.block_key(number), record.replace(b'"slotNumber":', b'"slotNumber":1'))
    batch.commit()
    assert chain_problems(data)


# ---- killed ------------------------------------------------------------------------------------------

#: Says a dot after each write and each merge: steps of pruning, undoing, importing and giving back, as they come.
SCRIPT = textwrap.dedent(
    """
    import random, sys
    from pathlib import Path
    from fastnode.archiver import ingest, pruning
    from fastnode.chain_data import ChainData
    from fastnode.errors import DatabaseError
    from fastnode.sources.chain_import import import_chain_file
    from fastnode.storage import giving_back
    from fastnode.storage.database import SharedDatabase

    def say():
        sys.stdout.write(".")
        sys.stdout.flush()
        sys.stdin.buffer.read(1)

    write = SharedDatabase.write

    def write_and_say(database, changes):
        write(database, changes)
        say()

    giving_back.LEFT_BYTES_MIN, giving_back.RANGE_BYTES = 1, 300_000
    pruning.BLOCKS_PER_STEP = 1
    ingest.UNDO_BLOCKS_PER_BATCH = 2
    directory, file, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    say()
    with ChainData.open(directory, create=False) as data:
        ingestor = data.open_ingestor(verify=False)
        SharedDatabase.write = write_and_say
        ingestor.catch_up()
        import_chain_file(ingestor, file)
        while True:
            keep = rng.randint(1, 90)
            for _ in range(rng.randint(1, 30)):
                if not ingestor.prune_bodies(keep):
                    break
            if data.store.giving_back.left_bytes and rng.random() < 0.5:
                while data.store.giving_back.merge_next() is not None:
                    say()
                data.store.end_giving_back()
            try:
                ingestor.undo_above(rng.randint(ingestor.view.oldest_body - 2, 106))
            except (DatabaseError, ValueError):
                pass
            import_chain_file(ingestor, file)
            say()
    """
)


def test_pruning_may_be_killed_at_any_moment(
    directory: Path, whole: Path, whole_view: ChainView, sample_path: Path
) -> None:
    moments, oldest, at_work = random.Random(3), 1, 0
    for kill in range(KILLS):
        command = script_command(SCRIPT, directory, sample_path, kill)
        at_work += killed(command, after=moments.randint(1, 40), delay_s=moments.random() * 0.01, ahead=60)
        data = ChainData.open(directory, create=False)
        try:
            ingestor = data.open_ingestor(verify=False)
            ingestor.catch_up()
            require_same(ingestor.view, whole_view)
            assert ingestor.view.oldest_body >= oldest
            oldest = ingestor.view.oldest_body
            assert chain_problems(data) == []
        finally:
            data.end()  # also under views that errors of this test still hold
        if oldest > 80:
            shutil.rmtree(directory)
            shutil.copytree(whole, directory, ignore=shutil.ignore_patterns("LOCK"))
            oldest = 1
    assert at_work >= KILLS * 3 // 4


def test_dropped_bodies_are_given_back_to_the_disk(
    data: ChainData, ingestor: Ingestor, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(giving_back, "LEFT_BYTES_MIN", 1)
    monkeypatch.setattr(giving_back, "LEFT_PART", 100)  # most of this chain is a few contract classes
    monkeypatch.setattr(pruning, "BLOCKS_PER_STEP", 5)

    def size() -> int:
        return sum(file.stat().st_size for file in (directory / "archiver").glob("*.ldb"))

    data.store.database.compact()
    before = size()
    prune(ingestor, 10)
    store = data.store
    assert store.giving_back.is_due
    while store.giving_back.merge_next() is not None:
        pass
    store.end_giving_back()
    assert not store.giving_back.is_due
    assert size() < before * 2 // 3
    assert data.store.database.get(layout.KEY_DROPPED) is None
    assert chain_problems(data) == []
