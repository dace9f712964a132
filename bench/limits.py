"""Budgets of clients: is one who asks for more held to its budget, and what do the others notice?

A node with ``--rpc-limits`` serves the sample chain.  A client with a key asks at a steady pace; in every other round
16 connections without a key ask as fast as they get answers, for far more than their budget.

    scripts/run --help >/dev/null && .venv/bin/python bench/limits.py [--rounds 4] [--seconds 10]

Prints, for each round, what the greedy client got of its budget (burst + rate * seconds) and the percentiles of the
paced one; then the ratios of its median and p99 with and without the greedy one, over all rounds together.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RATE, BURST = 500, 500
GREEDY_CONNECTIONS = 16
PACE_S = 0.002
BODY = b'{"jsonrpc":"2.0","id":1,"method":"node_getBlockHeader","params":[29]}'
RULES = f"""
[address]
rate = {RATE}
burst = {BURST}
[keys.paced]
sha256 = "{hashlib.sha256(b"paced").hexdigest()}"
rate = 100000
"""


def request(*lines: str) -> bytes:
    head = ["POST / HTTP/1.1", "Host: node", "Content-Type: application/json", f"Content-Length: {len(BODY)}", *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + BODY


def receive(connection: socket.socket) -> bytes:
    """One answer; its head says how long it is."""
    data = connection.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(re.search(rb"Content-Length: (\d+)", head)[1])  # type: ignore[index]
    while len(body) < length:
        body += connection.recv(1 << 16)
    return head


def be_greedy(port: int, seconds: float, results: Any) -> None:
    """Ask on many connections as fast as answers come; says how many calls were answered and how many refused."""
    selector = selectors.DefaultSelector()
    text = request()
    for _ in range(GREEDY_CONNECTIONS):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection, selectors.EVENT_READ)
    end = time.monotonic() + seconds
    for key in list(selector.get_map().values()):
        key.fileobj.sendall(text)  # type: ignore[union-attr]
    answered = refused = 0
    while (left := end - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            connection = key.fileobj  # type: ignore[assignment]
            if b" 200 " in receive(connection)[:20]:
                answered += 1
            else:
                refused += 1
            connection.sendall(text)
    results.put((answered, refused))


def ask_at_a_pace(port: int, seconds: float) -> list[float]:
    """Seconds that each call took."""
    text = request("x-api-key: paced")
    took = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        start = due = time.perf_counter()
        while due - start < seconds:
            time.sleep(max(0.0, due - time.perf_counter()))
            sent = time.perf_counter()
            connection.sendall(text)
            assert b" 200 " in receive(connection)[:20]
            took.append(time.perf_counter() - sent)
            due += PACE_S
    return took


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)] * 1e6


def run_round(port: int, seconds: float, *, is_greedy: bool) -> tuple[list[float], float | None]:
    """What the paced client's calls took, and the greedy one's share of its budget."""
    results: Any = multiprocessing.Queue()
    greedy = multiprocessing.Process(target=be_greedy, args=(port, seconds, results))
    if is_greedy:
        time.sleep(BURST / RATE + 0.2)  # its bucket is full again
        greedy.start()
    took = ask_at_a_pace(port, seconds)
    p50, p99 = percentile(took, 0.5), percentile(took, 0.99)
    line = f"{'greedy' if is_greedy else 'alone':8}  paced p50 {p50:5.0f} us  p99 {p99:6.0f} us"
    share = None
    if is_greedy:
        answered, refused = results.get()
        greedy.join()
        share = answered / (BURST + RATE * seconds)
        line += f"  greedy: answered {answered} ({share:.1%} of its budget), refused {refused}"
    print(line, flush=True)
    return took, share


def serve(directory: Path) -> tuple[subprocess.Popen[bytes], int]:
    (directory / "limits.toml").write_text(RULES)
    log = directory / "log"
    command = [sys.executable, "-m", "fastnode", "start", "--node", "--port=0", "--admin-port=0", "--metrics-port=0"]
    command += ["--disable-admin-api-key", "--log-json", "--data-directory", str(directory / "data")]
    with log.open("wb") as output:
        node = subprocess.Popen([*command, "--rpc-limits", str(directory / "limits.toml")], stderr=output)
    while True:
        entries = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        ports = [entry["port"] for entry in entries if entry["message"] == "serving"]
        if ports and any(entry["message"] == "chain file loaded" for entry in entries):
            return node, ports[0]
        assert node.poll() is None, log.read_text()
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        node, port = serve(Path(folder))
        try:
            pairs = [
                (run_round(port, options.seconds, is_greedy=False), run_round(port, options.seconds, is_greedy=True))
                for _ in range(options.rounds)
            ]
        finally:
            node.terminate()
            node.wait()
    alone = [seconds for first, _ in pairs for seconds in first[0]]
    beside = [seconds for _, second in pairs for seconds in second[0]]
    for name, share in (("median", 0.5), ("p90", 0.9), ("p99", 0.99)):
        one, other = percentile(alone, share), percentile(beside, share)
        print(
            f"{name}: {one:.0f} us alone, {other:.0f} us beside the greedy client, {other / one:.2f} times (limit 1.5)"
        )
    shares = [second[1] for _, second in pairs if second[1] is not None]
    print(f"budget used: {min(shares):.1%} to {max(shares):.1%} (limit 95 % to 105 %)")


if __name__ == "__main__":
    main()
