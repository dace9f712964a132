"""Simulations: the recorded answers, the globals they are made with, and their limits."""

from __future__ import annotations

from typing import Any

import orjson
from tests.mempool.recorded import hashes, recorded_tx, recordings
from tests.public_execution.recorded_simulations import recorded_simulations

from fastnode.errors import TxExecutionError
from fastnode.mempool.clock import SlotClock
from fastnode.protocol.header import GasFees, GlobalVariables
from fastnode.protocol.tx import Tx
from fastnode.public_execution.answers import simulation_json
from fastnode.public_execution.executor import BlockExecutor
from fastnode.public_execution.simulation import LocalSimulator, SimulationOptions
from fastnode.public_execution.state import ViewState
from fastnode.public_execution.transaction import ExecutableTx
from fastnode.rpc.view import View

#: Of the answers that were asked for at block 106.
RECORDED_FEES = GasFees(0, 10_300_000)
RECORDED_TIMESTAMP = 1795313593


def labelled(label: str) -> Tx:
    return recorded_tx(next(h for h in hashes("fresh") if recordings()[h]["label"] == label))


def _executable(tx: Tx) -> ExecutableTx:
    return ExecutableTx.of(tx, accepts_overlong_logs=True)


def simulated(view: View, tx: Tx, block: GlobalVariables, *, skip_fee_enforcement: bool) -> dict[str, Any]:
    """The answer's ``result`` or the error's message."""
    executor = BlockExecutor(ViewState(view, block.block_number - 1), block)
    try:
        executed = executor.execute(_executable(tx), skip_fee_enforcement=skip_fee_enforcement)
    except TxExecutionError as error:
        return {"error": str(error)}
    return {"result": orjson.loads(simulation_json(executed, block))}


def simulator(view: View, **options: Any) -> LocalSimulator:
    chain = view.chain.chain
    clock = SlotClock.of_chain(chain, now=lambda: RECORDED_TIMESTAMP - 1.0)
    return LocalSimulator(clock, lambda _view: RECORDED_FEES, SimulationOptions(**options))


# ---- recorded answers ---------------------------------------------------------------------------


def test_every_recorded_simulation_has_the_recorded_answer(view: View) -> None:
    block = GlobalVariables(31337, 0, 107, 0, RECORDED_TIMESTAMP, bytes(20), bytes(32), RECORDED_FEES)
    compared = 0
    for row in recorded_simulations():
        value, skip = (*row["params"], False)[:2]
        if "result" in row:
            block = GlobalVariables.from_json(row["result"]["globalVariables"])
            wanted = {"result": row["result"]}
        else:
            wanted = {"error": row["error"]["message"]}
        try:
            found = simulated(view, Tx.from_json(value), block, skip_fee_enforcement=bool(skip))
        except ValueError:
            # What is no transaction is refused before it is executed; the reference's texts come from its decoder.
            assert "result" not in row, row.get("note")
            continue
        assert found == wanted, row.get("note")
        compared += 1
    assert compared > 220


def test_an_answer_has_its_fields_in_the_order_of_the_reference(view: View) -> None:
    answer = orjson.loads(simulator(view).simulate(labelled("nested revert"), view, skip_fee_enforcement=True))
    assert list(answer) == [
        "revertReason",
        "globalVariables",
        "txEffect",
        "publicReturnValues",
        "gasUsed",
        "debugLogs",
    ]
