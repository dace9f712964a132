"""A node with workers, as its users and its operator see it: answers, kills, stops."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.app.turns import turn_ns
from tests.conftest import PATIENCE_S, NodeProcess
from tests.mempool.made import hash_of, made_txs
from tests.protocol.test_artifacts import compact
from tests.serving.event_client import event_client
from tests.workers.nodes import CONNECTIONS, SAMPLE_TIP, WORKERS, Workers, until

from fastnode.app.ground.priorities import PRIMARY_NICENESS, REPEATING_TURN_NS, TURN_NS
from fastnode.kernels import hash_threads


def test_each_worker_answers_and_says_that_all_is_well(workers: Workers) -> None:
    clients = [workers.connect() for _ in range(CONNECTIONS)]
    for client in clients:
        until(lambda client=client: client.result("node_isReady"), "a worker is not ready")
        assert client.result("node_getBlockNumber") == SAMPLE_TIP
    status, told = workers.status()
    assert (status, told["components"]["primary"]["ok"]) == (200, True), told
    until(lambda: workers.status(port=workers.node.admin_port)[0] == 200, "the admin port finds something wrong")
    assert {entry["process"] for entry in workers.lines("worker serves")} == {"worker 1", "worker 2"}
    # Names that the operator registers are told by each.
    assert "error" not in workers.node.call_admin("fastnode_registerArtifact", compact())
    for client in clients:
        logs = client.result("fastnode_getPublicEvents", {"fromBlock": 46, "toBlock": 47})["logs"]
        assert "AvmTest" in {log.get("contractName") for log in logs}
    assert workers.node.stop() == 0


def test_a_worker_that_is_killed_is_started_again_at_once_and_no_connection_is_refused(workers: Workers) -> None:
    for number, name in enumerate(["worker 1", "worker 2"], 1):  # one that goes again and again has to wait
        workers.kill(name)
        for _ in range(CONNECTIONS):
            client = workers.connect()
            assert client.result("node_getBlockNumber") == SAMPLE_TIP
            client.close()
        workers.wait_for(WORKERS + number)
        gone, back = workers.lines("has gone")[-1], workers.lines("worker serves")[-1]
        assert (gone["process"], gone["code"], gone["again_in_s"], back["process"]) == (name, -9, 0.0, name)
    assert workers.node.stop() == 0


def test_the_process_that_writes_comes_after_those_that_answer(workers: Workers) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    niceness = {
        name: os.getpriority(os.PRIO_PROCESS, workers.pid_of(name)) for name in ("primary", "worker 1", "worker 2")
    }
    assert niceness == {"primary": min(19, own + PRIMARY_NICENESS), "worker 1": own, "worker 2": own}
    if turn_ns() and own >= 0:  # elsewhere threads have no turns of their own
        turns = {name: _short_turns_of(workers.pid_of(name)) for name in niceness}
        # The event loop, and what repeats blocks.
        of_a_worker = [TURN_NS, REPEATING_TURN_NS]
        assert turns == {"primary": [], "worker 1": of_a_worker, "worker 2": of_a_worker}
    assert workers.node.stop() == 0


def test_without_its_primary_a_node_serves_what_it_has_says_so_and_takes_transactions_again_later(
    workers: Workers,
) -> None:
    clients = [workers.connect() for _ in range(CONNECTIONS)]
    first, second = made_txs(2)
    clients[0].result("node_sendTx", first)
    until(lambda: workers.status("/readyz")[0] == 200, "a worker is not ready")
    workers.node.process.send_signal(signal.SIGSTOP)  # nobody starts the next primary
    workers.kill("primary")
    until(lambda: workers.status()[0] == 503, "a worker does not see that its primary has gone")
    for client in clients:
        assert client.result("node_getBlock", 42)["header"]["globalVariables"]["blockNumber"] == 42
        assert client.result("node_getTxByHash", hash_of(first))["data"] == first["data"]
        assert client.call("node_sendTx", second)["error"]["data"]["code"] == "BUSY"
    _, told = workers.status()
    assert "away" in told["components"]["primary"]["reason"]
    assert workers.status("/readyz")[0] == 200
    workers.node.process.send_signal(signal.SIGCONT)
    until(lambda: len(workers.lines("copy replaced")) >= WORKERS, "the workers do not follow the next primary")
    for client in clients:
        until(lambda client=client: "error" not in client.call("node_sendTx", second), "no transaction is taken")
        for tx in (first, second):
            assert client.result("node_getTxReceipt", hash_of(tx))["status"] == "pending"
            assert client.result("node_getTxByHash", hash_of(tx))["data"] == tx["data"]
    until(lambda: workers.status()[0] == 200, "a worker still finds something wrong")
    assert workers.node.stop() == 0


def test_a_client_of_any_worker_is_told_of_a_transaction_that_one_takes(workers: Workers) -> None:
    with ExitStack() as stack:
        listeners = [stack.enter_context(event_client(workers.node.port)) for _ in range(CONNECTIONS)]
        for listener in listeners:
            assert listener.wait_for("tips").data["proposed"]["number"] == SAMPLE_TIP
        (tx,) = made_txs(1)
        workers.connect().result("node_sendTx", tx)
        for listener in listeners:
            assert listener.wait_for("tx").data == {"txHash": hash_of(tx), "status": "pending"}
    assert workers.node.stop() == 0


def test_a_transaction_that_one_worker_takes_is_in_the_pool_of_all_and_on_the_disk_once_for_them(
    workers: Workers, tmp_path: Path
) -> None:
    clients = [workers.connect() for _ in range(CONNECTIONS)]
    transactions = list(made_txs(6))
    for client, tx in zip(clients, transactions, strict=False):
        assert client.result("node_isValidTx", tx)["result"] == "valid"
        client.result("node_sendTx", tx)
        # What was answered is seen at once where it was answered.
        assert client.result("node_getTxReceipt", hash_of(tx))["status"] == "pending"
        assert client.result("node_getTxByHash", hash_of(tx))["data"] == tx["data"]
    for client in clients:
        until(lambda client=client: client.result("node_getPendingTxCount") == len(transactions), "a tx is missing")
        assert len(client.result("node_getPendingTxs")) == len(transactions)
        for tx in transactions:
            assert client.result("node_getTxByHash", hash_of(tx))["data"] == tx["data"]
    bytes_of = {
        what: sum(file.stat().st_size for file in (tmp_path / "data" / "workers").glob(what))
        for what in ("contents/*", "[12]-*/p2p/*")
    }
    assert bytes_of["[12]-*/p2p/*"] < len(json.dumps(transactions)) // 2 < bytes_of["contents/*"]
    # The pool's rules are those of one pool.
    again = clients[-1].call("node_sendTx", transactions[0])
    assert "error" not in again
    # What hashes is shared out too: hashes that wait for one thread go together.
    for client in clients:  # six transactions may all have come to one worker
        client.result("node_isValidTx", transactions[0])
    for name in ("worker 1", "worker 2"):
        assert _hash_threads_of(workers.pid_of(name)) == max(1, hash_threads.THREADS // WORKERS)
    assert workers.node.stop() == 0


def _short_turns_of(pid: int) -> list[int]:
    """Of the threads that asked for short turns."""
    turns = [turn_ns(int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir()]
    return sorted(turn for turn in turns if turn in (TURN_NS, REPEATING_TURN_NS))


def _hash_threads_of(pid: int) -> int:
    """They leave all signals to others, and come after requests."""
    own = os.getpriority(os.PRIO_PROCESS, pid)
    count = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        blocked = re.search(r"^SigBlk:\s*(\w+)$", (task / "status").read_text(), re.M)
        assert blocked is not None
        is_for_hashes = os.getpriority(os.PRIO_PROCESS, int(task.name)) > own and int(blocked[1], 16) != 0
        count += is_for_hashes
    return count


def test_blocks_that_are_taken_back_are_gone_in_every_worker(workers: Workers) -> None:
    clients = [workers.connect() for _ in range(CONNECTIONS)]
    answer = workers.node.call_admin("nodeAdmin_rollbackTo", 99, True)
    assert "error" not in answer, answer
    for client in clients:
        until(lambda client=client: client.result("node_getBlockNumber") == 99, "a worker has blocks that are gone")
        assert client.result("node_getBlock", 100) is None
        assert client.result("node_getBlock", 99) is not None
    assert workers.node.stop() == 0


def test_a_chain_that_cannot_be_served_ends_all_processes_with_one_line(
    start_node: Callable[..., NodeProcess], tmp_path: Path
) -> None:
    node = start_node("--workers=2", f"--chain-file={tmp_path / 'nothing'}")
    assert node.process.wait(PATIENCE_S) == 78  # the next start would find no more
    assert "nothing" in node.log.read_text().splitlines()[-1]


def test_a_port_that_is_taken_is_not_shared_by_accident(
    start_node: Callable[..., NodeProcess], short_chain: Path, tmp_path: Path
) -> None:
    first = Workers(start_node("--workers=2", f"--chain-file={short_chain}", f"--data-directory={tmp_path / 'a'}"))
    second = start_node("--workers=1", f"--port={first.node.port}", f"--data-directory={tmp_path / 'b'}")
    assert second.process.wait(PATIENCE_S) == 1
    assert f"port {first.node.port}" in second.log.read_text()
    assert first.node.stop() == 0


def test_a_local_network_is_one_process(start_node: Callable[..., NodeProcess]) -> None:
    node = start_node("--workers=2", "--local-network")
    assert node.process.wait(PATIENCE_S) == 78
    assert "--local-network" in node.log.read_text()


def test_no_worker_shows_the_old_tip_once_a_rollback_is_answered(workers: Workers) -> None:
    clients = [workers.connect() for _ in range(CONNECTIONS)]
    blocks = {number: clients[0].result("node_getBlock", number) for number in range(92, SAMPLE_TIP)}
    ends = [number for number in blocks if number + 1 in blocks and _checkpoint(blocks, number + 1)]
    for target in ends[:-5:-1]:
        assert "error" not in workers.node.call_admin("nodeAdmin_rollbackTo", target)
        assert {client.result("node_getBlockNumber") for client in clients} == {target}


def _checkpoint(blocks: dict[int, Any], number: int) -> bool:
    """Tell whether a block is the first of its checkpoint."""
    first: bool = blocks[number]["checkpointNumber"] != blocks[number - 1]["checkpointNumber"]
    return first
