"""Following a node that calls its methods by the names of newer releases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sources.conftest import following
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream

from fastnode.errors import UpstreamRejection
from fastnode.outgoing.network import Network
from fastnode.protocol.releases import FOUR, Release
from fastnode.sources.upstreams import Upstream
from fastnode.values.namespaces import newer_name


@pytest.fixture
def release() -> Release:
    """One whose nodes know methods by both names."""
    return FOUR


def renamed(answers: dict[str, Callable[[list[Any]], Any]]) -> dict[str, Callable[[list[Any]], Any]]:
    return {newer_name(name) or name: answer for name, answer in answers.items()}


def test_a_node_that_knows_only_the_newer_names_is_followed(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    upstream.answers = renamed(upstream.answers)
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
    older = [name for name in upstream.requests if name.startswith("node_")]
    assert set(older) <= {"node_getNodeInfo"}, "it is asked by the older names until it has answered to newer ones"


def test_what_a_node_knows_is_seen_once(upstream: ScriptedUpstream) -> None:
    with Network() as network:
        other = Upstream(upstream.url, network)
        other.identify()
        upstream.requests.clear()
        answer = other.ask([("node_getNothing", [])]).answers[0]
        assert isinstance(answer, UpstreamRejection)
        assert upstream.requests == ["node_getNothing"]
        # Another release takes its place.
        upstream.answers = renamed(upstream.answers)
        other.identify()
        upstream.requests.clear()
        assert other.call("node_getL2Tips") is not None
        assert upstream.requests == ["aztec_getL2Tips"]
