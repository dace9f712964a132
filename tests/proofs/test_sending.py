"""Transactions with real proofs, sent to a node over HTTP: from the request to the verdict of the program."""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_commands import fastnode
from tests.conftest import ADMIN_KEY_HASH, PATIENCE_S, NodeProcess
from tests.proofs import toy_network
from tests.proofs.programs import VECTORS, script, vector_json

StartToyNode = Callable[..., NodeProcess]


@pytest.fixture
def start_toy_node(
    start_node: Callable[..., NodeProcess], setup_files: Path, toy_bb: Path, tmp_path: Path
) -> StartToyNode:
    """A node of the network on which the recorded transactions are valid."""
    data_directory = toy_network.make_data_directory(tmp_path)
    shutil.copytree(setup_files, data_directory / "proofs" / "setup")

    def start(program: Path = toy_bb, *more: str) -> NodeProcess:
        arguments = [*toy_network.arguments(data_directory, program), "--proof-verifier-timeout-s=300", *more]
        environment = {"PYTHONPATH": toy_network.ROOT, "SVC_ADMIN_API_KEY_HASH": ADMIN_KEY_HASH}
        return start_node(*arguments, module=toy_network.MODULE, **environment).wait_until_serving()

    return start


def changed(tx: dict[str, Any], part: str, byte: int) -> dict[str, Any]:
    """With one bit of a part flipped."""
    content = bytearray(base64.b64decode(tx[part]))
    content[byte] ^= 1
    return tx | {part: base64.b64encode(content).decode()}


def proofs_of(node: NodeProcess) -> dict[str, Any]:
    """Line of /status about the verifier, also while it does not work."""
    return dict(node.components()["proofs"])


def test_transactions_with_valid_proofs_are_taken(start_toy_node: StartToyNode) -> None:
    node = start_toy_node()
    for name in VECTORS:
        assert node.call("node_sendTx", vector_json(name)) == {"jsonrpc": "2.0", "id": 1, "result": None}
    assert node.call("node_getPendingTxCount")["result"] == len(VECTORS)
    for name in VECTORS:
        tx_hash = vector_json(name)["txHash"]
        assert node.call("node_getTxReceipt", tx_hash)["result"]["status"] == "pending"
    assert proofs_of(node)["state"].startswith("bb ready: 3 valid, 0 invalid, 0 unknown; ")
    assert "proofs            bb ready: 3 valid" in fastnode("status", "--url", node.url).stdout


def test_one_bit_makes_them_invalid(start_toy_node: StartToyNode) -> None:
    node = start_toy_node()
    for name in VECTORS:
        tx = changed(vector_json(name), "chonkProof", 4 + 31)
        refused = {"result": "invalid", "reason": ["Invalid proof"]}
        assert node.call("node_isValidTx", tx, {"isSimulation": True})["result"] == {"result": "valid"}
        assert node.call("node_isValidTx", tx)["result"] == refused
        assert "Invalid proof" in node.call("node_sendTx", tx)["error"]["message"]
    assert node.call("node_getPendingTxCount")["result"] == 0
    # The second question about each was answered by the verdict on the first.
    assert proofs_of(node)["state"].startswith("bb ready: 0 valid, 6 invalid, 0 unknown; ")
    assert node.call("node_isValidTx", vector_json("private"))["result"] == {"result": "valid"}


@pytest.mark.parametrize(
    ("lines", "timeout_s", "reason"),
    [
        ("kill -9 $$", 300, "the proof verifier failed"),
        ("sleep 600", 5, "the proof verifier did not end in time"),
        ('rm "$0"; exit 1', 300, "the proof verifier failed"),
    ],
    ids=["killed", "hung", "removed"],
)
def test_a_verifier_in_trouble_leaves_them_unjudged_and_the_node_alive(
    lines: str, timeout_s: int, reason: str, start_toy_node: StartToyNode, toy_bb: Path, tmp_path: Path
) -> None:
    has_time = timeout_s > 5  # for a true check on a slow machine
    # The real one until a file says otherwise: then this.
    trouble = tmp_path / "trouble"
    program = script(
        tmp_path / "bb", f'if [ "$1" = verify ] && [ -e {trouble} ]; then {lines}; fi', f'exec {toy_bb} "$@"'
    )
    node = start_toy_node(program, f"--proof-verifier-timeout-s={timeout_s}")
    wait_for(node, "bb ready")
    if has_time:
        assert node.call("node_isValidTx", vector_json("private"))["result"] == {"result": "valid"}
    trouble.touch()
    reason = f"Proof cannot be verified: {reason}"
    tx = vector_json("public")
    assert node.call("node_isValidTx", tx)["result"] == {"result": "skipped", "reason": [reason]}
    error = node.call("node_sendTx", tx)["error"]
    assert reason in error["message"]
    assert proofs_of(node)["state"].endswith(f"; last trouble: {reason}")
    trouble.unlink()
    if has_time and program.exists():
        assert node.call("node_sendTx", tx) == {"jsonrpc": "2.0", "id": 1, "result": None}
    left = {path.name for path in (tmp_path / "data" / "proofs").glob("checks-*/*")}
    assert left == {"lock", "to_rollup.vk", "to_public.vk"}
    assert node.stop() == 0
    assert list((tmp_path / "data" / "proofs").glob("checks-*")) == []


def test_who_has_sent_a_false_proof_waits_behind_the_others(
    start_toy_node: StartToyNode, toy_bb: Path, tmp_path: Path
) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    first_field = 'tail -c 61920 "$5" | head -c 32 | od -An -v -tx1 | tr -d " \\n"'
    held = f"echo $({first_field}) >> {begun}; while [ ! -e {gate} ]; do sleep 0.05; done"
    program = script(tmp_path / "bb", f'if [ "$1" = verify ]; then {held}; fi', f'exec {toy_bb} "$@"')
    gate.touch()
    node = start_toy_node(program, "--bb-num-ivc-verifiers=1")
    wait_for(node, "bb ready")
    flooder, other = "127.0.7.1", "127.0.7.2"
    assert send_from(flooder, node, numbered(1)) == "Invalid tx: Invalid proof"
    gate.unlink()
    begun.unlink()
    with ThreadPoolExecutor(5) as clients:
        flood = [clients.submit(send_from, flooder, node, numbered(number)) for number in range(2, 6)]
        wait_for(node, "1 running, 3 waiting")
        honest = clients.submit(send_from, other, node, vector_json("mixed"))
        wait_for(node, "1 running, 4 waiting")
        gate.touch()
        assert honest.result() == "accepted"
        assert {answer.result() for answer in flood} == {"Invalid tx: Invalid proof"}
    order = begun.read_text().split()
    proof = base64.b64decode(vector_json("mixed")["chonkProof"])
    assert order.index(proof[4:36].hex()) == 1
    assert len(order) == 5


def test_as_many_are_checked_at_once_as_are_asked_for(
    start_toy_node: StartToyNode, toy_bb: Path, tmp_path: Path
) -> None:
    held, gate = tmp_path / "held", tmp_path / "gate"
    hold = f"while [ ! -e {gate} ]; do sleep 0.05; done; exit 9"
    program = script(tmp_path / "bb", f'if [ "$1" = verify ] && [ -e {held} ]; then {hold}; fi', f'exec {toy_bb} "$@"')
    node = start_toy_node(program, "--bb-num-ivc-verifiers=12")
    wait_for(node, "bb ready")
    held.touch()
    with ThreadPoolExecutor(14) as clients:
        sent = [clients.submit(send_from, "127.0.0.1", node, numbered(number)) for number in range(14)]
        wait_for(node, "12 running, 2 waiting")
        gate.touch()
        assert all("Proof cannot be verified" in answer.result() for answer in sent)


def numbered(number: int) -> dict[str, Any]:
    """A transaction with a false proof, each number another one."""
    tx = vector_json("private")
    proof = base64.b64decode(tx["chonkProof"])
    return tx | {"chonkProof": base64.b64encode(proof[:4] + number.to_bytes(32, "big") + proof[36:]).decode()}


def send_from(address: str, node: NodeProcess, tx: dict[str, Any]) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=PATIENCE_S, source_address=(address, 0))
    with closing(connection):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "node_sendTx", "params": [tx]})
        connection.request("POST", "/", body, {"content-type": "application/json"})
        answer = json.loads(connection.getresponse().read())
    return str(answer.get("error", {}).get("message", "accepted"))


def wait_for(node: NodeProcess, text: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while text not in (state := proofs_of(node)["state"]):
        assert time.monotonic() < deadline, state
        time.sleep(0.05)
