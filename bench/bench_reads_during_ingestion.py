"""What a client waits for while blocks arrive, beside the same node while idle.

A whole node in a process of its own loads a synthetic chain (a thousand blocks, verified, with state
trees and indexes) while one keep-alive client asks for a witness and a block, again and again; then
the same client asks the idle node as many times.  The baseline is the idle node: ``p99_ratio`` in the
extra columns.  Times are of the wall clock, client included, so close what else runs.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.plain_client import PlainClient

MAKE_CHAIN = Path(__file__).parents[1] / "scripts" / "make-chain"
BLOCKS = 1_000
SHAPE = ["--blocks", str(BLOCKS), "--txs", "2", "--nullifiers", "4"]
#: Below this many blocks there is nothing to ask about yet.
FIRST_BLOCKS = 5
DEADLINE_S = 600.0

TIP = ("node_getBlockNumber", [])
READS = (("node_getPublicDataWitness", ["latest", "0x01"]), ("node_getBlock", ["latest"]))


class Client:
    """Seconds and result of each call."""

    def __init__(self, port: int) -> None:
        self._plain = PlainClient(port)

    def call(self, method: str, parameters: list[object]) -> tuple[float, object]:
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters})
        started = time.perf_counter()
        answer = self._plain.post(body)
        return time.perf_counter() - started, orjson.loads(answer).get("result")

    def close(self) -> None:
        self._plain.close()


@pytest.fixture(scope="module")
def chain_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chain") / "chain.jsonl.gz"
    subprocess.run([MAKE_CHAIN, *SHAPE, path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def connect(port: int) -> Client:
    deadline = time.monotonic() + 60
    while True:
        try:
            return Client(port)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def percentile(seconds: list[float], share: float) -> float:
    return sorted(seconds)[int(len(seconds) * share)]


def read_while_loading(client: Client) -> list[float]:
    seconds: list[float] = []
    deadline = time.monotonic() + DEADLINE_S
    while (tip := client.call(*TIP)[1]) != BLOCKS:
        assert time.monotonic() < deadline
        if isinstance(tip, int) and tip > FIRST_BLOCKS:
            seconds += [client.call(*read)[0] for read in READS]
    return seconds


def test_reads_while_blocks_are_applied(benchmark: BenchmarkFixture, chain_file: Path, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "fastnode", "start", "--node", "--port", str(port), "--admin-port", "0"]
    command += ["--data-directory", str(tmp_path / "data"), "--chain-file", str(chain_file)]
    node = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        client = connect(port)
        try:
            busy = benchmark.pedantic(read_while_loading, args=(client,), rounds=1)
            time.sleep(1)
            idle = [client.call(*read)[0] for _ in range(len(busy) // 2) for read in READS]
        finally:
            client.close()
    finally:
        node.send_signal(signal.SIGTERM)
        node.wait(60)
    for share, name in ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")):
        benchmark.extra_info[f"{name}_busy_us"] = round(percentile(busy, share) * 1e6)
        benchmark.extra_info[f"{name}_idle_us"] = round(percentile(idle, share) * 1e6)
    benchmark.extra_info["p99_ratio"] = round(percentile(busy, 0.99) / percentile(idle, 0.99), 2)
    benchmark.extra_info["reads"] = len(busy)
