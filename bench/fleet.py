"""How long after its commit on a publisher a block can be read on replicas, and what joining a fleet takes.

    python bench/fleet.py fan-out [--replicas 1 2 4 8 16] [--blocks 60] [--txs 8] [--every 0.5]
    python bench/fleet.py join [--blocks 10000] [--txs 1]

``fan-out`` starts a NATS server, a publisher and so many replicas, all as processes on this machine, and lets the
chain grow block by block.  Each replica measures for itself, by the clock that they share, from the commit on the
publisher to the moment the block can be read.  CPU is the user and system time of the processes.

``join`` starts a replica with nothing: from the stream alone, from an upstream, from a snapshot with history and from
one of leaves on the bus, both with the stream behind it.  It ends when the node says that it is ready.  CPU has what
its child processes took.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.bus.nats import NatsServer
from tests.sources.made_chain import made_chain
from tests.sources.scripted_upstream import scripted_upstream

from fastnode.development.synthetic_chain import ChainShape, write_synthetic_chain
from node_command import node_command

PATIENCE_S = 600.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Process:
    """A node."""

    def __init__(self, directory: Path, name: str, *flags: str) -> None:
        self.log = directory / f"{name}.log"
        command = node_command(directory / name, *flags)
        self.begun = time.monotonic()
        with self.log.open("wb") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
        entry = self._line("serving")
        self.url, self.admin_url = entry["url"], entry["admin_url"]

    def _line(self, message: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for line in self.log.read_text().splitlines():
                entry: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
                if entry.get("message") == message:
                    return entry
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(message)

    def call(self, method: str, *parameters: Any, admin: bool = False) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode()
        url = self.admin_url if admin else self.url
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.loads(response.read()).get("result")

    def wait_for_block(self, number: int) -> float:
        """Seconds since its start until it has the block and is ready."""
        deadline = time.monotonic() + PATIENCE_S
        while self.call("node_getBlockNumber") < number or not self._is_ready():
            assert time.monotonic() < deadline, self.call("fastnode_getSyncStatus")
            time.sleep(0.02)
        return time.monotonic() - self.begun

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=60) as response:
                return bool(response.status == 200)
        except urllib.error.HTTPError:
            return False

    def cpu_s(self) -> float:
        return cpu_of(self.process.pid)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


@contextmanager
def node(directory: Path, name: str, *flags: str) -> Iterator[Process]:
    process = Process(directory, name, *flags)
    try:
        yield process
    finally:
        process.stop()


def cpu_of(pid: int) -> float:
    """Of the process, and of children that have ended: a snapshot is verified in one."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / TICKS_PER_S


def fan_out(replicas: int, blocks: int, txs: int, every_s: float) -> None:
    with TemporaryDirectory() as work, ExitStack() as stack:
        directory = Path(work)
        (directory / "made").mkdir()
        shape = ChainShape(blocks=1_000_000, txs=txs, nullifiers=2, writes=2, l1_to_l2=2)
        chain = stack.enter_context(made_chain(directory / "made", shape))
        chain.checkpoint(2)
        upstream = stack.enter_context(scripted_upstream(chain))
        server = NatsServer(directory / "nats")
        stack.callback(server.stop)
        bus = f"--bus-url={server.url}"
        source = (f"--upstream-url={upstream.url}", "--upstream-polling-min-ms=20", "--bus-publish")
        publisher = stack.enter_context(node(directory, "publisher", bus, "--bus-name=publisher", *source))
        publisher.wait_for_block(chain.tip)
        started = [
            stack.enter_context(node(directory, f"replica-{number}", bus, f"--bus-name=replica-{number}"))
            for number in range(replicas)
        ]
        for each in started:
            each.wait_for_block(chain.tip)
        time.sleep(2)
        before = [each.cpu_s() for each in started]
        bus_before, publisher_before = cpu_of(server.pid), publisher.cpu_s()
        begun, first = time.monotonic(), chain.tip
        for number in range(blocks):
            with upstream.lock:
                chain.propose(1)
                if number % 4 == 3:
                    chain.publish()
            time.sleep(every_s)
        for each in started:
            each.wait_for_block(chain.tip)
        seconds, count = time.monotonic() - begun, chain.tip - first
        cpu = [after.cpu_s() - old for after, old in zip(started, before, strict=True)]
        told = [each.call("fastnode_getSyncStatus")["upstreams"][0] for each in started]
        medians, worst = [each["lagMs"] for each in told], [each["lagP99Ms"] for each in told]
        print(
            json.dumps(
                {
                    "replicas": replicas,
                    "blocks": count,
                    "txs": txs,
                    "seconds": round(seconds, 1),
                    "median ms": round(statistics.median(medians), 1),
                    "p99 ms": max(worst),
                    "measured": sum(each["lagCount"] for each in told),
                    "cpu ms per block and replica": round(1000 * statistics.mean(cpu) / count, 1),
                    "cpu ms per block of the bus": round(1000 * (cpu_of(server.pid) - bus_before) / count, 1),
                    "cpu ms per block of the publisher": round(
                        1000 * (publisher.cpu_s() - publisher_before) / count, 1
                    ),
                    "gaps": sum(each["gaps"] for each in told),
                    "fetched": sum(each["fetched"] for each in told),
                }
            ),
            flush=True,
        )


def join(blocks: int, txs: int) -> None:
    with TemporaryDirectory() as work, ExitStack() as stack:
        directory = Path(work)
        file = directory / "chain.jsonl.gz"
        write_synthetic_chain(file, ChainShape(blocks=blocks, txs=txs))
        server = NatsServer(directory / "nats")
        stack.callback(server.stop)
        bus, snapshots = f"--bus-url={server.url}", f"file://{directory / 'snapshots'}"
        (directory / "snapshots").mkdir()
        begun = time.monotonic()
        flags = (f"--chain-file={file}", "--bus-publish", "--bus-leaves-mb=4000")
        flags += (f"--snapshot-upload-locations={snapshots}",)
        publisher = stack.enter_context(node(directory, "publisher", bus, "--bus-name=publisher", *flags))
        publisher.wait_for_block(blocks)
        print(f"publisher: {blocks} blocks imported in {time.monotonic() - begun:.1f} s", flush=True)
        with node(directory, "by-stream", bus, "--bus-name=by-stream", "--sync-mode=full") as replica:
            seconds, cpu = replica.wait_for_block(blocks), replica.cpu_s()
            print(f"from the stream: ready after {seconds:.1f} s, {cpu:.1f} s of CPU", flush=True)
        with node(directory, "by-upstream", f"--upstream-url={publisher.url}") as replica:
            seconds, cpu = replica.wait_for_block(blocks), replica.cpu_s()
            print(f"from an upstream: ready after {seconds:.1f} s, {cpu:.1f} s of CPU", flush=True)
        publisher.call("nodeAdmin_startSnapshotUpload", snapshots, admin=True)
        publisher._line("snapshot uploaded")
        time.sleep(3)
        with node(directory, "by-snapshot", bus, "--bus-name=by-snapshot", f"--snapshots-urls={snapshots}") as replica:
            seconds, cpu = replica.wait_for_block(blocks), replica.cpu_s()
            print(f"from a snapshot and the stream: ready after {seconds:.1f} s, {cpu:.1f} s of CPU", flush=True)
        before = publisher.cpu_s()
        publisher.call("nodeAdmin_startSnapshotUpload", "bus://", admin=True)
        publisher._line("leaves uploaded")
        print(f"leaves put on the bus: {publisher.cpu_s() - before:.1f} s of CPU", flush=True)
        with node(directory, "by-leaves", bus, "--bus-name=by-leaves") as replica:
            seconds, cpu = replica.wait_for_block(blocks), replica.cpu_s()
            print(f"from leaves on the bus and the stream: ready after {seconds:.1f} s, {cpu:.1f} s of CPU", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    fan = commands.add_parser("fan-out")
    fan.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    fan.add_argument("--blocks", type=int, default=60)
    fan.add_argument("--txs", type=int, default=8)
    fan.add_argument("--every", type=float, default=0.5)
    joining = commands.add_parser("join")
    joining.add_argument("--blocks", type=int, default=10_000)
    joining.add_argument("--txs", type=int, default=1)
    given = parser.parse_args()
    if given.command == "fan-out":
        for replicas in given.replicas:
            fan_out(replicas, given.blocks, given.txs, given.every)
    else:
        join(given.blocks, given.txs)


if __name__ == "__main__":
    main()
