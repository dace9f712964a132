"""The node as a process: starts, serves while it loads, stops on request, survives being killed."""

from __future__ import annotations

import http.client
import json
import os
import pty
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import forked_nodes
from tests.cli.test_commands import fastnode
from tests.conftest import ADMIN_KEY_HASH, NO_FIXED_PORTS, PATIENCE_S, NodeProcess, clean_environment
from tests.mempool.made import made_txs
from tests.ports import free_port

from fastnode import __version__
from fastnode.app.ground.node_settings import limits_of, memory_budget_of
from fastnode.app.ground.sample import NO_BLOCKS
from fastnode.app.ground.way_out import NO_NETWORK
from fastnode.archiver.store import ArchiverStore
from fastnode.chain_data import has_databases
from fastnode.config.settings import Settings
from fastnode.errors import SettingError

SAMPLE_TIP = 106
#: In the data directory while the sample is being loaded.
SHORT_TIP = 16  # of the fixture short_chain
#: Environment of a node that takes its time to load, so that a test can come in between.
SLOW = {"FASTNODE_NO_EXTENSIONS": "1"}


def wait_for_tip(node: Any, number: int) -> None:
    deadline = time.monotonic() + 60
    while node.call("node_getBlockNumber")["result"] < number:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lines(node: Any, message: str) -> list[dict[str, Any]]:
    return [entry for entry in node.entries() if entry["message"].startswith(message)]


# ---- the sample chain ---------------------------------------------------------------------------------


def test_without_a_source_the_sample_chain_is_served_and_the_log_says_so(start_node: Callable[..., Any]) -> None:
    node = start_node().wait_until_serving()
    wait_for_tip(node, SAMPLE_TIP)
    assert len(lines(node, "sample chain")) == 1
    block = node.call("node_getBlock", 42)["result"]
    assert block["header"]["globalVariables"]["blockNumber"] == 42
    assert node.stop() == 0


def test_the_sample_chain_takes_no_transactions_and_says_so_everywhere(start_node: Callable[..., Any]) -> None:
    node = start_node().wait_until_serving()
    wait_for_tip(node, SAMPLE_TIP)
    [warning] = lines(node, "sample chain")
    assert warning["level"] == "warning"
    assert "--upstream-url" in warning["message"]
    assert node.call("node_isReady")["result"] is False
    error = node.call("node_sendTx", next(made_txs(1)))["error"]
    assert error["message"] == NO_BLOCKS
    assert error["data"] == {"code": "NO_TRANSACTIONS"}
    assert node.call("node_getPendingTxCount")["result"] == 0
    assert node.stop() == 0


def test_the_sample_chain_gets_no_traffic_unless_the_operator_accepts_it(start_node: Callable[..., Any]) -> None:
    node = start_node().wait_until_serving()
    assert node.readiness().split(":")[0] in ("the chain file is being loaded", "sample chain")
    node.wait_for_line("chain file loaded")
    assert node.readiness().startswith("sample chain: nothing is stored and no source of a chain is given")
    assert node.call("fastnode_getSyncStatus")["result"]["isSampleChain"] is True
    told = fastnode("status", "--url", node.url)
    assert "not ready: sample chain" in told.stdout
    assert told.returncode == 1
    assert node.stop() == 0

    node = start_node("--accept-sample-chain").wait_until_serving()
    node.wait_for_line("chain file loaded")
    assert node.readiness() == "OK"
    assert node.call("fastnode_getSyncStatus")["result"]["isSampleChain"] is True
    told = fastnode("status", "--url", node.url)
    assert "chain: sample chain" in told.stdout
    assert told.returncode == 0
    assert node.stop() == 0


def test_a_chain_of_ones_own_is_not_taken_for_the_sample(
    start_node: Callable[..., Any], sample_chain: Path, tmp_path: Path
) -> None:
    """Also when it has the same blocks."""
    node = start_node("--chain-file", sample_chain, "--data-directory", tmp_path / "data").wait_until_serving()
    wait_for_tip(node, SAMPLE_TIP)
    node.wait_for_line("chain file loaded")
    assert lines(node, "sample chain") == []
    assert node.readiness() == "OK"
    assert node.call("fastnode_getSyncStatus")["result"]["isSampleChain"] is False
    assert node.call("node_sendTx", next(made_txs(1)))["error"]["message"] == NO_NETWORK
    assert node.stop() == 0


def test_a_chain_file_of_a_release_without_a_record_is_served_with_a_warning(
    start_node: Callable[..., Any], short_chain: Path, tmp_path: Path
) -> None:
    first, rest = short_chain.read_text().split("\n", 1)
    record = json.loads(first)
    assert record["nodeInfo"]["nodeVersion"] == "4.1.2"
    record["nodeInfo"]["nodeVersion"] = "9.1.0"
    other = tmp_path / "other.jsonl"
    other.write_text(f"{json.dumps(record)}\n{rest}")
    for file, is_known in ((short_chain, True), (other, False)):
        node = start_node("--chain-file", file).wait_until_serving()
        wait_for_tip(node, SHORT_TIP)
        request = urllib.request.Request(f"{node.url}/status", headers={"Accept": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            notes = json.loads(response.read())["notes"]
        warnings = lines(node, "the release of the chain has no record")
        assert node.stop() == 0
        if is_known:
            assert "release" not in notes
            assert warnings == []
        else:
            [warning] = warnings
            assert notes["release"] == warning["reason"]
            assert notes["release"].startswith("the chain is of node version 9.1.0, which belongs to no known release")


def test_a_data_directory_that_is_not_given_is_temporary_and_removed(start_node: Callable[..., Any]) -> None:
    node = start_node().wait_until_serving()
    path = Path(lines(node, "no --data-directory")[0]["path"])
    assert path.is_dir()
    assert node.stop() == 0
    assert not path.exists()


def test_a_second_start_serves_what_is_stored_and_loads_nothing(
    tmp_path: Path, start_node: Callable[..., Any], sample_chain: Path
) -> None:
    node = start_node("--data-directory", tmp_path / "data", "--chain-file", sample_chain).wait_until_serving()
    wait_for_tip(node, SAMPLE_TIP)
    node.wait_for_line("chain file loaded")
    assert node.stop() == 0
    node = start_node("--data-directory", tmp_path / "data").wait_until_serving()
    assert node.call("node_getBlockNumber")["result"] == SAMPLE_TIP
    assert lines(node, "chain file loaded") == []
    assert lines(node, "sample chain") == []
    assert len(lines(node, "transactions that are sent here are refused")) == 1, "it is still no chain that goes on"
    assert node.stop() == 0


def test_the_sample_chain_never_stays_in_a_directory_that_was_named(
    tmp_path: Path, start_node: Callable[..., Any], short_chain: Path
) -> None:
    directory = tmp_path / "data"
    node = start_node("--data-directory", directory).wait_until_serving()
    node.wait_for_line("sample chain")
    wait_for_tip(node, SAMPLE_TIP)
    assert node.stop() == 0
    assert not has_databases(directory)
    # Something else takes the place of one that an earlier version has left.
    command = [sys.executable, "-m", "fastnode", "import", "--no-verify", "--data-directory", str(directory)]
    forked_nodes.run([*command, short_chain], check=True)
    (directory / "sample-chain").touch()
    node = start_node("--data-directory", directory, "--chain-file", short_chain).wait_until_serving()
    node.wait_for_line("removing the sample chain from the data directory")
    assert node.wait_for_line("chain file loaded")["new"] == SHORT_TIP
    assert node.stop() == 0
    assert not (directory / "sample-chain").exists()


@pytest.mark.parametrize(
    ("flags", "said", "code"),
    [
        (("--data-directory", "data"), "no snapshot of http://127.0.0.1:", 1),
        ((), "--snapshots-urls: say where the chain is to be kept with --data-directory", 78),
    ],
)
def test_a_snapshot_that_cannot_be_had_is_never_replaced_by_the_sample_chain(
    tmp_path: Path, start_node: Callable[..., Any], flags: tuple[str, ...], said: str, code: int
) -> None:
    place = [tmp_path / flag if flag == "data" else flag for flag in flags]
    node = start_node(*place, "--snapshots-urls", f"http://127.0.0.1:{free_port()}/fastnode-1-2-0x{'11' * 20}")
    node.wait_for_line(said)
    assert node.process.wait(60) == code
    assert lines(node, "sample chain") == []


def test_a_chain_of_ones_own_is_never_mixed_with_the_sample(
    tmp_path: Path, start_node: Callable[..., Any], sample_chain: Path
) -> None:
    """The first blocks of a chain may be those of the sample, and its next ones others."""
    command = [sys.executable, "-m", "fastnode", "import", str(sample_chain), "--no-verify"]
    forked_nodes.run([*command, "--data-directory", tmp_path / "all"], check=True)
    part = tmp_path / "part.jsonl"
    command = [sys.executable, "-m", "fastnode", "export", str(part), "--to", "20"]
    forked_nodes.run([*command, "--data-directory", tmp_path / "all"], check=True)
    node = start_node("--data-directory", tmp_path / "data", "--chain-file", part).wait_until_serving()
    node.wait_for_line("chain file loaded")
    node.stop()
    node = start_node("--data-directory", tmp_path / "data").wait_until_serving()
    assert node.wait_for_line("serving the stored chain")["tip"] == 20
    assert node.stop() == 0


# ---- serving while loading -------------------------------------------------------------------------------


def test_the_node_answers_while_it_loads(start_node: Callable[..., Any], short_chain: Path) -> None:
    node = start_node("--chain-file", short_chain, **SLOW).wait_until_serving()
    seen = [node.call("node_getBlockNumber")["result"]]
    while seen[-1] < SHORT_TIP:
        seen.append(node.call("node_getBlockNumber")["result"])
    assert seen[0] < SHORT_TIP, "the chain was loaded before the first request"
    assert seen == sorted(seen)
    assert len(seen) > 2 * SHORT_TIP, "an answer that waits for a block is one a block"
    assert node.stop() == 0


def test_state_trees_that_were_removed_are_built_again_from_the_chain(
    tmp_path: Path, start_node: Callable[..., Any], short_chain: Path
) -> None:
    """The chain is served at once; questions about the state are answered when the trees are there."""
    directory = tmp_path / "data"
    node = start_node("--data-directory", directory, "--chain-file", short_chain).wait_until_serving()
    node.wait_for_line("chain file loaded")
    question = ("node_getPublicDataWitness", "latest", "0x01")
    witness = node.call(*question)
    assert "result" in witness
    assert node.stop() == 0
    shutil.rmtree(directory / "world_state")
    node = start_node("--data-directory", directory, **SLOW).wait_until_serving()
    assert node.call("node_getBlockNumber")["result"] == SHORT_TIP
    early = node.call(*question)
    assert early == witness or "error" in early
    deadline = time.monotonic() + 60
    while node.call(*question) != witness:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert node.stop() == 0


# ---- the two ports --------------------------------------------------------------------------------------


def test_both_ports_answer_and_every_answer_names_the_network(start_node: Callable[..., Any]) -> None:
    node = start_node("--accept-sample-chain").wait_until_serving()
    node.wait_for_line("chain file loaded")
    for port in (node.port, node.admin_port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/status")
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"OK")
        assert response.headers["x-aztec-l1ChainId"] == "31337"
        assert response.headers["x-aztec-rollupVersion"] == "3658137161"
        assert response.headers["x-aztec-packageVersion"] == "4.1.2"
        assert response.headers["x-fastnode-version"] == __version__
        assert response.headers["x-aztec-l1RollupAddress"].startswith("0x")
        connection.close()
    assert node.stop() == 0


def test_settings_reach_the_server(start_node: Callable[..., Any]) -> None:
    node = start_node(
        "--method-set=release", "--rpc-max-batch-size=2", "--rpc-error-status=400", RPC_MAX_BODY_SIZE="2kb"
    ).wait_until_serving()
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=30)
    headers = {"Content-Type": "application/json"}

    def post(body: object) -> tuple[int, Any]:
        connection.request("POST", "/", json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    call = {"jsonrpc": "2.0", "id": 1, "method": "node_getChainTips", "params": []}
    status, answer = post(call)  # a method of the development set alone
    assert (status, answer["error"]["code"]) == (400, -32601)
    status, answer = post([call] * 3)
    assert "exceeds the limit of 2" in answer["error"]["message"]
    status, answer = post([" " * 3000])
    assert status == 413
    connection.close()
    assert node.stop() == 0


def test_every_limit_of_the_settings_is_a_limit_of_the_server() -> None:
    limits = limits_of(Settings(rpc_max_body_size=5, rpc_max_batch_size=6, rpc_keep_alive_s=7.0, rpc_max_connections=8))
    assert (limits.body_bytes_max, limits.batch_calls_max, limits.idle_time_s) == (5, 6, 7.0)
    assert limits.connections_max == 8
    limits = limits_of(Settings(rpc_max_connections_per_address=9, rpc_max_unsent_size=1 << 20))
    assert limits.connections_per_address_max == 9
    assert limits.unsent_bytes_max == limits.response_bytes_max, "room for one answer"
    roomy = Settings(rpc_max_unsent_size=1 << 30, rpc_memory_budget=4 << 30)
    assert limits_of(roomy).unsent_bytes_max == 1 << 30
    assert limits_of(Settings(rpc_max_unsent_size=1 << 30, rpc_memory_budget=1 << 30)).unsent_bytes_max == 1 << 29, (
        "half of the budget"
    )
    defaults = limits_of(Settings())
    assert (defaults.body_bytes_max, defaults.batch_calls_max) == (1_048_576, 100)


def test_a_budget_of_memory_has_room_for_the_largest_request() -> None:
    assert memory_budget_of(Settings(rpc_memory_budget=1 << 30)) == 1 << 30
    with pytest.raises(SettingError, match="too few for one request"):
        memory_budget_of(Settings(rpc_memory_budget=100 << 20))
    assert memory_budget_of(Settings(rpc_max_response_size=4 << 30)) > 8 << 30, "the default grows with it"


# ---- stopping --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_node_with_exit_code_0(start_node: Callable[..., Any], number: signal.Signals) -> None:
    node = start_node().wait_until_serving()
    assert node.stop(number) == 0
    assert lines(node, "stopping")[0]["signal"] == number.name
    assert node.entries()[-1]["message"] == "stopped"


def test_a_node_without_standard_streams_serves_and_stops(short_chain: Path) -> None:
    """Their numbers must not become those of sockets."""
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "fastnode", "start", "--node", *NO_FIXED_PORTS, f"--ready-fd={writer}"]
    command += ["--chain-file", str(short_chain), "--admin-api-key-hash", ADMIN_KEY_HASH]
    closing = ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash"]
    with os.fdopen(reader) as ready:
        process = subprocess.Popen([*closing, *command], pass_fds=(writer,), env=clean_environment())
        try:
            os.close(writer)
            assert select.select([ready], [], [], PATIENCE_S)[0]
            assert "url" in json.loads(ready.readline())
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            process.wait(PATIENCE_S)


def test_a_node_without_limits_has_nothing_to_read_again_and_goes_on(start_node: Callable[..., Any]) -> None:
    node = start_node().wait_until_serving()
    node.process.send_signal(signal.SIGHUP)
    node.wait_for_line("nothing to read again without --rpc-limits")
    assert "result" in node.call("node_getVersion")
    assert node.stop() == 0


def test_a_node_whose_terminal_is_gone_stops(tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    try:
        node = NodeProcess([], tmp_path / "node.log", {}, stdin=terminal).wait_until_serving()
        assert node.stop(signal.SIGHUP) == 0
        assert lines(node, "stopping")[0]["signal"] == "SIGHUP"
    finally:
        os.close(controller)
        os.close(terminal)


def test_a_signal_in_the_middle_of_loading_leaves_whole_blocks_and_loading_goes_on(
    tmp_path: Path, start_node: Callable[..., Any], sample_chain: Path
) -> None:
    directory = tmp_path / "data"
    node = start_node("--data-directory", directory, "--chain-file", sample_chain, **SLOW).wait_until_serving()
    wait_for_tip(node, 1)
    assert node.stop() == 0
    assert len(lines(node, "ingestion stopped")) == 1, "the chain was loaded before the signal came"
    with ArchiverStore.open(directory) as store, store.open_view() as view:
        assert 0 < view.tip_number < SAMPLE_TIP
    node = start_node("--data-directory", directory, "--chain-file", sample_chain).wait_until_serving()
    wait_for_tip(node, SAMPLE_TIP)
    assert node.stop() == 0


def test_a_signal_ends_a_start_that_waits_for_another_node(start_node: Callable[..., Any]) -> None:
    node = start_node("--upstream-url", f"http://127.0.0.1:{free_port()}")
    node.wait_for_line("upstream unavailable")
    assert node.stop() == 0
    assert node.entries()[-1]["message"] == "stopped"


def test_a_kept_connection_does_not_hold_up_a_stop(start_node: Callable[..., Any]) -> None:
    node = start_node("--shutdown-grace-s=600").wait_until_serving()
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=30)
    connection.request("GET", "/status")
    connection.getresponse().read()
    assert node.stop() == 0
    connection.close()


def begin_request(half: socket.socket) -> None:
    """Send a part of a request, and wait until the node has read it: else the connection is one that rests."""
    half.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
    assert half.recv(1000).startswith(b"HTTP/1.1 100 ")
    half.sendall(b"{")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_second_signal_ends_the_node_at_once(start_node: Callable[..., Any], number: signal.Signals) -> None:
    node = start_node("--shutdown-grace-s=600").wait_until_serving()
    with socket.create_connection(("127.0.0.1", node.port)) as half:
        begin_request(half)
        node.process.send_signal(number)
        node.wait_for_line("stopping")
        assert node.stop(number) == -number


def test_a_request_that_never_ends_holds_up_a_stop_for_the_grace_and_no_longer(start_node: Callable[..., Any]) -> None:
    node = start_node("--shutdown-grace-s=1").wait_until_serving()
    with socket.create_connection(("127.0.0.1", node.port)) as half:
        begin_request(half)
        assert node.stop() == 0
    assert lines(node, "1 connections were cut off")


def test_no_answer_is_lost_when_the_node_stops(start_node: Callable[..., Any]) -> None:
    """Clients that send on a connection for as long as it is open get an answer to everything they sent."""
    node = start_node().wait_until_serving()
    broken: list[str] = []
    answered = [0] * 4

    def client(which: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=30)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "node_getBlock", "params": [1]})
        while True:
            try:
                connection.request("POST", "/", body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                response.read()
            except ConnectionError:
                break  # closed between two requests, before this one was sent or read
            except http.client.HTTPException as error:
                broken.append(repr(error))
                break
            answered[which] += 1
            if response.headers["Connection"] == "close":
                break
        connection.close()

    clients = [threading.Thread(target=client, args=(which,)) for which in range(len(answered))]
    for thread in clients:
        thread.start()
    deadline = time.monotonic() + 60
    while min(answered) < 10:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert node.stop() == 0
    for thread in clients:
        thread.join(30)
    assert broken == []


# ---- being killed -------------------------------------------------------------------------------------------


def test_a_killed_node_starts_again_and_completes(
    tmp_path: Path, start_node: Callable[..., Any], sample_chain: Path
) -> None:
    directory = tmp_path / "data"
    node = start_node("--data-directory", directory, "--chain-file", sample_chain, **SLOW).wait_until_serving()
    wait_for_tip(node, 2)
    assert node.stop(signal.SIGKILL) == -signal.SIGKILL
    node = start_node("--data-directory", directory, "--chain-file", sample_chain).wait_until_serving()
    assert node.call("node_getBlockNumber")["result"] >= 2
    wait_for_tip(node, SAMPLE_TIP)
    assert node.stop() == 0
    command = [sys.executable, "-m", "fastnode", "db", "check", "--data-directory", str(directory)]
    checked = forked_nodes.run(command, text=True, check=True)
    assert checked.stdout.endswith("clean\n")
