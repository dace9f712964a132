"""Simulations in a running node: over HTTP, many at once, beside other requests, and when it stops."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests._ext.avm_programs import assemble, put
from tests.conftest import PATIENCE_S
from tests.mempool.recorded import hashes, recordings
from tests.public_execution.made import tx_running

from fastnode._twins.avm_instructions import U8, U32

METHOD = "node_simulatePublicCalls"
#: Divides fields until the gas is gone, which takes much longer than to jump: SET_8 of a field at 1, FDIV_8, JUMP_32.
SLOW_LOOP = bytes.fromhex("2700010005" + "0800010102" + "2300000005")
ENDLESS_GAS = (1 << 32) - 1


@pytest.fixture
def node(start_node: Callable[..., Any], short_chain: Any) -> Any:
    limits = ("--rpc-simulate-timeout-ms", "1500", "--rpc-simulate-public-max-gas-limit", ENDLESS_GAS)
    node = start_node("--chain-file", short_chain, *limits).wait_until_serving()
    node.wait_for_line("chain file loaded")
    return node


def endless() -> dict[str, Any]:
    return tx_running(SLOW_LOOP, l2_gas=ENDLESS_GAS).to_json()


def test_a_simulation_is_answered_over_http(node: Any) -> None:
    tx = tx_running(bytes.fromhex("2700040039000000000000"))
    result = node.call(METHOD, tx.to_json() | {"txHash": "0x01"}, True)["result"]
    assert result["globalVariables"]["blockNumber"] == node.call("node_getBlockNumber")["result"] + 1
    assert result["txEffect"]["txHash"] == "0x" + tx.hash.hex(), "what a client takes for the hash does not count"
    assert result["txEffect"]["revertCode"] == 1
    assert node.stop() == 0


def reverted(node: Any, program: bytes, calldata: bytes = b"") -> str:
    """Reason why its call failed."""
    result = node.call(METHOD, tx_running(program, calldata=calldata).to_json(), True)["result"]
    return str(result["revertReason"]["originalMessage"])


def test_hostile_programs_end_as_everywhere_and_the_node_goes_on(
    start_node: Callable[..., Any], short_chain: Any
) -> None:
    """Pages of memory written over their edges, bytecode that ends with zeros, debug logs without end."""
    limits = ("--rpc-simulate-timeout-ms", "60000", "--rpc-simulate-public-max-gas-limit", ENDLESS_GAS)
    node = start_node("--chain-file", short_chain, *limits).wait_until_serving()
    node.wait_for_line("chain file loaded")
    head = put(0, U32, 64) + put(1, U32, 2) + put(2, U32, 0) + put(3, U32, 1024 * 16)
    copies = b"".join(assemble("CALLDATACOPY", 1, 2, 7 + 16 * k, mode=0b100000) for k in range(1024))
    pages = head + copies + assemble("ADD", 0, 3, 0) + assemble("JUMP", len(head))
    assert reverted(node, pages, bytes(64)).startswith("Out of gas: ")
    assert reverted(node, b"\x26" + bytes(31)).startswith("Internal return failed: ")
    logs = put(1, U8, 3) + put(2, U32, 124_000) + assemble("DEBUGLOG", 1, 5, 5, 2, 0) + assemble("JUMP", 0)
    error = node.call(METHOD, tx_running(logs).to_json(), True)["error"]
    assert "bytes of memory" in error["message"]
    assert node.call("node_getBlockNumber")["result"] > 0
    assert node.stop() == 0


def test_other_requests_are_answered_while_endless_simulations_run(
    start_node: Callable[..., Any], short_chain: Any
) -> None:
    """They run until their clients leave."""
    limits = ("--rpc-simulate-timeout-ms", "600000", "--rpc-simulate-public-max-gas-limit", ENDLESS_GAS)
    node = start_node("--chain-file", short_chain, *limits).wait_until_serving()
    node.wait_for_line("chain file loaded")
    fresh, slow = recordings()[hashes("fresh")[0]]["tx"], endless()
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": [slow, True]})
    with contextlib.ExitStack() as stack:
        clients = [http.client.HTTPConnection("127.0.0.1", node.port, timeout=PATIENCE_S) for _ in range(12)]
        for client in clients:
            stack.callback(client.close)
            client.request("POST", "/", body, {"Content-Type": "application/json"})
        for _ in range(5):
            assert node.call("node_getBlockNumber")["result"] > 0
            assert "result" in node.call("node_isValidTx", fresh)
        answered, _, _ = select.select([client.sock for client in clients], [], [], 0)
        assert len(clients) - len(answered) >= 4, "they still run"
    assert node.stop() == 0


def test_simulations_of_many_end_in_time_or_are_refused(node: Any) -> None:
    slow = endless()
    with ThreadPoolExecutor(12) as clients:
        running = [clients.submit(node.call, METHOD, slow, True) for _ in range(12)]
        errors = [future.result()["error"]["message"] for future in running]
    assert set(errors) <= {
        "Public execution takes longer than this node allows",
        "Too many public simulations are running; try again later",
    }
    assert errors.count("Public execution takes longer than this node allows") >= 4
    assert node.stop() == 0


def test_a_stop_does_not_wait_for_simulations(start_node: Callable[..., Any], short_chain: Any) -> None:
    limits = ("--rpc-simulate-timeout-ms", "600000", "--rpc-simulate-public-max-gas-limit", ENDLESS_GAS)
    node = start_node("--chain-file", short_chain, *limits, "--shutdown-grace-s", "1")
    node.wait_until_serving()
    node.wait_for_line("chain file loaded")
    client = threading.Thread(target=lambda: _ignoring_errors(node.call, METHOD, endless(), True))
    client.start()
    time.sleep(1)
    assert node.stop() == 0
    client.join()


def _ignoring_errors(call: Callable[..., Any], *arguments: Any) -> None:
    with contextlib.suppress(OSError, ValueError):
        call(*arguments)


def test_a_simulator_that_is_not_asked_is_named_in_the_log(start_node: Callable[..., Any], short_chain: Any) -> None:
    node = start_node("--chain-file", short_chain, "--public-simulator-url", "http://127.0.0.1:1").wait_until_serving()
    assert node.wait_for_line("--public-simulator-url is not asked")
    assert node.stop() == 0


def test_simulations_can_be_handed_on_instead(start_node: Callable[..., Any], short_chain: Any) -> None:
    node = start_node("--chain-file", short_chain, "--simulate-public-calls", "upstream").wait_until_serving()
    fresh = recordings()[hashes("fresh")[0]]["tx"]
    assert node.call(METHOD, fresh)["error"]["message"] == "no public simulator is configured"
    assert node.stop() == 0
