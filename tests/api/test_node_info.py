"""node_getNodeInfo: what the followed node says of itself, as it says it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sources.made_chain import made_chain
from tests.sources.scripted_upstream import scripted_upstream

#: As releases have called the version of the language that contracts are written in.
VERSION = {"noirVersion": "1.0.0-beta.21"}


@pytest.mark.parametrize(
    ("version", "is_fastnode"), [(VERSION, True), (VERSION, False), ({}, False)], ids=["fastnode", "another", "unnamed"]
)
def test_the_version_of_the_contract_language_is_that_of_the_followed_node_if_it_names_one(
    tmp_path: Path, start_node: Callable[..., Any], version: dict[str, str], is_fastnode: bool
) -> None:
    directory, genesis = tmp_path / "made", tmp_path / "genesis.jsonl"
    directory.mkdir()
    with made_chain(directory) as chain:
        chain.write_genesis(genesis)
        chain.chain_record["nodeInfo"] |= version
        with scripted_upstream(chain, is_fastnode=is_fastnode) as upstream:
            chain.checkpoint(1)
            given = () if is_fastnode else ("--genesis", genesis)
            node = start_node("--upstream-url", upstream.url, "--data-directory", tmp_path / "data", *given)
            node.wait_until_serving()
            info = node.call("node_getNodeInfo")["result"]
            assert node.stop() == 0
    assert info == chain.chain_record["nodeInfo"]
    assert {key: info[key] for key in VERSION if key in info} == version
    assert info["nodeVersion"]
