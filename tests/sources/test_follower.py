"""Following a node that tells the truth: catching up, new blocks, reorgs of every kind."""

from __future__ import annotations

import dataclasses
import logging
import random
from pathlib import Path

import pytest
from tests.sources.conftest import following
from tests.sources.made_chain import SHAPE, MadeChain, made_chain
from tests.sources.scripted_upstream import ScriptedUpstream, scripted_upstream

from fastnode.archiver.ingest import Ingestor
from fastnode.protocol.block import L2Block


def test_a_chain_is_fetched_and_followed_block_by_block(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        for _ in range(3):
            with upstream.lock:
                chain.propose()
            node.wait_for(chain)
        with upstream.lock:
            chain.publish()
            chain.proven += 1
        node.wait_for(chain)
        assert node.follower.is_ready
        assert node.follower.lag_blocks == 0
        assert node.follower.reorg_count == 0


def test_what_was_followed_is_what_an_import_of_the_same_chain_stores(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        with upstream.lock:
            chain.undo_to(chain.tip - 4)
            chain.propose(2)
            chain.publish()
            chain.checkpoint(3)
        node.wait_for(chain)
        followed = node.contents()
    with following(tmp_path / "fresh", upstream.url) as fresh:
        fresh.wait_for(chain)
        assert fresh.contents() == followed


def test_a_restart_goes_on_where_it_was(tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
    with upstream.lock:
        chain.checkpoint(2)
    upstream.requests.clear()
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
    assert "fastnode_getGenesis" not in upstream.requests


class Proposals:
    """What peers propose: asked in the thread that ingests."""

    def __init__(self) -> None:
        self.tips: list[int] = []
        self.blocks: list[L2Block] = []

    def apply(self, ingestor: Ingestor) -> int:
        self.tips.append(ingestor.view.tip_number)
        if not self.blocks:
            return 0
        return int(ingestor.add_block(self.blocks.pop(0)))


def test_proposals_are_asked_for_when_the_chain_has_caught_up_and_whenever_one_has_come(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    proposals = Proposals()
    with following(tmp_path / "node", upstream.url, proposals=proposals, archiver_polling_interval_ms=60_000) as node:
        node.wait_for(chain)
        for _ in range(2):
            asked = len(proposals.tips)
            node.control.wake()
            node.wait(lambda asked=asked: len(proposals.tips) > asked)
    assert set(proposals.tips) == {chain.tip}, "not before it has caught up"


def test_an_upstream_that_lacks_a_block_of_peers_is_no_trouble(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    proposals = Proposals()
    with following(tmp_path / "node", upstream.url, proposals=proposals) as node:
        node.wait_for(chain)
        tip = chain.tip
        with upstream.lock:
            chain.propose()
            proposed = chain.blocks[-1]
            chain.undo_to(tip)
        with caplog.at_level(logging.WARNING, "fastnode.sources.follower"):
            proposals.blocks.append(proposed)
            # Until the upstream is believed that the block is gone, or a few passes were made beside it.
            node.wait(lambda: tip + 1 in node.published)
            node.wait(lambda: proposals.tips.count(tip + 1) > 2 or node.published[-1] == tip)
    reasons = [getattr(record, "facts", {}).get("reason") or "" for record in caplog.records]
    assert [reason for reason in reasons if "is behind" in reason] == []


# ---- reorgs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 8])
def test_other_blocks_at_known_numbers_replace_them(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, depth: int
) -> None:
    """The proposed ones, and further back whole checkpoints and parts of them; the finalized ones stay."""
    chain.finalized = 1
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        with upstream.lock:
            chain.undo_to(chain.tip - depth)
            chain.propose(depth + 1)
        node.wait_for(chain)
        assert node.follower.reorg_count >= 1


def test_readers_see_the_replacement_only_when_it_is_complete(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        tip = chain.tip
        with upstream.lock:
            chain.undo_to(tip - 5)
            chain.propose(6)
            node.published.clear()
        node.wait_for(chain)
        assert min(node.published) >= tip


def test_a_pruned_pending_chain_is_believed_when_it_stays_pruned(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        with upstream.lock:
            chain.undo_to(chain.tip - 2)
        node.wait_for(chain)


def test_an_invalidated_checkpoint_leaves_its_blocks_as_proposed_ones(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    chain.undo_to(chain.tip - 2)
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        with upstream.lock:
            unit = chain.units[-1]
            unit.published = unit.tip = None
            chain._chain._checkpoints.pop()
        node.wait_for(chain)
        with upstream.lock:
            chain.propose()
            chain.publish()
        node.wait_for(chain)


def test_a_reorg_that_happened_while_the_node_was_stopped_is_noticed(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
    chain.undo_to(chain.tip - 6)
    chain.checkpoint(4)
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)


def test_a_fork_longer_than_one_question_is_found(tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream) -> None:
    chain.finalized = chain.proven = 1
    for _ in range(45):
        chain.checkpoint(2)
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        with upstream.lock:
            chain.undo_to(7)
            chain.checkpoint(2)
        node.wait_for(chain)


def test_random_walks_end_at_the_same_chain(tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream) -> None:
    source = random.Random(7)
    with following(tmp_path / "node", upstream.url) as node:
        for _ in range(25):
            with upstream.lock:
                final = chain.tips().finalized.block.number
                if source.random() < 0.4:
                    chain.undo_to(max(final, chain.tip - source.randint(1, 32)))
                chain.propose(source.randint(1, 3))
                if source.random() < 0.6:
                    chain.publish()
                    chain.proven = source.randint(chain.proven, chain.checkpoint_count)
                    chain.finalized = max(chain.finalized, chain.proven - 8)
            node.wait_for(chain)
        followed = node.contents()
    with following(tmp_path / "fresh", upstream.url) as fresh:
        fresh.wait_for(chain)
        assert fresh.contents() == followed


# ---- several upstreams --------------------------------------------------------------------------


def test_when_the_first_upstream_goes_the_second_is_followed(tmp_path: Path, chain: MadeChain) -> None:
    with (
        scripted_upstream(chain) as first,
        scripted_upstream(chain) as second,
        following(tmp_path / "node", first.url, second.url) as node,
    ):
        node.wait_for(chain)
        first.stop()
        with second.lock:
            chain.checkpoint()
        node.wait_for(chain)
        node.wait_for_upstream("unavailable")
        first.start()
        node.wait_for_upstream("healthy")


def test_an_upstream_that_is_behind_does_not_take_blocks_away(tmp_path: Path, chain: MadeChain) -> None:
    with (
        scripted_upstream(chain) as first,
        scripted_upstream(chain) as second,
        following(tmp_path / "node", first.url, second.url) as node,
    ):
        node.wait_for(chain)
        tips = chain.tips()
        old = tips.to_json() | {"proposed": tips.checkpointed.block.to_json()}
        first.tamper = lambda method, _, result: old if method == "node_getL2Tips" else result
        first.answers["node_getBlockHeader"] = lambda parameters: (
            None if parameters[0] > old["proposed"]["number"] else second.block_header(parameters)
        )
        count = len(second.requests)
        node.wait(lambda: len(second.requests) > count + 20)
        assert node.tips == tips
        with second.lock:
            chain.propose()
        node.wait_for(chain)


# ---- nodes that are no fastnode -----------------------------------------------------------------


class L1:
    """Knows the messages of all checkpoints."""

    name = "L1"

    def __init__(self, chain: MadeChain) -> None:
        self._chain = chain

    def messages_of(self, checkpoint_number: int) -> list[bytes] | None:
        units = self._chain.units
        return list(units[checkpoint_number - 1].making.messages) if checkpoint_number <= len(units) else None


def test_a_node_without_the_own_namespace_is_followed_with_a_genesis_file_and_l1(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    upstream.is_fastnode = False
    file = chain.write_genesis(tmp_path / "genesis.jsonl")
    with following(tmp_path / "node", upstream.url, messages=L1(chain), genesis=file) as node:
        node.wait_for(chain)
        with upstream.lock:
            chain.propose()
            chain.publish()
            chain.checkpoint(2)
            chain.propose()
        node.wait_for(chain)
        assert "fastnode_getL1ToL2Messages" not in upstream.requests


def test_checkpoints_without_messages_need_no_source_of_them(tmp_path: Path) -> None:
    with made_chain(tmp_path / "made", dataclasses.replace(SHAPE, l1_to_l2=0)) as chain:
        chain.checkpoint(2)
        chain.checkpoint(1)
        chain.propose(2)
        file = chain.write_genesis(tmp_path / "genesis.jsonl")
        with (
            scripted_upstream(chain, is_fastnode=False) as upstream,
            following(tmp_path / "node", upstream.url, genesis=file) as node,
        ):
            node.wait_for(chain)


def test_what_l1_says_is_final_goes_before_what_the_node_says(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    class Tips:
        known: tuple[int, int] | None = (5, 99)

        def newest(self) -> tuple[int, int] | None:
            return self.known

    tips = Tips()
    with following(tmp_path / "node", upstream.url, l1_tips=tips) as node:
        # The blocks are there before what is known about them: the pass that reads the tips must have ended.
        node.wait(lambda: node.tips.finalized.checkpoint.number == 6)
        assert node.tips.proven.checkpoint.number == 6, "what is final is proven"
        tips.known = (4, 2)
        with upstream.lock:
            chain.publish()
        node.wait(lambda: node.tips.checkpointed == chain.tips().checkpointed)
        pass_at = node.follower._standing.last_pass_at
        node.wait(lambda: node.follower._standing.last_pass_at != pass_at)
        assert node.tips.proven.checkpoint.number == 6
        assert node.tips.finalized.checkpoint.number == 6, "what is final stays final"
