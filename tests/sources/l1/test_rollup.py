"""The rollup's facts on L1, and what is made of a node of L1 that says impossible ones."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from fastnode.archiver.source import ChainRecord
from fastnode.errors import DecodeError, UpstreamError, UpstreamRejection
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import Function
from fastnode.sources.l1.rollup import RollupFacts, Wanted, difference, read_facts

ROLLUP = b"\x01" * 20
WANTED = Wanted(chain_id=None, version=None, registry=None, rollup=ROLLUP)
#: In the order of the rollup's own questions.
NAMES = (
    "getVersion",
    "getInbox",
    "getOutbox",
    "getFeeAssetPortal",
    "L1_BLOCK_AT_GENESIS",
    "getGenesisTime",
    "getSlotDuration",
    "getEpochDuration",
    "getProofSubmissionEpochs",
    "getTargetCommitteeSize",
    "getManaLimit",
    "archiveAt",
)
#: Those that a chain file and a node say as well.
SAID_TWICE = (
    "getVersion",
    "getInbox",
    "getOutbox",
    "getFeeAssetPortal",
    "getGenesisTime",
    "getSlotDuration",
    "getEpochDuration",
    "archiveAt",
    "eth_chainId",
)
EDGES = [1, 2**31, 2**53 - 1, 2**53, 2**63, 2**64 - 1, 2**64, 2**160, 2**255, 2**256 - 1]


class Endpoint:
    """Small numbers for everything but for what a test says otherwise."""

    name = "L1 node 1"

    def __init__(self, said: dict[str, int]) -> None:
        self._said = said
        self._words = {
            function.encode()[:10]: function.name
            for function in vars(contracts).values()
            if isinstance(function, Function)
        }

    def results(self, calls: list[Any]) -> list[Any]:
        return [self._answer(method, arguments) for method, arguments in calls]

    def _answer(self, method: str, arguments: list[Any]) -> str:
        if method == "eth_chainId":
            return hex(self._said.get(method, 1))
        name = self._words[arguments[0]["data"][:10]]
        return f"0x{self._said.get(name, 1):064x}"

    def answers(self, calls: list[Any]) -> list[Any]:
        return [UpstreamRejection(-32601, "no such method")] * len(calls)

    def read(self, *_: Any) -> Any:
        raise UpstreamRejection(3, "execution reverted")

    def block(self, number: int) -> Any:
        return SimpleNamespace(number=number, hash=b"\x02" * 32)


def facts_of(**said: int) -> RollupFacts:
    endpoint: Any = Endpoint(said)
    return read_facts(endpoint, WANTED)


def node_info_of(facts: RollupFacts) -> dict[str, Any]:
    addresses = {
        "rollupAddress": facts.rollup,
        "inboxAddress": facts.inbox,
        "outboxAddress": facts.outbox,
        "feeJuicePortalAddress": facts.fee_asset_portal,
    }
    return {
        "l1ChainId": facts.chain_id,
        "rollupVersion": facts.version,
        "l1ContractAddresses": {name: "0x" + address.hex() for name, address in addresses.items()},
        "protocolContractAddresses": {},
    }


@pytest.mark.parametrize("name", [*NAMES, "eth_chainId"])
@pytest.mark.parametrize("value", EDGES)
def test_a_number_that_no_rollup_has_is_a_fault_of_the_node_that_says_it(name: str, value: int) -> None:
    try:
        facts = facts_of(**{name: value})
    except (UpstreamError, DecodeError):
        assert value >= 2**53
        return
    chain = ChainRecord.from_json({"nodeInfo": node_info_of(facts), "l1Constants": facts.l1_constants()})
    assert ChainRecord.from_json(orjson.loads(orjson.dumps(chain.to_json()))) == chain


@pytest.mark.parametrize("name", SAID_TWICE)
def test_what_a_node_of_l1_says_wrongly_is_seen_by_who_else_says_it(name: str) -> None:
    """Settings may name no chain of L1: then the first node that answers says it, and it may lie."""
    facts, source = facts_of(), random.Random(name)
    info = node_info_of(facts)
    assert difference(facts, info, facts.l1_constants(), "the file") is None
    for _ in range(5):
        false = facts_of(**{name: source.randrange(2, 2**31)})
        what = difference(false, info, facts.l1_constants(), "the file")
        assert what is not None
        assert what.startswith("L1 and the file disagree: the ")


def test_the_questions_are_those_that_are_varied_here() -> None:
    asked = Asked()
    endpoint: Any = Endpoint(asked)
    read_facts(endpoint, WANTED)
    assert sorted(asked.names) == sorted([*NAMES, "eth_chainId"])


class Asked(dict[str, int]):
    """Notes which names are looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def get(self, name: str, default: Any = None) -> Any:
        self.names.append(name)
        return default
