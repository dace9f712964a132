"""Transactions: decoding, hashing and validating one, sending many over HTTP, a page of pending ones.

Baselines of the same run: for a transaction, the bare kernel on the fields of its hash (what a hash of
2,784 fields takes whatever we do); for sending, the same bodies to a method that does not exist, which is
HTTP and JSON alone; for a page, the bare database gets of its transactions.

The server of the HTTP figures is a node in a process of its own, on one processor core; ``server_cpu_ms`` in
the extra columns is its processor time per transaction.  The flush to disk that an acknowledgement waits
for is part of the wall time; senders at a time share it.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from tests import taking_node
from tests.mempool.made import made_txs, private_base
from tests.mempool.recorded import hashes, recordings

from fastnode.api import txs as tx_methods
from fastnode.chain_data import ChainData
from fastnode.jsonrpc.methods import Context, MethodTable
from fastnode.kernels import poseidon2
from fastnode.mempool.entries import PoolEntry
from fastnode.mempool.service import Mempool, MempoolOptions
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_layout import USUAL
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.view import View

CHAIN_FILE = Path(str(files("fastnode").joinpath("data/sample_chain.jsonl.xz")))
TIP = 106
SENT_PER_ROUND = 200
AT_ONCE = 16
ROUNDS = 3
PAGE = 50
PATIENCE_S = 60.0

PUBLIC = next(tx_hash for tx_hash in hashes("fresh") if len(recordings()[tx_hash]["tx"]["publicFunctionCalldata"]) == 1)
BASES = {"public": PUBLIC, "private": private_base()}
HASHED_FIELDS = {"public": USUAL.public_hash_fields, "private": USUAL.private_hash_fields}
KINDS = list(BASES)


@pytest.fixture(scope="module")
def chain_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("chain")
    with ChainData.open(directory) as data:
        adopt_chain_file(data.store, CHAIN_FILE)
        import_chain_file(data.open_ingestor(verify=False), CHAIN_FILE)
    return directory


class LoadedNode:
    """View and mempool of a data directory, without ports."""

    def __init__(self, data: ChainData) -> None:
        ingestor = data.open_ingestor(verify=False)
        assert data.state is not None
        self.view = View(ingestor.view, data.state.view)
        self.mempool = Mempool.open(data.directory.path / "p2p", self.view, MempoolOptions())


@pytest.fixture(scope="module")
def node(chain_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadedNode]:
    directory = tmp_path_factory.mktemp("node") / "data"
    shutil.copytree(chain_directory, directory)
    with ChainData.open(directory, create=False) as data:
        node = LoadedNode(data)
        yield node
        node.mempool.close()


# ---- one transaction -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_baseline_the_hash_alone(benchmark: BenchmarkFixture, kind: str) -> None:
    fields = bytes(32 * (1 + HASHED_FIELDS[kind]))
    benchmark(poseidon2.hash_fields, fields)


@pytest.mark.parametrize("kind", KINDS)
def test_decode_and_hash(benchmark: BenchmarkFixture, kind: str) -> None:
    body = orjson.dumps(next(made_txs(1, BASES[kind])))
    assert len(benchmark(lambda: Tx.from_json(orjson.loads(body), FOUR).hash)) == 32


@pytest.mark.parametrize("kind", KINDS)
def test_validate_a_decoded_one(benchmark: BenchmarkFixture, node: LoadedNode, kind: str) -> None:
    tx = Tx.from_json(next(made_txs(1, BASES[kind])), FOUR)
    assert benchmark(node.mempool.validate, tx, node.view).is_valid


def _validate(node: LoadedNode, body: bytes) -> bool:
    """Decode and validate; the hash goes on meanwhile, and has to be there at the end."""
    tx = Tx.from_json(orjson.loads(body), FOUR)
    outcome = node.mempool.validate(tx, node.view)
    return outcome.is_valid and len(tx.hash) == 32


@pytest.mark.parametrize("kind", KINDS)
def test_decode_hash_and_validate(benchmark: BenchmarkFixture, node: LoadedNode, kind: str) -> None:
    body = orjson.dumps(next(made_txs(1, BASES[kind])))
    assert benchmark(lambda: _validate(node, body))


@pytest.mark.parametrize("kind", KINDS)
def test_decode_hash_and_validate_16_at_a_time(benchmark: BenchmarkFixture, node: LoadedNode, kind: str) -> None:
    """Transactions that come together are hashed together; ``cpu_ms`` is processor time for each of them."""
    bodies = [orjson.dumps(tx) for tx in made_txs(AT_ONCE * 4, BASES[kind])]

    with ThreadPoolExecutor(AT_ONCE) as threads:
        before = time.process_time()
        outcomes = benchmark.pedantic(
            lambda: list(threads.map(lambda body: _validate(node, body), bodies)), rounds=ROUNDS
        )
        spent = time.process_time() - before
    assert all(outcomes)
    benchmark.extra_info["cpu_ms"] = round(1e3 * spent / (ROUNDS * len(bodies)), 2)


# ---- a page of pending ones ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def full_node(node: LoadedNode) -> LoadedNode:
    """With 200 public transactions pending."""
    for value in made_txs(200, PUBLIC):
        tx = Tx.from_json(value, FOUR)
        node.mempool.pool.insert(PoolEntry.of(tx, FOUR), tx.to_json_bytes())
    assert node.mempool.pool.pending_count == 200
    return node


def test_a_page_of_50_pending_txs(benchmark: BenchmarkFixture, full_node: LoadedNode) -> None:
    method = MethodTable(tx_methods.methods(full_node.mempool)).get("node_getPendingTxs")
    assert method is not None
    after = full_node.mempool.pool.pending_hashes(limit=1)[0]
    page = benchmark(lambda: method.run(Context(full_node.view, "both", 64 << 20), [PAGE, after]))
    assert page is not None
    assert len(orjson.loads(page)) == PAGE
    benchmark.extra_info["megabytes"] = round(len(page) / 1e6, 1)


def test_baseline_50_bare_gets(benchmark: BenchmarkFixture, full_node: LoadedNode) -> None:
    keys = [b"\x02" + tx_hash for tx_hash in full_node.mempool.pool.pending_hashes(limit=PAGE)]
    get = full_node.mempool.pool._store._database.get
    benchmark(lambda: [get(key) for key in keys])


# ---- sending -----------------------------------------------------------------------------------------


class NodeProcess:
    """``fastnode start --node`` on the last core, over a copy of the chain."""

    def __init__(self, directory: Path, log: Path) -> None:
        core = max(os.sched_getaffinity(0))
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [
                    *(
                        sys.executable,
                        "-m",
                        taking_node.MODULE,
                        "start",
                        "--node",
                        "--port=0",
                        "--admin-port=0",
                        "--log-json",
                    ),
                    *(f"--data-directory={directory}", "--p2p-max-pending-tx-count=0"),
                ],
                stderr=errors,
                env=os.environ | {"PYTHONPATH": taking_node.ROOT},
                preexec_fn=lambda: os.sched_setaffinity(0, {core}),
            )
        deadline = time.monotonic() + PATIENCE_S
        while not (lines := [line for line in log.read_text().splitlines() if '"message":"serving"' in line]):
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        self.port = int(json.loads(lines[0])["port"])

    def processor_seconds(self) -> float:
        numbers = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


@pytest.fixture
def server(chain_directory: Path, tmp_path: Path) -> Iterator[NodeProcess]:
    shutil.copytree(chain_directory, tmp_path / "data")
    process = NodeProcess(tmp_path / "data", tmp_path / "log")
    yield process
    process.close()


class Senders:
    """Keep-alive connections that post bodies, each as soon as its last one is answered."""

    def __init__(self, port: int, count: int) -> None:
        self._port = port
        self._count = count

    def send_all(self, bodies: list[bytes]) -> list[Any]:
        work: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        for body in bodies:
            work.put(body)
        answers: list[Any] = []

        def run() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
            while True:
                try:
                    body = work.get_nowait()
                except queue.Empty:
                    connection.close()
                    return
                connection.request("POST", "/", body, {"Content-Type": "application/json"})
                answers.append(orjson.loads(connection.getresponse().read()))

        threads = [threading.Thread(target=run) for _ in range(self._count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers


def _bodies(method: str, kind: str) -> list[bytes]:
    return [
        orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": [tx]})
        for tx in made_txs(SENT_PER_ROUND * ROUNDS, BASES[kind])
    ]


def _measure(benchmark: BenchmarkFixture, server: NodeProcess, senders: int, bodies: list[bytes]) -> list[Any]:
    answers: list[Any] = []
    parts = iter([bodies[start : start + SENT_PER_ROUND] for start in range(0, len(bodies), SENT_PER_ROUND)])
    client = Senders(server.port, senders)
    before = server.processor_seconds()
    benchmark.pedantic(lambda: answers.extend(client.send_all(next(parts))), rounds=ROUNDS)
    spent = server.processor_seconds() - before
    benchmark.extra_info["server_cpu_ms"] = round(1e3 * spent / len(bodies), 2)
    benchmark.extra_info["txs_per_s"] = round(SENT_PER_ROUND / benchmark.stats.stats.median)
    benchmark.extra_info["txs_per_cpu_s"] = round(len(bodies) / spent)
    return answers


@pytest.mark.parametrize("senders", [1, AT_ONCE])
@pytest.mark.parametrize("kind", KINDS)
def test_send_over_http(benchmark: BenchmarkFixture, server: NodeProcess, kind: str, senders: int) -> None:
    answers = _measure(benchmark, server, senders, _bodies("node_sendTx", kind))
    assert answers == [{"jsonrpc": "2.0", "id": 1}] * (SENT_PER_ROUND * ROUNDS)


@pytest.mark.parametrize("kind", KINDS)
def test_baseline_the_same_bodies_to_no_method(benchmark: BenchmarkFixture, server: NodeProcess, kind: str) -> None:
    answers = _measure(benchmark, server, AT_ONCE, _bodies("node_noSuchMethod", kind))
    assert all(answer["error"]["code"] == -32601 for answer in answers)
