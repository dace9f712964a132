"""What workers bring: the same requests to one process and to nodes with 1, 2, 4, 8 workers, on the sample chain.

    python bench/workers.py [--workers 0,1,2,4,8] [--seconds 3] [--only traffic|simulate|send] [--json FILE]
    python bench/workers.py --one [--workers 0,1,2,4,8] [--rounds 9]
    python bench/workers.py --blocks FILE [--workers 2] [--rate 500] [--pace 10 --seconds 20]
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

``--blocks`` asks for headers at a rate, first while the node loads the chain file FILE (scripts/make-chain), as fast as
it can, then at rest; and tells how late views were visible in workers, and how far their copies have grown apart.  With
``--pace`` the node follows another one that has so many blocks a second of FILE: that one, in a process of a niceness
of 19, takes a processor for some 5 ms a block.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.mempool.made import made_txs
from tests.mempool.recorded import hashes, recordings
from tests.sources.recorded_chain import RecordedChain
from tests.sources.scripted_upstream import scripted_upstream

from load_client import Client, post, wallet_requests
from workload import SAMPLE, ask_over_http, fitted, learn_chain

CONNECTIONS = 32
CONNECTIONS_OF_TXS = 16
TXS = 400
REQUESTS_OF_A_ROUND = 12_000
HEADERS = wallet_requests([[("node_getBlockHeader", ["latest"])], [("node_getL2Tips", [])]])
PATIENCE_S = 60.0
CLIENT_NICENESS = -10
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass
class Row:
    what: str
    workers: int
    rate: float
    cpu_us: float
    p99_ms: float
    #: Requests a second.
    capacity: float


class Node:
    """``fastnode start`` as a process of its own."""

    def __init__(self, directory: Path, workers: int, *arguments: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.metrics_port = server.getsockname()[1]
        self._log = directory.with_suffix(".log")
        command = [sys.executable, "-m", "fastnode", "start", "--node", f"--data-directory={directory}", "--port=0"]
        command += ["--admin-port=0", f"--metrics-port={self.metrics_port}", f"--workers={workers}", "--log-json"]
        command += [
            "--p2p-max-pending-tx-count=100000",
            "--disable-admin-api-key",
            "--rpc-max-connections-per-address=0",
        ]
        command += arguments
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self.port = self.wait_for("serving", 1)[0]["port"]
        if workers:
            self.wait_for("worker serves", workers)

    def wait_for(self, message: str, count: int) -> list[dict[str, Any]]:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            lines = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
            found = [line for line in lines if line["message"] == message]
            if len(found) >= count:
                return found
            time.sleep(0.02)
        raise RuntimeError(self._log.read_text())

    def has_said(self, message: str) -> bool:
        return f'"message":"{message}"' in self._log.read_text()

    def processor_s(self) -> float:
        """Of all processes of the node so far."""
        ticks = 0
        for each in self.processes():
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / TICKS_PER_S

    def private_bytes(self) -> list[int]:
        """Of each worker: memory that it shares with no other process."""
        found = []
        for each in self.processes()[1:]:
            if Path(f"/proc/{each}/comm").read_text().strip() != "fastnode-p":
                text = Path(f"/proc/{each}/smaps_rollup").read_text()
                found.append(sum(int(size) << 10 for size in re.findall(r"^Private_\w+:\s+(\d+) kB", text, re.M)))
        return found

    def pin(self, processor: int) -> None:
        """Every thread of every process of the node runs on this one from now on."""
        for pid in self.processes():
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {processor})

    def processes(self) -> list[int]:
        pid = self._process.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def figure(self, name: str) -> list[float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics") as response:
            lines = response.read().decode().splitlines()
        return [float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + "{")]

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_S)


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
        before, all_before, switches = _processor_s(self._pid), self._node_s(), _switches(self._pid)
        measured = self._client.ask(self._requests, count)
        self.own.append((_processor_s(self._pid) - before) / measured.requests)
        self.all.append((self._node_s() - all_before) / measured.requests)
        self.switches.append((_switches(self._pid) - switches) / measured.requests)
        self.rates.append(measured.rate)
        self.p99s.append(measured.percentile(99))

    def _node_s(self) -> float:
        return sum(_processor_s(pid) for pid in self._node.processes())

    def close(self) -> None:
        self._client.close()


def _tasks(pid: int) -> Iterator[Path]:
    return Path(f"/proc/{pid}/task").iterdir()


def _processor_s(pid: int) -> float:
    """Of all threads that there are, to the nanosecond."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in _tasks(pid)) / 1e9


def _switches(pid: int) -> int:
    return sum(
        int(count)
        for task in _tasks(pid)
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


def measure_growth(file: Path, workers: int, folder: Path) -> None:
    directory = folder / f"growth-{workers}"
    node = Node(directory, workers, f"--chain-file={file}")
    most = copies = 0.0
    begun = time.monotonic()
    try:
        while not node.has_said("chain file loaded"):
            time.sleep(1.0)
            most = max([most, *node.figure("fastnode_worker_copy_own_bytes")])
            copies = max([copies, *node.figure("fastnode_worker_copies_total")])
        own = max(node.figure("fastnode_worker_copy_own_bytes"))
        private = max(node.private_bytes())
        blocks = node.wait_for("chain file loaded", 1)[0]["blocks"]
        databases = sum(
            each.stat().st_size for name in ("archiver", "world_state", "p2p") for each in (directory / name).iterdir()
        )
    finally:
        node.stop()
    print(
        f"{workers} workers, {blocks} blocks in {time.monotonic() - begun:.0f} s: databases {databases / 1e6:.0f} MB; "
        f"files of a copy's own {own / 1e6:.0f} MB at the end, {most / 1e6:.0f} MB at most; "
        f"copies made for a worker {copies:.0f}; private memory of a worker {private / 1e6:.0f} MB"
    )


def _grow(file: Path, pace: float, folder: Path, end: Any) -> None:
    """In a process of its own: another node, whose chain grows once somebody has said so."""
    os.nice(19)
    chain = RecordedChain(folder, file)
    chain.reveal()
    with scripted_upstream(chain) as upstream:
        end.send(upstream.url)
        end.recv()
        begun, tip = time.monotonic(), chain.tip
        while not chain.is_complete:
            time.sleep(max(0.0, begun + (chain.tip - tip) / pace - time.monotonic()))
            with upstream.lock:
                chain.reveal()


@contextmanager
def growing(file: Path, pace: float, folder: Path) -> Iterator[tuple[str, Any]]:
    """Where that node answers, and what to call to let its chain grow."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_grow, args=(file, pace, folder, there), daemon=True)
    process.start()
    try:
        yield here.recv(), here.send
    finally:
        process.kill()
        process.join()


def measure_paced(file: Path, workers: int, rate: float, pace: float, seconds: float, folder: Path) -> None:
    with growing(file, pace, folder / f"upstream-{workers}") as (url, begin):
        directory = folder / f"paced-{workers}"
        node = Node(directory, workers, f"--upstream-url={url}", "--archiver-polling-interval-ms=20")
        try:
            ask = ask_over_http(f"http://127.0.0.1:{node.port}/")
            client = Client(node.port, CONNECTIONS)
            client.ask(HEADERS, 10 * CONNECTIONS)
            rest = client.ask_at_rate(HEADERS, rate, min(10.0, seconds)).times
            begin(None)
            first = ask("node_getBlockNumber", [])
            during = client.ask_at_rate(HEADERS, rate, seconds).times
            blocks = ask("node_getBlockNumber", []) - first
            client.close()
            delays = node.figure("fastnode_worker_view_delay_ms")
        finally:
            node.stop()
    print(f"{workers} workers, {rate:g} requests a second, {blocks} blocks in {seconds:g} s")
    tell_blocks(during, rest, delays)


def measure_blocks(file: Path, workers: int, rate: float, folder: Path) -> None:
    node = Node(folder / f"blocks-{workers}", workers, f"--chain-file={file}")
    try:
        client = Client(node.port, CONNECTIONS)
        during: list[float] = []
        begun = time.monotonic()
        while not node.has_said("chain file loaded"):
            during += client.ask_at_rate(HEADERS, rate, 0.5).times
        seconds = time.monotonic() - begun
        time.sleep(2.0)
        rest = client.ask_at_rate(HEADERS, rate, min(10.0, seconds)).times
        client.close()
        delays = node.figure("fastnode_worker_view_delay_ms")
    finally:
        node.stop()
    print(f"{workers} workers, {rate:g} requests a second, blocks for {seconds:.0f} s")
    tell_blocks(during, rest, delays)


def tell_blocks(during: list[float], rest: list[float], delays_ms: list[float]) -> None:
    def ms(times: list[float], percent: int) -> float:
        return 1e3 * sorted(times)[len(times) * percent // 100]

    for percent in (50, 90, 99):
        now, then = ms(during, percent), ms(rest, percent)
        print(f"p{percent} of reads: {now:.2f} ms while blocks come, {then:.2f} ms at rest, ratio {now / then:.2f}")
    if delays_ms:
        print(f"blocks visible after (p99, each worker): {', '.join(f'{delay:.1f}' for delay in delays_ms)} ms")


def client_first() -> None:
    """The client is what measures: where it may, it has a processor as soon as an answer has come."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, CLIENT_NICENESS)
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
                if options.pace:
                    measure_paced(options.blocks, workers, options.rate, options.pace, options.seconds, Path(name))
                else:
                    measure_blocks(options.blocks, workers, options.rate, Path(name))
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
