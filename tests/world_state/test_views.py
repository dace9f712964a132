"""Reading while blocks are applied and taken back: an answer belongs to one tip, whatever the writer does."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

from tests.effort import tries
from tests.merkle import root_from
from tests.world_state.chain import Content, Judge, Maker, Model, assert_roots, build, grow, open_state
from tests.world_state.verifier import HEIGHTS, Verifier

from fastnode.kernels import poseidon2
from fastnode.world_state.state import WorldState
from fastnode.world_state.view import WorldStateView
from fastnode.world_state.witnesses import nullifier_json, public_data_json

BLOCKS = tries(400, 1_000)


class Reader(threading.Thread):
    """Takes the newest view, asks it about random leaves at random blocks, and begins again."""

    def __init__(self, state: WorldState, contents: list[Content], seed: int) -> None:
        super().__init__(name=f"reader-{seed}")
        self._state = state
        self._rng = random.Random(seed)
        self._notes = [note for content in contents for effect in content.effects for note in effect.note_hashes]
        self._nullifiers = [key for content in contents for effect in content.effects for key in effect.nullifiers]
        self._slots = [
            w.leaf_slot for content in contents for effect in content.effects for w in effect.public_data_writes
        ]
        self._stop_requested = threading.Event()
        self.answers = 0
        self.tips: set[int] = set()
        self.fault: BaseException | None = None

    def stop(self) -> None:
        self._stop_requested.set()
        self.join()

    def run(self) -> None:
        try:
            while not self._stop_requested.is_set():
                view = self._state.view
                self.tips.add(view.tip.number)
                for _ in range(4):
                    self._ask(view, self._rng.choice((view.tip.number, self._rng.randint(0, view.tip.number))))
        except BaseException as fault:  # noqa: BLE001 - the test raises it again
            self.fault = fault

    def _ask(self, view: WorldStateView, block: int) -> None:
        record = view.record(block)
        note = self._rng.choice(self._notes)
        witness = view.note_hash_witness(note, block)
        if witness is not None:
            assert root_from(note, witness.index, witness.path) == record.roots[1]
        nullifier = self._rng.choice(self._nullifiers)
        low = view.low_nullifier_witness(nullifier, block)
        assert view.low_nullifier_witness_json(nullifier, block) == nullifier_json(low)
        leaf = poseidon2.hash_leaves_3(low.key + low.next_key + low.next_index.to_bytes(32, "big"))
        assert root_from(leaf, low.index, low.path) == record.roots[0]
        slot = self._rng.choice(self._slots)
        data = view.public_data_witness(slot, block)
        assert view.public_data_witness_json(slot, block) == public_data_json(data)
        leaf = poseidon2.hash_leaves_4(data.key + data.value + data.next_key + data.next_index.to_bytes(32, "big"))
        assert root_from(leaf, data.index, data.path) == record.roots[2]
        self.answers += 3


def while_reading(
    state: WorldState, contents: list[Content], write: Callable[[], None], *, threads: int
) -> list[Reader]:
    readers = [Reader(state, contents, seed) for seed in range(threads)]
    for reader in readers:
        reader.start()
    try:
        write()
    finally:
        for reader in readers:
            reader.stop()
    for reader in readers:
        if reader.fault is not None:
            raise reader.fault
    return readers


def test_no_answer_mixes_two_tips_while_hundreds_of_blocks_are_applied(tmp_path: Path) -> None:
    maker = Maker(random.Random(1))
    contents = [maker.content(txs=1, most=4, is_first=False) for _ in range(BLOCKS)]
    with open_state(tmp_path) as state:

        def write() -> None:
            for content in contents:
                build(state, content, 1)

        for reader in while_reading(state, contents, write, threads=1):
            # Readers never wait for a block: they saw many tips and answered more often than there were blocks.
            assert len(reader.tips) > BLOCKS // 10
            assert reader.answers > BLOCKS
        assert state.block_number == BLOCKS
        assert state.check() == []


def test_no_answer_mixes_two_tips_while_blocks_are_taken_back_and_replaced(tmp_path: Path) -> None:
    rng = random.Random(2)
    maker = Maker(rng)
    contents = [maker.content(txs=2, most=6, is_first=False) for _ in range(150)]
    with open_state(tmp_path) as state:

        def write() -> None:
            for number, content in enumerate(contents):
                build(state, content, 1)
                if number % 10 == 9:
                    state.undo_above(state.block_number - rng.randint(1, 9))

        while_reading(state, contents, write, threads=2)
        assert state.check() == []


def test_leaves_that_are_kept_are_those_of_the_newest_block_also_after_others_with_its_number(tmp_path: Path) -> None:
    maker = Maker(random.Random(7))
    contents = [maker.content(txs=2, most=6) for _ in range(24)]
    nullifiers = [key for content in contents for effect in content.effects for key in effect.nullifiers]
    slots = [
        write.leaf_slot for content in contents for effect in content.effects for write in effect.public_data_writes
    ]
    with open_state(tmp_path) as state:

        def ask(view: WorldStateView) -> None:
            block = view.tip.number
            for _ in range(2):  # read, and kept
                for key in nullifiers:
                    low = view.low_nullifier_witness(key, block)
                    assert view.low_nullifier_witness_json(key, block) == nullifier_json(low)
                    own = view.nullifier_witness(key, block)
                    assert view.nullifier_witness_json(key, block) == (None if own is None else nullifier_json(own))
                for slot in slots:
                    data = view.public_data_witness(slot, block)
                    assert view.public_data_witness_json(slot, block) == public_data_json(data)

        for number, content in enumerate(contents):
            before = state.view
            build(state, content, 1)
            ask(state.view)
            if number % 3 == 2:
                ask(before)
                state.undo_above(state.block_number - 2)
                ask(before)
                ask(state.view)


def test_a_view_outlives_the_reorg_of_its_blocks(tmp_path: Path) -> None:
    rng = random.Random(3)
    model, maker = Model(Verifier()), Maker(rng)
    with open_state(tmp_path) as state:
        for _ in range(20):
            grow(state, model, maker.content(txs=2, most=6))
        old_view, old_model = state.view, Model(model.verifier)
        for content, block_hash in zip(model.contents, model.hashes[1:], strict=True):
            old_model.apply(content, block_hash)
        for target in (15, 6, 11):
            state.undo_above(target)
            model.undo_above(min(target, model.tip))
            while model.tip < 18:
                grow(state, model, maker.content(txs=2, most=6))
        for view, expected in ((old_view, old_model), (state.view, model)):
            judge = Judge(expected, rng)
            for block in range(expected.tip + 1):
                assert_roots(view, expected, block)
                for _ in range(10):
                    judge.look(view, block)


def test_a_view_outlives_the_writer(tmp_path: Path) -> None:
    state = open_state(tmp_path)
    old = state.view
    build(state, Maker(random.Random(4)).content(txs=1, most=3), 1)
    state.close()
    path = old.sibling_path(0, 127, 0)
    assert len(path) == 32 * HEIGHTS["nullifier"]
    old.close()
    open_state(tmp_path).close()  # the last reader has closed the files


def test_a_small_cache_gives_the_same_paths(tmp_path: Path) -> None:
    maker = Maker(random.Random(5))
    contents = [maker.content(txs=3, most=30) for _ in range(20)]
    paths = []
    for cache_mb in (0, 64):
        with open_state(tmp_path / str(cache_mb), cache_mb=cache_mb) as state:
            for content in contents:
                build(state, content, 1)
            view, rng = state.view, random.Random(6)
            looks = [(tree, rng.randint(1, 20)) for tree in range(5) for _ in range(200)]
            # No node of the paths in memory, or all of them.
            assert (state.memory_bytes() < 20_000) == (cache_mb == 0)
            paths.append(
                [
                    view.sibling_path(tree, rng.randrange(view.record(block).sizes[tree]), block)
                    for tree, block in looks
                    if view.record(block).sizes[tree]
                ]
            )
    assert paths[0] == paths[1]
