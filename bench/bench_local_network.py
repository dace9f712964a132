"""A local network: its start, and a transaction from its sending to its checkpointed block.

Baselines of the same run: for the start, ``python -c pass``; for a transaction sent over HTTP, the same body to a
method that does not exist, which is HTTP and JSON alone; for a token transfer, the execution of its public calls alone.

``server_cpu_ms`` in the extra columns is the processor time of the node per transaction, ``rss_mb`` its memory.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from tests.local_network.local_chain import OPTIONS, LocalChain, Wall, for_chain
from tests.mempool.chain import SAMPLE_CHAIN
from tests.mempool.made import made_txs
from tests.mempool.recorded import hashes, recordings

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


def test_start_to_accounts_that_can_be_used(benchmark: BenchmarkFixture) -> None:
    memory: list[float] = []

    def start_and_ask() -> None:
        with local_network() as network:
            assert network.block_number == 5
            memory.append(status_of(network.pid)[1])

    benchmark.group = "start"
    benchmark.pedantic(start_and_ask, rounds=5)
    benchmark.extra_info["rss_mb"] = round(max(memory))
    benchmark.extra_info["note"] = "with the stop"


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
        chain.send(Tx.from_json(orjson.loads(body)))
        assert chain.tip == tip + 1

    benchmark.group = "a token transfer, in process"
    benchmark.pedantic(send, setup=again, rounds=TXS)
    chain.changes.revert(snapshots.pop())


def test_its_public_calls_alone(benchmark: BenchmarkFixture, recorded_chain: LocalChain) -> None:
    tx, view = Tx.from_json(transfer()), recorded_chain.view
    block = recorded_chain.header().global_variables
    benchmark.group = "a token transfer, in process"
    assert execute_block(view, block, [tx]).left_out == []
    benchmark.pedantic(lambda: execute_block(view, block, [tx]), rounds=TXS)
