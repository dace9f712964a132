"""node_simulatePublicCalls through the engine: answered here, or by another node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.api.test_txs import FRESH, Node
from tests.api.test_txs import make_node as make_node
from tests.api.test_txs import node as node
from tests.mempool.recorded import hashes, recordings
from tests.public_execution.recorded_simulations import recorded_simulations

from fastnode.fees.sources import LatestFees
from fastnode.kernels import USING_TWINS
from fastnode.protocol.header import GlobalVariables
from fastnode.protocol.tx import Tx
from fastnode.public_execution.simulation import LocalSimulator, SimulationOptions

#: On the twins the hash of a transaction takes a third of a second.
STRIDE = 8 if USING_TWINS else 1
METHOD = "node_simulatePublicCalls"


def _json(tx_hash: str) -> dict[str, Any]:
    return dict(recordings()[tx_hash]["tx"])


def simulate_here(node: Node, **options: Any) -> None:
    """Let the node answer by itself, at the time and with the fees of its mempool."""
    mempool = node.mempool
    node.simulator = LocalSimulator(
        mempool.validator.clock, lambda view: mempool.fees.current(view), SimulationOptions(**options)
    )


def pretend(node: Node, block: GlobalVariables) -> None:
    """Make the node's next block have the time and the price of ``block``."""
    fees = LatestFees()
    fees.update(block.gas_fees)
    node.mempool.fees = fees
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
    node = make_node(rpc_simulate_public_max_gas_limit=1_000_000)
    for _ in range(2):
        error = node.call(METHOD, _json(FRESH[0]))["error"]
        assert error["message"] == (
            "Transaction total gas limit 7357500 (6540000 + 817500) exceeds maximum gas limit 1000000 for simulation"
        )
        simulate_here(node)


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

    node.mempool.simulator = Simulator()
    # A simulation may be of a tx that is no longer valid: it only has to be what its data commits to.
    for tx_hash in (FRESH[0], hashes("sent")[0]):
        assert node.call(METHOD, _json(tx_hash), True) == {"result": {"gasUsed": {}}}
    assert node.call(METHOD, _json(FRESH[0])) == {"result": {"gasUsed": {}}}
    assert asked == [True, True, False]
    with_calls = next(tx_hash for tx_hash in FRESH if _json(tx_hash)["publicFunctionCalldata"])
    error = node.call(METHOD, _json(with_calls) | {"publicFunctionCalldata": []})["error"]
    assert error["message"] == "Invalid tx: Wrong number of calldata for public calls"
    assert len(asked) == 3
