"""What a followed node says of its network: values in its headers, and its setup allow list."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sources.scripted_upstream import RejectionError, ScriptedUpstream

from fastnode.config.allow_list import AllowedElement
from fastnode.mempool.allow_list import default_allow_list
from fastnode.mempool.network import NetworkValues
from fastnode.mempool.upstream_terms import UpstreamTerms
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import Network
from fastnode.protocol.releases import FOUR
from fastnode.sources.upstreams import Upstream

ROOT = b"\x0b" * 32
HASH = b"\x0c" * 32
TOKEN = AllowedElement(class_id=b"\x0d" * 32, selector=b"\1\2\3\4", calldata_length=5, only_self=True)


class Learner:
    """As much of a mempool as is told."""

    def __init__(self) -> None:
        self.values: list[NetworkValues] = []
        self.allow_lists: list[list[AllowedElement]] = []

    def learn_network(self, values: NetworkValues) -> None:
        self.values.append(values)

    def join_allow_list(self, elements: list[AllowedElement]) -> None:
        self.allow_lists.append(elements)


AT_ONCE: Any = SimpleNamespace(submit=lambda work, *arguments: work(*arguments))


@pytest.fixture
def other(upstream: ScriptedUpstream) -> Iterator[Upstream]:
    """The upstream as a node knows it, once it has said what it is."""

    def with_headers(handler: Any, body: bytes) -> bool:
        named = {
            "x_aztec_l2CircuitsVkTreeRoot": "0x" + ROOT.hex(),
            "X_Aztec_L2ProtocolContractsHash": "0x" + HASH.hex(),
        }
        handler.reply(upstream.answer(body), **named)
        return True

    upstream.disturb = with_headers  # type: ignore[method-assign]
    network = Network()
    other = Upstream(upstream.url, network, patience=Patience(unavailable_s=0.01))
    other.identify()
    yield other
    network.close()


def terms(learner: Learner, **options: Any) -> UpstreamTerms:
    return UpstreamTerms(learner, AT_ONCE, **options)  # type: ignore[arg-type]


def test_values_come_from_the_headers_of_its_answers(other: Upstream) -> None:
    learner = Learner()
    terms(learner, allow_list=False).on_pass(other)
    assert learner.values == [NetworkValues(ROOT, HASH)]
    assert learner.allow_lists == []


def test_what_l1_says_goes_before_it(other: Upstream) -> None:
    learner, l1 = Learner(), NetworkValues(b"\1" * 32, b"\2" * 32)
    terms(learner, l1_values=lambda: l1).on_pass(other)
    assert learner.values == [l1]


def test_its_allow_list_is_joined(upstream: ScriptedUpstream, other: Upstream) -> None:
    upstream.answers["node_getAllowedPublicSetup"] = lambda _: [
        element.to_json() for element in (*default_allow_list(FOUR), TOKEN)
    ]
    learner = Learner()
    terms(learner).on_pass(other)
    assert learner.allow_lists == [(*default_allow_list(FOUR), TOKEN)]


@pytest.mark.parametrize("answer", [None, {}, [1], [{"address": "0x01"}], [{}] * 1001])
def test_what_is_no_allow_list_changes_nothing(answer: Any, upstream: ScriptedUpstream, other: Upstream) -> None:
    upstream.answers["node_getAllowedPublicSetup"] = lambda _: answer
    learner = Learner()
    terms(learner).on_pass(other)
    assert learner.allow_lists == []
    assert learner.values == [NetworkValues(ROOT, HASH)]


def test_a_node_without_the_method_has_none(upstream: ScriptedUpstream, other: Upstream) -> None:
    def refuse(_: list[Any]) -> Any:
        raise RejectionError(-32601, "Method not found")

    upstream.answers["node_getAllowedPublicSetup"] = refuse
    learner = Learner()
    terms(learner).on_pass(other)
    assert learner.allow_lists == []


def test_it_is_not_asked_after_every_pass(upstream: ScriptedUpstream, other: Upstream) -> None:
    upstream.answers["node_getAllowedPublicSetup"] = lambda _: []
    after_passes = terms(Learner())
    for _ in range(5):
        after_passes.on_pass(other)
    assert upstream.requests.count("node_getAllowedPublicSetup") == 1
