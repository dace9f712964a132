"""Every witness, at every block, proves what it should to somebody who shares no code with us."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.world_state.chain import Judge, Maker, Model, assert_roots, grow, open_state, random_field
from tests.world_state.verifier import Verifier

from fastnode.errors import BlockUnavailable

#: test_witnesses_proven.py looks at many more, in generated chains.
WITNESSES = 12_000


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return Verifier()


@pytest.mark.parametrize(("seed", "blocks", "txs", "most"), [(1, 40, 2, 6), (2, 12, 3, 64), (3, 200, 1, 2)])
def test_witnesses_of_random_trees_at_random_blocks_are_proofs(
    verifier: Verifier, tmp_path: Path, seed: int, blocks: int, txs: int, most: int
) -> None:
    rng = random.Random(seed)
    model, maker = Model(verifier), Maker(rng)
    with open_state(tmp_path) as state:
        for _ in range(blocks):
            grow(state, model, maker.content(txs=rng.randint(0, txs), most=most))
        view = state.view
        for block in range(blocks + 1):
            assert_roots(view, model, block)
        judge = Judge(model, rng)
        while judge.verdicts < WITNESSES // 3:
            judge.look(view, rng.randint(0, blocks))
        assert judge.verdicts >= WITNESSES // 3


@given(
    shapes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.booleans()), min_size=1, max_size=8),
    seed=st.integers(0, 2**32),
    cache_mb=st.sampled_from([0, 1, 16]),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_shape_of_chain_has_the_roots_of_the_textbook(
    verifier: Verifier,
    tmp_path_factory: pytest.TempPathFactory,
    shapes: list[tuple[int, int, bool]],
    seed: int,
    cache_mb: int,
) -> None:
    rng = random.Random(seed)
    model, maker = Model(verifier), Maker(rng)
    with open_state(tmp_path_factory.mktemp("shape"), cache_mb=cache_mb) as state:
        for txs, most, is_first in shapes:
            grow(state, model, maker.content(txs=txs, most=most, is_first=is_first))
        judge = Judge(model, rng)
        for block in range(len(shapes) + 1):
            assert_roots(state.view, model, block)
            for _ in range(4):
                judge.look(state.view, block)
        assert state.check() == []


def test_any_leaf_index_has_a_sibling_path_at_any_block(verifier: Verifier, tmp_path: Path) -> None:
    rng = random.Random(4)
    model, maker = Model(verifier), Maker(rng)
    with open_state(tmp_path) as state:
        for _ in range(6):
            grow(state, model, maker.content(txs=2, most=5))
        view = state.view
        for block in range(7):
            size = view.record(block).sizes[1]
            notes = {index: note for note, (index, _) in model.note_hashes(block).items()}
            for index in range(size):
                path = view.sibling_path(1, index, block)
                root = verifier.root(notes.get(index, bytes(32)), index, path)
                assert root == model.roots[block]["note hash"][0]
            with pytest.raises(ValueError, match=f"the note hash tree has {size} leaves at block {block}"):
                view.sibling_path(1, size, block)


def test_a_block_that_is_not_there_yet_is_an_error_that_names_it(tmp_path: Path) -> None:
    with (
        open_state(tmp_path) as state,
        pytest.raises(BlockUnavailable, match=r"Queried block 1 not yet synced .* upto 0"),
    ):
        state.view.low_nullifier_witness(random_field(random.Random(1)), 1)
