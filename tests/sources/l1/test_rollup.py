"""The rollup's facts on L1, and what is made of a node of L1 that says impossible ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from fastnode.archiver.source import ChainRecord
from fastnode.errors import DecodeError, UpstreamError, UpstreamRejection
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import Function
from fastnode.sources.l1.rollup import RollupFacts, Wanted, read_facts

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
