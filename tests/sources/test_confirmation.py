"""What other nodes say while L1 does not answer is held against L1 once it does, and mended."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import pytest
from tests.sources.l1.conftest import chain as chain
from tests.sources.l1.conftest import publish_on_l1
from tests.sources.l1.test_publications import CHECKPOINTS, Attested, attested, node_beside, read, said, spoil, stored
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream

from fastnode.sources import confirmation


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmation, "LOOK_S", 0.05)


def grow(made: Attested, count: int) -> None:
    """More checkpoints, attested to, that L1 does not have yet."""
    for _ in range(count):
        made.chain.checkpoint()
        published = made.chain.units[-1].published
        assert published is not None
        published["attestations"] = [made.attestation() for _ in range(made.members)]


@pytest.mark.parametrize("seed", range(12))
def test_attestations_that_came_while_l1_was_silent_become_those_of_l1(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, seed: int
) -> None:
    dice = random.Random(seed)
    with attested(chain, dice) as made:
        made.propose()
        with node_beside(tmp_path / "node", made, upstream) as node:
            node.wait_for(chain)
            node.wait(lambda: node.follower.unconfirmed_from is None)
            made.l1.stop()
            with upstream.lock:
                grow(made, 3)
                true = copy.deepcopy(said(chain))
                for place in dice.sample(range(CHECKPOINTS, CHECKPOINTS + 3), dice.randint(1, 3)):
                    published = chain.units[place].published
                    assert published is not None
                    published["attestations"] = spoil(true[place], true[place - 1], dice)
                lies = said(chain)
            node.wait_for(chain)
            assert stored(node) == read(lies), "nobody could tell"
            assert node.follower.unconfirmed_from == CHECKPOINTS + 1
            with upstream.lock:
                given = [unit.published for unit in chain.units]
                for unit, attestations in zip(chain.units, true, strict=True):
                    unit.published = dict(unit.published or {}, attestations=attestations)
                made.propose(first=CHECKPOINTS)
                for unit, published in zip(chain.units, given, strict=True):
                    unit.published = published
            made.l1.start()
            node.wait(lambda: stored(node) == read(true))
            node.wait(lambda: node.follower.unconfirmed_from is None)
            assert node.follower.reorg_count == 0, "readers see no block go"


def test_a_checkpoint_that_came_while_l1_was_silent_and_is_not_its_own_is_given_up(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with attested(chain, random.Random(0)) as made:
        made.propose()
        with node_beside(tmp_path / "node", made, upstream) as node:
            node.wait_for(chain)
            node.wait(lambda: node.follower.unconfirmed_from is None)
            tip = chain.tip
            made.l1.stop()
            with upstream.lock:
                grow(made, 2)
            node.wait_for(chain)
            other = node.tips.checkpointed
            upstream.stop()  # it is not there to say that it has another chain now
            with upstream.lock:
                chain.undo_to(tip)
                grow(made, 2)
                made.propose(first=CHECKPOINTS)
            made.l1.start()
            node.wait(lambda: node.tips.checkpointed.checkpoint.number == CHECKPOINTS)
            upstream.start()
            node.wait_for(chain)
            assert node.tips.checkpointed != other
            node.wait(lambda: node.follower.unconfirmed_from is None)


def test_what_was_stored_before_a_start_is_held_against_l1(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    dice = random.Random(1)
    with attested(chain, dice) as made:
        made.propose()
        true = copy.deepcopy(said(chain))
        with node_beside(tmp_path / "node", made, upstream) as node:
            node.wait_for(chain)
            node.wait(lambda: node.follower.unconfirmed_from is None)
            made.l1.stop()
            with upstream.lock:
                grow(made, 1)
                true = copy.deepcopy(said(chain))
                published = chain.units[-1].published
                assert published is not None
                published["attestations"] = spoil(true[-1], true[0], dice)
            node.wait_for(chain)
        with upstream.lock:
            published["attestations"] = true[-1]
            made.propose(first=CHECKPOINTS)
        publish_on_l1(chain, made.l1)
        made.l1.start()
        with node_beside(tmp_path / "node", made, upstream) as node:
            node.wait(lambda: stored(node) == read(true))
