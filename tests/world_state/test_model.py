"""Append, undo, prune and restart in any order, against dictionaries and textbook trees."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.effort import tries
from tests.world_state.chain import Judge, Maker, Model, assert_roots, grow, grow_in_a_run, open_state
from tests.world_state.verifier import Verifier

from fastnode.world_state.state import WorldState
from fastnode.world_state.view import WorldStateView

VERIFIER = Verifier()
BLOCKS_MAX = 30
OLD_VIEWS_MAX = 3


class Life(RuleBasedStateMachine):
    """A data directory through appends, reorgs, restarts and changed settings."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory(prefix="fastnode-test-")
        self.path = Path(self._directory.name)
        self.state: WorldState
        #: Views that somebody still reads, with what they must go on saying.
        self.old: list[tuple[WorldStateView, Model]] = []

    @initialize(seed=st.integers(0, 2**32), cache_mb=st.sampled_from([0, 1, 16]))
    def start(self, seed: int, cache_mb: int) -> None:
        self.rng = random.Random(seed)
        self.maker = Maker(self.rng)
        self.model = Model(VERIFIER)
        self.state = open_state(self.path, cache_mb=cache_mb)

    @precondition(lambda self: self.model.tip < BLOCKS_MAX)
    @rule(shapes=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8)), min_size=1, max_size=4))
    def append(self, shapes: list[tuple[int, int]]) -> None:
        for txs, most in shapes:
            grow(self.state, self.model, self.maker.content(txs=txs, most=most))

    @precondition(lambda self: self.state.view.oldest == self.model.tip < BLOCKS_MAX)
    @rule(shapes=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8)), min_size=1, max_size=6))
    def catch_up_in_a_run(self, shapes: list[tuple[int, int]]) -> None:
        grow_in_a_run(self.state, self.model, [self.maker.content(txs=txs, most=most) for txs, most in shapes])
        assert self.state.view.oldest == self.model.tip

    @rule(depth=st.integers(1, 12))
    def undo(self, depth: int) -> None:
        target = max(self.state.view.oldest, self.model.tip - depth)
        self.state.undo_above(target)
        self.model.undo_above(target)

    @rule(cache_mb=st.sampled_from([0, 1, 16]), history=st.sampled_from([0, 0, 1, 3]))
    def restart(self, cache_mb: int, history: int) -> None:
        self._release_old_views()
        self.state.close()
        self.state = open_state(self.path, cache_mb=cache_mb, history=history)

    @precondition(lambda self: len(self.old) < OLD_VIEWS_MAX)
    @rule()
    def somebody_keeps_a_view(self) -> None:
        frozen = Model(VERIFIER)
        for content, block_hash in zip(self.model.contents, self.model.hashes[1:], strict=True):
            frozen.apply(content, block_hash)
        self.old.append((self.state.view, frozen))

    @rule()
    def look_around(self) -> None:
        self._look(self.state.view, self.model)
        for view, model in self.old:
            self._look(view, model)

    def _look(self, view: WorldStateView, model: Model) -> None:
        judge = Judge(model, self.rng)
        for _ in range(4):
            block = self.rng.randint(view.oldest, model.tip)
            assert_roots(view, model, block)
            judge.look(view, block)

    @invariant()
    def the_newest_roots_are_those_of_the_textbook(self) -> None:
        if hasattr(self, "model"):
            assert self.state.block_number == self.model.tip
            assert_roots(self.state.view, self.model, self.model.tip)

    def _release_old_views(self) -> None:
        for view, _ in self.old:
            view.close()
        self.old.clear()

    def teardown(self) -> None:
        if hasattr(self, "model"):
            assert self.state.check() == []
            self._release_old_views()
            self.state.close()
        self._directory.cleanup()


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=tries(10, 100), stateful_step_count=25)
