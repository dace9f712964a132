"""Upkeep of the disk beside serving: a shorter history is dropped in steps, and its room given back."""

from __future__ import annotations

import os
import random
import shutil
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import PATIENCE_S
from tests.killed import killed, script_command

from fastnode.app.stages import upkeep as upkeep_module
from fastnode.app.stages.upkeep import Upkeep
from fastnode.archiver.ingest import Ingestor
from fastnode.chain_data import ChainData, ChainOptions
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.sources.sync_control import SyncControl
from fastnode.storage import database, giving_back
from fastnode.storage.database import log_bytes
from fastnode.world_state import state as state_module

KILLS = 60 if os.environ.get("FASTNODE_LONG") else 5
SHORT = ChainOptions(world_state_checkpoint_history=1)

#: Says a dot at each step: history of a block dropped, a range merged.
UPKEEP = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from fastnode.chain_data import ChainData, ChainOptions
    from fastnode.storage import giving_back
    from fastnode.world_state import state as state_module

    def say():
        sys.stdout.write(".")
        sys.stdout.flush()
        sys.stdin.buffer.read(1)

    giving_back.LEFT_BYTES_MIN, giving_back.RANGE_BYTES = 1, 100_000
    state_module.PRUNED_BLOCKS_PER_STEP = 1
    say()
    options = ChainOptions(world_state_checkpoint_history=1)
    with ChainData.open(Path(sys.argv[1]), create=False, options=options) as data:
        data.open_ingestor(verify=True).catch_up()
        state = data.state
        while True:
            if not state.prune():
                if state.giving_back.merge_next() is None:
                    state.end_giving_back()
            say()
    """
)


@pytest.fixture(scope="module")
def with_history(sample_chain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded chain, with all history."""
    path = tmp_path_factory.mktemp("data") / "chain"
    with ChainData.open(path) as data:
        adopt_chain_file(data.store, sample_chain)
        import_chain_file(data.open_ingestor(verify=True), sample_chain)
    return path


@pytest.fixture
def directory(with_history: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(with_history, tmp_path / "data"))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small steps without pauses."""
    monkeypatch.setattr(giving_back, "LEFT_BYTES_MIN", 1)
    monkeypatch.setattr(giving_back, "RANGE_BYTES", 100_000)
    monkeypatch.setattr(state_module, "PRUNED_BLOCKS_PER_STEP", 2)
    monkeypatch.setattr(upkeep_module, "PAUSE_TIMES", 0)
    monkeypatch.setattr(upkeep_module, "IDLE_S", 0.01)


@pytest.fixture
def opened(directory: Path) -> Iterator[tuple[ChainData, Ingestor]]:
    with ChainData.open(directory, create=False, options=SHORT) as data:
        ingestor = data.open_ingestor(verify=True)
        ingestor.catch_up()
        yield data, ingestor


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def table_bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in (directory / "world_state").iterdir())


def final_block(data: ChainData) -> int:
    with data.store.open_view() as view:
        return view.tips.finalized.block.number


def is_done(data: ChainData) -> bool:
    return data.state.view.oldest == final_block(data) and not data.state.giving_back.left_bytes


@pytest.mark.usefixtures("quick")
def test_a_shorter_history_gives_its_room_back(opened: tuple[ChainData, Ingestor], directory: Path) -> None:
    data, ingestor = opened
    data.state.database.compact()
    before, published = table_bytes(directory), []
    upkeep = Upkeep(ingestor, data.state, SyncControl(), on_pruned=lambda: published.append(data.state.view.oldest))
    upkeep.start()
    upkeep.start()
    wait_for(lambda: is_done(data))
    upkeep.close()
    assert upkeep.troubles() == {"upkeep": None}
    assert published, "views that need what was dropped are replaced"
    assert table_bytes(directory) < before * 5 // 6
    assert data.state.check() == []


@pytest.mark.usefixtures("quick")
def test_a_paused_node_drops_nothing_and_pausing_waits_for_a_step(opened: tuple[ChainData, Ingestor]) -> None:
    data, ingestor = opened
    control = SyncControl()
    control.leave()  # ingestion has ended
    assert control.pause(1)
    oldest = data.state.view.oldest
    upkeep = Upkeep(ingestor, data.state, control, on_pruned=lambda: None)
    assert not upkeep._prune()
    assert data.state.view.oldest == oldest
    control.resume()
    with control.aside() as may_write:
        assert may_write
        assert not control.pause(0.01), "a step is not over"
        with control.aside() as may_write_too:
            assert not may_write_too
    assert control.pause(1)
    control.resume()
    assert upkeep._prune()
    assert data.state.view.oldest > oldest


def test_upkeep_comes_again_while_blocks_are_written(opened: tuple[ChainData, Ingestor]) -> None:
    data, ingestor = opened
    upkeep = Upkeep(ingestor, data.state, SyncControl(), on_pruned=lambda: None)
    found: list[bool | None] = []
    with ingestor.between_blocks() as is_free:
        assert is_free
        other = threading.Thread(target=lambda: found.append(upkeep._prune()))
        other.start()
        other.join(PATIENCE_S)
    assert found == [None]


@pytest.mark.parametrize(("is_far_behind", "is_paused"), [(True, False), (False, True), (False, False)])
def test_a_long_log_becomes_a_table_once_the_chain_is_not_far_behind_nor_paused(
    opened: tuple[ChainData, Ingestor], monkeypatch: pytest.MonkeyPatch, is_far_behind: bool, is_paused: bool
) -> None:
    data, ingestor = opened
    monkeypatch.setattr(database, "WRITE_BUFFER_BYTES", 2000)
    paths = [data.store.path, data.state.path]
    for owner in (data.store.database, data.state.database):
        owner.write([(b"Z" + bytes([number]), bytes(1000)) for number in range(4)])
    ingestor.final_checkpoint = 1_000_000 if is_far_behind else 0
    control = SyncControl()
    control.leave()  # ingestion has ended
    if is_paused:
        assert control.pause(1)
    upkeep = Upkeep(ingestor, data.state, control, on_pruned=lambda: None)
    stays = is_far_behind or is_paused
    assert [upkeep._shorten_log() for _ in range(3)] == ([False] * 3 if stays else [True, True, False])
    for path in paths:
        assert (log_bytes(path) > 2000) is stays


def test_upkeep_may_be_killed_at_any_moment(directory: Path) -> None:
    moments, oldest = random.Random(5), 0
    for _ in range(KILLS):
        assert killed(
            script_command(UPKEEP, directory), after=moments.randint(1, 25), delay_s=moments.random() * 0.01, ahead=9
        )
        with ChainData.open(directory, create=False) as data:
            assert data.state.view.oldest >= oldest
            oldest = data.state.view.oldest
            assert data.state.check_sampled() == []
            if KILLS > 5:
                assert data.state.check() == []
    assert oldest > 1
    with ChainData.open(directory, create=False) as data:
        assert data.state.check() == []
