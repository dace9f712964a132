"""Workers of nodes that give transactions to others: a wallet behind them gets an answer to whatever it asks."""

from __future__ import annotations

import functools
import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import DATA, NodeProcess
from tests.mempool.made import hash_of, made_txs
from tests.p2p.nodes import FakeHost, running
from tests.sources.recorded_chain import RecordedChain
from tests.sources.scripted_upstream import scripted_upstream
from tests.workers.nodes import CONNECTIONS, SAMPLE_TIP, WORKERS, Workers, until

INTERNAL_ERROR = -32603
#: Of a node of a network on this machine.
ON_NETWORK = ("--p2p-enabled", "--p2p-listen-addr=127.0.0.1", "--p2p-ip=127.0.0.1", "--p2p-port=0")
#: The sample chain's network.
VERSION = "00-31337-322813fd-3658137161-2672340d-1dd2644a"


class OtherNodes:
    """Upstreams that take transactions, unless a test has them do something else."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def take(self, parameters: list[Any]) -> None:
        self.taken.add(hash_of(parameters[0]))


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory, sample_chain: Path) -> Iterator[RecordedChain]:
    chain = RecordedChain(tmp_path_factory.mktemp("recorded"), sample_chain)
    while not chain.is_complete:
        chain.reveal()
    chain.move_tips()
    yield chain
    chain.close()


@pytest.fixture(params=["an upstream", "peers"])
def node(
    request: pytest.FixtureRequest,
    start_node: Callable[..., NodeProcess],
    complete: RecordedChain,
    chain_directory: Path,
    tmp_path: Path,
) -> Iterator[Workers]:
    shutil.copytree(chain_directory, tmp_path / "data")
    others = OtherNodes()
    with scripted_upstream(complete) as upstream, running() as start_peer:
        del upstream.answers["node_getCurrentMinFees"]
        upstream.answers["node_sendTx"] = others.take
        flags = [f"--workers={WORKERS}", f"--data-directory={tmp_path / 'data'}"]
        if request.param == "peers":
            # Without one no transaction is taken.
            peer = start_peer(host=FakeHost(VERSION))
            flags += [*ON_NETWORK, f"--p2p-peer=127.0.0.1:{peer.address.port}"]
        else:
            flags += [f"--upstream-url={upstream.url}", "--rpc-block-wait-ms=0"]
        workers = Workers(start_node(*flags))
        client = workers.connect()
        until(lambda: client.result("node_getBlockNumber") == SAMPLE_TIP, "the chain is not there")
        until(lambda: client.result("node_isReady"), "it is not ready")
        yield workers
        workers.close()
        assert workers.node.stop() == 0


def test_a_wallet_behind_any_worker_gets_an_answer_to_what_it_asks_of_its_transactions(node: Workers) -> None:
    clients = [node.connect() for _ in range(CONNECTIONS)]
    for client, tx in zip(clients, made_txs(3), strict=False):
        tx_hash = hash_of(tx)
        client.result("node_sendTx", tx)
        assert client.result("node_getTxReceipt", tx_hash)["status"] == "pending"
        for other in clients:
            until(functools.partial(other.result, "node_getTxByHash", tx_hash), "a worker does not have it")
            assert other.result("node_getTxReceipt", tx_hash)["status"] == "pending"
    failed = [
        (method, answer["error"])
        for method, parameters in questions(tx)
        if (answer := client.call(method, *parameters)).get("error", {}).get("code") == INTERNAL_ERROR
    ]
    assert failed == []


def questions(tx: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    """Methods that wallets call, with parameters: about a pending transaction, and recorded ones."""
    tx_hash = hash_of(tx)
    asked: list[tuple[str, list[Any]]] = [
        ("node_sendTx", [tx]),
        ("node_isValidTx", [tx]),
        ("node_simulatePublicCalls", [tx]),
        ("node_getTxReceipt", [tx_hash]),
        ("node_getTxEffect", [tx_hash]),
        ("node_getTxByHash", [tx_hash]),
        ("node_getTxsByHash", [[tx_hash]]),
        ("node_getPendingTxs", [10, tx_hash]),
        ("node_getPendingTxCount", []),
        ("node_getMaxPriorityFees", []),
        ("node_getCurrentMinFees", []),
        ("node_getPredictedMinFees", []),
    ]
    with gzip.open(DATA / "queries_sample.jsonl.gz", "rt") as lines:
        asked += [(query["method"], query["params"]) for query in map(json.loads, lines)]
    return asked
