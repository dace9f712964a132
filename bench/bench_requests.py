"""What a request costs the server, beside a raw uvloop protocol with a canned reply of as many bytes.

    .venv/bin/python bench/bench_requests.py [--rounds 15] [--requests 2000] [--only NAME]     a table
    scripts/bench bench/bench_requests.py                                                      the same as benchmarks

Three processes: the node with the sample chain and its meters, the raw protocol, and this one, which asks on 32
keep-alive connections, one request at a time on each, the two servers by turns.  ``cpu`` is the processor time of the
server's process per request, all its threads, the least of the rounds; the ratio is that of the two.

    kept    the same question again and again: the answer is kept until the next view
    new     the same question in ever new words (other blanks between the parameters): nothing kept is of use
    unasked another value as the last parameter each time: what the node works out for it is not there either; a batch
            of such calls
    gzip    kept, for a client that accepts gzip; the raw protocol sends as many bytes as the compressed answer has
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvloop
from pytest_benchmark.fixture import BenchmarkFixture

#: In the sample chain: a block of one ordinary transaction, 2 kB of JSON, and the newest block.
BLOCK = 29
TIP = 106
CONNECTIONS = 32
#: Blanks that make a question new; each is one of two.
BLANK_DIGITS = 20
SLOTS_IN_BATCH = 30

NULLIFIER = f"0x{12345:064x}"
#: The transaction of that block.
TX = "0x14ada8a9268456ee2b92f5be992471a72e7c1f51a0fbfa01bb1b6c074e21b86e"
#: What the append-only trees of the sample chain have, and the hash of its block 50.
NOTE_HASH = "0x0221c1a898aea7eb85a2ed1ed9ad609bc4558e70d7ec74283f5075841481251b"
MESSAGE = "0x0084da7627506624c64a17aa5479d06f9d043a440afa9ffcaadccae796dc5f8f"
BLOCK_HASH = "0x2efe21588be74c8b99029210f51243ea08831f0dbfb0271e5fec8226d2d760b1"
UNKNOWN_TAGS = [f"0x{number:064x}" for number in range(0x1000, 0x1064)]

#: Method, parameters, how it is asked, and the limit of the ratio if there is one.
CALLS: dict[str, tuple[str, list[Any], str, float | None]] = {
    "getBlockNumber": ("getBlockNumber", [], "kept", 1.18),
    "getL2Tips": ("getL2Tips", [], "kept", 1.18),
    "getNodeInfo": ("getNodeInfo", [], "kept", 1.18),
    "getNodeInfo, gzip": ("getNodeInfo", [], "gzip", None),
    "getBlock by number": ("getBlock", [BLOCK], "kept", 1.3),
    "getBlock by number, new": ("getBlock", [BLOCK], "new", 1.3),
    "getBlock by number, gzip": ("getBlock", [BLOCK], "gzip", None),
    "getBlockHeader, latest": ("getBlockHeader", ["latest"], "kept", None),
    "getBlockHeader, latest, new": ("getBlockHeader", ["latest"], "new", None),
    "nullifier witness at the tip": ("getLowNullifierMembershipWitness", ["latest", NULLIFIER], "kept", 1.6),
    "nullifier witness at the tip, new": ("getLowNullifierMembershipWitness", ["latest", NULLIFIER], "new", 1.5),
    "public data witness at the tip, new": ("getPublicDataWitness", ["latest", NULLIFIER], "new", 1.5),
    "note hash witness, new": ("getNoteHashMembershipWitness", ["latest", NOTE_HASH], "new", 1.5),
    "message witness, new": ("getL1ToL2MessageMembershipWitness", ["latest", MESSAGE], "new", 1.5),
    "block hash witness, new": ("getBlockHashMembershipWitness", ["latest", BLOCK_HASH], "new", 1.5),
    "getPublicStorageAt, latest": ("getPublicStorageAt", ["latest", f"0x{1:064x}", f"0x{2:064x}"], "kept", None),
    "getPublicStorageAt, latest, new": ("getPublicStorageAt", ["latest", f"0x{1:064x}", f"0x{2:064x}"], "new", None),
    "getPublicStorageAt, a slot never asked before": (
        "getPublicStorageAt",
        ["latest", f"0x{1:064x}", f"0x{2:064x}"],
        "unasked",
        1.6,
    ),
    "public data witness never asked before": ("getPublicDataWitness", ["latest", NULLIFIER], "unasked", 1.5),
    "batch of 30 slots never asked before": (
        "getPublicStorageAt",
        ["latest", f"0x{1:064x}", f"0x{2:064x}"],
        "unasked batch",
        None,
    ),
    "getTxReceipt, unknown": ("getTxReceipt", [f"0x{7:064x}"], "new", None),
    "getTxReceipt, mined, new": ("getTxReceipt", [TX], "new", None),
    "getTxEffect, new": ("getTxEffect", [TX], "new", None),
    "100 unknown private tags": ("getPrivateLogsByTags", [UNKNOWN_TAGS], "new", None),
    "getBlocks of 20": ("getBlocks", [1, 20], "kept", 2.0),
    "getBlocks of 20, new": ("getBlocks", [1, 20], "new", None),
    "getCheckpointedBlocks of 20": ("getCheckpointedBlocks", [1, 20], "kept", 2.0),
    "getCheckpointedBlocks of 20, new": ("getCheckpointedBlocks", [1, 20], "new", None),
    "batch of 100 scalars": ("getBlockNumber", [], "batch", None),
}


def bodies(name: str) -> Iterator[bytes]:
    """Bodies of one length that ask the question, one after the other."""
    method, params, manner, _ = CALLS[name]
    call = {"jsonrpc": "2.0", "id": 1, "method": f"node_{method}", "params": params}
    if manner == "batch":
        yield from itertools.repeat(json.dumps([call] * 100).encode())
    text = json.dumps(call)
    if manner.startswith("unasked"):
        calls = ({**call, "params": [*params[:-1], f"0x{number:064x}"]} for number in itertools.count(1 << 200))
        while manner == "unasked batch":
            yield json.dumps(list(itertools.islice(calls, SLOTS_IN_BATCH))).encode()
        yield from (json.dumps(each).encode() for each in calls)
    if manner != "new":
        yield from itertools.repeat(text.encode())
    assert text.endswith("]}")
    for blanks in itertools.product(" \n", repeat=BLANK_DIGITS):
        yield (text[:-2] + "".join(blanks) + "]}").encode()


def requests(name: str) -> Iterator[bytes]:
    coding = "Accept-Encoding: gzip, deflate\r\n" if CALLS[name][2] == "gzip" else ""
    head = "POST / HTTP/1.1\r\nHost: localhost:8080\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
    for body in bodies(name):
        yield (head % (coding, len(body))).encode() + body


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

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = transport.write  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._write(self._answer)


async def serve_canned(length: int) -> None:
    answer = b"x" * length
    listener = await asyncio.get_running_loop().create_server(lambda: CannedProtocol(answer), "127.0.0.1", 0)
    await answer_questions(listener.sockets[0].getsockname()[1])


async def serve_node(directory: str) -> None:
    from fastnode.app.process.node import Node
    from fastnode.config.settings import Settings
    from fastnode.http.meters import CallMeters

    settings = Settings(data_directory=Path(directory), port=0, admin_port=0, disable_admin_api_key=True)
    node = await Node.start(settings)
    try:
        while node.view is None or node.view.state is None or node.view.chain.tip_number < TIP:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        engine = node.public.engine
        engine.meters = CallMeters(method.name for method in engine.table)
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

    def ask(self, asked: list[bytes], answer_bytes: int) -> None:
        waiting = dict.fromkeys(self._sockets, answer_bytes)
        rest = iter(asked)
        for connected in self._sockets.values():
            connected.send(next(rest))
        done = 0
        while done < len(asked):
            for descriptor, _ in self._poll.poll():
                connected = self._sockets[descriptor]
                waiting[descriptor] -= len(connected.recv(1 << 20))
                if waiting[descriptor] > 0:
                    continue
                assert waiting[descriptor] == 0
                done += 1
                if (request := next(rest, None)) is not None:
                    waiting[descriptor] = answer_bytes
                    connected.send(request)

    def close(self) -> None:
        self._poll.close()
        for connected in self._sockets.values():
            connected.close()


class Figures(NamedTuple):
    answer_bytes: int
    cpu_us: float
    raw_us: float

    @property
    def ratio(self) -> float:
        return self.cpu_us / self.raw_us


def measure(node: ServerProcess, name: str, rounds: int, count: int) -> Figures:
    count = max(CONNECTIONS, count // (20 if "batch" in CALLS[name][2] else 1))
    asked = requests(name)
    with ExitStack() as stack:
        client = Client(node.port, CONNECTIONS)
        stack.callback(client.close)
        answer = client.answer(next(asked))
        assert b'"error":{' not in answer, answer
        canned = ServerProcess("canned", str(len(answer)))
        stack.callback(canned.close)
        raw_client = Client(canned.port, CONNECTIONS)
        stack.callback(raw_client.close)
        times: dict[ServerProcess, list[float]] = {node: [], canned: []}
        for _ in range(1 + rounds):  # the first one warms up
            part = list(itertools.islice(asked, count))
            for server, asking in ((node, client), (canned, raw_client)):
                before = server.processor_seconds()
                asking.ask(part, len(answer))
                times[server].append((server.processor_seconds() - before) / count * 1e6)
        return Figures(len(answer), min(times[node][1:]), min(times[canned][1:]))


@contextmanager
def running_node() -> Iterator[ServerProcess]:
    with tempfile.TemporaryDirectory() as directory:
        node = ServerProcess("node", directory)
        try:
            yield node
        finally:
            node.close()


# ---- as benchmarks -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node() -> Iterator[ServerProcess]:
    with running_node() as started:
        yield started


@pytest.mark.parametrize("name", CALLS)
def test_request(benchmark: BenchmarkFixture, node: ServerProcess, name: str) -> None:
    found = benchmark.pedantic(measure, args=(node, name, 7, 2000), rounds=1)
    benchmark.extra_info.update(found._asdict(), ratio=round(found.ratio, 2), limit=CALLS[name][3])


# ---- as a table ----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--requests", type=int, default=2000, help="in each round")
    parser.add_argument("--only", default="", help="calls whose name contains this")
    options = parser.parse_args()
    print("| call | bytes | cpu | raw | ratio | limit |\n|---|---|---|---|---|---|")
    with running_node() as node:
        for name, (_, _, _, limit) in CALLS.items():
            if options.only not in name:
                continue
            found = measure(node, name, options.rounds, options.requests)
            print(
                f"| {name} | {found.answer_bytes} | {found.cpu_us:.1f} us | {found.raw_us:.1f} us "
                f"| {found.ratio:.2f} | {limit or ''} |",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        role, argument = sys.argv[2:]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve_node(argument) if role == "node" else serve_canned(int(argument)))
    else:
        main()
