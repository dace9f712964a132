"""Transactions that this node cannot judge: another node does, and what it says is the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.api.test_txs import FRESH, Node
from tests.api.test_txs import make_node as make_node
from tests.api.test_txs import node as node
from tests.mempool.recorded import hashes, recordings

from fastnode.config.allow_list import AllowedElement
from fastnode.errors import UpstreamVerdict
from fastnode.mempool.allow_list import default_allow_list
from fastnode.mempool.network import NetworkValues
from fastnode.mempool.pool import Added
from fastnode.mempool.validation import UNKNOWN_VK_ROOT, WRONG_VK_ROOT
from fastnode.proofs.judge import NO_VERIFIER, open_judge
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx

OTHER_ROOT = "0x" + "0b" * 31 + "01"


class Upstream:
    """Takes what it is given, unless a test has it do something else."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_away = False
        self.refusal: UpstreamVerdict | None = None
        self.pool_before: list[int] = []
        self.node: Node | None = None

    def forward(self, tx_json: bytes, _is_wanted: object = None) -> bool:
        self.asked += 1
        if self.node is not None:
            self.pool_before.append(self.node.mempool.pool.pending_count)
        if self.refusal is not None:
            raise self.refusal
        return not self.is_away


@pytest.fixture
def upstream(node: Node) -> Upstream:
    """Transactions of ``node``, which cannot verify a proof from here on."""
    upstream = Upstream()
    upstream.node = node
    node.restart_mempool(sink=upstream, judge=open_judge(required=True))
    return upstream


def recorded(tx_hash: str) -> dict[str, Any]:
    return dict(recordings()[tx_hash]["tx"])


def test_it_enters_the_pool_once_the_upstream_took_it(node: Node, upstream: Upstream) -> None:
    assert node.send(FRESH[0]) == {}
    assert upstream.pool_before == [0]
    assert node.call("node_getPendingTxCount") == {"result": 1}
    assert node.send(FRESH[0]) == {}, "it is known"
    assert upstream.asked == 1
    assert node.mempool.handover is not None
    assert not node.mempool.handover.has_waiting
    node.restart_mempool()
    assert node.mempool.handover is not None
    assert not node.mempool.handover.has_waiting, "a restart remembers who has it"


def test_the_upstreams_verdict_is_the_answer(node: Node, upstream: Upstream) -> None:
    upstream.refusal = UpstreamVerdict("Invalid tx: Invalid proof", data={"why": 1}, code=-32702)
    error = node.send(FRESH[0])["error"]
    assert error == {"code": -32702, "message": "Invalid tx: Invalid proof", "data": {"why": 1}}
    assert node.call("node_getPendingTxCount") == {"result": 0}


def test_while_no_upstream_answers_nothing_is_kept(node: Node, upstream: Upstream) -> None:
    upstream.is_away = True
    error = node.send(FRESH[0])["error"]
    assert error["data"] == {"code": "NO_UPSTREAM"}
    assert node.call("node_getPendingTxCount") == {"result": 0}


def test_what_is_wrong_here_is_refused_here(node: Node, upstream: Upstream) -> None:
    """Also by a rule of the pool: nothing is handed on that would not be kept."""
    mined = hashes("sent")[0]
    error = node.send(mined)["error"]
    assert error["data"]["result"] == "invalid"
    assert NO_VERIFIER not in error["data"]["reasons"], "a proof is looked at last"
    node.restart_mempool()
    node.mempool.pool.options = type(node.mempool.pool.options)(pending_max=1)
    assert node.send(FRESH[0]) == {}
    assert node.send(FRESH[1])["error"]["data"]["code"] == "LOW_PRIORITY_FEE"
    assert upstream.asked == 1


def test_is_valid_says_skipped_with_the_reason_and_never_invalid(node: Node, upstream: Upstream) -> None:
    answer = node.call("node_isValidTx", recorded(FRESH[0]))
    assert answer == {"result": {"result": "skipped", "reason": [NO_VERIFIER]}}
    assert node.call("node_isValidTx", recorded(FRESH[0]), {"isSimulation": True}) == {"result": {"result": "valid"}}
    assert upstream.asked == 0, "a question is no submission"


def test_without_upstream_and_verifier_it_is_refused_and_the_node_is_not_ready(node: Node) -> None:
    assert node.mempool.limitation is None
    node.restart_mempool(judge=open_judge(required=True))
    error = node.send(FRESH[0])["error"]
    assert error["message"] == f"Invalid tx: {NO_VERIFIER}"
    assert error["data"]["result"] == "skipped"
    assert node.mempool.limitation == NO_VERIFIER


def test_what_an_upstream_has_judged_is_taken_from_it(node: Node, upstream: Upstream) -> None:
    assert node.mempool.receive(Tx.from_json(recorded(FRESH[0]), FOUR), node.view) is Added.ACCEPTED
    assert node.mempool.pool.unforwarded_hashes() == []


# ---- readiness -----------------------------------------------------------------------------------------------


def test_readiness_for_transactions_names_what_is_in_the_way(node: Node, upstream: Upstream) -> None:
    assert node.mempool.limitation is None, "an upstream judges"
    node.mempool.reconfigure(type(node.mempool.options)(transactions_disabled=True))
    assert node.mempool.limitation == "Transactions are not permitted"
    node.restart_mempool(closed=lambda: "no blocks here")
    assert node.mempool.limitation == "no blocks here"
    assert node.send(FRESH[0])["error"]["message"] == "no blocks here"
    assert upstream.asked == 0


# ---- what the network says of itself -------------------------------------------------------------------------


def test_the_networks_own_values_go_before_those_of_a_release(node: Node) -> None:
    root = NetworkValues.of_headers({"x-aztec-l2circuitsvktreeroot": OTHER_ROOT}).vk_tree_root
    assert root is not None
    node.mempool.learn_network(NetworkValues(root, None))
    assert node.mempool.network.vk_tree_root == root
    assert node.send(FRESH[0])["error"]["data"]["reasons"] == [WRONG_VK_ROOT]
    node.restart_mempool(learned=NetworkValues(root, None))
    assert node.mempool.network.vk_tree_root == root


def test_the_operators_root_stays(make_node: Callable[..., Node]) -> None:
    own = bytes(31) + b"\x05"
    node = make_node(vk_tree_root=own)
    node.mempool.learn_network(NetworkValues(bytes(31) + b"\x07", bytes(31) + b"\x08"))
    assert node.mempool.network.vk_tree_root == own
    assert node.mempool.network.protocol_contracts_hash == bytes(31) + b"\x08"


@pytest.mark.parametrize("text", [None, "", "5", "0x", "0xzz", "0x" + "ff" * 32])
def test_a_header_that_is_no_field_says_nothing(text: str | None) -> None:
    headers = {} if text is None else {"x-aztec-l2circuitsvktreeroot": text}
    assert NetworkValues.of_headers(headers).vk_tree_root is None


def test_without_the_networks_values_a_tx_is_skipped_and_handed_on(node: Node, upstream: Upstream) -> None:
    rules = node.mempool.validator.rules
    unknown = type(rules.network)(rules.network.l1_chain_id, rules.network.rollup_version, None, None)
    node.mempool._set_rules(network=unknown)
    answer = node.call("node_isValidTx", recorded(FRESH[0]))["result"]
    assert answer["result"] == "skipped"
    assert UNKNOWN_VK_ROOT in answer["reason"]
    assert node.send(FRESH[0]) == {}
    assert upstream.asked == 1


# ---- the setup allow list ------------------------------------------------------------------------------------


def test_an_upstreams_allow_list_is_joined_with_the_own_one(node: Node) -> None:
    own = node.mempool.allow_list
    more = AllowedElement(address=bytes(31) + b"\x77", selector=b"\1\2\3\4")
    node.mempool.join_allow_list([*default_allow_list(FOUR), more])
    assert node.mempool.allow_list == (*own, more)
    assert node.mempool.validator.rules.setup_allow_list == (*own, more)
    node.mempool.join_allow_list([])
    assert node.mempool.allow_list == own
