"""How long until all clients of GET /events have a block, and what they cost the node.

    .venv/bin/python bench/events.py [--websocket] [--clients 10000] [--blocks 20] [--stuck 20] [--json FILE]

A local network in a process of its own; the clients, in one process, are told of blocks.  A block is asked for when all
clients have the one before.  Times count from the node's line of log about the block, which it writes before anyone is
told, until the last client has read the block's event whole.  ``--stuck`` more clients read nothing and have a receive
buffer of 4 KiB.  The verdict (exit status 0 if it holds): the median of the last client's time is at most 100 ms, and
those that are stuck are dropped.  With ``--websocket`` they subscribe to the blocks over WebSocket, and it is 150 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
REQUEST = b"GET /events?types=block HTTP/1.1\r\nHost: node\r\n\r\n"
#: Of everything, so that it is sooner too much.
STUCK_REQUEST = REQUEST.replace(b"?types=block", b"")
LAST_MS_MAX = {False: 100.0, True: 150.0}
UPGRADE = (
    b"GET /events HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
PONG = b"\x8a\x80" + bytes(4)
#: Metric of clients that were dropped.
DROPPED = {False: "event_clients_dropped_total", True: "push_clients_dropped_total"}
#: Addresses that clients come from: the system has too few ports for one.
CLIENTS_PER_ADDRESS = 5000
WAIT_S = 30.0
#: Clients that are not told yet, at most.
BEGINNING_MAX = 200
#: Between two looks of the clients; their times are up to this too late.
PAUSE_S = 2e-3
#: As often as this a client that is stuck may have been given something to take.
STUCK_ROUNDS_MAX = 4000


class Node:
    """A local network whose blocks are asked for."""

    def __init__(self, directory: Path, clients: int) -> None:
        self.log = directory / "log"
        command = [sys.executable, "-m", "fastnode", "start", "--local-network", "--port=0", "--admin-port=0"]
        self.metrics_port = free_port()
        command += [f"--metrics-port={self.metrics_port}", "--log-json", "--disable-admin-api-key"]
        command += [f"--rpc-max-event-clients={clients}", "--rpc-max-connections-per-address=0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        self._read = 0
        self.port = int(self.line("serving")["port"])
        while not self._is_ready():
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.port}/readyz") as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def line(self, message: str, **facts: Any) -> dict[str, Any]:
        """The next line of the log that says this."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            with self.log.open("rb") as log:
                log.seek(self._read)
                for line in log:
                    if not line.endswith(b"\n"):
                        break
                    self._read += len(line)
                    told = json.loads(line)
                    if told["message"] == message and facts.items() <= told.items():
                        return dict(told)
            time.sleep(0.005)
        raise TimeoutError(f"the node does not say {message!r}: {self.log.read_text()[-2000:]}")

    def call(self, method: str, *params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        with urllib.request.urlopen(f"http://{HOST}:{self.port}/", body) as answer:
            return json.load(answer)

    @property
    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def resident_mb(self) -> float:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://{HOST}:{self.metrics_port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"fastnode_{name}"))


class Clients:
    """They are told of blocks once this is made."""

    def __init__(self, port: int, count: int, last_block: int, request: bytes) -> None:
        self.last_block = last_block
        self.poll = select.epoll()
        self.sockets: dict[int, socket.socket] = {}
        self._begun = 0
        for number in range(count):
            client = connect(port, number, request)
            self.sockets[client.fileno()] = client
            self.poll.register(client.fileno(), select.EPOLLIN)
            self._read_begins(0.0)
            while number - self._begun > BEGINNING_MAX:  # more would wait for their turn for too long
                self._read_begins(0.1)
        deadline = time.monotonic() + WAIT_S
        while self._begun < count:
            self._read_begins(0.1)
            assert time.monotonic() < deadline, f"only {self._begun} clients are told"

    def _read_begins(self, seconds: float) -> None:
        for fd, _ in self.poll.poll(seconds, 4096):
            data = self.sockets[fd].recv(65536)
            if b"\x89\x00" in data:
                self.sockets[fd].sendall(PONG)
            self._begun += b"retry: " in data or b'"result":' in data
            assert b" 503 " not in data, data
            if b" 101 " in data:
                self.sockets[fd].sendall(subscribe("blocks"))

    def read_block(self, number: int) -> list[float]:
        """When each client had the whole event of this block, in their order."""
        wanted = b'"number":%d,' % number
        times: list[float] = []
        receive = {fd: client.recv for fd, client in self.sockets.items()}
        deadline = time.monotonic() + WAIT_S
        while len(times) < len(receive):
            # A client that waited for each event would have the node wake it up ten thousand times.
            time.sleep(PAUSE_S)
            for fd, _ in self.poll.poll(1, 4096):
                data = receive[fd](65536)
                if b"\x89\x00" in data:
                    self.sockets[fd].sendall(PONG)
                if wanted in data:
                    times.append(time.time())
                elif not data:
                    raise ConnectionError("a client that reads was dropped")
            assert time.monotonic() < deadline, f"only {len(times)} clients were told of block {number}"
        self.last_block = number
        return times


def subscribe(*topics: str) -> bytes:
    """A masked frame."""
    wanted = [{"topic": topic} for topic in topics]
    text = json.dumps({"id": 1, "method": "resume", "params": wanted}).encode()
    size = bytes((0x80 | len(text),)) if len(text) < 126 else b"\xfe" + len(text).to_bytes(2, "big")
    return b"\x81" + size + bytes(4) + text


def free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def connect(port: int, number: int, request: bytes, receive_buffer: int | None = None) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer or 16 * 1024)
    client.bind((f"127.0.0.{2 + number // CLIENTS_PER_ADDRESS}", 0))
    client.connect((HOST, port))
    client.sendall(request)
    if request == UPGRADE and receive_buffer is not None:
        client.recv(300)
        client.sendall(subscribe("blocks", "txs", "tips"))
    return client


def seconds_of(line: dict[str, Any]) -> float:
    return datetime.fromisoformat(line["time"].replace("Z", "+00:00")).timestamp()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--websocket", action="store_true")
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--stuck", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        node = Node(Path(directory), options.clients + options.stuck)
        try:
            told = measure(node, options)
        finally:
            node.process.terminate()
            node.process.wait(WAIT_S)
    print(json.dumps(told, indent=2))
    if options.json:
        options.json.write_text(json.dumps(told))
    return 0 if told["last_ms"]["median"] <= LAST_MS_MAX[options.websocket] and told["dropped"] == options.stuck else 1


def measure(node: Node, options: argparse.Namespace) -> dict[str, Any]:
    resident_mb = node.resident_mb
    request, stuck_request = (UPGRADE, UPGRADE) if options.websocket else (REQUEST, STUCK_REQUEST)
    clients = Clients(node.port, options.clients, node.call("node_getBlockNumber")["result"], request)
    with_clients_mb = node.resident_mb
    stuck = [connect(node.port, number, stuck_request, 1) for number in range(options.stuck)]
    last: list[float] = []
    half: list[float] = []
    cpu_ms: list[float] = []
    for _ in range(options.blocks):
        times = one_block(node, clients)
        for kept, ms in zip((last, half, cpu_ms), times, strict=True):
            kept.append(ms)
    rounds = 0
    while node.metric(DROPPED[options.websocket]) < options.stuck and rounds < STUCK_ROUNDS_MAX:
        one_block(node, clients)
        rounds += 1
    dropped = node.metric(DROPPED[options.websocket])
    for client in stuck:
        client.close()
    return {
        "clients": options.clients,
        "last_ms": {"median": statistics.median(last), "worst": max(last)},
        "half_ms": statistics.median(half),
        "cpu_ms_per_block": statistics.median(cpu_ms),
        "resident_mb": [round(resident_mb), round(with_clients_mb), round(node.resident_mb)],
        "kb_per_client": round((with_clients_mb - resident_mb) * 1024 / options.clients, 1),
        "stuck": options.stuck,
        "dropped": dropped,
        "blocks_until_dropped": rounds,
    }


def one_block(node: Node, clients: Clients) -> tuple[float, float, float]:
    """Milliseconds until the last and until half of the clients have it, and of the node's processor time."""
    cpu_s = node.cpu_s
    number = clients.last_block + 1
    mining = threading.Thread(target=node.call, args=("fastnode_mine", 1))
    mining.start()
    times = clients.read_block(number)
    mining.join()
    begun = seconds_of(node.line("block", number=number))
    return 1000 * (times[-1] - begun), 1000 * (times[len(times) // 2] - begun), 1000 * (node.cpu_s - cpu_s)


if __name__ == "__main__":
    sys.exit(main())
