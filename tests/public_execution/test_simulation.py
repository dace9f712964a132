"""Simulations: the recorded answers, the globals they are made with, and their limits."""

from __future__ import annotations

import dataclasses
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest
from tests._ext.avm_programs import assemble, put
from tests.conftest import PATIENCE_S
from tests.mempool.recorded import hashes, recorded_tx, recordings
from tests.public_execution.made import ENDLESS_LOOP, tx_running
from tests.public_execution.recorded_simulations import recorded_simulations

from fastnode._twins.avm_instructions import U8, U32
from fastnode.errors import DecodeError, ExecutionCancelled, Refused, TxExecutionError
from fastnode.kernels import USING_TWINS
from fastnode.mempool.clock import SlotClock
from fastnode.protocol.header import GasFees, GlobalVariables
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import TxData
from fastnode.protocol.tx_layout import USUAL
from fastnode.public_execution import simulation
from fastnode.public_execution.answers import simulation_json
from fastnode.public_execution.executor import BlockExecutor, programs_of
from fastnode.public_execution.results import ExecutionOptions
from fastnode.public_execution.simulation import LocalSimulator, SimulationOptions
from fastnode.public_execution.state import ViewState
from fastnode.public_execution.transaction import ExecutableTx
from fastnode.view import View

#: On the twins the hash of a transaction takes a third of a second.
STRIDE = 8 if USING_TWINS else 1
#: Names of the answers that were asked for at block 106.
RECORDED_FEES = GasFees(0, 10_300_000)
RECORDED_TIMESTAMP = 1795313593


def labelled(label: str) -> Tx:
    return recorded_tx(next(h for h in hashes("fresh") if recordings()[h]["label"] == label))


def _executable(tx: Tx) -> ExecutableTx:
    return ExecutableTx.of(tx, accepts_overlong_logs=True)


def simulated(view: View, tx: Tx, block: GlobalVariables, *, skip_fee_enforcement: bool) -> dict[str, Any]:
    """The answer's ``result`` or the error's message."""
    executor = BlockExecutor(ViewState(view, block.block_number - 1), block, programs=programs_of(FOUR))
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
    for row in recorded_simulations()[::STRIDE]:
        value, skip = (*row["params"], False)[:2]
        if "result" in row:
            block = GlobalVariables.from_json(row["result"]["globalVariables"])
            wanted = {"result": row["result"]}
        else:
            wanted = {"error": row["error"]["message"]}
        try:
            found = simulated(view, Tx.from_json(value, FOUR), block, skip_fee_enforcement=bool(skip))
        except ValueError:
            # Bytes that are no transaction are refused before execution; the reference's texts come from its decoder.
            assert "result" not in row, row.get("note")
            continue
        assert found == wanted, row.get("note")
        compared += 1
    assert STRIDE > 1 or compared == 227


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


def test_an_error_tells_every_place_of_a_program_that_went_deep(view: View) -> None:
    """INTERNALCALL_32 of the next instruction, again and again, until the code ends."""
    places = range(0, 5 * 2500, 5)
    program = b"".join(bytes((37,)) + (place + 5).to_bytes(4, "big") for place in places)
    answer = orjson.loads(simulator(view).simulate(tx_running(program), view, skip_fee_enforcement=True))
    assert answer["revertReason"]["noirErrorStack"] == [f"0.{place}" for place in (*places, len(program))]


# ---- globals ------------------------------------------------------------------------------------


def test_a_simulation_is_in_the_next_block_of_the_next_slot(view: View) -> None:
    block = simulator(view).next_block(view)
    info = view.chain.block_info(view.chain.tip_number)
    assert info is not None
    assert block.block_number == info.number + 1
    assert (block.slot_number, block.timestamp) == (0xA04, RECORDED_TIMESTAMP)
    assert block.gas_fees == RECORDED_FEES
    assert not any(block.coinbase + block.fee_recipient)


def test_a_simulation_is_not_in_a_slot_before_the_newest_blocks(view: View) -> None:
    local = simulator(view)
    local._clock = dataclasses.replace(local._clock, now=lambda: RECORDED_TIMESTAMP - 86_400.0)
    block = local.next_block(view)
    info = view.chain.block_info(view.chain.tip_number)
    assert info is not None
    assert (block.slot_number, block.timestamp) == (info.slot_number, info.timestamp)


# ---- limits -------------------------------------------------------------------------------------


def test_a_class_whose_bytecode_ends_with_zeros_runs_like_any_other(view: View) -> None:
    """SET_8 of 0 at cell 4, RETURN, then chunks of 31 zero bytes, with which the class log does not come."""
    program = bytes.fromhex("2700040400" + "3b000004" + "0000")
    for zeros in (0, 31, 62, 1000):
        answer = simulator(view).simulate(tx_running(program + bytes(zeros)), view, skip_fee_enforcement=True)
        assert orjson.loads(answer)["txEffect"]["revertCode"] == 0


def test_an_endless_program_is_given_up_after_the_time(view: View) -> None:
    tx = tx_running(ENDLESS_LOOP, l2_gas=(1 << 32) - 1)
    with pytest.raises(Refused, match="takes longer than this node allows"):
        simulator(view, timeout_s=0.2).simulate(tx, view, skip_fee_enforcement=True)


def test_a_program_that_fills_memory_is_given_up(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        simulation, "ExecutionOptions", lambda **options: ExecutionOptions(memory_bytes_max=1 << 20, **options)
    )
    # CALLDATACOPY of 2^18 cells: SET_32 at 0 and 1, then the copy from cell 0 on.
    program = bytes.fromhex("29000000" + "04" + "00040000" + "29000001" + "04" + "00000000" + "1f00000000010010")
    with pytest.raises(Refused, match="more than the 1048576 bytes of memory"):
        simulator(view).simulate(tx_running(program), view, skip_fee_enforcement=True)


def logging_program(fields: int, count: int) -> bytes:
    log = assemble("DEBUGLOG", 1, 5, 5, 2, 0)
    return put(1, U8, 3) + put(2, U32, fields) + put(3, U32, 0) + count * log + assemble("RETURN", 3, 4)


def test_each_debug_log_may_read_as_many_cells_as_the_limit_says(view: View) -> None:
    """Each log reads three fields, and two cells for itself; how many there are does not count."""
    tx = tx_running(logging_program(3, 2), calls=2)
    answer = simulator(view, debug_log_memory_reads_max=5).simulate(tx, view, skip_fee_enforcement=True)
    assert len(orjson.loads(answer)["debugLogs"]) == 4
    with pytest.raises(Refused, match=r"Max debug log memory reads exceeded: 5 > 4$"):
        simulator(view, debug_log_memory_reads_max=4).simulate(tx, view, skip_fee_enforcement=True)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ((1 << 32) - 3, "Max debug log memory reads exceeded: 4294967295 > 125000"),
        ((1 << 32) - 2, "std::bad_alloc"),  # the network's node counts with 32 bits, and then has no room
        ((1 << 32) - 1, "std::bad_alloc"),
    ],
)
def test_a_debug_log_of_all_memory_has_the_error_of_the_published_node(view: View, fields: int, text: str) -> None:
    with pytest.raises(Refused, match=f"{text}$"):
        simulator(view).simulate(tx_running(logging_program(fields, 1)), view, skip_fee_enforcement=True)


def test_messages_of_debug_logs_take_a_byte_for_each_cell(view: View) -> None:
    log = assemble("DEBUGLOG", 1, 5, 5, 2, 65_535)
    program = put(1, U8, 3) + put(2, U32, 0) + 100 * log + assemble("RETURN", 2, 4)
    answer = simulator(view).simulate(tx_running(program), view, skip_fee_enforcement=True)
    assert len(orjson.loads(answer)["debugLogs"]) == 100


def test_debug_logs_of_a_transaction_take_only_so_much_memory(view: View) -> None:
    """They cost 9 gas each, whatever they read."""
    few, many = tx_running(logging_program(100_000, 5)), tx_running(logging_program(100_000, 6))
    answer = simulator(view).simulate(few, view, skip_fee_enforcement=True)
    assert len(orjson.loads(answer)["debugLogs"]) == 5
    with pytest.raises(Refused, match="more than the 16777216 bytes of memory"):
        simulator(view).simulate(many, view, skip_fee_enforcement=True)


def test_running_simulations_end_when_the_simulator_closes(view: View) -> None:
    local = simulator(view)
    tx = tx_running(ENDLESS_LOOP, l2_gas=(1 << 32) - 1)
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(local.simulate, tx, view, skip_fee_enforcement=True)
        while not local._running:
            time.sleep(0.01)
        local.close()
        with pytest.raises(ExecutionCancelled):
            future.result()
    with pytest.raises(ExecutionCancelled):
        local.simulate(tx, view, skip_fee_enforcement=True)


class Client:
    """Somebody who waits for a simulation, and leaves when the test says so."""

    def __init__(self) -> None:
        self.at_end: list[Callable[[], None]] = []

    def call_at_end(self, stop: Callable[[], None]) -> None:
        self.at_end.append(stop)

    def forget_end(self, stop: Callable[[], None]) -> None:
        self.at_end.remove(stop)


def test_a_simulation_ends_when_its_client_leaves(view: View) -> None:
    local, leaving, staying = simulator(view, timeout_s=PATIENCE_S), Client(), Client()
    tx = tx_running(ENDLESS_LOOP, l2_gas=(1 << 32) - 1)
    with ThreadPoolExecutor(2) as threads:
        ended, going_on = (
            threads.submit(local.simulate, tx, view, skip_fee_enforcement=True, asker=asker)
            for asker in (leaving, staying)
        )
        while not (leaving.at_end and staying.at_end):
            time.sleep(0.01)
        leaving.at_end[0]()
        with pytest.raises(ExecutionCancelled):
            ended.result(PATIENCE_S)
        assert not going_on.done()
        staying.at_end[0]()
        with pytest.raises(ExecutionCancelled):
            going_on.result(PATIENCE_S)
    assert leaving.at_end == staying.at_end == []
    local.close()


# ---- anything at all ----------------------------------------------------------------------------


def _damaged(tx: Tx, rng: random.Random) -> Tx:
    """The transaction with bits flipped and parts of its data in other places; DecodeError when that is none."""
    buffer = bytearray(tx.data.buffer)
    for _ in range(rng.randrange(5)):
        source, target = (rng.randrange(USUAL.accumulated, len(buffer) - 516) for _ in range(2))
        length = rng.choice([USUAL.message_bytes, USUAL.call_request_bytes, USUAL.private_log_bytes, 32])
        if rng.random() < 0.5:
            buffer[target : target + length] = buffer[source : source + length]
        else:
            buffer[target] ^= 1 << rng.randrange(8)
    calldata = tx.calldata[: rng.randrange(3)]
    return Tx(TxData.from_buffer(bytes(buffer)), tx.proof, tx.class_logs[: rng.randrange(3)], calldata)


def test_any_simulation_gives_an_answer_or_an_error_for_the_client(view: View) -> None:
    rng = random.Random(20261121)
    local = simulator(view, timeout_s=1)
    recorded = [recorded_tx(tx_hash) for tx_hash in hashes("fresh")[::STRIDE]]
    outcomes: Counter[str] = Counter()
    for _ in range(240 // STRIDE):
        program = bytes(rng.choices(range(70), k=rng.randrange(1, 100)))
        tx = rng.choice([rng.choice(recorded), tx_running(program, l2_gas=700_000, calls=rng.randrange(1, 4))])
        try:
            local.simulate(_damaged(tx, rng), view, skip_fee_enforcement=rng.random() < 0.7)
            outcomes["answer"] += 1
        except (Refused, DecodeError) as error:
            outcomes[type(error).__name__] += 1
    assert set(outcomes) == {"answer", "Refused", "ValueRefused", "DecodeError"} or STRIDE > 1
