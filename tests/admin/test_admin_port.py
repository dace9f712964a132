"""The admin port of a node that runs: its key from the first start on."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastnode.admin.api_key import HASH_FILE


def ask(node: Any, method: str, *params: object, key: str | None = None) -> tuple[int, Any]:
    """HTTP status and JSON of an answer of the admin port."""
    connection = http.client.HTTPConnection("127.0.0.1", node.admin_port, timeout=30)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    try:
        connection.request("POST", "/", body, {} if key is None else {"x-api-key": key})
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


def test_the_public_port_needs_no_key(start_node: Callable[..., Any], short_chain: Path) -> None:
    node = start_node("--chain-file", short_chain).wait_until_serving()
    assert node.call("node_getBlockNumber")["result"] >= 0
    assert node.stop() == 0
