"""Whether a transaction can go anywhere from a node: every place that says it says the same."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.app.test_node import wait_for_tip
from tests.conftest import ADMIN_KEY_HASH, PATIENCE_S
from tests.mempool.made import hash_of, made_txs
from tests.p2p.test_nodes import ON_NETWORK, wait_until
from tests.ports import free_port
from tests.taking_node import start_taking

from fastnode.app.ground.way_out import NO_NETWORK, NO_PEER

Start = Callable[..., Any]
SAMPLE_TIP = 106
WARNING = "transactions that are sent here are refused"


@pytest.fixture
def directory(chain_directory: Path, tmp_path: Path) -> Path:
    """The sample chain as an imported one."""
    return Path(shutil.copytree(chain_directory, tmp_path / "data"))


def said_everywhere(node: Any, tx: dict[str, Any]) -> dict[str, str | None]:
    """Why no transaction can go anywhere, by who says it; None where it can.  ``tx`` is sent."""
    request = urllib.request.Request(f"{node.url}/status", headers={"Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            status = json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            status = json.load(error)
    note = status.get("notes", {}).get("transactions")
    sync = node.call("fastnode_getSyncStatus")["result"]
    assert sync["isReady"] is (sync["noTransactions"] is None) is node.call("node_isReady")["result"]
    error = node.call("node_sendTx", tx).get("error")
    assert error is None or error["data"] == {"code": "NO_TRANSACTIONS"}
    receipt = node.call("node_getTxReceipt", hash_of(tx))["result"]
    assert receipt["status"] == ("dropped" if error else "pending")
    return {
        "getSyncStatus": sync["noTransactions"],
        "sendTx": None if error is None else error["message"],
        "status": None if note is None else note.removeprefix("refused: "),
    }


def is_said(node: Any, tx: dict[str, Any], reason: str | None) -> None:
    assert said_everywhere(node, tx) == dict.fromkeys(("getSyncStatus", "sendTx", "status"), reason)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_chain_that_was_imported_and_no_network_is_no_way_out(
    start_node: Start, directory: Path, workers: int
) -> None:
    node = start_node("--data-directory", directory, f"--workers={workers}").wait_until_serving()
    wait_until(lambda: [entry["message"] for entry in node.entries()].count("worker serves") == workers)
    wait_for_tip(node, SAMPLE_TIP)
    is_said(node, next(made_txs(1)), NO_NETWORK)
    assert node.wait_for_line(WARNING)["reason"] == NO_NETWORK
    assert node.readiness().startswith("OK"), "what is stored can be read"
    assert node.stop() == 0


def test_the_receipt_of_a_transaction_that_was_kept_says_that_it_goes_nowhere(
    start_node: Start, directory: Path
) -> None:
    tx = next(made_txs(1))
    node = start_taking(start_node, "--data-directory", directory).wait_until_serving()
    assert "error" not in node.call("node_sendTx", tx)
    assert "error" not in node.call("node_getTxReceipt", hash_of(tx))["result"]
    assert node.stop() == 0
    node = start_node("--data-directory", directory).wait_until_serving()
    receipt = node.call("node_getTxReceipt", hash_of(tx))["result"]
    assert (receipt["status"], receipt["error"]) == ("pending", f"It waits in this node's pool: {NO_NETWORK}")
    assert node.stop() == 0


def test_a_node_that_only_has_peers_takes_transactions_as_soon_as_there_is_one(
    start_node: Start, chain_directory: Path, tmp_path: Path
) -> None:
    def start(name: str, *arguments: object) -> Any:
        shutil.copytree(chain_directory, tmp_path / name)
        return start_node("--data-directory", tmp_path / name, *ON_NETWORK, *arguments).wait_until_serving()

    tx = next(made_txs(1))
    first = start("first")
    port = first.wait_for_line("on the peer-to-peer network")["port"]
    is_said(first, tx, NO_PEER)
    assert first.wait_for_line(WARNING)["reason"] == NO_PEER
    second = start("second", f"--p2p-peer=127.0.0.1:{port}")
    wait_until(lambda: first.call("node_isReady")["result"])
    is_said(first, tx, None)
    assert second.stop() == 0
    wait_until(lambda: not first.call("node_isReady")["result"])
    assert first.call("node_getTxReceipt", hash_of(tx))["result"]["status"] == "pending"


def test_a_damaged_database_is_no_way_out(start_node: Start, directory: Path) -> None:
    """Where transactions could go without the damage."""
    node = start_taking(
        start_node,
        f"--data-directory={directory}",
        f"--admin-port={free_port()}",
        SVC_ADMIN_API_KEY_HASH=ADMIN_KEY_HASH,
    ).wait_until_serving()
    wait_for_tip(node, SAMPLE_TIP)
    is_said(node, next(made_txs(1)), None)
    for table in (directory / "archiver").glob("*.ldb"):
        content = bytearray(table.read_bytes())
        content[: len(content) // 2] = bytes(len(content) // 2)
        with table.open("r+b") as file:
            file.write(content)
    for number in range(1, SAMPLE_TIP):
        if "error" in node.call("node_getBlock", number):
            break
    damage = node.readiness()
    assert "is damaged" in damage
    error = node.call("node_sendTx", list(made_txs(2))[1])["error"]
    assert "is damaged" in error["message"]
    assert error["data"] == {"code": "NO_TRANSACTIONS"}
    assert node.call("node_isReady")["result"] is False
    sync = node.call("fastnode_getSyncStatus")["result"]
    assert (sync["isReady"], "is damaged" in sync["noTransactions"]) == (False, True)
