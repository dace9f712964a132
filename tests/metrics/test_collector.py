"""The metrics of a running node, read as a monitoring system reads them."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.conftest import PATIENCE_S
from tests.ports import free_port
from tests.serving.sockets import Answer, Connection, call, post, wait_until

import fastnode
from fastnode.http.meters import BATCH_BOUNDS, LIMITS, LIMITS_BY_STATUS, CallMeters
from fastnode.metrics.collector import buckets_of

PROJECT = Path(__file__).parents[2]
TIP = 106
#: Metrics of what a node without upstreams and without snapshots does not have.
SOMETIMES = {
    "webhook_deliveries_total",
    "webhook_failures_total",
    "webhook_behind_blocks",
    "outgoing_request_seconds",
    "outgoing_failures_total",
    "derivation_eta_seconds",
    "client_calls_total",
    "client_cost_total",
    "client_refused_calls_total",
    "client_addresses",
    "sync_degraded",
    "sync_ready",
    "sync_lag_blocks",
    "l1_degraded",
    "l1_block",
    "l1_messages",
    "l1_requests_total",
    "l1_refused_calls_total",
    "l1_batch_calls",
    "l1_calls_per_second",
    "l1_log_blocks",
    "l1_rollup_canonical",
    "l1_calls_total",
    "l1_answer_bytes_total",
    "l1_waits_total",
    "l1_wait_seconds_total",
    "derivation_newest_checkpoint",
    "derivation_checkpoints_total",
    "derivation_waiting_for_blobs",
    "derivation_invalid_checkpoint",
    "derivation_blob_bytes_total",
    "blob_source_blobs_total",
    "blob_source_wrong_blobs_total",
    "blob_source_failures_total",
    "snapshot_last_block",
    "snapshot_last_timestamp_seconds",
}


def read(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
        assert response.headers["content-type"].startswith("text/plain; version=")
        text: str = response.read().decode()
        return text


class Samples:
    """Values of /metrics, by name and labels."""

    def __init__(self, text: str) -> None:
        self.values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def get(self, name: str, **labels: str) -> float:
        return self.values[name, frozenset(labels.items())]

    def names(self) -> set[str]:
        return {name for name, _ in self.values}


@pytest.fixture
def loaded(start_node: Callable[..., Any]) -> tuple[Any, int]:
    """A node that has loaded the sample chain, and its metrics port."""
    port = free_port()
    flags = (f"--metrics-port={port}", "--metrics-reference-names", "--accept-sample-chain")
    node = start_node(*flags).wait_until_serving()
    node.wait_for_line("chain file loaded")
    return node, port


def test_what_a_node_did_can_be_read_from_its_metrics(loaded: tuple[Any, int]) -> None:
    node, port = loaded
    for _ in range(3):
        node.call("node_getBlock", 1)
    assert "error" in node.call("node_getBlock", -5)
    assert "error" in node.call("node_noSuchMethod")
    samples = Samples(read(port))
    block = {"method": "node_getBlock", "set": "both"}
    assert samples.get("fastnode_rpc_calls_total", **block) == 4
    assert samples.get("fastnode_rpc_call_duration_seconds_count", **block) == 4
    assert 0 < samples.get("fastnode_rpc_call_duration_seconds_sum", **block) < 60
    assert samples.get("fastnode_rpc_errors_total", **block, code="-32602") == 1
    assert samples.get("fastnode_rpc_errors_total", method="other", set="both", code="-32601") == 1
    for tip in ("proposed", "checkpointed"):
        assert samples.get("fastnode_chain_tip_block", tip=tip) == TIP
    assert samples.get("fastnode_state_tip_block") == TIP
    assert samples.get("fastnode_ingestion_blocks_total") == TIP
    assert samples.get("fastnode_ingestion_phase_seconds_total", phase="write") > 0
    assert samples.get("fastnode_http_received_bytes_total", port="public") > 5 * 100
    assert samples.get("fastnode_database_bytes", database="archiver") > 1000
    assert samples.get("fastnode_disk_free_bytes") > samples.get("fastnode_disk_required_bytes") == 512 << 20
    assert samples.get("fastnode_ready") == 1
    assert samples.get("fastnode_component_failing", component="chain_database") == 0
    assert samples.get("fastnode_tag_filter_ready") == 1
    assert samples.get("fastnode_event_loop_lag_seconds_count") > 0
    assert {"fastnode_build_info", "process_cpu_seconds_total", "fastnode_pool_pending_txs"} <= samples.names()
    # Under the reference node's names:
    assert samples.get("aztec_archiver_block_height", aztec_status="proposed") == TIP
    assert samples.get("aztec_json_rpc_server_request_duration_ms_count", **block) == 4
    assert samples.get("aztec_mempool_tx_count") == 0


#: Labels of counters that a node cannot know before: other servers.
OPEN_LABELS = {"server"}


def series_of_counters(text: str) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    return {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in text_string_to_metric_families(text)
        if family.type == "counter"
        for sample in family.samples
        if sample.name.endswith("_total") and not OPEN_LABELS & set(sample.labels)
    }


def do_everything_wrong(port: int, limited: str) -> set[object]:
    """Requests of every kind; the codes of their errors."""
    bodies = [
        b"{", b"[]", b"[1, {}]", b'{"jsonrpc":"2.0","id":1,"method":5}', b"x" * 3_000_000,
        call("node_noSuchMethod"), call("node_getBlock", -5), call("node_getBlock", 1), call("node_getBlock", 1 << 40),
        call("node_sendTx", {}), call("node_getPublicLogs", {"fromBlock": "x"}),
        b"[" + b",".join([call("node_getBlockNumber")] * 150) + b"]",
        *[call(limited)] * 30,
    ]  # fmt: skip
    codes: set[object] = set()
    for body in bodies:
        document = ask(port, post(body)).json
        for item in document if isinstance(document, list) else [document]:
            codes.add(None if item is None else item.get("error", {}).get("code"))
    for text in (b"PUT / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", b"\0\r\n\r\n"):
        ask(port, text)
    return codes


def can_connect(port: int) -> bool:
    try:
        Connection(port).close()
    except OSError:
        return False
    return True


def ask(port: int, request: bytes) -> Answer:
    connection = Connection(port)
    try:
        return connection.ask(request)
    finally:
        connection.close()


def test_no_series_of_a_counter_begins_with_what_it_counts(start_node: Callable[..., Any], tmp_path: Path) -> None:
    """Else the first time would be taken for the begin of a series, and no rate would show it."""
    limits = tmp_path / "limits.toml"
    limits.write_text("[address]\nrate = 1000\nburst = 1000\n[costs]\nnode_getChainId = 100\n")
    port = free_port()
    flags = (f"--metrics-port={port}", "--rpc-limits", limits, "--local-network", "--metrics-reference-names")
    node = start_node(*flags, "--disable-admin-api-key").wait_until_serving()
    wait_until(lambda: can_connect(port))  # clients come first
    before = series_of_counters(read(port))
    codes = do_everything_wrong(node.port, "node_getChainId")
    assert codes >= {-32700, -32600, -32601, -32602, -32005}
    node.call("fastnode_mine", 2)
    assert "error" in node.call_admin("nodeAdmin_rollbackTo", "x")
    connection = Connection(node.port)
    connection.send(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
    connection._read_until(b"\r\n\r\n")
    node.call("fastnode_mine", 1)
    connection._read_until(b"event:")
    connection.close()
    after = series_of_counters(read(port))
    assert sorted(after - before) == []
    assert len(before) > 300


def test_every_limit_that_is_counted_is_one_of_the_list() -> None:
    package = Path(fastnode.__file__).parent
    counted = set()
    for path in package.rglob("*.py"):
        text = path.read_text()
        for place in re.findall(r"(?:rejected\[|count_rejected\()(.+)", text):
            counted |= set(re.findall(r'"(\w+)"', place))
    assert counted <= set(LIMITS)
    assert counted | set(LIMITS_BY_STATUS.values()) == set(LIMITS)


def test_batches_and_refusals_are_counted(loaded: tuple[Any, int]) -> None:
    node, port = loaded
    call = b'{"jsonrpc":"2.0","id":1,"method":"node_getBlockNumber","params":[]}'
    for calls in (3, 101):
        urllib.request.urlopen(node.url, data=b"[" + b",".join([call] * calls) + b"]", timeout=30).close()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(node.url, data=b" " * (1 << 20) + call, timeout=30)
    refused.value.close()
    samples = Samples(read(port))
    assert samples.get("fastnode_rpc_batch_calls_count", port="public") == 2
    assert samples.get("fastnode_rpc_batch_calls_bucket", port="public", le="5.0") == 1
    assert samples.get("fastnode_rejected_total", port="public", limit="batch_size") == 1
    assert samples.get("fastnode_rejected_total", port="public", limit="body_size") == 1


def test_what_is_kept_and_what_the_filter_knows_can_be_read(loaded: tuple[Any, int]) -> None:
    node, port = loaded
    with Connection(node.port) as connection:
        for _ in range(10):
            assert "result" in connection.ask(post(call("node_getBlockHeader", 7))).json
    deadline = time.monotonic() + 60
    while (samples := Samples(read(port))).get("fastnode_tag_filter_ready") == 0:
        assert time.monotonic() < deadline
    assert samples.get("fastnode_cached_response_lookups_total", port="public", outcome="hit") >= 4
    assert samples.get("fastnode_cached_response_lookups_total", port="public", outcome="miss") >= 1
    assert samples.get("fastnode_cached_response_bytes", port="public") > 1000
    before = samples.get("fastnode_tag_filter_lookups_total", outcome="unknown")
    node.call("node_getPrivateLogsByTags", [f"0x{number:064x}" for number in range(2000, 2010)])
    after = Samples(read(port)).get("fastnode_tag_filter_lookups_total", outcome="unknown")
    assert after - before >= 9  # one in thousands may pass the filter


def test_what_clients_used_of_their_budgets_can_be_read(start_node: Callable[..., Any], tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "limits.toml"
    digest = hashlib.sha256(b"secret").hexdigest()
    file.write_text(f'[address]\nrate = 0.001\nburst = 50\n[keys.partner]\nsha256 = "{digest}"\n')
    node = start_node(f"--metrics-port={port}", "--rpc-limits", file).wait_until_serving()
    node.wait_for_line("chain file loaded")  # the metrics port opens after the others, and before anything is loaded
    body = b'{"jsonrpc":"2.0","id":1,"method":"node_getBlocks","params":[1,1]}'
    with Connection(node.port) as connection:
        statuses = [connection.ask(post(body)).status for _ in range(6)]
        assert connection.ask(post(body, "x-api-key: secret")).status == 200
    assert statuses == [200, 200, 200, 200, 200, 429]
    samples = Samples(read(port))
    assert samples.get("fastnode_client_calls_total", key="(address)") == 5
    assert samples.get("fastnode_client_cost_total", key="(address)") == 50
    assert samples.get("fastnode_client_refused_calls_total", key="(address)") == 1
    assert samples.get("fastnode_client_calls_total", key="partner") == 1
    assert samples.get("fastnode_client_addresses") == 1


def test_the_table_of_the_docs_has_every_metric(loaded: tuple[Any, int]) -> None:
    _, port = loaded
    exported = {
        family.name.removeprefix("fastnode_") + ("_total" if family.type == "counter" else "")
        for family in text_string_to_metric_families(read(port))
        if family.name.startswith("fastnode_")
    }
    page = (PROJECT / "docs" / "monitoring.md").read_text()
    section = page.split("## Metrics")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert exported <= documented, "not in docs/monitoring.md"
    assert documented - exported == SOMETIMES


def test_names_of_methods_that_do_not_exist_make_no_labels(loaded: tuple[Any, int]) -> None:
    node, port = loaded
    for number in range(20):
        node.call(f"node_invented{number}")
    text = read(port)
    assert "invented" not in text
    assert Samples(text).get("fastnode_rpc_calls_total", method="other", set="both") == 20


def test_the_metrics_port_serves_nothing_else(loaded: tuple[Any, int]) -> None:
    _, port = loaded
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for verb, path, status in (("GET", "/", 404), ("POST", "/metrics", 405), ("HEAD", "/metrics", 200)):
        connection.request(verb, path)
        response = connection.getresponse()
        response.read()
        assert response.status == status
    connection.close()


def test_a_taken_metrics_port_is_a_warning(start_node: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        node = start_node(f"--metrics-port={port}").wait_until_serving()
        assert str(port) in node.wait_for_line("no metrics")["reason"]
        assert node.call("node_getBlockNumber")["result"] >= 0
        status = urllib.request.Request(f"{node.url}/status", headers={"Accept": "application/json"})
        with urllib.request.urlopen(status, timeout=PATIENCE_S) as response:
            told = json.loads(response.read())
        assert (told["ok"], str(port) in told["notes"]["metrics"]) == (True, True)
        assert node.stop() == 0


def test_a_node_that_is_told_to_stop_says_so_and_goes_on_for_the_delay(start_node: Callable[..., Any]) -> None:
    node = start_node("--accept-sample-chain", "--shutdown-delay-s=4").wait_until_serving()
    node.wait_for_line("chain file loaded")
    assert urllib.request.urlopen(f"{node.url}/readyz", timeout=30).read() == b"OK"
    node.process.send_signal(signal.SIGTERM)
    node.wait_for_line("stopping")
    with pytest.raises(urllib.error.HTTPError) as refused:  # noqa: PT012 - the line comes a moment before
        while True:
            urllib.request.urlopen(f"{node.url}/readyz", timeout=30).close()
    assert (refused.value.code, refused.value.read()) == (503, b"the node is stopping")
    refused.value.close()
    assert node.call("node_getBlockNumber")["result"] == TIP
    assert urllib.request.urlopen(f"{node.url}/livez", timeout=30).read() == b"OK"
    assert node.process.wait(60) == 0


# ---- parts ----------------------------------------------------------------------------------------------


def test_buckets_are_cumulative() -> None:
    assert buckets_of([1, 0, 2], [0.5, 1]) == [("0.5", 1.0), ("1.0", 1.0), ("+Inf", 3.0)]


def test_a_batch_is_counted_in_the_bucket_of_its_size() -> None:
    meters = CallMeters(["a"])
    for size in (0, 1, 2, 100, 5000):
        meters.add_batch(size)
    buckets = dict(buckets_of(meters.batch_counts, BATCH_BOUNDS))
    assert (buckets["1.0"], buckets["2.0"], buckets["100.0"], buckets["+Inf"]) == (2, 3, 4, 5)
    assert meters.batch_calls == 5103
