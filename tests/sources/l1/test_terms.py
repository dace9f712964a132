"""What contracts on L1 say beside the rollup's constants, and what is made of contracts that do not."""

from __future__ import annotations

from typing import Any

import pytest

from fastnode.errors import UpstreamRejection
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import Function
from fastnode.sources.l1.terms import (
    STATE_SLOT,
    CircuitValues,
    SlashingRounds,
    read_circuit_values,
    read_slashing_rounds,
)

ROLLUP, SLASHER, PROPOSER = (bytes([number]) * 20 for number in (1, 2, 3))
ROOT, HASH = b"\x0b" * 32, b"\x0c" * 32


class Endpoint:
    """Storage words by slot, outputs by contract and function; a rejection for anything else."""

    name = "L1 node 1"

    def __init__(self, storage: dict[int, Any] | None = None, outputs: dict[Any, Any] | None = None) -> None:
        self._storage = storage or {}
        self._outputs = outputs or {}

    def answers(self, calls: list[Any]) -> list[Any]:
        words = []
        for method, (address, slot, tag) in calls:
            assert (method, address, tag) == ("eth_getStorageAt", "0x" + ROLLUP.hex(), "latest")
            words.append(self._storage.get(int(slot, 16), UpstreamRejection(-32601, "no such method")))
        return words

    def read(self, contract: bytes, function: Function) -> tuple[Any]:
        try:
            return (self._outputs[contract, function],)
        except KeyError:
            raise UpstreamRejection(3, "execution reverted") from None


def test_the_circuits_stand_in_the_rollups_storage() -> None:
    endpoint: Any = Endpoint({STATE_SLOT + 3: "0x" + ROOT.hex(), STATE_SLOT + 4: "0x" + HASH.hex()})
    assert read_circuit_values(endpoint, ROLLUP) == CircuitValues(ROOT, HASH)


@pytest.mark.parametrize("word", [None, 5, "0x", "0x01", "zz", "0x" + "00" * 32, UpstreamRejection(-32601, "no")])
def test_a_node_that_reads_no_storage_leaves_them_unknown(word: Any) -> None:
    endpoint: Any = Endpoint({STATE_SLOT + 3: "0x" + ROOT.hex(), STATE_SLOT + 4: word})
    assert read_circuit_values(endpoint, ROLLUP) is None


def test_the_rounds_are_those_of_the_slashers_proposer() -> None:
    outputs = {
        (ROLLUP, contracts.SLASHER): SLASHER,
        (SLASHER, contracts.SLASHING_PROPOSER): PROPOSER,
        (PROPOSER, contracts.ROUND_SIZE_IN_EPOCHS): 4,
        (PROPOSER, contracts.SLASH_OFFSET_IN_ROUNDS): 2,
    }
    endpoint: Any = Endpoint(outputs=outputs)
    assert read_slashing_rounds(endpoint, ROLLUP) == SlashingRounds(4, 2)


@pytest.mark.parametrize(
    "outputs",
    [
        {},
        {(ROLLUP, contracts.SLASHER): bytes(20)},
        {(ROLLUP, contracts.SLASHER): SLASHER, (SLASHER, contracts.SLASHING_PROPOSER): bytes(20)},
        {(ROLLUP, contracts.SLASHER): SLASHER, (SLASHER, contracts.SLASHING_PROPOSER): PROPOSER},
    ],
    ids=["another rollup", "no slasher", "no proposer", "another proposer"],
)
def test_without_such_a_slasher_the_settings_stand(outputs: Any) -> None:
    endpoint: Any = Endpoint(outputs=outputs)
    assert read_slashing_rounds(endpoint, ROLLUP) is None
