"""Clients on all workers, while blocks come and go and processes are killed: every answer is right for one block.

A round is one thing that happens: a rollback, after which the blocks come again from another node, a snapshot, a worker
or the primary killed.  FASTNODE_LONG=1 does two hundred of them.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.conftest import ADMIN_KEY_HASH, PATIENCE_S, NodeProcess
from tests.effort import IS_LONG, tries
from tests.mempool.made import hash_of, made_txs
from tests.ports import free_port
from tests.workers.nodes import CONNECTIONS, SAMPLE_TIP, WORKERS, Client, Workers, until

ROUNDS = tries(4, 200)
CLIENTS = 4
#: Between two questions of a client, which leaves the processors to the other tests.
PACE_S = 0.0 if IS_LONG else 0.005
SEED = 21
#: A nullifier that no transaction has: its low leaf changes as nullifiers come.
NULLIFIER = f"0x{1 << 200:064x}"
QUESTIONS = (
    ("node_getBlockNumber", []),
    ("node_getL2Tips", []),
    ("node_getBlock", ["latest"]),
    ("node_getLowNullifierMembershipWitness", ["latest", NULLIFIER]),
)
BATCH = orjson.dumps(
    [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(QUESTIONS)
    ]
)


class Reference:
    """What is right for each block, from a node in one process."""

    def __init__(self, node: NodeProcess) -> None:
        until(lambda: node.call("node_getBlockNumber")["result"] == SAMPLE_TIP, "the chain is not there")
        node.wait_for_line("chain file loaded")
        self.blocks: dict[int, Any] = {}
        self.witnesses: dict[int, Any] = {}
        for number in range(1, SAMPLE_TIP + 1):
            self.blocks[number] = node.call("node_getBlock", number)["result"]
            self.witnesses[number] = node.call("node_getLowNullifierMembershipWitness", number, NULLIFIER)["result"]
        checkpoints = {block["checkpointNumber"]: number for number, block in self.blocks.items()}
        #: Last blocks of checkpoints: a rollback goes to one of them.
        self.boundaries = sorted(checkpoints.values())[:-1]


class Rollbacks:
    """How often an operator has had the tip go back: a connection may see each of them once, and the one before it.

    When is not told: a worker whose primary is killed right after a rollback sees it when there is the next primary.
    """

    def __init__(self) -> None:
        self.begun = 0


class Asker(threading.Thread):
    """One client, which connects anew when its connection is lost."""

    def __init__(self, port: int, reference: Reference, rollbacks: Rollbacks) -> None:
        super().__init__()
        self._port = port
        self._reference = reference
        self._rollbacks = rollbacks
        self.stop_asked = threading.Event()
        self.answers = 0
        self.lost = 0
        self.tips: set[int] = set()
        self.faults: list[str] = []

    def run(self) -> None:
        while not self.stop_asked.is_set() and not self.faults:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
            tip = times_back = 0
            begun = self._rollbacks.begun - 1
            try:
                while not self.stop_asked.wait(PACE_S) and not self.faults:
                    number = self._ask(connection)
                    times_back += number < tip
                    if times_back > self._rollbacks.begun - begun:
                        self.faults.append(f"the tip went back from {tip} to {number}")
                    tip = number
            except (OSError, http.client.HTTPException):
                self.lost += 1
            finally:
                connection.close()

    def _ask(self, connection: http.client.HTTPConnection) -> int:
        connection.request("POST", "/", BATCH, {"Content-Type": "application/json"})
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise http.client.HTTPException(f"{response.status}")
        by_id = {answer["id"]: answer for answer in orjson.loads(body)}
        number, tips, block, witness = (by_id[place].get("result") for place in range(len(QUESTIONS)))
        self.answers += 1
        self.tips.add(number)
        if number and (
            tips["proposed"]["number"] != number
            or block != self._reference.blocks[number]
            or witness != self._reference.witnesses[number]
        ):
            self.faults.append(f"answers of block {number} do not belong together")
        return int(number)


@pytest.fixture
def reference(start_node: Callable[..., NodeProcess], sample_chain: Path) -> tuple[NodeProcess, Reference]:
    node = start_node(f"--chain-file={sample_chain}").wait_until_serving()
    return node, Reference(node)


@pytest.fixture
def following(
    start_node: Callable[..., NodeProcess], reference: tuple[NodeProcess, Reference], tmp_path: Path
) -> Iterator[Workers]:
    workers = Workers(
        start_node(
            f"--workers={WORKERS}",
            f"--upstream-url={reference[0].url}",
            f"--data-directory={tmp_path / 'data'}",
            f"--admin-port={free_port()}",  # the next primary has it again
            "--archiver-polling-interval-ms=50",
            SVC_ADMIN_API_KEY_HASH=ADMIN_KEY_HASH,
        )
    )
    client = Client(workers.node.port)
    until(lambda: client.result("node_getBlockNumber") == SAMPLE_TIP, "the chain is not followed")
    client.close()
    yield workers
    workers.close()


def test_every_answer_is_right_for_one_block_whatever_happens(
    following: Workers, reference: tuple[NodeProcess, Reference], tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    right = reference[1]
    rollbacks = Rollbacks()
    askers = [Asker(following.node.port, right, rollbacks) for _ in range(CLIENTS)]
    for asker in askers:
        asker.start()

    def roll_back() -> None:
        rollbacks.begun += 1
        following.node.call_admin("nodeAdmin_rollbackTo", dice.choice(right.boundaries), True)

    def take_snapshot() -> None:
        following.node.call_admin("nodeAdmin_startSnapshotUpload", f"file://{tmp_path / 'data' / 'snapshots'}")

    def kill(name: str) -> None:
        following.kill(name)

    events: list[Callable[[], None]] = [
        roll_back,
        lambda: kill(f"worker {dice.randrange(1, WORKERS + 1)}"),
        roll_back,
        lambda: kill("primary"),
        roll_back,
        take_snapshot,
    ]
    for number in range(ROUNDS):
        try:
            events[number % len(events)]()
        except (OSError, http.client.HTTPException, StopIteration):
            time.sleep(0.1)  # the primary, or a worker, has just been killed
        wanted = sum(asker.answers for asker in askers) + dice.randrange(20, 200)
        until(
            lambda wanted=wanted: (
                sum(asker.answers for asker in askers) >= wanted  # type: ignore[misc]
                or any(asker.faults for asker in askers)
            ),
            "nothing is answered",
        )
        assert not any(asker.faults for asker in askers), [asker.faults for asker in askers]

    def at_the_tip() -> bool:
        client = Client(following.node.port)
        try:
            # While no worker has a copy yet the answer is that the node is starting.
            return bool(client.call("node_getBlockNumber").get("result") == SAMPLE_TIP)
        except (OSError, http.client.HTTPException):
            return False
        finally:
            client.close()

    for _ in range(12):
        until(at_the_tip, "a worker does not come to the tip")
    for asker in askers:
        asker.stop_asked.set()
        asker.join()
    assert [asker.faults for asker in askers] == [[]] * CLIENTS
    assert sum(asker.answers for asker in askers) >= 20 * ROUNDS
    assert len(set.union(*(asker.tips for asker in askers))) > 2
    assert following.node.stop() == 0


def test_no_acknowledged_transaction_is_lost(workers: Workers) -> None:
    """Workers and the primary are killed while transactions are sent."""
    transactions = list(made_txs(60 if ROUNDS < 100 else 600))
    acknowledged: list[dict[str, Any]] = []
    dice = random.Random(SEED)
    client = workers.connect()
    victims = ["primary", "worker 1", "worker 2"]
    for number, tx in enumerate(transactions):
        if number % 15 == 10:
            with suppress(StopIteration, ProcessLookupError):
                workers.kill(victims[number // 15 % len(victims)])
        try:
            if "error" not in client.call("node_sendTx", tx):
                acknowledged.append(tx)
            elif dice.random() < 0.5:
                time.sleep(0.05)
        except (OSError, http.client.HTTPException):
            client = workers.connect()
    assert len(acknowledged) > len(transactions) // 10
    until(lambda: workers.status()[0] == 200, "it is not well")

    def status_of(tx: dict[str, Any]) -> Any:
        asking = workers.connect()
        try:
            return asking.result("node_getTxReceipt", hash_of(tx))["status"]
        except (OSError, http.client.HTTPException):
            return None
        finally:
            asking.close()

    for tx in acknowledged:
        until(lambda tx=tx: status_of(tx) == "pending", "an acknowledged transaction is lost")
    assert workers.node.stop() == 0


def test_what_an_operator_did_to_the_sync_is_shown_by_every_worker_once_it_is_answered(following: Workers) -> None:
    clients = [following.connect() for _ in range(CONNECTIONS)]

    def shown() -> set[tuple[int, int, str]]:
        asked = [(client.result("node_getBlockNumber"), client.result("fastnode_getSyncStatus")) for client in clients]
        return {(number, status["tip"], status["state"]) for number, status in asked}

    until(lambda: shown() == {(SAMPLE_TIP, SAMPLE_TIP, "following")}, "a worker is behind")
    for method, state in (("pauseSync", "paused"), ("resumeSync", "following"), ("pauseSync", "paused")):
        assert "error" not in following.node.call_admin(f"nodeAdmin_{method}")
        assert {state for _, _, state in shown()} == {state}
    finalized = clients[0].result("node_getL2Tips")["finalized"]["block"]["number"]
    targets = [99, 11, 3]
    assert targets[0] > finalized > targets[1]
    for target in targets:
        assert "error" not in following.node.call_admin("nodeAdmin_rollbackTo", target, True, False)
        assert shown() == {(target, target, "paused")}
