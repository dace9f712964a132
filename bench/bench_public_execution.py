"""Simulations: a token transfer, an AMM swap and a bulk storage test, in process and over HTTP.

No two transactions of a run are the same, so each is hashed: one chain of 929 permutations, which takes most of the
time.  Baselines of the same run: the bare kernel on the fields of that hash, and for HTTP the same bodies to a
method that does not exist, which is HTTP and JSON alone.  The server of the HTTP figures is a process of its own
(simulation_server.py); ``server_cpu_ms`` in the extra columns is its processor time for each.
"""

from __future__ import annotations

import itertools
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.plain_client import PlainClient
from bench.simulation_scenarios import SCENARIOS, different_txs, state_before

from fastnode.artifacts.naming import Naming
from fastnode.artifacts.store import ArtifactStore
from fastnode.kernels import poseidon2
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_layout import USUAL
from fastnode.public_execution.answers import simulation_json
from fastnode.public_execution.executor import BlockExecutor, programs_of
from fastnode.public_execution.trace_answers import trace_json
from fastnode.public_execution.tracing import Trace, TraceOptions
from fastnode.public_execution.transaction import ExecutableTx

NAMES = list(SCENARIOS)
PER_ROUND = 100
ROUNDS = 5


# ---- in process ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_execute_what_is_decoded(benchmark: BenchmarkFixture, name: str) -> None:
    step, state, block = state_before(SCENARIOS[name])
    tx = ExecutableTx.of(Tx.from_json(next(different_txs(step, 1)), FOUR))
    executed = benchmark(lambda: BlockExecutor(state, block, programs=programs_of(FOUR)).execute(tx))
    assert executed.effect.revert_code == 0


@pytest.mark.parametrize("name", NAMES)
def test_decode_execute_and_render(benchmark: BenchmarkFixture, name: str) -> None:
    step, state, block = state_before(SCENARIOS[name])
    value = next(different_txs(step, 1))

    def simulate() -> bytes:
        executed = BlockExecutor(state, block, programs=programs_of(FOUR)).execute(
            ExecutableTx.of(Tx.from_json(value, FOUR))
        )
        return simulation_json(executed, block)

    assert b'"revertCode":0' in benchmark(simulate)


@pytest.mark.parametrize("steps_max", [0, 50_000])
@pytest.mark.parametrize("name", NAMES)
def test_trace_what_is_decoded(benchmark: BenchmarkFixture, name: str, steps_max: int) -> None:
    """With its answer; beside test_execute_what_is_decoded.  No contract has a name here."""
    step, state, block = state_before(SCENARIOS[name])
    tx = ExecutableTx.of(Tx.from_json(next(different_txs(step, 1)), FOUR))
    nameless: Any = SimpleNamespace(tip_number=0, block_info=lambda _number: None)
    naming = Naming(ArtifactStore(None), nameless)

    def trace() -> bytes:
        traced = Trace(TraceOptions(steps_max=steps_max))
        executed = BlockExecutor(state, block, programs=programs_of(FOUR)).execute(tx, trace=traced)
        return trace_json(traced, tx, executed, block, {}, naming)

    assert b'"revertCode":0' in benchmark(trace)


def test_baseline_the_kernel_on_the_fields_of_the_hash(benchmark: BenchmarkFixture) -> None:
    fields = (7).to_bytes(32, "big") * (1 + USUAL.public_hash_fields)
    benchmark(lambda: poseidon2.hash_fields(fields))


# ---- over HTTP ----------------------------------------------------------------------------------


class ServerProcess:
    def __init__(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("simulation_server.py"))]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def processor_seconds(self) -> float:
        numbers = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    process = ServerProcess()
    yield process
    process.close()


def _bodies(method: str, name: str) -> Iterator[bytes]:
    step, _, _ = state_before(SCENARIOS[name])
    for tx in different_txs(step, (ROUNDS + 1) * PER_ROUND):
        yield orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": [tx, True]})


class Clients:
    """Keep-alive connections that post bodies, each as soon as its last one is answered."""

    def __init__(self, port: int, count: int) -> None:
        self._connections = [PlainClient(port) for _ in range(count)]

    def send_all(self, bodies: list[bytes]) -> list[bytes]:
        work: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        for body in [*bodies, *[None] * len(self._connections)]:
            work.put(body)
        answers: list[bytes] = []

        def run(connection: PlainClient) -> None:
            while (body := work.get()) is not None:
                answers.append(connection.post(body))

        threads = [threading.Thread(target=run, args=(connection,)) for connection in self._connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


def _measure(benchmark: BenchmarkFixture, server: ServerProcess, clients: int, method: str, name: str) -> list[Any]:
    bodies = _bodies(method, name)
    connected = Clients(server.port, clients)
    connected.send_all(list(itertools.islice(bodies, PER_ROUND)))
    parts = iter([list(itertools.islice(bodies, PER_ROUND)) for _ in range(ROUNDS)])
    answers: list[bytes] = []
    before = server.processor_seconds()
    benchmark.pedantic(lambda: answers.extend(connected.send_all(next(parts))), rounds=ROUNDS)
    spent = server.processor_seconds() - before
    connected.close()
    count = ROUNDS * PER_ROUND
    benchmark.extra_info["server_cpu_ms"] = round(1e3 * spent / count, 2)
    benchmark.extra_info["wall_ms"] = round(1e3 * benchmark.stats.stats.median / PER_ROUND, 2)
    benchmark.extra_info["per_s"] = round(PER_ROUND / benchmark.stats.stats.median)
    return [orjson.loads(answer) for answer in answers]


@pytest.mark.parametrize("clients", [1, 2, 4, 16])
@pytest.mark.parametrize("name", NAMES)
def test_simulate_over_http(benchmark: BenchmarkFixture, server: ServerProcess, name: str, clients: int) -> None:
    answers = _measure(benchmark, server, clients, "node_simulatePublicCalls", name)
    assert all(answer["result"]["txEffect"]["revertCode"] == 0 for answer in answers)


@pytest.mark.parametrize("clients", [1, 4])
@pytest.mark.parametrize("name", NAMES)
def test_baseline_the_same_bodies_to_no_method(
    benchmark: BenchmarkFixture, server: ServerProcess, name: str, clients: int
) -> None:
    answers = _measure(benchmark, server, clients, "node_noSuchMethod", name)
    assert all(answer["error"]["code"] == -32601 for answer in answers)
