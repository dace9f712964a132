"""node_simulatePublicCalls through the engine: answered here, or by another node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.api.test_txs import FRESH, Node
from tests.api.test_txs import make_node as make_node
from tests.api.test_txs import node as node
from tests.mempool.recorded import hashes, recordings
from tests.public_execution.recorded_simulations import recorded_simulations
from tests.sources.l1.derivation.test_release_5 import instance_of_vectors

from fastnode.api.simulation import OVERRIDES
from fastnode.errors import Refused
from fastnode.kernels import USING_TWINS
from fastnode.protocol.fields import field_from_int, hex_text
from fastnode.protocol.header import GlobalVariables
from fastnode.protocol.tx import Tx
from fastnode.public_execution.overrides import Overrides
from fastnode.public_execution.service import GAS_LIMIT_MAX, Simulation
from fastnode.public_execution.simulation import LocalSimulator, SimulationOptions
from fastnode.values.refusal import Reject

#: On the twins the hash of a transaction takes a third of a second.
STRIDE = 8 if USING_TWINS else 1
METHOD = "node_simulatePublicCalls"
ONE = hex_text(field_from_int(1))
SLOT = {"contract": ONE, "slot": "0x2", "value": "0x3"}


def _json(tx_hash: str) -> dict[str, Any]:
    return dict(recordings()[tx_hash]["tx"])


def simulate_here(node: Node, *, gas_limit_max: int = GAS_LIMIT_MAX, **options: Any) -> None:
    """Let the node answer by itself, at the time of its mempool."""
    local = LocalSimulator(node.mempool.clock, node.fees.current, SimulationOptions(**options), node.names)
    node.simulation = Simulation(local, gas_limit_max=gas_limit_max)


def pretend(node: Node, block: GlobalVariables) -> None:
    """Make the node's next block have the time and the price of ``block``."""
    node.fees.price = block.gas_fees
    node.now = block.timestamp - node.mempool.validator.clock.l1_slot_duration


# ---- here -----------------------------------------------------------------------------------------------------


def test_every_answer_recorded_at_the_tip_is_given_in_full(node: Node) -> None:
    simulate_here(node)
    compared = 0
    for row in recorded_simulations()[::STRIDE]:
        if "result" in row:
            block = GlobalVariables.from_json(row["result"]["globalVariables"])
            if block.block_number != node.view.chain.tip_number + 1:
                continue
            pretend(node, block)
            assert node.call(METHOD, *row["params"]) == {"result": row["result"]}, row.get("note")
            compared += 1
    assert STRIDE > 1 or compared == 167


def test_a_tx_that_no_block_can_include_is_an_error_with_the_reason(node: Node) -> None:
    simulate_here(node)
    error = node.call(METHOD, _json(hashes("sent")[-1]), True)["error"]
    assert error["code"] == -32000
    assert error["data"] == {"code": "SIMULATION_FAILED"}
    assert error["message"].startswith("C++ simulation failed: AVM simulation failed: Attempted to emit duplicate")


@pytest.mark.parametrize(
    "broken", [{"data": "AAAA", "chonkProof": "AAAA"}, {"data": "AAAA"}, {"data": "////" * 20_000}]
)
def test_what_cannot_be_decoded_is_refused_and_the_next_one_answered(node: Node, broken: dict[str, str]) -> None:
    simulate_here(node)
    error = node.call(METHOD, _json(FRESH[0]) | broken)["error"]
    assert error["code"] == -32602
    assert error["message"].startswith("Invalid params: tx (parameter 1) is no transaction: ")
    assert "result" in node.call(METHOD, _json(FRESH[0]), True)


def test_a_class_log_without_its_content_is_refused(node: Node) -> None:
    simulate_here(node)
    with_class = next(tx_hash for tx_hash in hashes("sent") if _json(tx_hash)["contractClassLogFields"])
    error = node.call(METHOD, _json(with_class) | {"contractClassLogFields": []})["error"]
    assert error["code"] == -32602
    assert "contractClassLogFields: 0 logs, the data has 1" in error["message"]


def test_a_simulation_that_takes_too_long_is_given_up(node: Node) -> None:
    simulate_here(node, timeout_s=0.0)
    with_calls = next(tx_hash for tx_hash in FRESH if _json(tx_hash)["publicFunctionCalldata"])
    error = node.call(METHOD, _json(with_calls), True)["error"]
    assert error["message"] == "Public execution takes longer than this node allows"


def test_debug_logs_may_read_only_so_much(node: Node) -> None:
    simulate_here(node, debug_log_memory_reads_max=10)
    talkative = next(tx_hash for tx_hash in FRESH if recordings()[tx_hash]["label"] == "debug logging")
    message = node.call(METHOD, _json(talkative), True)["error"]["message"]
    assert message.startswith("C++ simulation failed: AVM simulation failed: Max debug log memory reads exceeded: ")
    assert message.endswith(" > 10")


def test_a_simulation_has_a_gas_cap(make_node: Callable[..., Node]) -> None:
    node = make_node()
    node.simulation = Simulation(gas_limit_max=1_000_000)
    for _ in range(2):
        error = node.call(METHOD, _json(FRESH[0]))["error"]
        assert error["message"] == (
            "Transaction total gas limit 7357500 (6540000 + 817500) exceeds maximum gas limit 1000000 for simulation"
        )
        simulate_here(node, gas_limit_max=1_000_000)


# ---- overrides ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "must be an object with publicStorage (an array) and contracts (an object), or one of them, got an array"),
        ({"publicStorage": {}}, ".publicStorage must be an array of at most 1000, got an object"),
        ({"publicStorage": [SLOT, {}]}, ".publicStorage[1].contract is required"),
        ({"publicStorage": [SLOT | {"value": 7}]}, ".publicStorage[0].value must be a field element"),
        ({"publicStorage": [SLOT] * 1001}, ".publicStorage must be an array of at most 1000, got 1001"),
        ({"contracts": []}, ".contracts must be an object of addresses with an instance each, got an array"),
        ({"contracts": {"me": {}}}, '.contracts must have addresses as keys, got "me"'),
        ({"contracts": {ONE: {}}}, f".contracts.{ONE} must be an object with an instance, got an object"),
        ({"contracts": {ONE: {"instance": {}}}}, f".contracts.{ONE}.instance is no contract instance: "),
        (
            {"contracts": {hex_text(field_from_int(number)): {} for number in range(101)}},
            ".contracts must have at most 100 contracts",
        ),
    ],
)
def test_overrides_that_are_none_are_refused_by_their_place(value: Any, reason: str) -> None:
    with pytest.raises(Reject) as refused:
        OVERRIDES.from_json(value)
    said = f"{refused.value.path} {refused.value.reason}".strip()
    assert said.startswith(reason)


def test_an_instance_stands_under_its_own_address(data_directory: Path) -> None:
    instance = instance_of_vectors(data_directory)
    record = {"instance": instance.to_json()}
    assert OVERRIDES.from_json({"contracts": {hex_text(instance.address): record}}) == Overrides(contracts=(instance,))
    with pytest.raises(Reject, match=f"^is the instance of {hex_text(instance.address)}$"):
        OVERRIDES.from_json({"contracts": {ONE: record}})


def test_overrides_that_name_nothing_are_none() -> None:
    for value in ({}, {"publicStorage": None, "contracts": {}}, {"publicStorage": [], "contracts": None}):
        assert OVERRIDES.from_json(value) is None


# ---- elsewhere ------------------------------------------------------------------------------------------------


def test_without_a_simulator_the_answer_says_so(node: Node) -> None:
    error = node.call(METHOD, _json(FRESH[0]))["error"]
    assert error["message"] == "no public simulator is configured"
    assert error["code"] == -32000


def test_another_simulator_gets_what_holds_together(node: Node) -> None:
    asked: list[bool] = []

    class Simulator:
        def simulate(self, tx: Tx, *, skip_fee_enforcement: bool) -> bytes:
            asked.append(skip_fee_enforcement)
            return b'{"gasUsed":{}}'

    node.simulation = Simulation(other=Simulator())
    # A simulation may be of a tx that is no longer valid: it only has to be what its data commits to.
    for tx_hash in (FRESH[0], hashes("sent")[0]):
        assert node.call(METHOD, _json(tx_hash), True) == {"result": {"gasUsed": {}}}
    assert node.call(METHOD, _json(FRESH[0])) == {"result": {"gasUsed": {}}}
    assert asked == [True, True, False]
    with_calls = next(tx_hash for tx_hash in FRESH if _json(tx_hash)["publicFunctionCalldata"])
    error = node.call(METHOD, _json(with_calls) | {"publicFunctionCalldata": []})["error"]
    assert error["message"] == "Invalid tx: Wrong number of calldata for public calls"
    assert len(asked) == 3


def test_another_simulator_gets_no_overrides(node: Node) -> None:
    """It may be of a release that does not read them, and would answer as if there were none."""

    class Simulator:
        def simulate(self, tx: Tx, *, skip_fee_enforcement: bool) -> bytes:
            raise AssertionError

    tx = Tx.from_json(_json(FRESH[0]), node.view.chain.chain.release)
    with pytest.raises(Refused, match=r"^overrides \(parameter 3\) are not applied: "):
        Simulation(other=Simulator()).simulate(tx, node.view, skip_fee_enforcement=True, overrides=Overrides())


# ---- names --------------------------------------------------------------------------------------------------


def test_a_registered_name_stands_beside_its_selector_in_debug_logs_and_stacks(node: Node) -> None:
    """The names that clients register, and nothing else, are added to the answer."""
    simulate_here(node)
    talkative = next(tx_hash for tx_hash in FRESH if recordings()[tx_hash]["label"] == "debug logging")
    without = node.call(METHOD, _json(talkative), True)["result"]
    assert without["debugLogs"]
    assert not any("functionName" in entry for entry in without["debugLogs"])
    # Whatever is called, at the top or from there, has this name.
    node.names.name_of = lambda selector: "talk" if len(selector) == 4 else None  # type: ignore[method-assign]
    entries = node.call(METHOD, _json(talkative), True)["result"]["debugLogs"]
    assert {entry.pop("functionName", None) for entry in entries} == {"talk"}
    assert entries == without["debugLogs"]
