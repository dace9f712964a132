"""A node with workers as a process of its own, for the measurements of workers.py and worker_blocks.py."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import taking_node

PATIENCE_S = 60.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Node:
    """``fastnode start`` as a process of its own."""

    def __init__(self, directory: Path, workers: int, *arguments: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.metrics_port = server.getsockname()[1]
        self._log = directory.with_suffix(".log")
        command = [
            sys.executable,
            "-m",
            taking_node.MODULE,
            "start",
            "--node",
            f"--data-directory={directory}",
            "--port=0",
        ]
        command += ["--admin-port=0", f"--metrics-port={self.metrics_port}", f"--workers={workers}", "--log-json"]
        command += [
            "--p2p-max-pending-tx-count=100000",
            "--disable-admin-api-key",
            "--rpc-max-connections-per-address=0",
        ]
        command += arguments
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=os.environ | {"PYTHONPATH": taking_node.ROOT}
            )
        self.port = self.wait_for("serving", 1)[0]["port"]
        if workers:
            self.wait_for("worker serves", workers)

    def wait_for(self, message: str, count: int) -> list[dict[str, Any]]:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            lines = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
            found = [line for line in lines if line["message"] == message]
            if len(found) >= count:
                return found
            time.sleep(0.02)
        raise RuntimeError(self._log.read_text())

    def has_said(self, message: str) -> bool:
        return f'"message":"{message}"' in self._log.read_text()

    def processor_s(self) -> float:
        """Of all processes of the node so far."""
        return sum(map(process_s, self.processes()))

    def private_bytes(self) -> list[int]:
        """Of each worker: memory that it shares with no other process."""
        found = []
        for each in self.processes()[1:]:
            if not self.is_primary(each):
                text = Path(f"/proc/{each}/smaps_rollup").read_text()
                found.append(sum(int(size) << 10 for size in re.findall(r"^Private_\w+:\s+(\d+) kB", text, re.M)))
        return found

    @staticmethod
    def is_primary(pid: int) -> bool:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "fastnode-p"

    def tip(self) -> int:
        """Of any worker."""
        body = b'{"jsonrpc":"2.0","id":1,"method":"node_getBlockNumber","params":[]}'
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return int(json.load(response)["result"])

    def pin(self, processor: int) -> None:
        """Every thread of every process of the node runs on this one from now on."""
        for pid in self.processes():
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {processor})

    def processes(self) -> list[int]:
        pid = self._process.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def figure(self, name: str) -> list[float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics") as response:
            lines = response.read().decode().splitlines()
        return [float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + "{")]

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_S)


def tasks(pid: int) -> Iterator[Path]:
    return Path(f"/proc/{pid}/task").iterdir()


def processor_s(pid: int) -> float:
    """Of all threads that there are, to the nanosecond."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks(pid)) / 1e9


def process_s(pid: int) -> float:
    """Of all threads that there were, to the tick of the system's clock."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S
