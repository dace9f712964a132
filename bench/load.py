"""What a request costs the server: a whole node over sockets, beside a raw uvloop protocol with a canned reply.

    python bench/load.py [--connections 32] [--rounds 7] [--requests 4000] [--only NAME] [--json FILE]

Three processes: the node, the raw protocol, and this one, which asks.  For every call it learns the answer, then asks
in rounds, the node and the raw protocol by turns, on the same number of keep-alive connections, one request at a time
on each connection.  The raw protocol answers with as many bytes as the node and reads nothing of the request.

``cpu`` is the processor time of the server's process per request, all its threads, least of the rounds: what the
client does and what else the machine does hardly counts.  The ratio is that of the two.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

#: In the sample chain: a block of one ordinary transaction, 2 kB of JSON, and the newest block.
BLOCK = 29
TIP = 106
UNKNOWN_TAGS = [f"0x{number:064x}" for number in range(0x1000, 0x1064)]


def call(method: str, *params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": f"node_{method}", "params": params}).encode()


CALLS = {
    "getBlockNumber": call("getBlockNumber"),
    "getL2Tips": call("getL2Tips"),
    "getNodeInfo": call("getNodeInfo"),
    "getBlockHeader by number": call("getBlockHeader", BLOCK),
    "getBlock by number": call("getBlock", BLOCK),
    "getTxReceipt, unknown": call("getTxReceipt", f"0x{7:064x}"),
    "getPublicStorageAt, latest": call("getPublicStorageAt", "latest", f"0x{1:064x}", f"0x{2:064x}"),
    "nullifier witness at the tip": call("getLowNullifierMembershipWitness", "latest", f"0x{12345:064x}"),
    "public data witness at the tip": call("getPublicDataWitness", "latest", f"0x{12345:064x}"),
    "100 unknown private tags": call("getPrivateLogsByTags", UNKNOWN_TAGS),
    "batch of 100 scalars": b"[" + b",".join([call("getBlockNumber")] * 100) + b"]",
}


def post(body: bytes) -> bytes:
    head = b"POST / HTTP/1.1\r\nHost: localhost:8080\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


# ---- servers -----------------------------------------------------------------------------------


class ServerProcess:
    """This file with a role: it says its port, and its processor time for every line it reads."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, __file__, "--serve", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def processor_seconds(self) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._read())

    def close(self) -> None:
        self._process.communicate()  # the end of its input ends it


class CannedProtocol(asyncio.Protocol):
    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._write: Callable[[bytes], None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = transport.write  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._write(self._answer)


async def serve_canned(length: int) -> None:
    answer = b"x" * length
    listener = await asyncio.get_running_loop().create_server(lambda: CannedProtocol(answer), "127.0.0.1", 0)
    await answer_questions(listener.sockets[0].getsockname()[1])


async def serve_node(directory: str) -> None:
    from fastnode.config.settings import Settings
    from fastnode.node import Node

    settings = Settings(data_directory=Path(directory), port=0, admin_port=0, disable_admin_api_key=True)
    node = Node(settings)
    await node.start()
    try:
        while node.view is None or node.view.chain.tip_number < TIP:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        assert node.public is not None
        await answer_questions(node.public.port)
    finally:
        await node.stop()


async def answer_questions(port: int) -> None:
    print(port, flush=True)
    while await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
        print(time.process_time(), flush=True)


# ---- the client ----------------------------------------------------------------------------------


class Client:
    """Keep-alive connections, one request under way on each."""

    def __init__(self, port: int, connections: int) -> None:
        self._sockets: dict[int, socket.socket] = {}
        self._poll = select.epoll()
        for _ in range(connections):
            connected = socket.create_connection(("127.0.0.1", port))
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets[connected.fileno()] = connected
            self._poll.register(connected, select.EPOLLIN)

    def answer(self, request: bytes) -> bytes:
        """One answer with its head."""
        connected = next(iter(self._sockets.values()))
        connected.sendall(request)
        received = b""
        while b"\r\n\r\n" not in received:
            received += connected.recv(1 << 20)
        head, _, body = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        [length] = [int(line[16:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length: ")]
        while len(body) < length:
            body += connected.recv(1 << 20)
        return head + b"\r\n\r\n" + body

    def ask(self, request: bytes, answer_bytes: int, count: int) -> list[float]:
        """Seconds until each answer was there."""
        waiting = dict.fromkeys(self._sockets, answer_bytes)
        asked = dict.fromkeys(self._sockets, time.perf_counter())
        times: list[float] = []
        sent = len(self._sockets)
        for connected in self._sockets.values():
            connected.send(request)
        while len(times) < count:
            for descriptor, _ in self._poll.poll():
                connected = self._sockets[descriptor]
                waiting[descriptor] -= len(connected.recv(1 << 20))
                if waiting[descriptor] > 0:
                    continue
                assert waiting[descriptor] == 0
                now = time.perf_counter()
                times.append(now - asked[descriptor])
                if sent < count:
                    sent += 1
                    waiting[descriptor], asked[descriptor] = answer_bytes, now
                    connected.send(request)
        return times

    def close(self) -> None:
        self._poll.close()
        for connected in self._sockets.values():
            connected.close()


class Figures(NamedTuple):
    cpu_us: float
    median_us: float
    p99_us: float


class Series:
    """The rounds of one server."""

    def __init__(self, server: ServerProcess, client: Client) -> None:
        self._server = server
        self._client = client
        self._cpu: list[float] = []
        self._times: list[float] = []

    def run(self, request: bytes, answer_bytes: int, count: int) -> None:
        before = self._server.processor_seconds()
        self._times += self._client.ask(request, answer_bytes, count)
        self._cpu.append((self._server.processor_seconds() - before) / count)

    def figures(self) -> Figures:
        times = sorted(self._times)
        return Figures(min(self._cpu) * 1e6, times[len(times) // 2] * 1e6, times[len(times) * 99 // 100] * 1e6)


def measure(node: ServerProcess, body: bytes, options: argparse.Namespace) -> tuple[int, Figures, Figures]:
    """Bytes of the answer, and the figures of the node and of the raw protocol."""
    request = post(body)
    with ExitStack() as stack:
        client = Client(node.port, options.connections)
        stack.callback(client.close)
        answer = client.answer(request)
        assert b'"error":{' not in answer, answer
        canned = ServerProcess("canned", str(len(answer)))
        stack.callback(canned.close)
        raw_client = Client(canned.port, options.connections)
        stack.callback(raw_client.close)
        series, raw = Series(node, client), Series(canned, raw_client)
        count = max(options.connections, options.requests // (50 if body.startswith(b"[") else 1))
        for each in (series, raw):
            each.run(request, len(answer), count)  # to warm up
        series._cpu.clear()
        raw._cpu.clear()
        for _ in range(options.rounds):
            series.run(request, len(answer), count)
            raw.run(request, len(answer), count)
        return len(answer), series.figures(), raw.figures()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=4000, help="in each round")
    parser.add_argument("--only", default="", help="calls whose name contains this")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    print("| call | bytes | cpu | raw | ratio | median | p99 |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        node = ServerProcess("node", directory)
        try:
            for name, body in CALLS.items():
                if options.only not in name:
                    continue
                size, served, raw = measure(node, body, options)
                ratio = served.cpu_us / raw.cpu_us
                found[name] = {"bytes": size, "node": served._asdict(), "raw": raw._asdict(), "ratio": ratio}
                print(
                    f"| {name} | {size} | {served.cpu_us:.1f} us | {raw.cpu_us:.1f} us | {ratio:.2f} "
                    f"| {served.median_us:.0f} us | {served.p99_us:.0f} us |",
                    flush=True,
                )
        finally:
            node.close()
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        role, argument = sys.argv[2:]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve_node(argument) if role == "node" else serve_canned(int(argument)))
    else:
        main()
