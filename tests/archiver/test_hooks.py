"""State trees and index writers beside the archiver: in which order they are called, and what a crash leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.store import ArchiverStore
from fastnode.errors import BlockRejected, DatabaseError
from fastnode.protocol.block import L2Block
from fastnode.storage.database import WriteBatch

if TYPE_CHECKING:
    from tests.archiver.conftest import SampleChain

Contents = Callable[[ArchiverStore], dict[bytes, bytes]]


class CrashError(Exception):
    pass


class Trees:
    """Stands in for the state trees: remembers which blocks it has, and fails when told to."""

    def __init__(self, store: ArchiverStore) -> None:
        self._store = store
        self.applied: list[tuple[int, bytes]] = []
        self.messages: dict[int, list[bytes]] = {}
        self.calls: list[tuple[str, int, int]] = []
        self.refuse: int | None = None
        self.crash_at_commit_of: int | None = None
        self.finalized: int | None = None
        self.refuse_undo = False

    @property
    def block_number(self) -> int:
        return len(self.applied)

    @property
    def block_hash(self) -> bytes:
        return self.applied[-1][1]

    def prepare(self, block: L2Block, l1_to_l2_messages: Sequence[bytes], final_checkpoint: int) -> Any:
        self._note("prepare", block.number)
        assert block.number == self.block_number + 1
        if block.number == self.refuse:
            raise BlockRejected(f"block {block.number}: header.state.noteHashTree.root is 0x1, expected 0x2")
        return block.number, block.hash(), list(l1_to_l2_messages)

    def commit(self, prepared: Any) -> None:
        number, block_hash, messages = prepared
        self._note("commit", number)
        if number == self.crash_at_commit_of:
            raise CrashError
        self.applied.append((number, block_hash))
        self.messages[number] = messages

    def newest_of_runs(self, final_checkpoint: int) -> int:
        return 0

    def prepare_run(self, blocks: Sequence[tuple[L2Block, Sequence[bytes]]]) -> Any:
        raise NotImplementedError

    def settle(self, finalized: int) -> None:
        self.finalized = finalized

    def undo_above(self, block_number: int) -> None:
        self._note("undo", block_number)
        if self.refuse_undo:
            raise DatabaseError(f"the state at block {block_number} is pruned")
        del self.applied[block_number:]

    def reset(self) -> None:
        self._note("reset", 0)
        self.applied.clear()

    def _note(self, call: str, number: int) -> None:
        with self._store.open_view() as view:
            self.calls.append((call, number, view.tip_number))


class Index:
    """Counts the nullifiers of the chain, under one key and one key per block."""

    prefixes = (b"\x80", b"\x81")

    def __init__(self) -> None:
        self.fail_at: int | None = None

    def write(self, batch: WriteBatch, block: L2Block) -> None:
        total = self._total(batch)
        batch.put(b"\x81" + block.number.to_bytes(4, "big"), b"%d" % total)
        batch.put(b"\x80", b"%d" % (total + nullifiers_of(block)))
        if block.number == self.fail_at:
            raise CrashError

    def undo(self, batch: WriteBatch, block: L2Block) -> None:
        batch.delete(b"\x81" + block.number.to_bytes(4, "big"))
        batch.put(b"\x80", b"%d" % (self._total(batch) - nullifiers_of(block)))

    @staticmethod
    def _total(batch: WriteBatch) -> int:
        return int(batch.get(b"\x80") or b"0")


def nullifiers_of(block: L2Block) -> int:
    return sum(len(effect.nullifiers) for effect in block.body.tx_effects)


@pytest.fixture
def trees(store: ArchiverStore) -> Trees:
    return Trees(store)


@pytest.fixture
def with_trees(store: ArchiverStore, trees: Trees, open_ingestor: Callable[..., Ingestor]) -> Ingestor:
    return open_ingestor(store, verification=Verification.NONE, state=trees)


def add_checkpoints(ingestor: Ingestor, sample: SampleChain, first: int, last: int) -> None:
    for number in range(first, last + 1):
        ingestor.apply(sample.checkpoint(number))


# ---- state trees -------------------------------------------------------------------------------


def test_a_block_is_prepared_then_stored_and_committed(with_trees: Ingestor, trees: Trees, sample: SampleChain) -> None:
    add_checkpoints(with_trees, sample, 1, 3)
    order = [("prepare", 1), ("commit", 1), ("prepare", 2), ("commit", 2), ("prepare", 3), ("commit", 3)]
    assert [(call, number) for call, number, _ in trees.calls] == order
    # No block is prepared before the one below it is stored.
    assert [stored for call, _, stored in trees.calls if call == "prepare"] == [0, 1, 2]


def test_trees_that_committed_a_block_which_the_chain_has_not_stored_go_back(
    store: ArchiverStore,
    with_trees: Ingestor,
    trees: Trees,
    sample: SampleChain,
    open_ingestor: Callable[..., Ingestor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_checkpoints(with_trees, sample, 1, 3)

    def refuse(batch: WriteBatch) -> None:
        raise DatabaseError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(WriteBatch, "commit", refuse)
        with pytest.raises(DatabaseError, match="the disk is full"):
            with_trees.apply(sample.checkpoint(4))
    assert (with_trees.view.tip_number, trees.block_number) == (3, 4)
    restarted = open_ingestor(store, verification=Verification.NONE, state=trees)
    restarted.catch_up()
    assert trees.block_number == 3
    assert restarted.apply(sample.checkpoint(4)) > 0


def test_a_view_is_published_when_the_trees_have_the_block_too(
    store: ArchiverStore, trees: Trees, sample: SampleChain, open_ingestor: Callable[..., Ingestor]
) -> None:
    published: list[tuple[int, int]] = []
    ingestor = open_ingestor(
        store,
        verification=Verification.NONE,
        state=trees,
        on_commit=lambda commit: published.append((commit.view.tip_number, trees.block_number)),
    )
    add_checkpoints(ingestor, sample, 1, 4)
    assert published == [(number, number) for number in range(1, 6)]


def test_the_trees_are_told_which_blocks_are_final(with_trees: Ingestor, trees: Trees, sample: SampleChain) -> None:
    add_checkpoints(with_trees, sample, 1, 3)
    assert trees.finalized is None
    view = with_trees.view
    final = view.tip_of_checkpoint(2)
    with_trees.set_tips(dataclasses.replace(view.tips, proven=final, finalized=final))
    assert trees.finalized == final.block.number > 0


def test_the_first_block_of_a_checkpoint_brings_all_of_its_messages(
    with_trees: Ingestor, trees: Trees, sample: SampleChain
) -> None:
    add_checkpoints(with_trees, sample, 1, 9)
    brought = {number: messages for number, messages in trees.messages.items() if messages}
    first_blocks = [sample.checkpoint(number).block_headers[0].global_variables.block_number for number in (8, 9)]
    assert brought == dict(zip(first_blocks, [sample.messages(8), sample.messages(9)], strict=True))


def test_a_block_that_the_trees_refuse_is_not_stored(
    store: ArchiverStore, with_trees: Ingestor, trees: Trees, sample: SampleChain, contents: Contents
) -> None:
    add_checkpoints(with_trees, sample, 1, 3)
    before = contents(store)
    trees.refuse = 4
    with pytest.raises(BlockRejected, match=r"noteHashTree\.root"):
        with_trees.add_block(sample.block(4))
    assert contents(store) == before
    trees.refuse = None
    assert with_trees.add_block(sample.block(4))


def test_a_checkpoint_of_which_the_trees_refuse_a_late_block_leaves_nothing(
    store: ArchiverStore, with_trees: Ingestor, trees: Trees, sample: SampleChain, contents: Contents
) -> None:
    add_checkpoints(with_trees, sample, 1, 5)
    before = contents(store)
    trees.refuse = 11
    with pytest.raises(BlockRejected, match=r"block 11: header\.state\.noteHashTree\.root"):
        with_trees.apply(sample.checkpoint(6))
    assert contents(store) == before
    assert trees.block_number == 7
    trees.refuse = None
    assert with_trees.apply(sample.checkpoint(6)) == 4


def test_blocks_that_came_as_proposals_survive_when_the_rest_of_their_checkpoint_is_refused(
    with_trees: Ingestor, trees: Trees, sample: SampleChain
) -> None:
    add_checkpoints(with_trees, sample, 1, 5)
    for record in sample.block_records(6)[:2]:
        with_trees.apply(record)
    trees.refuse = 11
    with pytest.raises(BlockRejected, match="block 11"):
        with_trees.apply(sample.checkpoint(6))
    assert (with_trees.view.tip_number, trees.block_number) == (9, 9)


def test_after_a_crash_before_the_trees_committed_they_catch_up(
    store: ArchiverStore,
    with_trees: Ingestor,
    trees: Trees,
    sample: SampleChain,
    open_ingestor: Callable[..., Ingestor],
) -> None:
    add_checkpoints(with_trees, sample, 1, 7)
    first = sample.checkpoint(8).block_headers[0].global_variables.block_number
    trees.crash_at_commit_of = first
    with pytest.raises(CrashError):
        with_trees.apply(sample.checkpoint(8))
    trees.crash_at_commit_of = None
    restarted = open_ingestor(store, verification=Verification.NONE, state=trees)
    assert (restarted.view.tip_number, trees.block_number) == (first, first - 1)
    with pytest.raises(DatabaseError, match=f"the state trees are at block {first - 1}, the chain at {first}"):
        restarted.apply(sample.checkpoint(9))
    said: list[tuple[int, int]] = []
    assert restarted.catch_up(lambda done, total: said.append((done, total))) == 1
    assert said == [(1, 1)]
    assert trees.applied[-1] == (first, sample.block(first).hash())
    assert trees.messages[first] == sample.messages(8)
    assert restarted.apply(sample.checkpoint(9)) == 4


def test_after_a_failed_commit_the_same_ingestor_can_go_on(
    store: ArchiverStore, with_trees: Ingestor, trees: Trees, sample: SampleChain
) -> None:
    trees.crash_at_commit_of = 2
    add_checkpoints(with_trees, sample, 1, 1)
    with pytest.raises(CrashError):
        with_trees.apply(sample.checkpoint(2))
    trees.crash_at_commit_of = None
    add_checkpoints(with_trees, sample, 2, 5)
    assert with_trees.view.tip_number == trees.block_number == 7


def test_new_trees_are_filled_from_a_stored_chain(
    full_store: ArchiverStore, sample: SampleChain, open_ingestor: Callable[..., Ingestor]
) -> None:
    trees = Trees(full_store)
    ingestor = open_ingestor(full_store, state=trees)
    assert ingestor.catch_up() == 106
    assert trees.applied == [(number, sample.block(number).hash()) for number in range(1, 107)]
    assert sum(len(messages) for messages in trees.messages.values()) == 16
    assert ingestor.catch_up() == 0


def test_trees_that_are_ahead_are_undone(
    full_store: ArchiverStore, full_ingestor: Ingestor, open_ingestor: Callable[..., Ingestor]
) -> None:
    trees = Trees(full_store)
    ingestor = open_ingestor(full_store, state=trees)
    ingestor.catch_up()
    full_ingestor.undo_above(50)
    restarted = open_ingestor(full_store, state=trees)
    assert restarted.catch_up() == 0
    assert trees.block_number == 50


def test_trees_on_another_fork_go_back_to_the_chain(
    full_store: ArchiverStore, sample: SampleChain, open_ingestor: Callable[..., Ingestor]
) -> None:
    trees = Trees(full_store)
    open_ingestor(full_store, state=trees).catch_up()
    trees.applied[100:] = [(number, bytes(32)) for number in range(101, 110)]
    assert open_ingestor(full_store, state=trees).catch_up() == 6
    assert trees.applied == [(number, sample.block(number).hash()) for number in range(1, 107)]


def test_a_stored_block_that_the_trees_refuse_stops_the_start(
    full_store: ArchiverStore, open_ingestor: Callable[..., Ingestor]
) -> None:
    trees = Trees(full_store)
    trees.refuse = 20
    ingestor = open_ingestor(full_store, state=trees)
    with pytest.raises(DatabaseError, match="the state trees refuse the stored block 20: block 20: "):
        ingestor.catch_up()
    assert trees.block_number == 19


def test_the_trees_are_undone_first(
    with_trees: Ingestor, trees: Trees, sample: SampleChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastnode.archiver.ingest.UNDO_BLOCKS_PER_BATCH", 2)
    add_checkpoints(with_trees, sample, 1, 5)
    trees.calls.clear()
    with_trees.undo_above(2)
    assert trees.calls == [("undo", 2, 7)]
    assert with_trees.view.tip_number == trees.block_number == 2


def test_an_undo_that_the_trees_refuse_does_not_happen(
    store: ArchiverStore, with_trees: Ingestor, trees: Trees, sample: SampleChain, contents: Contents
) -> None:
    add_checkpoints(with_trees, sample, 1, 5)
    before = contents(store)
    trees.refuse_undo = True
    with pytest.raises(DatabaseError, match="is pruned"):
        with_trees.undo_above(2)
    assert contents(store) == before
    assert with_trees.view.tip_number == 7


def test_a_crash_between_both_undos_leaves_trees_that_catch_up(
    store: ArchiverStore,
    with_trees: Ingestor,
    trees: Trees,
    sample: SampleChain,
    open_ingestor: Callable[..., Ingestor],
) -> None:
    add_checkpoints(with_trees, sample, 1, 5)
    trees.undo_above(2)
    restarted = open_ingestor(store, verification=Verification.NONE, state=trees)
    assert restarted.catch_up() == 5
    assert restarted.view.tip_number == trees.block_number == 7


def test_without_trees_there_is_nothing_to_catch_up(full_ingestor: Ingestor) -> None:
    assert full_ingestor.catch_up() == 0


# ---- index writers -----------------------------------------------------------------------------


def test_an_index_is_part_of_each_blocks_batch(
    store: ArchiverStore, sample: SampleChain, open_ingestor: Callable[..., Ingestor]
) -> None:
    totals: list[bytes | None] = []
    ingestor = open_ingestor(
        store,
        verification=Verification.NONE,
        index_writers=[Index()],
        on_commit=lambda commit: totals.append(commit.view.get(b"\x80")),
    )
    add_checkpoints(ingestor, sample, 1, 7)
    expected, total = [], 0
    for number in range(1, 16):
        total += nullifiers_of(sample.block(number))
        expected.append(b"%d" % total)
    assert totals == expected


def test_undo_takes_an_index_back_block_by_block(
    store: ArchiverStore, sample: SampleChain, open_ingestor: Callable[..., Ingestor], contents: Contents
) -> None:
    ingestor = open_ingestor(store, verification=Verification.NONE, index_writers=[Index()])
    add_checkpoints(ingestor, sample, 1, 3)
    before = contents(store)
    add_checkpoints(ingestor, sample, 4, 9)
    after = contents(store)
    ingestor.undo_above(3)
    assert contents(store) == before
    add_checkpoints(ingestor, sample, 4, 9)
    assert contents(store) == after


def test_a_block_whose_index_fails_is_not_stored(
    store: ArchiverStore, sample: SampleChain, open_ingestor: Callable[..., Ingestor], contents: Contents
) -> None:
    index = Index()
    ingestor = open_ingestor(store, verification=Verification.NONE, index_writers=[index])
    add_checkpoints(ingestor, sample, 1, 3)
    before = contents(store)
    index.fail_at = 4
    with pytest.raises(CrashError):
        ingestor.apply(sample.checkpoint(4))
    assert contents(store) == before
    index.fail_at = None
    assert ingestor.apply(sample.checkpoint(4)) == 2
