"""Votes of a proposer on a real L1: signals of governance and votes on offenses, with the checkpoint or alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import NodeProcess
from tests.publishing.live_l1 import EPOCH_SLOTS, ROLLUP, needs_anvil, test_key
from tests.sequencing.network import L1_SLOT_S, REGISTRY, ProposingNetwork, proposing_network, selector, wait_until

from fastnode.publishing.votes import SIGNAL_CAST, VOTE_CAST
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED

pytestmark = needs_anvil

GOVERNANCE_PROPOSER = "0xa51c1fc2f0d1a1b8494ed1fe312d7c3a78ed91c0"
ALL_KEYS = range(6)
#: Has code, which is all that a signal asks for.
PAYLOAD = REGISTRY
#: Of the contracts: rounds of one epoch, voted on two rounds later.
OFFSET = 2


@pytest.fixture
def voting(tmp_path: Path, start_node: Callable[..., Any]) -> Iterator[ProposingNetwork]:
    """Four of six validators, with a slasher that tallies votes."""
    with proposing_network("committee_that_votes", tmp_path, start_node) as network:
        yield network


def mine_transaction(network: ProposingNetwork, slot: int) -> list[dict[str, Any]]:
    """The logs of the one transaction that waits, mined in its slot."""
    wait_until(network.anvil.pool, network.log)
    [transaction] = network.anvil.pool()
    network.anvil.mine(max(network.start_of(slot), network.anvil.timestamp + L1_SLOT_S))
    receipt = network.anvil.call("eth_getTransactionReceipt", transaction["hash"])
    return receipt["logs"]  # type: ignore[no-any-return]


def topics(logs: list[dict[str, Any]]) -> list[str]:
    known = {CHECKPOINT_PROPOSED: "proposal", SIGNAL_CAST: "signal", VOTE_CAST: "vote"}
    return [known[log["topics"][0]] for log in logs if log["topics"][0] in known]


def ask(network: ProposingNetwork, contract: str, signature: str, *words: int) -> str:
    data = selector(signature) + "".join(f"{word:064x}" for word in words)
    answer: str = network.anvil.call("eth_call", {"to": contract, "data": data}, "latest")
    return answer[2:]


def slashing_proposer(network: ProposingNetwork) -> str:
    slasher = ask(network, "0x" + ROLLUP.hex(), "getSlasher()")[-40:]
    return "0x" + ask(network, "0x" + slasher, "PROPOSER()")[-40:]


def vote_of(network: ProposingNetwork, number: int, index: int) -> list[int]:
    """Units for each place."""
    answer = bytes.fromhex(ask(network, slashing_proposer(network), "getVotes(uint256,uint256)", number, index))
    data = answer[64 : 64 + int.from_bytes(answer[32:64], "big")]
    return [byte >> 2 * place & 3 for byte in data for place in range(4)]


def signals(network: ProposingNetwork, slot: int) -> int:
    number = int(ask(network, GOVERNANCE_PROPOSER, "computeRound(uint256)", slot), 16)
    rollup, payload = int.from_bytes(ROLLUP, "big"), int(PAYLOAD, 16)
    return int(ask(network, GOVERNANCE_PROPOSER, "signalCount(address,uint256,address)", rollup, number, payload), 16)


def in_slot(network: ProposingNetwork, node: NodeProcess) -> list[str]:
    """What the node's transaction of the next slot has done."""
    logs = mine_transaction(network, network.begin_slot())
    wait_until(lambda: node.call("node_getL2Tips"), network.log)
    return topics(logs)


def test_votes_go_with_the_checkpoint_behind_the_proposal(voting: ProposingNetwork) -> None:
    # The begin of an epoch, so that the next slot is in the same round.
    number = voting.slot // EPOCH_SLOTS + 1
    voting.begin_slot(number * EPOCH_SLOTS)
    committee = voting.committee((number - OFFSET) * EPOCH_SLOTS)
    slashed, spared = (test_key(member).address for member in committee[1:3])
    proposer = voting.proposer(
        *("--governance-proposer-payload", PAYLOAD, "--slash-validators-always", f"{slashed},{spared}"),
        *("--slash-self-allowed", "--slash-validators-never", spared),
        keys=ALL_KEYS,
    )
    slot = voting.slot
    assert topics(mine_transaction(voting, slot)) == ["proposal", "signal", "vote"], voting.log()
    assert vote_of(voting, number, 0) == [0, 3, 0, 0]
    assert signals(voting, slot) == 1
    proposer.wait_for_line("voted")
    assert in_slot(voting, proposer) == ["proposal", "signal", "vote"], voting.log()
    assert signals(voting, slot) in (1, 2)  # another round may have begun
    assert proposer.stop() == 0


def test_votes_are_cast_alone_where_there_is_no_checkpoint(voting: ProposingNetwork) -> None:
    texts = ",".join("0x" + test_key(index).reveal().hex() for index in ALL_KEYS)
    proposer = voting.node("--sequencer", "--governance-proposer-payload", PAYLOAD, VALIDATOR_PRIVATE_KEYS=texts)
    logs = mine_transaction(voting, voting.slot)
    assert topics(logs) == ["signal"], voting.log()
    assert voting.pending == 0
    assert proposer.stop() == 0


def test_own_validators_are_not_voted_on_unless_that_is_asked_for(voting: ProposingNetwork) -> None:
    proposer = voting.proposer("--slash-validators-always", test_key(3).address, keys=ALL_KEYS)
    assert topics(mine_transaction(voting, voting.slot)) == ["proposal"], voting.log()
    assert proposer.stop() == 0


def test_where_votes_are_tallied_offenses_are_looked_for_and_payloads_refused(voting: ProposingNetwork) -> None:
    """Without a word about statistics: L1 tells who is drawn."""
    node = voting.node()
    answer = node.call_admin("nodeAdmin_getSlashOffenses", "all")
    assert answer["result"] == []
    refusal = node.call_admin("nodeAdmin_getSlashPayloads")["error"]
    assert refusal["message"] == "Tally slashing model does not support slash payloads"
    quiet = voting.node("--validator-disabled")
    assert quiet.call_admin("nodeAdmin_getSlashOffenses", "all")["error"]["data"]["code"] == "SLASHER_NOT_ENABLED"
