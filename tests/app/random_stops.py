"""Stops of nodes of every kind at random moments of their lives: how long each takes, and how it ends.

    python -m tests.app.random_stops [--count 20] [--minutes 60] [--kinds NAME ...] [--seed 1] [--jobs 2] [--keep DIR]

A stop is late when it needs more than ten seconds: its log is kept and its name printed.  Time in which the node waited
for a processor does not count (on Linux), so that a busy machine makes no stop late.  The exit status is 0 if no stop
was late, and every node ended with 0, or by the signal if that came before the node listened.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.bus.nats import NatsServer
from tests.conftest import SAMPLE_CHAIN, NodeProcess

LATE_S = 10.0
#: The node logs its stacks after this time, which a busy machine can make long.
STACKS_S = 60.0
GIVEN_UP_S = 180.0
#: From its start on; most of a node's life in a test is the beginning.
LIFE_S = (0.05, 12.0)


class World(NamedTuple):
    """What all nodes have around them."""

    folder: Path
    chain: Path
    upstream: str
    bus: str


def flags_of(kind: str, world: World, directory: Path) -> list[object]:
    data: list[object] = ["--data-directory", directory]
    follows = ["--upstream-url", world.upstream, "--archiver-polling-interval-ms=50"]
    return {
        "sample": [],
        "chain": [*data, "--chain-file", world.chain],
        "workers": [*data, "--chain-file", world.chain, "--workers=2"],
        "local": [*data, "--local-network", "--keep-txs=10"],
        "ports": [*data, "--chain-file", world.chain, "--explorer-port=0", "--rpc-limits=preset:public"],
        "follower": [*data, *follows],
        "follower workers": [*data, *follows, "--workers=1"],
        "publisher": [*data, *follows, "--bus-url", world.bus, "--bus-publish"],
        "replica": [*data, "--bus-url", world.bus],
        "replica workers": [*data, "--bus-url", world.bus, "--workers=1"],
        "webhooks": [
            *data,
            *follows,
            *("--webhook-url=http://127.0.0.1:9/hook", "--webhook-secret-file", world.folder / "secret"),
        ],
        "peers": [*data, *follows, "--p2p-enabled", "--p2p-ip=127.0.0.1", "--p2p-port=0"],
    }[kind]


KINDS = (
    *("sample", "chain", "workers", "local", "ports", "follower", "follower workers"),
    *("publisher", "replica", "replica workers", "webhooks", "peers"),
)


class Stop(NamedTuple):
    kind: str
    life_s: float
    took_s: float
    #: Of that, processor time, and time in which no thread of the node could run.
    busy_s: float
    idle_s: float
    code: int | None
    log: Path

    @property
    def needed_s(self) -> float:
        return self.busy_s + self.idle_s if sys.platform == "linux" else self.took_s

    def __str__(self) -> str:
        times = f"took {self.took_s:.1f} s ({self.busy_s:.1f} s busy, {self.idle_s:.1f} s idle)"
        return f"{self.kind}: lived {self.life_s:.2f} s, {times}, code {self.code}"


class Meter:
    """Processor time of a process and its descendants, and the time in which none of their threads could run.

    Both are sampled in /proc; elsewhere than on Linux they stay 0.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ticks: dict[int, int] = {}
        self._before = self._read()
        self._seen = time.monotonic()
        self.idle_s = 0.0

    @property
    def busy_s(self) -> float:
        spent = sum(ticks - self._before.get(pid, 0) for pid, ticks in self._ticks.items())
        return spent / os.sysconf("SC_CLK_TCK")

    def sample(self) -> None:
        self._can_run = False
        self._ticks |= self._read()
        now = time.monotonic()
        self.idle_s += 0 if self._can_run else now - self._seen
        self._seen = now

    def _read(self) -> dict[int, int]:
        """Ticks of each process."""
        found: dict[int, int] = {}
        waiting = [self._pid]
        while waiting:
            pid = waiting.pop()
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    state, *numbers = (task / "stat").read_text().rpartition(")")[2].split()
                    self._can_run = self._can_run or state == "R"
                    found[pid] = found.get(pid, 0) + int(numbers[10]) + int(numbers[11])
                    waiting += map(int, (task / "children").read_text().split())
        return found

    _can_run = False


def stop_one(kind: str, number: int, seed: int, world: World) -> Stop:
    source = random.Random(f"{seed}/{kind}/{number}")
    folder = world.folder / f"{kind.replace(' ', '-')}-{number}"
    folder.mkdir()
    # Half of the nodes go on where another one was stopped.
    directory = world.folder / f"data-{kind.replace(' ', '-')}-{number % 2}" if number % 4 else folder / "data"
    if (lock := _DIRECTORIES.setdefault(directory, threading.Lock())).locked():
        directory, lock = folder / "data", threading.Lock()
    with lock:
        flags = [str(flag) for flag in flags_of(kind, world, directory)]
        flags += ["--disable-admin-api-key", f"--shutdown-timeout-s={STACKS_S}", "--shutdown-grace-s=5"]
        node = NodeProcess(flags, folder / "log", {})
        begun = time.monotonic()
        life_s = LIFE_S[0] * (LIFE_S[1] / LIFE_S[0]) ** source.random()
        calls = threading.Thread(target=call_until, args=(node, begun + life_s + 1))
        calls.start()
        time.sleep(max(0.0, begun + life_s - time.monotonic()))
        stopped = time.monotonic()
        node.process.send_signal(source.choice((signal.SIGTERM, signal.SIGTERM, signal.SIGINT)))
        code: int | None = None
        meter = Meter(node.process.pid)
        while code is None and time.monotonic() - stopped < GIVEN_UP_S:
            time.sleep(0.02)
            meter.sample()
            code = node.process.poll()
        took_s = time.monotonic() - stopped
        if code is None:
            node.process.kill()
            node.process.wait()
        calls.join()
    return Stop(kind, life_s, took_s, meter.busy_s, meter.idle_s, code, node.log)


_DIRECTORIES: dict[Path, threading.Lock] = {}


def call_until(node: NodeProcess, end: float) -> None:
    """Calls of a client, from when the node listens until some time after it was told to stop."""
    port = None
    while time.monotonic() < end and node.process.poll() is None:
        if port is None:
            port = next((entry["port"] for entry in node.entries() if entry["message"] == "serving"), None)
            time.sleep(0.05)
            continue
        call = {"jsonrpc": "2.0", "id": 1, "method": "node_getBlocks", "params": [1, 50]}
        with contextlib.suppress(OSError):
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}", json.dumps(call).encode(), {"Content-Type": "application/json"}
            )
            urllib.request.urlopen(request, timeout=5).read()
        time.sleep(0.02)


@contextlib.contextmanager
def world_in(folder: Path) -> Iterator[World]:
    chain = SAMPLE_CHAIN
    (folder / "secret").write_text("of sixteen bytes or more")
    server = NatsServer(folder / "nats")
    kept = ["--data-directory", str(folder / "upstream"), "--chain-file", str(chain)]
    upstream = NodeProcess(kept, folder / "up.log", {})
    publisher = None
    try:
        upstream.wait_until_serving()
        publisher = NodeProcess(
            [
                *("--data-directory", str(folder / "publisher"), "--upstream-url", upstream.url),
                *("--bus-url", server.url, "--bus-publish"),
            ],
            folder / "publisher.log",
            {},
        )
        publisher.wait_until_serving()
        yield World(folder, chain, upstream.url, server.url)
    finally:
        for node in filter(None, (publisher, upstream)):
            node.process.kill()
            node.process.wait()
        server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20, help="stops of each kind")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no node after this time")
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="where logs of late stops are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as text, world_in(Path(text)) as world, ThreadPoolExecutor(options.jobs) as jobs:
        tasks = [(kind, number) for number in range(options.count) for kind in options.kinds]
        end = time.monotonic() + options.minutes * 60
        stops = []
        bad_count = 0
        for stop in jobs.map(
            lambda task: stop_one(*task, options.seed, world) if time.monotonic() < end else None, tasks
        ):
            if stop is None:
                continue
            stops.append(stop)
            if is_bad(stop):
                bad_count += 1
                print(stop)
                print(*stop.log.read_text().splitlines()[-40:], sep="\n", flush=True)
                if options.keep is not None:
                    options.keep.mkdir(exist_ok=True, parents=True)
                    shutil.copy(stop.log, options.keep / f"{stop.log.parent.name}.log")
            shutil.rmtree(stop.log.parent)
        for kind in options.kinds:
            of_kind = [stop for stop in stops if stop.kind == kind]
            needed = sorted(stop.needed_s for stop in of_kind) or [0.0]
            figures = f"median {needed[len(needed) // 2]:.2f} s, most {needed[-1]:.2f} s"
            print(f"{kind:18} {len(of_kind):4} stops, {figures}, codes {Counter(stop.code for stop in of_kind)}")
    return 1 if bad_count else 0


def is_bad(stop: Stop) -> bool:
    # Before the handlers are there a signal ends the interpreter.
    early = stop.code in (-signal.SIGTERM, -signal.SIGINT, 130) and '"listening"' not in stop.log.read_text()
    return stop.needed_s > LATE_S or not (stop.code == 0 or early)


if __name__ == "__main__":
    sys.exit(main())
