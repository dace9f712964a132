"""A node with workers, for tests."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import ADMIN_KEY, PATIENCE_S, NodeProcess

WORKERS = 2
SAMPLE_TIP = 106
#: Connections enough that each worker has one with certainty: the system spreads them by their ports.
CONNECTIONS = 24


def until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
    return found


class Workers:
    """A running node with workers."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.metrics_port = 0
        self._clients: list[Client] = []
        self.node.wait_until_serving()
        self.wait_for(WORKERS)

    def wait_for(self, count: int) -> None:
        """Until so many workers have begun to serve since the start."""
        until(lambda: len(self.lines("worker serves")) >= count, "the workers do not serve")

    def lines(self, message: str) -> list[dict[str, Any]]:
        return [entry for entry in self.node.entries() if entry["message"] == message]

    def pid_of(self, name: str) -> int:
        """Of ``primary``, ``worker 1`` and so on, as it is now."""
        comm = {"primary": "fastnode-p"}.get(name, f"fastnode-{name[-1]}")
        children = Path(f"/proc/{self.node.process.pid}/task/{self.node.process.pid}/children").read_text().split()
        return next(int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == comm)

    def kill(self, name: str) -> None:
        os.kill(self.pid_of(name), signal.SIGKILL)

    def connect(self) -> Client:
        self._clients.append(Client(self.node.port))
        return self._clients[-1]

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def status(self, path: str = "/status", *, port: int | None = None) -> tuple[int, dict[str, Any]]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port or self.node.port}{path}",
            headers={"Accept": "application/json", "x-api-key": ADMIN_KEY},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


class Client:
    """A keep-alive connection, to one worker."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)

    def call(self, method: str, *params: object) -> dict[str, Any]:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        self._connection.request("POST", "/", body, {"Content-Type": "application/json"})
        answer: dict[str, Any] = json.loads(self._connection.getresponse().read())
        return answer

    def result(self, method: str, *params: object) -> Any:
        answer = self.call(method, *params)
        assert "error" not in answer, answer
        return answer.get("result")

    def close(self) -> None:
        self._connection.close()
