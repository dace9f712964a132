"""node_getNodeInfo: what the followed node says of itself, as it says it, and what is made at the answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sources.made_chain import made_chain
from tests.sources.scripted_upstream import scripted_upstream

from fastnode.api import node_info
from fastnode.api.node_info import Asked, Member
from fastnode.api.record_schemas import RECORDS

#: As releases have called the version of the language that contracts are written in.
VERSION = {"noirVersion": "1.0.0-beta.21"}


@pytest.mark.parametrize(
    ("version", "is_fastnode"), [(VERSION, True), (VERSION, False), ({}, False)], ids=["fastnode", "another", "unnamed"]
)
def test_the_version_of_the_contract_language_is_that_of_the_followed_node_if_it_names_one(
    tmp_path: Path, start_node: Callable[..., Any], version: dict[str, str], is_fastnode: bool
) -> None:
    genesis = tmp_path / "genesis.jsonl"
    with made_chain(tmp_path / "made") as chain:
        chain.write_genesis(genesis)
        chain.chain_record["nodeInfo"] |= version
        with scripted_upstream(chain, is_fastnode=is_fastnode) as upstream:
            chain.checkpoint(1)
            given = () if is_fastnode else ("--genesis", genesis)
            node = start_node("--upstream-url", upstream.url, "--data-directory", tmp_path / "data", *given)
            node.wait_until_serving()
            info = node.call("node_getNodeInfo")["result"]
            assert node.stop() == 0
    assert info == info | chain.chain_record["nodeInfo"]
    assert {key: info[key] for key in VERSION if key in info} == version
    assert info["nodeVersion"]


def asked(record: str | None = None) -> Asked:
    chain: Any = type("Stored", (), {"node_info": {"nodeVersion": "4.1.2"}, "slot_duration": 72})
    return Asked(chain, record)


def test_a_member_is_answered_of_a_stored_chain_too_and_left_out_where_it_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = Member("enr", "string", lambda asked: asked.record)
    duration = Member("slotDuration", "number", lambda asked: asked.chain.slot_duration)
    monkeypatch.setattr(node_info, "MEMBERS", (record, duration))
    assert node_info.node_info(asked()) == {"nodeVersion": "4.1.2", "slotDuration": 72}
    assert node_info.node_info(asked("enr:-x")) == {"nodeVersion": "4.1.2", "enr": "enr:-x", "slotDuration": 72}
    assert node_info.members_text() == "enr?: string, slotDuration?: number, "


def test_the_record_of_the_documentation_has_the_members() -> None:
    assert node_info.members_text() in RECORDS["NodeInfo"]
