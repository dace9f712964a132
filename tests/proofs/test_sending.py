"""Transactions with real proofs, sent to a node over HTTP: from the request to the verdict of the program."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_commands import fastnode
from tests.conftest import ADMIN_KEY_HASH, NodeProcess
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
        arguments = [*toy_network.arguments(data_directory, program), *more]
        environment = {"PYTHONPATH": toy_network.ROOT, "SVC_ADMIN_API_KEY_HASH": ADMIN_KEY_HASH}
        return start_node(*arguments, module=toy_network.MODULE, **environment).wait_until_serving()

    return start


def changed(tx: dict[str, Any], part: str, byte: int) -> dict[str, Any]:
    """With one bit of a part flipped."""
    content = bytearray(base64.b64decode(tx[part]))
    content[byte] ^= 1
    return tx | {part: base64.b64encode(content).decode()}


def proofs_of(node: NodeProcess) -> dict[str, Any]:
    """What `fastnode status` knows of the verifier."""
    done = fastnode("status", "--json", "--url", node.url)
    return dict(json.loads(done.stdout)["components"]["proofs"])


def test_transactions_with_valid_proofs_are_taken(start_toy_node: StartToyNode) -> None:
    node = start_toy_node()
    for name in VECTORS:
        assert node.call("node_sendTx", vector_json(name)) == {"jsonrpc": "2.0", "id": 1}
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
    ("lines", "reason"),
    [
        ("kill -9 $$", "the proof verifier failed"),
        ("sleep 600", "the proof verifier did not end in time"),
        ('rm "$0"; exit 1', "the proof verifier failed"),
    ],
    ids=["killed", "hung", "removed"],
)
def test_a_verifier_in_trouble_leaves_them_unjudged_and_the_node_alive(
    lines: str, reason: str, start_toy_node: StartToyNode, toy_bb: Path, tmp_path: Path
) -> None:
    # The real one until a file says otherwise: then this.
    trouble = tmp_path / "trouble"
    program = script(
        tmp_path / "bb", f'if [ "$1" = verify ] && [ -e {trouble} ]; then {lines}; fi', f'exec {toy_bb} "$@"'
    )
    node = start_toy_node(program, "--proof-verifier-timeout-s=2")
    assert node.call("node_isValidTx", vector_json("private"))["result"] == {"result": "valid"}
    trouble.touch()
    reason = f"Proof cannot be verified: {reason}"
    tx = vector_json("public")
    assert node.call("node_isValidTx", tx)["result"] == {"result": "skipped", "reason": [reason]}
    error = node.call("node_sendTx", tx)["error"]
    assert reason in error["message"]
    assert proofs_of(node)["state"].endswith(f"; last trouble: {reason}")
    trouble.unlink()
    if program.exists():
        assert node.call("node_sendTx", tx) == {"jsonrpc": "2.0", "id": 1}
    left = {path.name for path in (tmp_path / "data" / "proofs").glob("checks-*/*")}
    assert left == {"lock", "to_rollup.vk", "to_public.vk"}
    assert node.stop() == 0
    assert list((tmp_path / "data" / "proofs").glob("checks-*")) == []
