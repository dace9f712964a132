"""A node that keeps state from its first catch-up on follows other nodes: what is final goes into the trees in runs."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import pytest
from tests.sources.conftest import FollowingNode, following
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream, scripted_upstream

SYNC = {"world_state_history_from": "sync"}


def assert_kept_from(node: FollowingNode, block: int) -> None:
    """The state is whole, and can be asked for from this block on."""
    assert node.data.state.view.oldest == block
    assert node.data.state.block_number == node.ingestor.view.tip_number
    assert node.data.state.check() == []


def test_random_walks_above_what_is_final_end_at_the_same_chain(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    source = random.Random(8)
    chain.proven, chain.finalized = 6, 5
    first = chain.tips().finalized.block.number
    for walk in range(2):
        with following(tmp_path / "node", upstream.url, **SYNC) as node:
            node.wait_for(chain)
            assert_kept_from(node, first)
            for _ in range(3):
                with upstream.lock:
                    final = chain.tips().finalized.block.number
                    # Also all that is not final, as right after the catch-up.
                    chain.undo_to(final if walk == 0 else max(final, chain.tip - source.randint(1, 9)))
                    chain.checkpoint(source.randint(1, 3))
                    chain.propose(source.randint(1, 2))
                    chain.proven = source.randint(chain.proven, chain.checkpoint_count)
                    chain.finalized = max(chain.finalized, chain.proven - 2)
                node.wait_for(chain)
            assert_kept_from(node, first)
            followed, tip = node.contents(), node.data.state.view.tip
    with following(tmp_path / "fresh", upstream.url) as fresh:
        fresh.wait_for(chain)
        assert fresh.contents() == followed
        assert fresh.data.state.view.tip == tip


def test_a_wrong_block_in_the_middle_of_a_run_is_named_and_the_next_node_is_followed_in_runs(
    tmp_path: Path, chain: MadeChain, caplog: pytest.LogCaptureFixture
) -> None:
    """Its content is another one than its state, and no hash of it is looked at."""
    chain.proven = chain.finalized = 6
    with scripted_upstream(chain) as wrong, scripted_upstream(chain) as right:
        bad = next(block.number for block in chain.blocks[2:] if block.body.tx_effects)
        wrong.tamper = lambda method, _, result: _spoiled(result, bad) if method == "node_getCheckpoints" else result
        with (
            caplog.at_level(logging.WARNING),
            following(tmp_path / "node", wrong.url, right.url, verify=False, **SYNC) as node,
        ):
            node.wait_for(chain)
            assert_kept_from(node, chain.tips().finalized.block.number)
    reasons = [str(getattr(record, "facts", {}).get("reason")) for record in caplog.records]
    assert any(f"block {bad}: the root of the" in reason for reason in reasons), reasons


def test_a_replacement_that_is_said_to_be_final_and_ends_wrong_gives_way_to_what_was_there(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    """It begins right above what is final, where nothing else keeps it from a run, which cannot be taken back."""
    chain.proven = chain.finalized = 5
    final = chain.tips().finalized.block.number
    with following(tmp_path / "node", upstream.url, verify=False, **SYNC) as node:
        node.wait_for(chain)
        shown, count = node.tips.proposed.number, len(node.published)
        with upstream.lock:
            chain.undo_to(final)
            for _ in range(5):
                chain.checkpoint(1)
            chain.proven = chain.finalized = chain.checkpoint_count
            bad = next(block.number for block in chain.blocks[final + 2 :] if block.body.tx_effects)
            upstream.tamper = lambda method, _, result: (
                _spoiled(result, bad) if method == "node_getCheckpoints" else result
            )
        node.wait(lambda: f"block {bad}: the root of the" in (node.follower.trouble or ""))
        assert set(node.published[count:]) <= {shown}
        with upstream.lock:
            upstream.tamper = lambda _method, _parameters, result: result
        node.wait_for(chain)
        assert_kept_from(node, final)


def _spoiled(checkpoints: list[Any], number: int) -> list[Any]:
    for published in checkpoints:
        for block in published["checkpoint"]["blocks"]:
            if block["header"]["globalVariables"]["blockNumber"] == number:
                block["body"]["txEffects"][0]["nullifiers"][0] = "0x" + "01" * 32
    return checkpoints
