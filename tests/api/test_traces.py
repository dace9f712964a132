"""Traces through the engine, and of a whole node: by method and by command."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from tests.api.test_txs import FRESH, Node
from tests.api.test_txs import make_node as make_node
from tests.api.test_txs import node as node
from tests.conftest import ADMIN_KEY, ADMIN_KEY_HASH, NodeProcess
from tests.mempool.recorded import recorded_tx, recordings

from fastnode.api import traces
from fastnode.cli.app import root
from fastnode.errors import Refused
from fastnode.jsonrpc.engine import Engine, Reply
from fastnode.jsonrpc.methods import MethodTable
from fastnode.mempool.known_txs import FoundTx, KnownTxs
from fastnode.mempool.store import KeptRow, PoolStore, json_key, kept_key
from fastnode.public_execution.service import Simulation
from fastnode.public_execution.simulation import LocalSimulator, SimulationOptions

MINED = next(
    text for text, row in recordings().items() if row["origin"] != "fresh" and row["tx"]["publicFunctionCalldata"]
)


class Questions:
    """A followed node that answers from a table."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def ask_cached(self, method: str, _parameters: Any, _max_age_s: float) -> Any:
        self.asked.append(method)
        answer = self.answers.get(method)
        if isinstance(answer, Exception):
            raise answer
        return answer


def call(node: Node, find: Callable[[bytes], FoundTx | None], method: str, *parameters: Any) -> dict[str, Any]:
    local = LocalSimulator(node.mempool.clock, node.fees.current, SimulationOptions(timeout_s=60), node.names)
    table = MethodTable([*traces.methods(Simulation(local), find), *traces.kept_tx_methods(find)], "both")
    bound = table.get(method)
    assert bound is not None
    bound.in_thread = False
    if bound.prepare is not None:
        pytest.skip("prepared calls are asked of a whole node")
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters})
    reply = Engine(table, lambda: node.view).handle(body)
    assert isinstance(reply, Reply)
    answer: dict[str, Any] = orjson.loads(reply.text)
    return {key: answer[key] for key in ("result", "error") if key in answer}


def kept(tx_hash: bytes) -> FoundTx | None:
    return FoundTx(recorded_tx("0x" + tx_hash.hex()), "kept")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"opcode": True}, 'has no member "opcode", only opcodes, gasProfile'),
        ({"opcodes": 1}, "opcodes"),
        ({"opcodes": {"first": -1}}, "opcodes.first"),
        ({"opcodes": {"limit": traces.STEPS_MAX + 1}}, "opcodes.limit"),
        ({"opcodes": {"from": 1}}, "from"),
        ({"gasProfile": "yes"}, "gasProfile"),
        ("all", "an object with opcodes and gasProfile"),
    ],
)
def test_options_that_make_no_sense_are_named(node: Node, options: Any, reason: str) -> None:
    error = call(node, kept, "fastnode_traceTransaction", MINED, options)["error"]
    assert error["code"] == -32602
    assert reason in error["message"]


def test_opcodes_and_gas_come_when_they_are_asked_for(node: Node) -> None:
    plain = call(node, kept, "fastnode_traceTransaction", MINED)["result"]
    assert plain.keys().isdisjoint({"steps", "gasProfile"})
    assert plain["calls"]
    full = call(node, kept, "fastnode_traceTransaction", MINED, {"opcodes": True, "gasProfile": True})["result"]
    assert full["steps"]["list"]
    assert full["gasProfile"]["l2"]
    assert {name: full[name] for name in plain} == plain


def test_registered_names_of_functions_stand_in_calls_and_stacks(node: Node) -> None:
    node.names.name_of = lambda selector: "talk(Field)" if len(selector) == 4 else None  # type: ignore[method-assign]
    # Call a contract whose artifact is not known.
    tx_hash = next(text for text, row in recordings().items() if row.get("label") == "storage map")
    trace = call(node, kept, "fastnode_traceTransaction", tx_hash, {"gasProfile": True})["result"]
    assert {frame["functionName"] for frame in trace["calls"]} == {"talk(Field)"}
    assert all(".talk;" in line for line in trace["gasProfile"]["l2"])


def test_what_is_not_here_is_asked_of_followed_nodes_and_of_peers(node: Node) -> None:
    tx = recorded_tx(MINED)
    pool = node.mempool.pool
    questions = Questions(fastnode_getKeptTx=Refused("no such method"), node_getTxByHash=recordings()[MINED]["tx"])
    found = KnownTxs(pool, questions).find(tx.hash)
    assert found is not None
    assert (found.source, found.tx.hash) == ("upstream", tx.hash)
    assert questions.asked == ["fastnode_getKeptTx", "node_getTxByHash"]
    other = recorded_tx(FRESH[0])
    given = [b"garbage", other.to_buffer(), tx.to_buffer()]
    found = KnownTxs(pool, Questions(), lambda _hash: given).find(tx.hash)
    assert found is not None
    assert (found.source, found.tx.hash) == ("peers", tx.hash)


@pytest.mark.parametrize("answer", [recordings()[FRESH[0]]["tx"], {"data": "0x"}, [], 7, "text", None])
def test_other_answers_than_the_transaction_are_no_transaction(node: Node, answer: Any) -> None:
    questions = Questions(fastnode_getKeptTx=answer, node_getTxByHash=answer)
    assert KnownTxs(node.mempool.pool, questions).find(recorded_tx(MINED).hash) is None


# ---- a whole node -------------------------------------------------------------------------------


def keep(path: Path, genesis_hash: bytes, tx_hashes: list[str]) -> None:
    """Put transactions where a node keeps those that are final."""
    store = PoolStore.open(path, genesis_hash)
    for number, text in enumerate(tx_hashes):
        tx = recorded_tx(text)
        content = tx.to_json_bytes()
        rows = [(json_key(tx.hash), content), (kept_key(number), KeptRow(number, tx.hash, len(content)).encode())]
        store.commit(store.stage(rows))
    store.close()


def test_a_node_that_keeps_transactions_traces_them_after_kill_9_and_others_by_their_effects(
    chain_directory: Path, tmp_path: Path, start_node: Callable[..., NodeProcess], node: Node
) -> None:
    genesis_hash = node.view.chain.chain.genesis_block_hash
    directory = tmp_path / "kept"
    shutil.copytree(chain_directory, directory)
    keep(directory / "p2p", genesis_hash, [MINED])
    flags = ("--node", f"--data-directory={directory}", "--keep-txs=10", "--admin-api-key-hash", ADMIN_KEY_HASH)
    running = start_node(*flags).wait_until_serving()
    assert "--public-traces" in running.call("fastnode_traceTransaction", MINED)["error"]["message"]
    first = running.call_admin("fastnode_traceTransaction", MINED, {"opcodes": {"first": 3, "limit": 2}})["result"]
    assert first["source"] == "kept"
    assert len(first["steps"]["list"]) == 2
    assert running.call("fastnode_getKeptTx", MINED)["result"]["txHash"] == MINED
    running.process.kill()
    running.process.wait()
    again = start_node(*flags).wait_until_serving()
    assert (
        again.call_admin("fastnode_traceTransaction", MINED, {"opcodes": {"first": 3, "limit": 2}})["result"] == first
    )
    simulated = again.call_admin("fastnode_traceCall", recordings()[FRESH[0]]["tx"], {"gasProfile": True})["result"]
    assert simulated["status"] == "simulated"
    require_commands(again, node)
    again.stop()
    public = start_node(*flags, "--public-traces").wait_until_serving()
    assert public.call("fastnode_traceTransaction", MINED)["result"]["txHash"] == MINED


def require_commands(running: NodeProcess, node: Node) -> None:
    """``fastnode trace`` calls the admin port, with its key."""
    runner = CliRunner(env={"FASTNODE_ADMIN_API_KEY": ADMIN_KEY})
    url = f"http://127.0.0.1:{running.admin_port}"
    shown = runner.invoke(root, ["trace", MINED, "--url", url])
    assert (shown.exit_code, f"transaction {MINED}" in shown.output) == (0, True)
    assert "billed gas" in shown.output
    folded = runner.invoke(root, ["trace", MINED, "--url", url, "--folded"])
    assert all(line.rpartition(" ")[2].isdecimal() and line.count(";") >= 2 for line in folded.output.splitlines())
    assert orjson.loads(runner.invoke(root, ["trace", MINED, "--url", url, "--json"]).output)["txHash"] == MINED
    block = node.view.chain.load_block(node.view.chain.tip_number)
    assert block is not None
    for tx_hash, text in ((block.body.tx_effects[0].tx_hash, "no calls: "), (bytes(32), "is known")):
        lost = runner.invoke(root, ["trace", "0x" + tx_hash.hex(), "--url", url], standalone_mode=False)
        assert (lost.return_value, text in lost.output) == (1, True)
