"""kill -9 while transactions are sent: what was acknowledged is there after the restart."""

from __future__ import annotations

import http.client
import json
import os
import queue
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.effort import tries
from tests.mempool.made import hash_of, made_txs
from tests.taking_node import start_taking

from fastnode.kernels import USING_TWINS

COUNT = tries(600, 1_000)
SENDERS = 4
PATIENCE_S = 240.0
SEED = int(os.environ.get("FASTNODE_KILL_SEED", "5"))

pytestmark = pytest.mark.skipif(USING_TWINS, reason="hashing a thousand transactions takes minutes on the twins")


def _wait_for_block(node: Any, number: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while node.call("node_getBlockNumber").get("result") != number:
        assert time.monotonic() < deadline
        time.sleep(0.1)


class Senders:
    """Threads that send transactions over connections of their own and note what was acknowledged."""

    def __init__(self, port: int) -> None:
        self.acknowledged: list[dict[str, Any]] = []
        self.refused: list[Any] = []
        self._port = port
        self._work: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        for tx in made_txs(COUNT):
            self._work.put(tx)
        self._threads = [threading.Thread(target=self._send_all) for _ in range(SENDERS)]
        for thread in self._threads:
            thread.start()

    def _send_all(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            while True:
                tx = self._work.get_nowait()
                answer = self._send(connection, tx)
                if "error" in answer:
                    self.refused.append(answer)
                else:
                    self.acknowledged.append(tx)
        except (OSError, http.client.HTTPException, queue.Empty):
            pass  # the node is dead, or everything is sent
        finally:
            connection.close()

    def _send(self, connection: http.client.HTTPConnection, tx: dict[str, Any]) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "node_sendTx", "params": [tx]})
        connection.request("POST", "/", body, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())

    @property
    def are_sending(self) -> bool:
        return not self.refused and any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


def test_acknowledged_txs_survive_kill_9(start_node: Callable[..., Any], sample_chain: Path, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    dice = random.Random(SEED)
    acknowledged: list[dict[str, Any]] = []
    # Twice: the second time the pool already has transactions of the first.
    for _ in range(2):
        node = start_taking(
            start_node, f"--data-directory={directory}", f"--chain-file={sample_chain}"
        ).wait_until_serving()
        _wait_for_block(node, 106)
        assert node.call("node_getPendingTxCount")["result"] >= len(acknowledged)
        senders = Senders(node.port)
        enough = len(acknowledged) + dice.randrange(50, COUNT // 3)
        while len(senders.acknowledged) < enough and senders.are_sending:
            time.sleep(0.002)
        node.stop(signal.SIGKILL)
        senders.join()
        assert senders.refused == []
        assert len(senders.acknowledged) >= enough
        acknowledged = senders.acknowledged

    node = start_taking(
        start_node, f"--data-directory={directory}", f"--chain-file={sample_chain}"
    ).wait_until_serving()
    assert len(acknowledged) >= 50
    for tx in acknowledged:
        tx_hash = hash_of(tx)
        assert node.call("node_getTxReceipt", tx_hash)["result"] == {"txHash": tx_hash, "status": "pending"}
        assert node.call("node_getTxByHash", tx_hash)["result"] == tx | {"txHash": tx_hash}
    assert node.stop() == 0
