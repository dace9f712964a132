"""Chains of two releases in one process: neither sees the rules of the other."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.sources.conftest import FollowingNode, following
from tests.sources.made_chain import MadeChain, made_chain
from tests.sources.scripted_upstream import ScriptedUpstream, scripted_upstream

from fastnode.data_check import check_data
from fastnode.protocol.releases import FIVE, FOUR


def test_a_chain_of_each_release_is_followed_at_the_same_time(tmp_path: Path) -> None:
    """Follow both through a fork, from directories of their own."""
    pairs: list[tuple[MadeChain, ScriptedUpstream, FollowingNode]] = []
    with ExitStack() as stack:
        for release in (FOUR, FIVE):
            directory = tmp_path / release.name
            directory.mkdir()
            chain = stack.enter_context(made_chain(directory, release=release))
            chain.checkpoint(1)
            upstream = stack.enter_context(scripted_upstream(chain))
            node = stack.enter_context(following(directory / "node", upstream.url))
            assert node.data.store.chain.release is release
            pairs.append((chain, upstream, node))
            with upstream.lock:
                chain.checkpoint(2)
                chain.propose(1)
        for chain, upstream, node in pairs:
            node.wait_for(chain)
            with upstream.lock:
                chain.undo_to(2)
                chain.publish()
                chain.checkpoint(1)
        for chain, _, node in pairs:
            node.wait_for(chain)
            assert check_data(node.data).problems == []
