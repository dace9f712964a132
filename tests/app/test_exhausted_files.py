"""A node whose process has no file left: its probes answer on both ports, also behind many clients that say nothing."""

from __future__ import annotations

import http.client
import json
import resource
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.conftest import PATIENCE_S, NodeProcess
from tests.workers.nodes import until

pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limits of another process are Linux's")

#: Connections that say nothing: if each had its whole time, a probe would wait for longer than a test has patience.
SILENT = 300


def get(port: int, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_probes_answer_when_no_file_is_left(start_node: Callable[..., NodeProcess], short_chain: Path) -> None:
    node = start_node("--chain-file", short_chain, "--rpc-header-timeout-s=600").wait_until_serving()
    node.wait_for_line("chain file loaded")  # with the file itself closed
    until(lambda: get(node.port, "/status") == (200, "OK"), "it is not well")
    pid, call = node.process.pid, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "node_getBlockNumber"}).encode()
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        count = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        # Connections that are being closed have the highest numbers, which are not given out again.
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (count - 2, before[1]))
        for _ in range(SILENT):
            stack.enter_context(socket.create_connection(("127.0.0.1", node.port)))
        node.wait_for_line("no connection can be accepted: Too many open files")
        for path in ("/livez", "/readyz", "/status"):
            assert get(node.port, path) == (200, "OK")
            assert get(node.admin_port, path) == (200, "OK")
        assert get(node.port, "/readyz", "HEAD") == (200, "")
        assert get(node.port, "/", "POST", call)[0] == 503
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    # It tries again in a moment, and may refuse one more that comes before.
    until(lambda: get(node.port, "/", "POST", call)[0] == 200, "it does not serve again")
    assert node.stop() == 0
