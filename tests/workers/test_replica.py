"""What a worker answers is what its primary answers, block by block, through reorgs, and after a new copy."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from tests.workers.following import Primary, Wire, asking

from fastnode.http.fair_threads import FairThreads
from fastnode.workers.frames import Kind
from fastnode.workers.replica import Replica
from fastnode.world_state.replica import CannotFollowError

QUERIES = Path(__file__).parents[1] / "data" / "queries_sample.jsonl.gz"


@pytest.fixture(scope="module")
def questions() -> list[bytes]:
    """Those whose answers do not depend on the clock, as bodies; a third of them."""
    with gzip.open(QUERIES) as lines:
        rows = [orjson.loads(line) for line in lines]
    asked = [{"jsonrpc": "2.0", "id": 1, "method": row["method"], "params": row["params"]} for row in rows]
    return [orjson.dumps(call) for call in asked[::3]]


@pytest.fixture
def threads() -> Iterator[FairThreads]:
    made = FairThreads(2, name="test")
    yield made
    made.shutdown()


@pytest.fixture
def primary(tmp_path: Path, sample_chain: Path) -> Iterator[Primary]:
    made = Primary(tmp_path / "primary", sample_chain)
    yield made
    made.close()


class Pair:
    def __init__(self, primary: Primary, questions: list[bytes], runner: asyncio.Runner, threads: FairThreads) -> None:
        self.primary = primary
        self._questions = questions
        self._runner = runner
        self._threads = threads
        self.replica, self.wire = primary.follow(primary.path / "workers" / "1-1")

    def deliver(self) -> None:
        self.wire.deliver(self.replica)

    def compare(self) -> int:
        """Every answer; how many were no errors."""
        ours = asking(self.primary.views.published, self.primary.data.indexes.known_tags, self._runner, self._threads)
        theirs = asking(self.replica.published, self.replica.known_tags, self._runner, self._threads)
        answered = 0
        for question in self._questions:
            expected = ours.send(question).text
            assert theirs.send(question).text == expected, question
            answered += b'"result"' in expected
        return answered


@pytest.fixture
def pair(primary: Primary, questions: list[bytes], loop_runner: asyncio.Runner, threads: FairThreads) -> Iterator[Pair]:
    made = Pair(primary, questions, loop_runner, threads)
    yield made
    made.replica.close()


def test_a_replica_answers_as_its_primary_from_the_genesis_to_the_end_of_a_chain(pair: Pair) -> None:
    for count in (1, 6, 14, 15, 12):
        pair.primary.apply(count)
        pair.deliver()
        answered = pair.compare()
    assert pair.replica.view is not None
    assert pair.replica.view.chain.tip_number == pair.primary.ingestor.view.tip_number > 90
    assert answered > 200


def test_blocks_that_are_taken_back_are_gone_from_a_replica_and_its_memory(pair: Pair) -> None:
    pair.primary.apply(30)
    pair.deliver()
    pair.primary.ingestor.undo_above(40)
    pair.deliver()
    assert pair.replica.view is not None
    assert pair.replica.view.chain.tip_number == 40
    pair.compare()
    pair.primary.begin_again()
    pair.primary.apply(35)
    pair.deliver()
    assert pair.compare() > 200


@pytest.fixture
def _nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch goes out before the block that it belongs to is shown, as those of many blocks do."""
    monkeypatch.setattr("fastnode.workers.feed.HELD_BYTES_MAX", 1)


def test_batches_go_out_with_the_block_that_they_belong_to(pair: Pair) -> None:
    pair.primary.publication.hold()
    pair.primary.apply(1)
    assert not pair.wire.frames
    pair.primary.publication.release()
    kinds = [data[4] for data in pair.wire.frames]
    assert kinds[0] == Kind.BLOCK
    assert kinds[-1] == Kind.VIEW
    assert set(kinds[1:-1]) == {Kind.BATCH}


@pytest.mark.usefixtures("_nothing_held")
def test_what_is_not_shown_for_long_is_not_held_for_long(pair: Pair) -> None:
    pair.primary.publication.hold()
    before = pair.replica.view
    pair.primary.apply(3)
    assert {data[4] for data in pair.wire.frames} == {Kind.BATCH}
    pair.deliver()
    assert pair.replica.view is before
    pair.primary.publication.release()
    pair.deliver()
    pair.compare()


@pytest.mark.usefixtures("_nothing_held")
def test_nothing_of_a_reorg_is_seen_before_it_is_whole(pair: Pair) -> None:
    pair.primary.apply(20)
    pair.deliver()
    before = pair.replica.view
    assert before is not None
    pair.primary.publication.hold()
    pair.primary.ingestor.undo_above(before.chain.tip_number - 7)
    pair.deliver()
    assert pair.replica.view is before
    pair.compare()
    pair.primary.begin_again()
    pair.primary.apply(22)
    pair.primary.publication.release()
    pair.deliver()
    assert pair.replica.view is not before
    assert pair.compare() > 100


@pytest.mark.usefixtures("_nothing_held")
def test_a_view_is_shown_with_the_last_of_its_batches_and_not_before(pair: Pair) -> None:
    before = pair.replica.view
    assert before is not None
    pair.primary.apply(3)
    views = [data for data in pair.wire.frames if data[4] == Kind.VIEW]
    pair.wire.frames.remove(views[-1])
    kept = pair.wire.frames.copy()
    while len(views) > 1:
        kept.remove(views.pop(0))
    pair.wire.frames = kept
    pair.deliver()
    assert pair.replica.view is before
    pair.wire.put(views[0])
    pair.deliver()
    assert pair.replica.view.chain.tip_number == pair.primary.ingestor.view.tip_number


def test_a_copy_made_at_any_time_goes_on_where_another_one_ended(pair: Pair) -> None:
    """Tags that came while nothing was followed are known afterwards."""
    pair.primary.apply(10)
    pair.deliver()
    pair.primary.apply(15)
    pair.wire.frames.clear()  # the primary was away, or this worker too slow
    wire = Wire()
    pair.primary.feed.add(wire, pair.primary.path / "workers" / "1-2")  # type: ignore[arg-type]
    pair.wire = wire
    pair.primary.apply(5)
    pair.deliver()
    pair.compare()
    pair.primary.apply(12)
    pair.deliver()
    assert pair.compare() > 200


def test_trees_that_are_built_anew_are_for_a_new_copy(pair: Pair) -> None:
    pair.primary.apply(12)
    pair.deliver()
    before = pair.replica.view
    assert before is not None
    pair.primary.ingestor.rebuild_above(before.chain.tip_number - 3)
    with pytest.raises(CannotFollowError):
        pair.deliver()
    assert pair.replica.view is before
    wire = Wire()
    pair.primary.feed.add(wire, pair.primary.path / "workers" / "1-3")  # type: ignore[arg-type]
    wire.deliver(pair.replica)
    pair.compare()


def test_another_tip_than_the_primarys_is_never_shown(pair: Pair) -> None:
    pair.primary.apply(5)
    batches = [data for data in pair.wire.frames if data[4] == Kind.BATCH]
    pair.wire.frames.remove(batches[-1])
    pair.wire.frames.remove(batches[-2])
    with pytest.raises(CannotFollowError):
        pair.deliver()


def test_a_copy_that_was_replaced_stays_until_its_last_reader_has_gone(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastnode.workers.copies._RETIRED_S", 0.0)
    pair.primary.apply(5)
    pair.deliver()
    held = pair.replica.view
    assert held is not None
    first = pair.replica.path
    assert first is not None
    wire = Wire()
    pair.primary.feed.add(wire, pair.primary.path / "workers" / "1-2")  # type: ignore[arg-type]
    wire.deliver(pair.replica)
    pair.replica.tidy()
    assert first.exists()
    assert held.chain.block_info(3) is not None
    del held
    pair.replica.tidy()
    assert not first.exists()


def test_a_copy_grows_apart_and_says_so_once(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(pair.replica, Replica)
    assert not pair.replica.copies.has_grown_apart()
    monkeypatch.setattr("fastnode.workers.copies.GROWTH_BYTES_MIN", 0)
    pair.primary.apply(20)
    pair.deliver()
    own, total = pair.replica.copies.sizes()
    assert 0 < own <= total
    assert pair.replica.copies.has_grown_apart()
    # The next one is under way, which may take longer than until it is asked again: that must not begin it anew.
    assert not pair.replica.copies.has_grown_apart()
    wire = Wire()
    pair.primary.feed.add(wire, pair.primary.path / "workers" / "1-2")  # type: ignore[arg-type]
    wire.deliver(pair.replica)
    pair.primary.apply(20)
    wire.deliver(pair.replica)
    assert pair.replica.copies.has_grown_apart()
