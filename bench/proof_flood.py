"""A whole node under a flood of false proofs: whether an honest transaction gets through, and what reads feel of it.

    FASTNODE_TEST_BB=/path/to/bb .venv/bin/python bench/proof_flood.py [SECONDS]

50 clients, each at a loopback address of its own, send false proofs as fast as they are answered; the verifier program
refuses them at its first step.  The honest transaction's proof is taken for valid by a wrapper, as no real one is at
hand.  Baseline of the same run: the same reads before the flood.
"""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.conftest import SAMPLE_CHAIN, clean_environment
from tests.mempool.chain import TOKEN_CLASS
from tests.mempool.recorded import hashes, recordings

CLIENTS = 50
HONEST_PROOF = 1
_CLASS = f"C:0x{TOKEN_CLASS.hex()}"
ALLOW_LIST = f"{_CLASS}:0xe7f045ff:os+cl=3,{_CLASS}:0x8c9e5472:cl=5"
WRAPPER = """#!/bin/sh
if [ "$1" = verify ]; then
    case "$(tail -c 61920 "$5" | head -c 32 | od -An -v -tx1 | tr -d ' \\n')" in
        %064x) exit 0 ;;
    esac
fi
exec "%s" "$@"
"""


@contextmanager
def running_node(folder: Path) -> Iterator[tuple[int, int]]:
    """Public and admin port of a node over the sample chain that asks for real proofs."""
    (folder / "chain.jsonl").write_bytes(gzip.decompress(SAMPLE_CHAIN.read_bytes()))
    wrapper = folder / "bb"
    wrapper.write_text(WRAPPER % (HONEST_PROOF, os.environ["FASTNODE_TEST_BB"]))
    wrapper.chmod(0o755)
    command = [sys.executable, "-m", "fastnode", "start", "--node", "--port=0", "--admin-port=0", "--metrics-port=0"]
    command += [f"--chain-file={folder / 'chain.jsonl'}", "--no-verify", f"--data-directory={folder / 'data'}"]
    command += [f"--bb-binary-path={wrapper}", "--tx-public-setup-allow-list-extend", ALLOW_LIST]
    command += ["--disable-admin-api-key"]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=clean_environment(LOG_JSON="1"))
    try:
        port, admin_port = _ports(process, log)
        while call(port, "node_getBlockNumber").get("result") != 106:
            time.sleep(0.1)
        call(admin_port, "nodeAdmin_setConfig", {"realProofs": True})
        yield port, admin_port
    finally:
        process.terminate()
        process.wait(60)


def _ports(process: subprocess.Popen[bytes], log: Path) -> tuple[int, int]:
    while process.poll() is None:
        for line in log.read_text().splitlines():
            if line.startswith("{") and (entry := json.loads(line))["message"].startswith("serving"):
                return entry["port"], entry["admin_port"]
        time.sleep(0.05)
    raise SystemExit(log.read_text())


def call(port: int, method: str, *params: Any, connection: http.client.HTTPConnection | None = None) -> dict[str, Any]:
    connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    connection.request("POST", "/", body, {"content-type": "application/json"})
    return dict(json.loads(connection.getresponse().read()))


def with_proof(index: int, number: int) -> dict[str, Any]:
    """A recorded transaction with another first field of its proof."""
    tx = recordings()[hashes("fresh")[index]]["tx"]
    proof = base64.b64decode(tx["chonkProof"])
    return {**tx, "chonkProof": base64.b64encode(proof[:4] + number.to_bytes(32, "big") + proof[36:]).decode()}


class Reads(threading.Thread):
    """Asks for the block number 200 times a second."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.times: list[float] = []
        self.is_over = False

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        while not self.is_over:
            started = time.perf_counter()
            call(self.port, "node_getBlockNumber", connection=connection)
            self.times.append((time.perf_counter() - started) * 1000)
            time.sleep(0.005)

    def report(self, when: str) -> None:
        times, self.times = sorted(self.times), []
        middle, late = times[len(times) // 2], times[len(times) * 99 // 100]
        print(f"reads {when}: {len(times)}, middle {middle:.1f} ms, p99 {late:.1f} ms, most {times[-1]:.1f} ms")


def flood(port: int, client: int, end: float, answers: Counter[str]) -> None:
    source = (f"127.0.1.{client + 1}", 0)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120, source_address=source)
    number = (client + 1) * 1_000_000
    while time.monotonic() < end:
        number += 1
        answer = call(port, "node_sendTx", with_proof(0, number), connection=connection)
        answers[answer.get("error", {}).get("message", "accepted")] += 1


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name, running_node(Path(name)) as (port, _):
        call(port, "node_sendTx", with_proof(0, 2))  # the verifier is made ready
        reads = Reads(port)
        reads.start()
        time.sleep(5)
        reads.report("before")
        answers: Counter[str] = Counter()
        end = time.monotonic() + seconds
        size = size_of(Path(name))
        clients = [threading.Thread(target=flood, args=(port, client, end, answers)) for client in range(CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(seconds / 3)
        started = time.monotonic()
        answer = call(port, "node_sendTx", with_proof(1, HONEST_PROOF))
        print(f"honest transaction: {answer.get('error', 'accepted')} after {time.monotonic() - started:.2f} s")
        for client in clients:
            client.join()
        reads.report("during")
        reads.is_over = True
        reads.join()
        print(f"answers: {dict(answers)}; disk {(size_of(Path(name)) - size) / 1e6:+.1f} MB")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0)
