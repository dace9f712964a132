"""Which request the log and requests to other nodes belong to."""

from __future__ import annotations

import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from fastnode import log, trace
from fastnode.outgoing.client import RpcClient
from fastnode.outgoing.network import Network

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"
PARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        PARENT.upper(),
        PARENT + "-more",
        "ff" + PARENT[2:],
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        PARENT.replace("-", ":"),
        "ü" * 55,
    ],
)
def test_what_is_no_traceparent_is_passed_over(text: str) -> None:
    assert trace.read({b"traceparent": text.encode("latin-1")}).parent is None


def test_a_traceparent_of_this_and_of_a_later_version_is_read() -> None:
    for text in (PARENT, "01" + PARENT[2:] + "-more"):
        assert trace.read({b"traceparent": text.encode()}).parent == PARENT


@pytest.mark.parametrize(("value", "kept"), [(b"r-7", "r-7"), (b"a b", ""), (b"\xff", ""), (b"x" * 129, "")])
def test_the_id_of_a_request_is_kept_if_it_is_plain_and_short(value: bytes, kept: str) -> None:
    assert trace.read({b"x-request-id": value}).request_id == kept


def test_lines_of_the_log_name_the_request(capfd: pytest.CaptureFixture[str]) -> None:
    log.configure(level="info", as_json=True)
    with trace.entered(trace.Trace(TRACE_ID, SPAN_ID, "01", "r-7")):
        logging.getLogger("fastnode.test").info("inside", extra=log.log_facts(number=7))
    logging.getLogger("fastnode.test").info("outside")
    inside, outside = (json.loads(line) for line in capfd.readouterr().err.splitlines())
    assert (inside["trace_id"], inside["request_id"], inside["number"]) == (TRACE_ID, "r-7", 7)
    assert not {"trace_id", "request_id"} & outside.keys()


def test_requests_to_others_name_it_and_only_while_it_is_worked_on() -> None:
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers.get("traceparent"))
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"jsonrpc":"2.0","id":0,"result":1}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            """Not on the test's output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    network = Network()
    try:
        client = RpcClient(f"http://127.0.0.1:{server.server_port}", network)
        with trace.entered(trace.Trace(TRACE_ID, SPAN_ID, "01")):
            client.ask([("node_getBlockNumber", ())])
        client.ask([("node_getBlockNumber", ())])
    finally:
        network.close()
        server.shutdown()
        thread.join()
        server.server_close()
    assert seen == [PARENT, None]
