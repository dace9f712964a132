"""The release of a network: what a followed node and L1 say of it decides, and what no record has is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sources.conftest import following
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream

from fastnode.app.stages.l1_origin import L1Origin
from fastnode.config.settings import Settings
from fastnode.errors import StartError
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import Network
from fastnode.protocol.releases import FIVE, FOUR, Release
from fastnode.sources.l1.terms import CircuitValues
from fastnode.sources.release_choice import choose_release

STRANGE = b"\x0e" * 32


def says(upstream: ScriptedUpstream, vk_tree_root: bytes, contracts_hash: bytes) -> None:
    """Let the upstream name these values in its headers."""

    def with_headers(handler: Any, body: bytes) -> bool:
        named = {
            "x_aztec_l2CircuitsVkTreeRoot": "0x" + vk_tree_root.hex(),
            "X_Aztec_L2ProtocolContractsHash": "0x" + contracts_hash.hex(),
        }
        handler.reply(upstream.answer(body), **named)
        return True

    upstream.disturb = with_headers  # type: ignore[method-assign]


def test_the_roots_of_a_served_release_choose_it() -> None:
    assert choose_release(*FOUR.roots, "a node") is FOUR
    assert choose_release(*FIVE.roots, "the rollup on L1", is_rollup=True) is FIVE


@pytest.mark.parametrize(
    ("roots", "reason"),
    [
        ((STRANGE, FOUR.contracts_hash), "a node is of a release that has no record here"),
        ((FOUR.vk_tree_root, STRANGE), "--release-record FILE"),
        (FIVE.roots, r"a node is of release 5\.x .*this node follows nodes of 4\.x only"),
    ],
)
def test_other_roots_are_refused_in_one_line(roots: tuple[bytes, bytes], reason: str) -> None:
    with pytest.raises(StartError, match=reason) as refusal:
        choose_release(*roots, "a node")
    line = str(refusal.value)
    assert "\n" not in line
    assert all("0x" + root.hex() in line for root in roots)


@pytest.fixture
def release() -> Release:
    return FOUR


def test_a_node_of_a_release_without_a_record_is_not_followed(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    says(upstream, STRANGE, FOUR.contracts_hash)
    with pytest.raises(StartError, match=f"no record here .verification keys 0x{STRANGE.hex()}"):  # noqa: SIM117
        with following(tmp_path / "new", upstream.url):
            pass
    says(upstream, *FOUR.roots)
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
    says(upstream, *FIVE.roots)
    for takes_untried in (False, True):
        with following(tmp_path / "node", upstream.url, untried_upstreams=takes_untried) as node:
            node.wait_for_failure(StartError, "is of release 5.x")


def test_a_node_of_another_release_than_the_stored_chain_is_not_followed(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        upstream.stop()
        node.wait_for_upstream("unavailable")
        upstream.node_info = upstream.node_info | {"nodeVersion": "5.2.0"}
        upstream.start()
        node.wait_for_upstream("put aside", "its node version is 5.2.0, the stored chain is of release 4.x")


def test_a_root_that_the_operator_names_is_followed(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    says(upstream, STRANGE, STRANGE)
    with following(tmp_path / "node", upstream.url, vk_tree_root="0x" + STRANGE.hex()) as node:
        node.wait_for(chain)


@pytest.mark.parametrize(
    ("circuits", "reason"),
    [
        (None, None),
        (CircuitValues(*FOUR.roots), None),
        (CircuitValues(*FIVE.roots), "is of release 5.x"),
        (CircuitValues(STRANGE, STRANGE), "no record here"),
    ],
)
def test_what_the_rollup_says_is_compared_with_the_records(circuits: CircuitValues | None, reason: str | None) -> None:
    on_l1 = L1Origin(Settings(), ("http://127.0.0.1:1",), Network(), Patience(), 5.0)
    try:
        facts: Any = SimpleNamespace(circuits=circuits, version=5, rollup=bytes(20), chain_id=1, registry=None)
        if reason is None:
            assert on_l1.release(facts) is (None if circuits is None else FOUR)
        else:
            with pytest.raises(StartError, match=reason):
                on_l1.release(facts)
    finally:
        on_l1.close()


def test_a_node_goes_by_the_version_of_the_one_that_it_follows(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    learned: list[str | None] = []
    mempool: Any = SimpleNamespace(
        learn_network=lambda values: learned.append(values.node_version), handover=None, join_allow_list=lambda _: None
    )
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        assert node.ingestor.view.chain.node_version == "4.1.2"
    upstream.node_info = upstream.node_info | {"nodeVersion": "4.4.0"}
    with following(tmp_path / "node", upstream.url, mempool=mempool, mirror_pending_txs=False) as node:
        chain.checkpoint(2)
        node.wait_for(chain)
        node.wait(lambda: "4.4.0" in learned)
        chain.checkpoint(2)
        node.wait_for(chain)
        assert node.ingestor.view.chain.node_version == "4.4.0"
