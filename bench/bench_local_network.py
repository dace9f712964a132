"""A local network: its start, and a transaction from its sending to its checkpointed block.

Baselines of the same run: for the start, ``python -c pass``; for a transaction sent over HTTP, the same body to a
method that does not exist, which is HTTP and JSON alone; for a token transfer, the execution of its public calls alone.

``server_cpu_ms`` in the extra columns is the processor time of the node per transaction; those of the start are in
:class:`NetworkStart`.
"""

from __future__ import annotations

import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from tests.local_network.local_chain import OPTIONS, LocalChain, Wall, for_chain
from tests.mempool.chain import SAMPLE_CHAIN
from tests.mempool.made import made_txs
from tests.mempool.recorded import hashes, recordings

from bench_start import asked, free_port
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.public_execution.block import execute_block
from fastnode.testing import RunningNetwork, local_network

TXS = 40
TICKS_S = 1 / os.sysconf("SC_CLK_TCK")


def status_of(pid: int) -> tuple[float, float]:
    """Processor seconds and megabytes of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return (int(fields[11]) + int(fields[12])) * TICKS_S, pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


# ---- the start ----------------------------------------------------------------------------------------


class NetworkStart(NamedTuple):
    """Seconds from exec to the first answer of any kind, and to the first result, which tells of the accounts' blocks;
    seconds of the processor and megabytes until then."""

    answer_s: float
    accounts_s: float
    cpu_s: float
    rss_mb: float


def start_network() -> NetworkStart:
    port, first = free_port(), None
    flags = (f"--port={port}", "--admin-port=0", "--metrics-port=0", "--disable-admin-api-key")
    # The package is compiled, as pip leaves it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begun = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "fastnode", "start", "--local-network", *flags],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as node:
        try:
            while True:
                answer, now = asked(port), time.perf_counter() - begun
                first = now if answer and first is None else first
                if answer.endswith(b'"result":5}'):
                    assert first is not None
                    return NetworkStart(first, now, *status_of(node.pid))
                assert node.poll() is None
                time.sleep(0.001)
        finally:
            node.terminate()


def test_start_to_accounts_that_can_be_used(benchmark: BenchmarkFixture) -> None:
    starts: list[NetworkStart] = []
    benchmark.group = "start"
    benchmark.pedantic(lambda: starts.append(start_network()), rounds=10, warmup_rounds=1)
    for name in NetworkStart._fields:
        values = [getattr(start, name) for start in starts[1:]]
        benchmark.extra_info[name] = (
            f"{statistics.median(values):.3f} (least {min(values):.3f}, most {max(values):.3f})"
        )
    benchmark.extra_info["note"] = "the times of the table are with the stop"


def test_start_of_python_alone(benchmark: BenchmarkFixture) -> None:
    benchmark.group = "start"
    benchmark.pedantic(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), rounds=5)


# ---- a private transaction over HTTP --------------------------------------------------------------------


@pytest.fixture(scope="module")
def network() -> Iterator[RunningNetwork]:
    with local_network() as running:
        yield running


def bodies(network: RunningNetwork, method: str) -> Iterator[bytes]:
    header, version = network.call("node_getBlockHeader", "latest"), network.call("node_getVersion")
    for tx in made_txs(TXS):
        yield orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": [for_chain(tx, header, version)]})


def send_all(benchmark: BenchmarkFixture, network: RunningNetwork, method: str) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = []
    left = bodies(network, method)
    connection = http.client.HTTPConnection("127.0.0.1", int(network.url.rpartition(":")[2]))

    def post(body: bytes) -> None:
        connection.request("POST", "/", body, {"Content-Type": "application/json"})
        answers.append(orjson.loads(connection.getresponse().read()))

    before = status_of(network.pid)[0]
    benchmark.group = "a private transaction over HTTP"
    benchmark.pedantic(post, setup=lambda: ((next(left),), {}), rounds=TXS)
    benchmark.extra_info["server_cpu_ms"] = round((status_of(network.pid)[0] - before) / TXS * 1000, 1)
    connection.close()
    return answers


def test_private_tx_to_its_checkpointed_block(benchmark: BenchmarkFixture, network: RunningNetwork) -> None:
    with network.rolled_back():
        answers = send_all(benchmark, network, "node_sendTx")
        assert not any("error" in answer for answer in answers)
        assert network.call("node_getL2Tips")["checkpointed"]["block"]["number"] == 5 + TXS


def test_the_same_body_to_no_method(benchmark: BenchmarkFixture, network: RunningNetwork) -> None:
    answers = send_all(benchmark, network, "node_noSuchMethod")
    assert all("error" in answer for answer in answers)


# ---- a token transfer -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded_chain() -> Iterator[LocalChain]:
    """The chain that comes with the package, going on as a local network at its own time."""
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalChain(Path(directory), OPTIONS, chain_file=SAMPLE_CHAIN, wall=Wall(0.0)) as chain,
    ):
        yield chain


def transfer() -> dict[str, Any]:
    """A public token transfer that was never sent."""
    label = "token public transfer"
    found: dict[str, Any] = next(
        recordings()[item]["tx"] for item in hashes("fresh") if recordings()[item]["label"] == label
    )
    return found


def test_token_transfer_to_its_checkpointed_block(benchmark: BenchmarkFixture, recorded_chain: LocalChain) -> None:
    chain, body = recorded_chain, orjson.dumps(transfer())
    tip = chain.tip
    snapshots = [chain.changes.snapshot()]

    def again() -> tuple[tuple[()], dict[str, Any]]:
        chain.changes.revert(snapshots.pop())
        snapshots.append(chain.changes.snapshot())
        return (), {}

    def send() -> None:
        chain.send(Tx.from_json(orjson.loads(body), FOUR))
        assert chain.tip == tip + 1

    benchmark.group = "a token transfer, in process"
    benchmark.pedantic(send, setup=again, rounds=TXS)
    chain.changes.revert(snapshots.pop())


def test_its_public_calls_alone(benchmark: BenchmarkFixture, recorded_chain: LocalChain) -> None:
    tx, view = Tx.from_json(transfer(), FOUR), recorded_chain.view
    block = recorded_chain.header().global_variables
    benchmark.group = "a token transfer, in process"
    assert execute_block(view, block, [tx]).left_out == []
    benchmark.pedantic(lambda: execute_block(view, block, [tx]), rounds=TXS)
