"""A whole node under a flood of false proofs: whether honest transactions get through, and what reads feel of it.

    FASTNODE_TEST_BB=/path/to/bb .venv/bin/python bench/proof_flood.py [COUNT] [AT_ONCE]

50 clients, each at a loopback address of its own, send COUNT (10,000) transactions with false proofs, AT_ONCE (1) from
each at a time.  Every tenth is refused only at the verifier's last step, at the price of a valid one; the others at its
first.  In between three honest clients send a transaction each, whose proof is real: they were recorded, and hold under
the test setup.  Reads are timed in a process of their own.  Baseline of the same run: the same reads before.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.conftest import clean_environment
from tests.proofs import toy_network
from tests.proofs.programs import VECTORS, toy_program, vector_json

CLIENTS: Final = 50
#: One in so many false proofs costs as much as a valid one.
DEAR: Final = 10
#: Of the proof in ``chonkProof``: a field of its first part and one of its last.
FIRST_FIELD: Final = 4
LAST_FIELD: Final = 4 + 1934 * 32
HEADERS: Final = {"content-type": "application/json"}

#: Timed reads: prints the milliseconds of each as a line when standard input ends.
READER: Final = """
import http.client, json, sys, threading, time
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "node_getBlockNumber", "params": []})
over, times = threading.Event(), []
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
while not over.is_set():
    started = time.perf_counter()
    connection.request("POST", "/", body, {"content-type": "application/json"})
    connection.getresponse().read()
    times.append((time.perf_counter() - started) * 1000)
    time.sleep(0.005)
print(*times, sep="\\n")
"""


# ---- the node ------------------------------------------------------------------------------------


@contextmanager
def running_node(folder: Path, setup: Path | None = None) -> Iterator[tuple[int, int]]:
    """Port and process id of a node that asks for real proofs, under the test setup.  ``setup``: its files, if made."""
    folder.mkdir(exist_ok=True)
    data_directory = toy_network.make_data_directory(folder)
    if setup is not None:
        shutil.copytree(setup, data_directory / "proofs" / "setup")
    arguments = toy_network.arguments(data_directory, toy_program(folder))
    command = [sys.executable, "-m", toy_network.MODULE, "start", "--node", "--port=0", "--admin-port=0"]
    log = folder / "log"
    environment = clean_environment(LOG_JSON="1", PYTHONPATH=toy_network.ROOT)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--metrics-port=0", *arguments], stdout=output, stderr=output, env=environment
        )
    try:
        yield _port(process, log), process.pid
    finally:
        process.terminate()
        process.wait(60)


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    while process.poll() is None:
        for line in log.read_text().splitlines():
            if line.startswith("{") and (entry := json.loads(line))["message"] == "serving":
                return int(entry["port"])
        time.sleep(0.05)
    raise SystemExit(log.read_text())


def connect(port: int, address: str = "127.0.0.1") -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=300, source_address=(address, 0))


def send(connection: http.client.HTTPConnection, body: bytes) -> str:
    """What became of a transaction, or of the question whether it is valid."""
    connection.request("POST", "/", body, HEADERS)
    answer = json.loads(connection.getresponse().read())
    assert answer.get("result") in (None, {"result": "valid"}), answer
    return str(answer.get("error", {}).get("message", "accepted"))


def request_of(tx: dict[str, Any], method: str = "node_sendTx") -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": [tx]}).encode()


def verifier_of(port: int) -> str:
    """How the node's verifier is."""
    connection = connect(port)
    connection.request("GET", "/status", headers={"accept": "application/json"})
    state = json.loads(connection.getresponse().read())["components"]["proofs"]["state"]
    connection.close()
    return str(state)


def wait_until_ready(port: int) -> None:
    while not verifier_of(port).startswith("bb ready"):
        time.sleep(0.05)


class FalseProofs:
    """Requests with false proofs, each another one."""

    def __init__(self) -> None:
        tx = vector_json("private")
        self._proof = base64.b64decode(tx["chonkProof"])
        self._before, self._after = request_of(tx | {"chonkProof": "@"}).split(b"@")
        self._numbers = count(1)

    def next(self) -> bytes:
        number = next(self._numbers)
        at = LAST_FIELD if number % DEAR == 0 else FIRST_FIELD
        proof = self._proof[:at] + number.to_bytes(32, "big") + self._proof[at + 32 :]
        return self._before + base64.b64encode(proof) + self._after


# ---- what is looked at ---------------------------------------------------------------------------


class Reads:
    """Asks for the block number up to 200 times a second."""

    def __init__(self, port: int) -> None:
        command = [sys.executable, "-c", READER, str(port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def report(self, when: str) -> None:
        times = sorted(map(float, self._process.communicate("")[0].split()))
        middle, late = times[len(times) // 2], times[len(times) * 99 // 100]
        print(
            f"reads {when}: {len(times)}, middle {middle:.1f} ms, p99 {late:.1f} ms, most {times[-1]:.1f} ms",
            flush=True,
        )


class Watch(threading.Thread):
    """The most of everything that must stay bounded, seen once a second."""

    def __init__(self, port: int, process: int, folder: Path) -> None:
        super().__init__(daemon=True)
        self._port, self._process, self._folder = port, process, folder
        self.is_over = threading.Event()
        self.waiting = self.disk = self.memory = 0
        self.disk_before = self._disk_now()

    def run(self) -> None:
        while not self.is_over.wait(1):
            self.waiting = max(self.waiting, self._waiting_now())
            self.disk = max(self.disk, self._disk_now())
            self.memory = max(self.memory, self._memory_now())

    def _waiting_now(self) -> int:
        found = re.search(r"(\d+) waiting", verifier_of(self._port))
        return int(found[1]) if found else 0

    def _disk_now(self) -> int:
        total = 0
        for path in self._folder.rglob("*"):
            try:
                total += path.stat().st_size
            except FileNotFoundError:
                continue  # a proof whose check has just ended
        return total

    def _memory_now(self) -> int:
        text = Path(f"/proc/{self._process}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) * 1024

    def report(self) -> None:
        after = self._disk_now()
        print(
            f"most: {self.waiting} waiting, {self.memory / 1e6:.0f} MB of memory, "
            f"{(self.disk - self.disk_before) / 1e6:+.2f} MB of disk; disk afterwards "
            f"{(after - self.disk_before) / 1e6:+.2f} MB",
            flush=True,
        )


# ---- the flood -------------------------------------------------------------------------------------


class Flood:
    """All the clients; ``answers`` counts what they were told."""

    def __init__(self, port: int, total: int, at_once: int) -> None:
        self._port, self._total = port, total
        self._proofs = FalseProofs()
        self._lock = threading.Lock()
        self._begun = 0
        self.answers: Counter[str] = Counter()
        self._threads = [
            threading.Thread(target=self._run, args=(f"127.0.1.{client + 1}",))
            for client in range(CLIENTS)
            for _ in range(at_once)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    @property
    def ended(self) -> int:
        return sum(self.answers.values())

    def _run(self, address: str) -> None:
        connection = connect(self._port, address)
        while (body := self._next()) is not None:
            answer = send(connection, body)
            with self._lock:
                self.answers[answer] += 1

    def _next(self) -> bytes | None:
        with self._lock:
            if self._begun == self._total:
                return None
            self._begun += 1
            return self._proofs.next()


def main(total: int, at_once: int) -> None:
    with tempfile.TemporaryDirectory() as name, running_node(Path(name)) as (port, process):
        wait_until_ready(port)
        reads = Reads(port)
        time.sleep(10)
        reads.report("before")
        watch, reads, flood = Watch(port, process, Path(name)), Reads(port), Flood(port, total, at_once)
        started = time.monotonic()
        watch.start()
        flood.start()
        for number, vector in enumerate(VECTORS, 1):
            while flood.ended < total * number // (len(VECTORS) + 1):
                time.sleep(0.1)
            asked = time.monotonic()
            answer = send(connect(port, f"127.0.2.{number}"), request_of(vector_json(vector)))
            print(f"honest transaction ({vector}): {answer} after {time.monotonic() - asked:.2f} s", flush=True)
        flood.join()
        seconds = time.monotonic() - started
        reads.report("during")
        watch.is_over.set()
        watch.join()
        watch.report()
        print(f"{flood.ended} answers in {seconds:.0f} s: {dict(flood.answers)}; load {os.getloadavg()[1]:.1f}")


if __name__ == "__main__":
    main(*(int(text) for text in (*sys.argv[1:], *("10000", "1")[len(sys.argv) - 1 :])))
