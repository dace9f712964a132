"""Data that a collector of OpenTelemetry gets, over real HTTP and in its own binary form."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import aiohttp
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.conftest import PATIENCE_S, NodeProcess

from fastnode.app.process.node import Node
from fastnode.config.settings import Settings
from fastnode.metrics.otlp import OTLPMetricExporter, OTLPSpanExporter, _method_of, _name_of

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"


class Collector:
    """Keeps what is posted to it."""

    def __init__(self) -> None:
        taken: dict[str, Queue[bytes]] = {"/v1/traces": Queue(), "/v1/metrics": Queue()}

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                taken[self.path].put(body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                """Not on the test's output."""

        self._taken = taken
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def wait(self, path: str) -> bytes:
        return self._taken[path].get(timeout=PATIENCE_S)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


async def ask(node: Node, method: str, **headers: str) -> Any:
    url, call = f"http://127.0.0.1:{node.public.port}/", {"jsonrpc": "2.0", "id": 1, "method": method, "params": []}
    async with aiohttp.ClientSession() as session, session.post(url, json=call, headers=headers) as answer:
        return (await answer.json()).get("result")


def serve_one(settings: Settings, *methods: str, **headers: str) -> None:
    async def scenario() -> None:
        node = await Node.start(settings)
        try:
            for method in methods:
                await ask(node, method, **headers)
        finally:
            await node.stop()

    asyncio.run(scenario())


def settings_for(chain: Path, **more: Any) -> Settings:
    return Settings(port=0, admin_port=0, metrics_port=0, chain_file=chain, disable_admin_api_key=True, **more)


def test_a_call_is_a_span_below_the_one_that_its_client_names(collector: Collector, short_chain: Path) -> None:
    settings = settings_for(short_chain, traces_collector_url=collector.url("/v1/traces"))
    parent = f"00-{TRACE_ID}-{SPAN_ID}-01"
    serve_one(settings, "node_getBlockNumber", "nothing", traceparent=parent, **{"x-request-id": "r-7"})
    sent = ExportTraceServiceRequest.FromString(collector.wait("/v1/traces")).resource_spans[0]
    resource = {pair.key: pair.value.string_value for pair in sent.resource.attributes}
    assert resource["service.name"] == "aztec-node"
    assert resource["aztec.node_role"] == "node"
    spans = sent.scope_spans[0].spans
    assert [span.name for span in spans] == ["JsonRpcServer.node_getBlockNumber", "JsonRpcServer.nothing"]
    for span in spans:
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE_ID, SPAN_ID)
        assert span.end_time_unix_nano > span.start_time_unix_nano
        attributes = {pair.key: pair.value for pair in span.attributes}
        assert attributes["http.response.status_code"].int_value == 200
        assert attributes["http.request.header.x-request-id"].string_value == "r-7"


def test_calls_to_a_worker_are_spans_too_and_say_which_process_it_was(
    collector: Collector, start_node: Callable[..., NodeProcess], short_chain: Path
) -> None:
    node = start_node(
        "--workers=1", f"--chain-file={short_chain}", f"--traces-collector-url={collector.url('/v1/traces')}"
    )
    node.wait_until_serving()
    node.wait_for_line("worker serves")
    node.call("node_getBlockNumber")
    assert node.stop() == 0
    sent = ExportTraceServiceRequest.FromString(collector.wait("/v1/traces")).resource_spans[0]
    assert [span.name for span in sent.scope_spans[0].spans] == ["JsonRpcServer.node_getBlockNumber"]
    resource = {pair.key: pair.value.string_value for pair in sent.resource.attributes}
    assert resource["process.title"] == "fastnode worker 1"


def test_a_client_that_does_not_want_to_be_recorded_is_not(collector: Collector, short_chain: Path) -> None:
    settings = settings_for(short_chain, traces_collector_url=collector.url("/v1/traces"))

    async def scenario() -> None:
        node = await Node.start(settings)
        try:
            await ask(node, "node_getBlockNumber", traceparent=f"00-{TRACE_ID}-{SPAN_ID}-00")
            await ask(node, "node_getVersion")  # nobody said anything of this one
        finally:
            await node.stop()

    asyncio.run(scenario())
    sent = ExportTraceServiceRequest.FromString(collector.wait("/v1/traces")).resource_spans[0]
    assert [span.name for span in sent.scope_spans[0].spans] == ["JsonRpcServer.node_getVersion"]


def test_metrics_are_sent_under_both_names_and_less_what_is_left_out(collector: Collector, short_chain: Path) -> None:
    settings = settings_for(
        short_chain,
        metrics_collector_url=collector.url("/v1/metrics"),
        otel_exclude_metrics=("python_", "fastnode_disk"),
    )
    serve_one(settings, "node_getBlockNumber")
    sent = ExportMetricsServiceRequest.FromString(collector.wait("/v1/metrics")).resource_metrics[0]
    metrics = {metric.name: metric for metric in sent.scope_metrics[0].metrics}
    calls = metrics["fastnode_rpc_calls"].sum
    assert calls.is_monotonic
    by_method = {
        next(pair.value.string_value for pair in point.attributes if pair.key == "method"): point.as_double
        for point in calls.data_points
    }
    assert by_method["node_getBlockNumber"] == 1
    assert "aztec.archiver.block_height" in metrics
    durations = metrics["fastnode_rpc_call_duration_seconds"].histogram
    assert any(
        point.count and len(point.bucket_counts) == len(point.explicit_bounds) + 1 for point in durations.data_points
    )
    assert metrics["fastnode_rpc_calls_in_flight"].gauge.data_points[0].as_double == 0
    assert not [name for name in metrics if name.startswith(("python_", "fastnode_disk"))]


def test_a_collector_that_is_away_is_said_once_and_disturbs_nothing(
    short_chain: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_for(
        short_chain,
        metrics_collector_url="http://127.0.0.1:1/v1/metrics",
        otel_collect_interval_ms=100,
        otel_export_timeout_ms=200,
    )
    serve_one(settings, "node_getBlockNumber")
    assert [record.message for record in caplog.records if "takes none" in record.message] == [
        "the collector of metrics takes none"
    ]


def test_a_stop_ends_the_tries_of_collectors_that_are_away(short_chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries go on for a minute otherwise."""
    away = "http://127.0.0.1:1/v1/"
    settings = settings_for(
        short_chain,
        metrics_collector_url=away + "metrics",
        traces_collector_url=away + "traces",
        otel_export_timeout_ms=600_000,
    )
    orders = [note_order(exporter, monkeypatch) for exporter in (OTLPMetricExporter, OTLPSpanExporter)]

    async def scenario() -> None:
        node = await Node.start(settings)
        await ask(node, "node_getBlockNumber")
        await node.stop()

    asyncio.run(scenario())
    assert [order[0] for order in orders] == ["told to end"] * 2


def note_order(exporter: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List of what happens first: a try of this exporter is over, or it is told to end them."""
    order: list[str] = []
    export, shutdown = exporter.export, exporter.shutdown

    def noted_export(self: Any, *arguments: Any, **options: Any) -> Any:
        result = export(self, *arguments, **options)
        order.append("given up")
        return result

    def noted_shutdown(self: Any, *arguments: Any, **options: Any) -> Any:
        order.append("told to end")
        return shutdown(self, *arguments, **options)

    monkeypatch.setattr(exporter, "export", noted_export)
    monkeypatch.setattr(exporter, "shutdown", noted_shutdown)
    return order


@pytest.mark.parametrize(
    ("body", "method"),
    [
        (b'{"id":1,"method":"node_getBlock","params":[1]}', "node_getBlock"),
        (b'{"params":["' + b"x" * 5000 + b'"],"method" : "node_sendTx"}', "node_sendTx"),
        (b'[{"method":"node_getBlock"}]', None),
        (b'{"method":"<script>"}', None),
        (b"", None),
    ],
)
def test_the_name_of_a_span_is_read_without_reading_the_call(body: bytes, method: str | None) -> None:
    assert _method_of(body) == method


def test_names_of_the_reference_have_dots() -> None:
    assert _name_of("aztec_archiver_block_height") == "aztec.archiver.block_height"
    assert _name_of("aztec_mempool_tx_count") == "aztec.mempool.tx_count"
    assert _name_of("fastnode_ready") == "fastnode_ready"
