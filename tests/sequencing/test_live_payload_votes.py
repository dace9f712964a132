"""Votes of a proposer on a real L1 whose slasher takes whole payloads: made, backed, elected, executed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.publishing.live_l1 import EPOCH_SLOTS, address_of, needs_anvil, test_key
from tests.sequencing.network import REGISTRY, ProposingNetwork, proposing_network, tips, warm_up
from tests.sequencing.test_live_votes import ALL_KEYS, mine_transaction, slashing_proposer

from fastnode.publishing import votes as forms
from fastnode.sentinel.offense_store import OFFENSES_DIRECTORY, OffenseStore
from fastnode.sentinel.offenses import Offense, OffenseType
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED

pytestmark = needs_anvil

#: Contract of the deployment, whose rounds are epochs: three signals of four elect.
FACTORY = "0xa85233c63b9ee964add6f2cffe00fd84eb32338f"
KNOWN = {
    CHECKPOINT_PROPOSED: "proposal",
    forms.PAYLOAD_CREATED: "payload",
    forms.SIGNAL_CAST: "signal",
    forms.PAYLOAD_SUBMITTABLE: "elected",
    forms.PAYLOAD_SUBMITTED: "executed",
}
AMOUNT = 10**19


@pytest.fixture
def voting(tmp_path: Path, start_node: Callable[..., Any]) -> Iterator[ProposingNetwork]:
    """Four of six validators."""
    with proposing_network("committee_that_votes_for_payloads", tmp_path, start_node) as network:
        warm_up(network.anvil)
        yield network


def done(network: ProposingNetwork, slot: int) -> tuple[list[str], set[str]]:
    """Events of the transaction of a slot, and the payloads that it was about."""
    logs = [log for log in mine_transaction(network, slot) if log["topics"][0] in KNOWN]
    about = {log["topics"][1][-40:] for log in logs if KNOWN[log["topics"][0]] != "proposal"}
    return [KNOWN[log["topics"][0]] for log in logs], about


def remember(network: ProposingNetwork, data: str, *offenses: Offense) -> None:
    """Give a node with this data directory offenses that it has seen before."""
    node = network.node(data=data)
    genesis = bytes.fromhex(tips(node)["proposed"]["hash"][2:])
    assert node.stop() == 0
    store = OffenseStore.open(network.directory / data / OFFENSES_DIRECTORY, genesis)
    store.add(offenses, (), 0)
    store.close()


def test_an_offense_is_put_into_a_payload_that_is_backed_elected_and_executed(voting: ProposingNetwork) -> None:
    number = voting.slot // EPOCH_SLOTS + 2
    first = number * EPOCH_SLOTS
    guilty = address_of(test_key(1))
    remember(voting, "voter", Offense(guilty, AMOUNT, OffenseType.DUPLICATE_PROPOSAL, first - EPOCH_SLOTS - 2))
    voting.begin_slot(first)
    flags = ("--slash-factory-address", FACTORY, "--slash-max-penalty-percentage", 1_000_000)
    penalty = ("--slash-duplicate-proposal-penalty", AMOUNT)
    proposer = voting.proposer(*flags, *penalty, keys=ALL_KEYS, data="voter")
    what, payloads = done(voting, first)
    assert what == ["proposal", "payload", "signal"], voting.log()
    assert len(payloads) == 1
    assert done(voting, voting.begin_slot()) == (["proposal", "signal"], payloads), voting.log()
    assert done(voting, voting.begin_slot()) == (["proposal", "signal", "elected"], payloads), voting.log()
    assert done(voting, voting.begin_slot()) == (["proposal"], set()), "it has won"
    what, executed = done(voting, voting.begin_slot())
    assert (what, executed) == (["proposal", "executed"], payloads), voting.log()
    assert proposer.stop() == 0


def test_the_operators_payload_is_backed_whatever_is_known(voting: ProposingNetwork) -> None:
    voting.begin_slot((voting.slot // EPOCH_SLOTS + 1) * EPOCH_SLOTS)
    proposer = voting.proposer("--slash-override-payload", REGISTRY, keys=ALL_KEYS)
    assert done(voting, voting.slot) == (["proposal", "signal"], {REGISTRY[2:]}), voting.log()
    assert slashing_proposer(voting)
    assert proposer.stop() == 0
