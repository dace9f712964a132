"""The largest request of each method: what it takes of a node's memory.

Idle, one response of the largest size, and 64 MB beside it: no request of one client may take more, and neither may all
that it leaves unread.
"""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.test_traces import keep
from tests.attacks.measured import Measured
from tests.conftest import ADMIN_KEY_HASH, PATIENCE_S, NodeProcess
from tests.mempool.recorded import recordings
from tests.public_execution.hostile import PROGRAMS
from tests.public_execution.made import tx_running

from fastnode.http.limits import MIB, Limits
from fastnode.kernels import USING_TWINS
from fastnode.public_execution.simulation import RUNNING_MAX, SHARED_MEMORY_BYTES_MAX

pytestmark = pytest.mark.skipif(USING_TWINS, reason="the memory of a node with its kernels")

#: Beside the answer.
SPARE = 64 * MIB
BATCH = Limits().batch_calls_max
UNREAD = 16
FIELDS = [f"0x{number:064x}" for number in range(1, 101)]
MINED = [text for text, row in recordings().items() if row["origin"] != "fresh" and row["tx"]["publicFunctionCalldata"]]
EXAMPLES: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "src" / "fastnode" / "data" / "method_examples.json").read_text()
)


def hostile(name: str) -> dict[str, Any]:
    program, gas = PROGRAMS[name]
    return tx_running(program, l2_gas=gas).to_json()


#: A program that takes memory while it runs, which is not part of an answer.
RUNNING = "inner calls"
#: Memory of each program, beyond which it takes from what all programs share.
PROGRAM_BYTES = 16 * MIB
TALKATIVE = [name for name in PROGRAMS if name != RUNNING]

#: Parameters that ask for as much as limits allow; of other methods there is nothing that a client could vary.
LARGEST: dict[str, list[list[Any]]] = {
    "node_getBlocks": [[1, 50], [1, 50, {"includeTransactions": True}]],
    "node_getCheckpointedBlocks": [[1, 50]],
    "node_getCheckpoints": [[1, 50]],
    "node_getCheckpointsData": [[{"from": 1, "limit": 50}]],
    "node_getPublicLogs": [[{"fromBlock": 1}], [{}]],
    "node_getContractClassLogs": [[{"fromBlock": 1}], [{}]],
    "fastnode_getPublicEvents": [[{"fromBlock": 1}]],
    "node_findLeavesIndexes": [["latest", 0, FIELDS]],
    "node_getTxsByHash": [[MINED[:50]]],
    "node_getTxByHash": [[MINED[0]]],
    "fastnode_getKeptTx": [[MINED[0]]],
    "node_registerContractFunctionSignatures": [[["f" * 9_000 + "(Field)"]]],
    "node_isValidTx": [[recordings()[MINED[0]]["tx"]]],
    "node_sendTx": [[recordings()[MINED[0]]["tx"]]],
    "node_simulatePublicCalls": [[hostile(name), True] for name in TALKATIVE],
    "fastnode_traceCall": [[hostile(name), {"opcodes": {"limit": 20_000}, "gasProfile": True}] for name in TALKATIVE],
    "fastnode_traceTransaction": [[MINED[0], {"opcodes": {"limit": 20_000}, "gasProfile": True}]],
    "fastnode_traceBlock": [[number, {"opcodes": {"limit": 20_000}, "gasProfile": True}] for number in (8, 20, 105)],
    "rpc.discover": [[]],
}


#: Calls in a batch of those that may take seconds each, one after the other.
CALLS = {"node_simulatePublicCalls": 2, "fastnode_traceCall": 2, "fastnode_traceBlock": 4}


@pytest.fixture(scope="module")
def node(chain_directory: Path, tmp_path_factory: pytest.TempPathFactory, genesis_hash: bytes) -> Iterator[Measured]:
    """The whole sample chain, whose transactions are kept."""
    folder = tmp_path_factory.mktemp("memory")
    shutil.copytree(chain_directory, folder / "data")
    keep(folder / "data" / "p2p", genesis_hash, MINED)
    process = NodeProcess(
        [
            *("--data-directory", str(folder / "data"), "--keep-txs=1000", "--public-traces", "--metrics-port=0"),
            *("--admin-api-key-hash", ADMIN_KEY_HASH),
        ],
        folder / "log",
        {},
    )
    try:
        yield Measured(process.wait_until_serving())
    finally:
        process.process.kill()
        process.process.wait()


@pytest.fixture(scope="module")
def genesis_hash(chain_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Of a copy: tests of other modules may have the directory open."""
    from fastnode.chain_data import ChainData

    copy = tmp_path_factory.mktemp("genesis") / "data"
    shutil.copytree(chain_directory, copy)
    with ChainData.open(copy) as data:
        return data.store.chain.genesis_block_hash


def batch_of(method: str, params: list[Any]) -> bytes:
    """As many calls as a batch has, or as a body holds."""
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    count = max(1, min(CALLS.get(method, BATCH), (Limits().body_bytes_max - 2) // (len(call) + 1)))
    return b"[" + b",".join([call] * count) + b"]"


def test_no_request_takes_more_than_the_largest_answer_and_a_little(node: Measured) -> None:
    methods = {method["name"] for method in node.call("rpc.discover")["methods"]}
    peaks: dict[str, int] = {}
    for method in sorted(methods | {"rpc.discover"}):
        known = [example["params"] for example in EXAMPLES.get(method, [])]
        for params in LARGEST.get(method) or known or [[]]:
            size, peak = node.peak_of(batch_of(method, params))
            assert size > 0, method
            peaks[method] = max(peaks.get(method, 0), peak)
    late = {method: f"{peak >> 20} MiB" for method, peak in peaks.items() if peak > Limits().response_bytes_max + SPARE}
    assert not late
    assert node.call("node_getBlockNumber") > 0
    print({method: peak >> 20 for method, peak in sorted(peaks.items(), key=lambda item: -item[1])})


@pytest.mark.parametrize("method", ["node_getBlocks", "node_getPublicLogs", "fastnode_traceCall"])
def test_unread_batches_of_one_client_take_no_more_than_one_answer_and_a_little(node: Measured, method: str) -> None:
    params = LARGEST[method][0]
    connections = []
    with node.watched() as watched:
        for _ in range(UNREAD):
            connection = socket.create_connection(("127.0.0.1", node.port))
            connection.sendall(node.request(batch_of(method, params)))
            connections.append(connection)
        node.wait_until_steady()
    for connection in connections:
        connection.close()
    assert watched.peak < Limits().response_bytes_max + SPARE, f"{watched.peak >> 20} MiB"
    deadline = time.monotonic() + PATIENCE_S
    while node.call_status() == 503:  # until the node has noticed
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert node.call("node_getBlockNumber") > 0


@pytest.mark.parametrize("method", ["node_simulatePublicCalls", "fastnode_traceCall"])
def test_programs_that_run_take_no_more_than_they_share(node: Measured, method: str) -> None:
    options: Any = True if method == "node_simulatePublicCalls" else {"gasProfile": True}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": [hostile(RUNNING), options]}).encode()
    connections = []
    with node.watched() as watched:
        for _ in range(2 * RUNNING_MAX):
            connection = socket.create_connection(("127.0.0.1", node.port))
            connection.settimeout(10 * PATIENCE_S)
            connection.sendall(node.request(body, closes=True))
            connections.append(connection)
        statuses = [connection.recv(1 << 16)[9:12] for connection in connections]
    for connection in connections:
        connection.close()
    assert b"200" in statuses
    most = SHARED_MEMORY_BYTES_MAX + RUNNING_MAX * PROGRAM_BYTES + Limits().response_bytes_max + SPARE
    assert PROGRAM_BYTES < watched.peak < most, f"{watched.peak >> 20} MiB"
