"""What workers bring: the same requests to one process and to nodes with 1, 2, 4, 8 workers, on the sample chain.

    python bench/workers.py [--workers 0,1,2,4,8] [--seconds 3] [--only traffic|simulate|send] [--json FILE]
    python bench/workers.py --one [--workers 0,1,2,4,8] [--rounds 9]
    python bench/workers.py --blocks FILE [--workers 2] [--rate 500] [--pace 10 --seconds 20] [--apart --workers 1]
    python bench/workers.py --growth FILE [--workers 2]

The client of load_client.py asks on this machine too, so ``rate`` shows what is left of the processors; ``cpu`` is the
processor time of all processes of the node per request, which hardly depends on what else runs.  ``capacity`` is what
the processors of this machine could answer if the client needed none of them: processors / cpu, for as many of them as
the node can use.  Rows of one run are made one after another on one machine; compare those.

``--one`` asks one worker only, with all processes of the node on one processor and the client on another: what the
other workers, which have nothing to do, and the primary add to a request, and nothing of what processes do to each
other when there are more of them than processors.  All nodes run at once and are asked by turns, a few thousand
requests each time; what counts is the round that cost least, so that what else the machine does meets all alike.

``--growth`` loads FILE and tells how much the copies of the workers have for themselves meanwhile, at most.

``--blocks`` asks for headers at a rate, while the node loads the chain file FILE (scripts/make-chain) as fast as it
can, and then at rest; and tells how late views were visible in workers.  With ``--pace`` the node follows another one
that has so many blocks a second of FILE ready, in a process of a niceness of 19; rest and blocks come by turns, four
times.  The client runs with SCHED_FIFO where it may, so that its own waiting is in neither time. Last comes what the
machine alone is to blame for: the node at rest, beside processes that do nothing but take the processor time that each
process took for a block, at the same pace and priority. With ``--apart`` the one worker has a processor of its own, and
primary, other node and client share the others; told besides is what is left of the times without waiting for a
processor.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.mempool.made import made_txs
from tests.mempool.recorded import hashes, recordings

from load_client import Client, post, wallet_requests
from worker_blocks import CONNECTIONS, measure_blocks, measure_growth
from worker_node import Node, processor_s, tasks
from workload import SAMPLE, ask_over_http, fitted, learn_chain

CONNECTIONS_OF_TXS = 16
TXS = 400
REQUESTS_OF_A_ROUND = 12_000
CLIENT_PRIORITY = 1


@dataclass
class Row:
    what: str
    workers: int
    rate: float
    cpu_us: float
    p99_ms: float
    #: Requests a second.
    capacity: float


@contextmanager
def running(chain: Path, folder: Path, workers: int) -> Iterator[Node]:
    directory = folder / f"{workers}-{time.monotonic_ns()}"
    shutil.copytree(chain, directory)
    node = Node(directory, workers)
    try:
        yield node
    finally:
        node.stop()
        shutil.rmtree(directory)


def measure(node: Node, what: str, workers: int, requests: Sequence[bytes], connections: int, count: int) -> Row:
    client = Client(node.port, connections)
    try:
        before = node.processor_s()
        measured = client.ask(requests, count)
        spent = node.processor_s() - before
    finally:
        client.close()
    cpu = spent / measured.requests
    processors = min(max(1, workers), os.cpu_count() or 1)
    return Row(what, workers, measured.rate, 1e6 * cpu, 1e3 * measured.percentile(99), processors / cpu if cpu else 0.0)


def traffic_row(node: Node, workers: int, seconds: float) -> Row:
    traffic = list(fitted(SAMPLE, learn_chain(ask_over_http(f"http://127.0.0.1:{node.port}/"))))
    requests = wallet_requests(traffic)
    # Each worker keeps answers of its own: all of them have seen all requests before it is measured.
    warm = 2 * len(requests) * max(1, workers)
    rate = measure(node, "", workers, requests, CONNECTIONS, warm).rate
    return measure(node, "traffic", workers, requests, CONNECTIONS, max(len(requests), int(rate * seconds)))


def _calls(method: str, transactions: Sequence[Any]) -> list[bytes]:
    calls = ({"jsonrpc": "2.0", "id": 1, "method": method, "params": [tx]} for tx in transactions)
    return [post(json.dumps(call, separators=(",", ":")).encode()) for call in calls]


def simulate_row(node: Node, workers: int, seconds: float) -> Row:
    public = next(tx for tx in hashes("fresh") if recordings()[tx]["tx"]["publicFunctionCalldata"])
    requests = _calls("node_simulatePublicCalls", list(made_txs(64, public)))
    rate = measure(node, "", workers, requests, CONNECTIONS_OF_TXS, 64).rate
    return measure(node, "simulate", workers, requests, CONNECTIONS_OF_TXS, max(64, int(rate * seconds)))


def send_row(node: Node, workers: int, seconds: float) -> Row:
    """Each transaction is another one, so that each goes into the pool."""
    requests = _calls("node_sendTx", list(made_txs(TXS)))
    row = measure(node, "send", workers, requests, CONNECTIONS_OF_TXS, len(requests))
    ask, deadline = ask_over_http(f"http://127.0.0.1:{node.port}/"), time.monotonic() + 1.0
    while (pending := ask("node_getPendingTxCount", [])) != TXS:  # another worker sees the last ones a moment later
        if time.monotonic() > deadline:
            raise RuntimeError(f"{pending} of {TXS} transactions were taken")
    return row


def _by_taker(node: Node, client: Client) -> dict[int, list[int]]:
    """What the client calls its connections, by the process that has accepted them."""
    places = client.places()
    place_of: dict[str, int] = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        own, other = (int(address.partition(":")[2], 16) for address in fields[1:3])
        if own == node.port and other in places:
            place_of[f"socket:[{fields[9]}]"] = places[other]
    found: dict[int, list[int]] = {}
    for pid in node.processes():
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(entry.readlink())
            except OSError:  # closed meanwhile
                continue
            if target in place_of:
                found.setdefault(pid, []).append(place_of[target])
    return found


class Asked:
    """A node of which one worker is asked."""

    def __init__(self, node: Node, workers: int) -> None:
        self.workers = workers
        self._node = node
        self._requests = wallet_requests(
            list(fitted(SAMPLE, learn_chain(ask_over_http(f"http://127.0.0.1:{node.port}/"))))
        )
        self._client = Client(node.port, 2 * CONNECTIONS * max(1, workers))
        self._client.ask(self._requests, 4 * CONNECTIONS * max(1, workers))  # all of them are accepted
        self._pid, places = max(_by_taker(node, self._client).items(), key=lambda item: len(item[1]))
        self._client.keep(places[:CONNECTIONS])
        self._client.ask(self._requests, 3 * len(self._requests))
        node.pin(1)
        self.rates: list[float] = []
        #: In seconds for each request: of the process that is asked, and of all of the node.
        self.own: list[float] = []
        self.all: list[float] = []
        #: How often each request had it wait or give way.
        self.switches: list[float] = []
        self.p99s: list[float] = []

    def ask(self, count: int) -> None:
        before, all_before, switches = processor_s(self._pid), self._node_s(), _switches(self._pid)
        measured = self._client.ask(self._requests, count)
        self.own.append((processor_s(self._pid) - before) / measured.requests)
        self.all.append((self._node_s() - all_before) / measured.requests)
        self.switches.append((_switches(self._pid) - switches) / measured.requests)
        self.rates.append(measured.rate)
        self.p99s.append(measured.percentile(99))

    def _node_s(self) -> float:
        return sum(processor_s(pid) for pid in self._node.processes())

    def close(self) -> None:
        self._client.close()


def _switches(pid: int) -> int:
    return sum(
        int(count)
        for task in tasks(pid)
        for count in re.findall(r"ctxt_switches:\s+(\d+)", (task / "status").read_text())
    )


def one_rows(chain: Path, folder: Path, counts: Sequence[int], rounds: int) -> list[Row]:
    """All connections are to the same worker."""
    rows: list[Row] = []
    with ExitStack() as stack:
        asked: list[Asked] = []
        for workers in counts:
            asked.append(Asked(stack.enter_context(running(chain, folder, workers)), workers))
            stack.callback(asked[-1].close)
        os.sched_setaffinity(0, {0})
        for _ in range(rounds):
            for each in asked:
                each.ask(REQUESTS_OF_A_ROUND)
        print("one of N asked: cpu us of its process (least, middle), of the node (least), switches, p99 ms, rate/s")
        for each in asked:
            own, middle = min(each.own), sorted(each.own)[len(each.own) // 2]
            print(
                f"{each.workers:9} {1e6 * own:9.2f} {1e6 * middle:9.2f} {1e6 * min(each.all):9.2f} "
                f"{min(each.switches):9.4f} {1e3 * min(each.p99s):7.2f} {max(each.rates):9.0f}"
            )
            rows.append(Row("one", each.workers, max(each.rates), 1e6 * own, 1e3 * min(each.p99s), 1 / own))
    return rows


def client_first() -> None:
    """The client is what measures, and would be on another machine: where it may, it has a processor as soon as it
    wants one, at rest and meanwhile, so that its own waiting is in neither time.  What it starts is of usual priority.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(CLIENT_PRIORITY))
    except PermissionError:
        print("the client has no priority here: its own waiting is measured too")


ROWS = {"traffic": traffic_row, "simulate": simulate_row, "send": send_row}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="0,1,2,4,8")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", choices=list(ROWS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--blocks", type=Path, metavar="FILE")
    parser.add_argument("--growth", type=Path, metavar="FILE")
    parser.add_argument("--one", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--pace", type=float, metavar="BLOCKS")
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--rate", type=float, default=500.0)
    options = parser.parse_args()
    client_first()
    if options.growth is not None:
        with tempfile.TemporaryDirectory(prefix="fastnode-bench-") as name:
            for workers in map(int, options.workers.split(",")):
                measure_growth(options.growth, workers, Path(name))
        return
    if options.blocks is not None:
        with tempfile.TemporaryDirectory(prefix="fastnode-bench-") as name:
            for workers in map(int, options.workers.split(",")):
                measure_blocks(
                    options.blocks,
                    workers,
                    options.rate,
                    options.pace,
                    options.seconds,
                    Path(name),
                    is_apart=options.apart,
                )
        return
    counts = list(map(int, options.workers.split(",")))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="fastnode-bench-") as name:
        folder = Path(name)
        chain = folder / "chain"
        sample = Path(__file__).parents[1] / "src" / "fastnode" / "data" / "sample_chain.jsonl.xz"
        subprocess.run(
            [sys.executable, "-m", "fastnode", "import", str(sample), f"--data-directory={chain}", "--no-verify"],
            check=True,
            capture_output=True,
        )
        if options.one:
            rows += one_rows(chain, folder, counts, options.rounds)
        else:
            print("what      workers     rate/s   cpu us   p99 ms  capacity/s  private MB")
        for what in [] if options.one else [options.only] if options.only else ROWS:
            for workers in counts:
                with running(chain, folder, workers) as node:
                    row = ROWS[what](node, workers, options.seconds)
                    private = [size / 1e6 for size in node.private_bytes()] if workers else []
                rows.append(row)
                memory = f"{max(private):.0f}" if private else ""
                print(
                    f"{row.what:9} {row.workers:7} {row.rate:10.0f} {row.cpu_us:8.0f} {row.p99_ms:8.1f} "
                    f"{row.capacity:11.0f} {memory:>11}",
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
