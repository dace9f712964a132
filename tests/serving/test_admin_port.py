"""The admin port of a node that runs: its key from the first start on."""

from __future__ import annotations

import hashlib
import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.keystore.test_keystore import ADDRESS_0, ADDRESS_1, KEY_0, KEY_1, store, validator

from fastnode.keystore.validators import NO_KEYSTORE
from fastnode.serving.api_key import HASH_FILE


def ask(node: Any, method: str, *params: object, key: str | None = None, origin: str | None = None) -> tuple[int, Any]:
    """HTTP status and JSON of an answer of the admin port."""
    connection = http.client.HTTPConnection("127.0.0.1", node.admin_port, timeout=30)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    try:
        headers = {"x-api-key": key, "Origin": origin}
        connection.request("POST", "/", body, {name: value for name, value in headers.items() if value is not None})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_a_key_that_is_shown_once_opens_the_admin_port_after_every_start(
    tmp_path: Path, start_node: Callable[..., Any], short_chain: Path
) -> None:
    arguments = ("--data-directory", tmp_path / "data", "--chain-file", short_chain)
    node = start_node(*arguments).wait_until_serving()
    key = node.admin_key
    assert ask(node, "node_nothing", key=key)[0] == 200
    assert ask(node, "node_nothing", key="0" * 64)[0] == 401
    assert ask(node, "node_nothing")[0] == 401
    assert node.stop() == 0
    assert key not in node.log.read_text()
    assert HASH_FILE.parts == ("admin", "api_key_hash")
    assert (tmp_path / "data" / HASH_FILE).read_text().strip() == hashlib.sha256(key.encode()).hexdigest()

    node = start_node(*arguments).wait_until_serving()
    assert node.output.read_text() == ""
    assert ask(node, "node_nothing", key=key)[0] == 200
    assert node.stop() == 0

    node = start_node(*arguments, SVC_RESET_ADMIN_API_KEY="1").wait_until_serving()
    assert ask(node, "node_nothing", key=key)[0] == 401
    assert ask(node, "node_nothing", key=node.admin_key)[0] == 200
    assert node.stop() == 0

    node = start_node(*arguments, "--disable-admin-api-key").wait_until_serving()
    assert ask(node, "node_nothing")[0] == 200
    assert (tmp_path / "data" / HASH_FILE).exists()
    assert node.stop() == 0


def test_without_a_key_the_pages_of_other_sites_are_refused(start_node: Callable[..., Any], short_chain: Path) -> None:
    node = start_node("--chain-file", short_chain, "--disable-admin-api-key").wait_until_serving()
    status, answer = ask(node, "nodeAdmin_getConfig", origin="https://evil.example")
    assert status == 403
    assert "pages of other sites" in answer["error"]["message"]
    assert ask(node, "nodeAdmin_getConfig", origin=f"http://127.0.0.1:{node.admin_port}")[0] == 200
    assert node.stop() == 0


def test_the_public_port_needs_no_key(start_node: Callable[..., Any], short_chain: Path) -> None:
    node = start_node("--chain-file", short_chain).wait_until_serving()
    assert node.call("node_getBlockNumber")["result"] >= 0
    assert node.stop() == 0


def test_the_configuration_is_shown_changed_and_forgotten_at_a_restart(
    tmp_path: Path, start_node: Callable[..., Any], short_chain: Path
) -> None:
    arguments = ("--data-directory", tmp_path / "data", "--chain-file", short_chain, "--disable-admin-api-key")
    node = start_node(*arguments, P2P_MAX_PENDING_TX_COUNT="77").wait_until_serving()
    _, answer = ask(node, "nodeAdmin_getConfig")
    before = answer["result"]
    assert before["maxPendingTxCount"] == 77
    assert before["realProofs"] is False
    defaults = node.call("node_getAllowedPublicSetup")["result"]

    entry = {"classId": "0x" + "00" * 31 + "05", "selector": "0x12345678", "onlySelf": True}
    change = {"maxPendingTxCount": 5, "txPublicSetupAllowListExtend": [entry]}
    assert ask(node, "nodeAdmin_setConfig", change) == (200, {"jsonrpc": "2.0", "id": 1, "result": None})
    assert ask(node, "nodeAdmin_getConfig")[1]["result"] == before | change
    assert node.call("node_getAllowedPublicSetup")["result"] == [*defaults, entry]

    _, refused = ask(node, "nodeAdmin_setConfig", {"maxPendingTxCount": 6, "haSigningEnabled": True})
    assert refused["error"]["code"] == -32602
    assert "set VALIDATOR_HA_SIGNING_ENABLED and start the node again" in refused["error"]["message"]
    assert ask(node, "nodeAdmin_getConfig")[1]["result"] == before | change
    assert node.stop() == 0

    node = start_node(*arguments, P2P_MAX_PENDING_TX_COUNT="77").wait_until_serving()
    assert ask(node, "nodeAdmin_getConfig")[1]["result"] == before
    assert node.stop() == 0


def test_a_start_on_another_network_than_the_settings_name_is_refused(
    start_node: Callable[..., Any], short_chain: Path
) -> None:
    for flag, wanted, line in (
        ("--l1-chain-id", "1", "l1-chain-id is to be 1, but the chain's is 31337"),
        ("--rollup-version", "5", "rollup-version is to be 5, but the chain's is 3658137161"),
        ("--registry-address", "0x" + "AA" * 20, f"registry-address is to be 0x{'aa' * 20}, but the chain's is 0x"),
    ):
        node = start_node("--chain-file", short_chain, f"{flag}={wanted}")
        assert node.process.wait(60) == 78
        assert f"the chain is on another network: {line}" in node.log.read_text()


def test_a_prover_without_l1_is_refused_with_a_clear_sentence(start_node: Callable[..., Any]) -> None:
    node = start_node("--prover-node")
    assert node.process.wait(60) == 78
    assert node.entries()[-1]["message"].startswith(
        "--prover-node: proofs are sent to L1, so the chain must be read there"
    )


def test_the_settings_of_the_networks_nodes_are_read_and_old_names_are_pointed_out(
    start_node: Callable[..., Any], short_chain: Path
) -> None:
    node = start_node(
        "--chain-file",
        short_chain,
        "--maxL2BlockGas=1000",
        SEQ_MAX_DA_BLOCK_GAS="2000000",
        SEQ_BLOCK_DURATION_MS="2500",
        SEQ_MAX_TX_PER_BLOCK="7",
        BOT_BASE_FEE_PADDING="7",
    ).wait_until_serving()
    budget = node.wait_for_line("budget of a block")
    assert (budget["l2_gas"], budget["da_gas"]) == (1000, 786_432)
    warnings = [entry["message"] for entry in node.entries() if "not read any more" in entry["message"]]
    assert warnings == [
        "BOT_BASE_FEE_PADDING is set but not read any more; use BOT_MIN_FEE_PADDING",
        "SEQ_MAX_TX_PER_BLOCK is set but not read any more; use SEQ_MAX_TX_PER_CHECKPOINT",
    ]
    assert node.stop() == 0
    for old in ("--txPublicSetupAllowList=x", "--maxBlockSizeInBytes=5", "--bot.baseFeePadding=3"):
        node = start_node(old)
        assert node.process.wait(60) == 2
        assert f"{old.partition('=')[0]} is not a setting any more; " in node.log.read_text()


def test_the_keystore_is_loaded_and_reloaded_and_no_key_is_ever_logged(
    tmp_path: Path, start_node: Callable[..., Any], short_chain: Path
) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "one.json").write_text(json.dumps(store(validator(KEY_0))))
    arguments = ("--chain-file", short_chain, "--disable-admin-api-key", "--log-level=debug")
    node = start_node(*arguments, KEY_STORE_DIRECTORY=str(keys)).wait_until_serving()
    assert ask(node, "nodeAdmin_getConfig")[1]["result"]["validatorAddresses"] == [ADDRESS_0]

    (keys / "two.json").write_text(json.dumps(store(validator(KEY_1))))
    assert ask(node, "nodeAdmin_reloadKeystore") == (200, {"jsonrpc": "2.0", "id": 1, "result": None})
    assert ask(node, "nodeAdmin_getConfig")[1]["result"]["validatorAddresses"] == [ADDRESS_0, ADDRESS_1]

    (keys / "three.json").write_text(json.dumps(store(validator("0x" + "77" * 32, publisher="0x" + "66" * 32))))
    _, answer = ask(node, "nodeAdmin_reloadKeystore")
    assert answer["error"]["code"] == -32000
    assert answer["error"]["message"].startswith("Cannot reload keystore: validator 0x")
    assert ask(node, "nodeAdmin_getConfig")[1]["result"]["validatorAddresses"] == [ADDRESS_0, ADDRESS_1]
    assert node.stop() == 0
    text = node.log.read_text() + json.dumps(answer)
    assert not any(secret in text for secret in (KEY_0[2:], KEY_1[2:], "77" * 32, "66" * 32))

    (keys / "three.json").write_text(json.dumps(store(validator("0x" + "77" * 32, coinbase=KEY_0))))
    node = start_node(*arguments, FASTNODE_DEBUG="1", KEY_STORE_DIRECTORY=str(keys))
    assert node.process.wait(60) == 78
    assert node.entries()[-1]["message"].endswith("Invalid Ethereum address (validators.0.coinbase)")
    assert KEY_0[2:] not in node.log.read_text()


def test_without_a_keystore_a_reload_says_so(start_node: Callable[..., Any], short_chain: Path) -> None:
    node = start_node("--chain-file", short_chain, "--disable-admin-api-key").wait_until_serving()
    error = ask(node, "nodeAdmin_reloadKeystore")[1]["error"]
    assert error == {"code": -32000, "message": NO_KEYSTORE}
    assert node.stop() == 0
