"""Questions and answers of releases whose methods are others: nothing that a node may say ends the reader."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from tests.mutated_answers import SCALARS, Mutator
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import IN_FIVE, scripted_upstream

from fastnode.outgoing.network import Network
from fastnode.protocol.releases import FIVE, FOUR, Release
from fastnode.sources.dialects import phrased
from fastnode.sources.upstreams import Upstream

CALLS = [
    ("node_getL2Tips", []),
    ("node_getBlockHeader", [1]),
    ("node_getBlocks", [1, 5]),
    ("node_getCheckpoints", [1, 5]),
    ("node_getPendingTxs", [10]),
    ("node_getPendingTxs", [10, "0x01"]),
    ("node_getTxByHash", ["0x01"]),
    ("node_getValidatorStats", ["0x01", None, None]),
    ("node_getCurrentMinFees", []),
]


@pytest.fixture
def release() -> Release:
    return FIVE


def test_a_node_of_4_x_is_asked_as_it_is() -> None:
    asked, reads = phrased(FOUR.method_set, CALLS)
    assert asked == CALLS
    assert all(read(value) is value for read in reads for value in SCALARS)


def test_options_stand_behind_all_parameters_of_4_x() -> None:
    asked = dict(enumerate(phrased(FIVE.method_set, CALLS)[0]))
    assert asked[0] == ("node_getChainTips", [])
    assert asked[4] == ("node_getPendingTxs", [10, None, {"includeProof": True}])
    assert asked[5] == ("node_getPendingTxs", [10, "0x01", {"includeProof": True}])


def test_what_a_node_of_5_x_says_is_what_one_of_4_x_would(chain: MadeChain) -> None:
    """Compare answers of the same chain to the questions that this node asks."""
    with scripted_upstream(chain) as upstream, Network() as network:
        other = Upstream(upstream.url, network, takes_untried=True)
        other.identify()
        assert other.release is FIVE
        for name, parameters in CALLS[:4]:
            handler = upstream.answers[name]
            (given,) = other.ask([(name, parameters)]).results()
            wanted = json.loads(json.dumps(handler(list(parameters))))
            assert _without(given, {"hash", "published"}) == _without(wanted, {"hash"}), name


def _without(value: Any, names: set[str]) -> Any:
    """The number of a block is in its header too."""
    if isinstance(value, list):
        return [_without(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    dropped = names | ({"number"} if "body" in value else set())
    return {name: _without(item, names) for name, item in value.items() if name not in dropped}


def test_answers_of_any_form_are_read(chain: MadeChain) -> None:
    """Thousands of damaged answers: what makes no sense is for the next reader to refuse."""
    mutator, chance = Mutator(5), random.Random(6)
    with scripted_upstream(chain) as upstream:
        forms = [form for form in IN_FIVE.values() if form[0] in dict(CALLS[:4])]
        whole = [shown(upstream.answers[name]([1, 5])) for name, _, shown in forms]
    _, reads = phrased(FIVE.method_set, CALLS)
    for _ in range(2_000):
        value: Any = chance.choice(whole)
        for _ in range(chance.choice((1, 2, 5))):
            value = mutator.changed(value)
        for read in reads:
            read(value)
