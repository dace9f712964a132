"""Stops of nodes of every kind at random moments of their lives: how long each takes, and how it ends.

    python -m tests.app.random_stops [--count 20] [--minutes 60] [--kinds NAME ...] [--seed 1] [--jobs 2] [--keep DIR]

A stop is late after ten seconds: the node logs its stacks then, its log is kept and its name printed.  The exit status
is 0 if no stop was late, and every node ended with 0, or by the signal if that came before the node was there to
receive it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.bus.nats import NatsServer
from tests.conftest import SAMPLE_CHAIN, NodeProcess

LATE_S = 10.0
GIVEN_UP_S = 120.0
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
    code: int | None
    log: Path


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
        # The node says where it stands when a stop is late.
        flags += ["--disable-admin-api-key", f"--shutdown-timeout-s={LATE_S}", "--shutdown-grace-s=5"]
        node = NodeProcess(flags, folder / "log", {})
        begun = time.monotonic()
        life_s = LIFE_S[0] * (LIFE_S[1] / LIFE_S[0]) ** source.random()
        calls = threading.Thread(target=call_until, args=(node, begun + life_s + 1))
        calls.start()
        time.sleep(max(0.0, begun + life_s - time.monotonic()))
        stopped = time.monotonic()
        node.process.send_signal(source.choice((signal.SIGTERM, signal.SIGTERM, signal.SIGINT)))
        code: int | None = None
        while code is None and time.monotonic() - stopped < GIVEN_UP_S:
            code = node.process.poll()
            time.sleep(0.01)
        took_s = time.monotonic() - stopped
        if code is None:
            node.process.kill()
            node.process.wait()
        calls.join()
    return Stop(kind, life_s, took_s, code, node.log)


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
        for stop in jobs.map(
            lambda task: stop_one(*task, options.seed, world) if time.monotonic() < end else None, tasks
        ):
            if stop is None:
                continue
            stops.append(stop)
            if is_bad(stop):
                print(f"{stop.kind}: lived {stop.life_s:.2f} s, took {stop.took_s:.1f} s, code {stop.code}", flush=True)
                print(*stop.log.read_text().splitlines()[-40:], sep="\n", flush=True)
                if options.keep is not None:
                    options.keep.mkdir(exist_ok=True, parents=True)
                    shutil.copy(stop.log, options.keep / f"{stop.log.parent.name}.log")
            shutil.rmtree(stop.log.parent)
        for kind in options.kinds:
            took = sorted(stop.took_s for stop in stops if stop.kind == kind)
            codes = {stop.code for stop in stops if stop.kind == kind}
            median = took[len(took) // 2]
            print(f"{kind:18} {len(took):4} stops, median {median:.2f} s, most {took[-1]:.2f} s, codes {codes}")
    return 1 if any(map(is_bad, stops)) else 0


def is_bad(stop: Stop) -> bool:
    # Before the handlers are there a signal ends the interpreter.
    early = stop.life_s < 3 and stop.code in (-signal.SIGTERM, -signal.SIGINT, 130, 1)
    return stop.took_s > LATE_S or not (stop.code == 0 or early)


if __name__ == "__main__":
    sys.exit(main())
