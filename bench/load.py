"""What requests cost the server: a whole node over sockets, beside a raw uvloop protocol with canned replies.

    python bench/load.py [--client wrk|own] [--connections 32] [--rounds 5] [--requests 4000] [--only NAME]
                         [--json FILE] [--pictures FOLDER]
    python bench/load.py --against URL [--against-pid PID]      the same traffic to another node, see bench/against.py

Three processes: the node and the raw protocol on the first processor, the client on the others (wrk where it is
installed).  For every row the answers are learnt first; then the node and the raw protocol are asked by turns, on the
same number of keep-alive connections, one request at a time on each.  The raw protocol reads nothing of a request and
answers with as many bytes as the node, request for request.

``cpu`` is the processor time of the server's process per request, all its threads, least of the rounds: what the
client does and what else the machine does hardly counts.  ``ratio`` is that of the two.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from load_client import WALLET_LINES, Client, Measured, ask_with_wrk, body_of, has_wrk, post, wallet_requests
from load_servers import ServerProcess, leave_first_processor
from pictures import chart
from workload import SAMPLE, ask_over_http, fitted, learn_chain

#: In the sample chain: a block of one ordinary transaction, 2 kB of JSON.
BLOCK = 29
UNKNOWN_TAGS = [f"0x{number:064x}" for number in range(0x1000, 0x1064)]
#: Calls of one method in the traffic that are asked one by one.
CALLS_PER_METHOD = 300


def call(method: str, *params: Any) -> bytes:
    return body_of([(f"node_{method}", list(params))], is_batch=False)


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
#: Most that a row may cost: times the raw protocol, or microseconds.
LIMITS = {
    "getBlockNumber": "1.18x",
    "getL2Tips": "1.18x",
    "getNodeInfo": "1.18x",
    "getBlock by number": "1.3x",
    "nullifier witness at the tip": "1.6x",
    "public data witness at the tip": "1.6x",
    "100 unknown private tags": "raw + 80 us",
    "batch of 100 scalars": "100 us",
}


@dataclass(frozen=True)
class Figures:
    cpu_us: float
    rate: float
    p50_us: float
    p99_us: float
    p999_us: float


class Series:
    """The rounds of one server."""

    def __init__(self, server: ServerProcess, requests: Sequence[bytes], options: argparse.Namespace) -> None:
        self._server = server
        self._requests = requests
        self._options = options
        self._client = Client(server.port, options.connections)
        kinds = len(requests)
        # Whole cycles, so that both servers send the same.
        self._count = max(1, round(options.requests / kinds)) * kinds
        self._cpu_s: list[float] = []
        self._measured: list[Measured] = []

    def run(self, *, is_warming: bool = False) -> None:
        before = self._server.processor_seconds()
        if self._options.client == "wrk":
            url = f"http://127.0.0.1:{self._server.port}/"
            measured = ask_with_wrk(url, self._requests, self._options.connections, 1)
        else:
            measured = self._client.ask(self._requests, self._count)
        used = (self._server.processor_seconds() - before) / measured.requests
        if not is_warming:
            self._cpu_s.append(used)
            self._measured.append(measured)

    def figures(self) -> Figures:
        """Processor time and rate of the best round; times to the answer of the round in the middle."""
        middle = sorted(self._measured, key=lambda each: each.percentile(50))[len(self._measured) // 2]
        return Figures(
            cpu_us=min(self._cpu_s) * 1e6,
            rate=max(each.rate for each in self._measured),
            p50_us=middle.percentile(50) * 1e6,
            p99_us=middle.percentile(99) * 1e6,
            p999_us=middle.percentile(99.9) * 1e6,
        )

    def close(self) -> None:
        self._client.close()


@dataclass(frozen=True)
class Row:
    name: str
    bytes: float
    node: Figures
    raw: Figures

    @property
    def ratio(self) -> float:
        return self.node.cpu_us / self.raw.cpu_us


def measure(name: str, node: ServerProcess, requests: Sequence[bytes], options: argparse.Namespace) -> Row:
    """The node beside the raw protocol, which answers each request with as many bytes."""
    with ExitStack() as stack:
        learner = Client(node.port, 1)
        stack.callback(learner.close)
        answers = [learner.answer(request) for request in requests]
        for request, (answer, _) in zip(requests, answers, strict=True):
            assert b'"error":{' not in answer, (request, answer[:500])
        canned = ServerProcess("canned", *(f"{len(answer)}/{length}" for answer, length in answers))
        stack.callback(canned.close)
        served, raw = Series(node, requests, options), Series(canned, requests, options)
        stack.callback(served.close)
        stack.callback(raw.close)
        for number in range(options.rounds + 1):
            served.run(is_warming=number == 0)
            raw.run(is_warming=number == 0)
        size = sum(len(answer) for answer, _ in answers) / len(answers)
        return Row(name, size, served.figures(), raw.figures())


# ---- tables ------------------------------------------------------------------------------------


class Table:
    """Rows as Markdown, as they come."""

    COLUMNS = ("bytes", "cpu", "raw", "ratio", "requests/s", "raw", "p50", "p99", "p99.9")

    def __init__(self, first: str, *, more: str = "") -> None:
        columns = [first, *([more] if more else []), *self.COLUMNS]
        print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)

    def add(self, row: Row, *, more: str | None = None) -> None:
        node, raw = row.node, row.raw
        cells = [row.name, *([] if more is None else [more]), f"{row.bytes:.0f}"]
        cells += [
            f"{node.cpu_us:.1f} us",
            f"{raw.cpu_us:.1f} us",
            f"{row.ratio:.2f}",
            f"{node.rate:.0f}",
            f"{raw.rate:.0f}",
        ]
        cells += [f"{each:.0f} us" for each in (node.p50_us, node.p99_us, node.p999_us)]
        print(f"| {' | '.join(cells)} |", flush=True)


def measure_calls(node: ServerProcess, options: argparse.Namespace) -> list[Row]:
    table, rows = Table("call", more="limit"), []
    for name, body in CALLS.items():
        if options.only in name:
            rows.append(measure(name, node, [post(body)], options))
            table.add(rows[-1], more=LIMITS.get(name, ""))
    return rows


def measure_traffic(node: ServerProcess, options: argparse.Namespace) -> list[Row]:
    """Requests as wallets send them, then every method of them by itself."""
    traffic = list(fitted(SAMPLE, learn_chain(ask_over_http(f"http://127.0.0.1:{node.port}/"))))
    by_method: dict[str, list[list[Any]]] = {}
    for calls in traffic:
        for method, params in calls:
            by_method.setdefault(method.removeprefix("node_"), []).append(params)
    call_count = sum(map(len, by_method.values()))
    table, rows = Table("wallet traffic", more="share"), []
    name = f"{len(traffic)} requests, {call_count} calls"
    if options.only in "traffic":
        rows.append(measure(name, node, wallet_requests(traffic), options))
        table.add(rows[-1], more="")
    for method, calls_of in sorted(by_method.items(), key=lambda each: -len(each[1])):
        if options.only not in method:
            continue
        different = list({body_of([(f"node_{method}", params)]) for params in calls_of})[:CALLS_PER_METHOD]
        rows.append(measure(method, node, [post(body, *WALLET_LINES) for body in sorted(different)], options))
        table.add(rows[-1], more=f"{len(calls_of) / call_count:.1%}")
    return rows


# ---- pictures ----------------------------------------------------------------------------------


def draw(node: ServerProcess, options: argparse.Namespace, folder: Path) -> list[Row]:
    folder.mkdir(exist_ok=True)
    calls = [
        call("getBlockNumber"),
        call("getBlockHeader", BLOCK),
        *(call("getBlocks", 1, n) for n in (1, 2, 5, 12, 30, 50)),
    ]
    calls.append(b"[" + b",".join([call("getBlocks", 1, 50)] * 4) + b"]")
    by_size = [measure("size", node, [post(body)], options) for body in calls]
    _write(
        folder / "by_size.svg",
        "Answers of different sizes",
        "bytes of the answer",
        by_size,
        [row.bytes for row in by_size],
    )
    counts = (1, 4, 16, 64, 256, 1024)
    by_connections = []
    for count in counts:
        fewer = argparse.Namespace(
            **{**vars(options), "connections": count, "requests": max(options.requests, 4 * count)}
        )
        by_connections.append(measure("connections", node, [post(call("getL2Tips"))], fewer))
    _write(
        folder / "by_connections.svg",
        "getL2Tips on different numbers of connections",
        "connections",
        by_connections,
        counts,
    )
    return by_size + by_connections


def _write(path: Path, title: str, x_label: str, rows: Sequence[Row], xs: Sequence[float]) -> None:
    lines = {
        "fastnode": [(x, row.node.rate) for x, row in zip(xs, rows, strict=True)],
        "raw uvloop protocol": [(x, row.raw.rate) for x, row in zip(xs, rows, strict=True)],
    }
    path.write_text(chart(title, x_label, "requests per second", lines))
    print(
        f"\n{path}: "
        + ", ".join(f"{x:.0f}: {row.node.rate:.0f} ({row.raw.rate:.0f})" for x, row in zip(xs, rows, strict=True))
    )


# ---- the command -------------------------------------------------------------------------------


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", choices=("wrk", "own"), default="wrk" if has_wrk() else "own")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--requests", type=int, default=4000, help="in each round of the own client; wrk asks for a second"
    )
    parser.add_argument("--only", default="", help="rows whose name contains this; 'traffic': the whole traffic")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw them instead of the tables")
    parser.add_argument("--against", metavar="URL", help="another node, which a node started here follows")
    parser.add_argument("--against-pid", type=int, metavar="PID", help="its process here, for its processor time")
    parser.add_argument(
        "--setting",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the node that is started; a comma at the end makes a list (genesis=FILE, l1_rpc_urls=URL,)",
    )
    return parser.parse_args()


def describe_machine(options: argparse.Namespace) -> str:
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    return (
        f"{os.cpu_count()} processors of {platform.machine()}, Python {platform.python_version()}, "
        f"client {options.client}, {options.connections} connections, {options.rounds} rounds; "
        f"load average before: {load}"
    )


def main() -> None:
    options = read_options()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(describe_machine(options))
    if options.against:
        from against import compare

        compare(options)
        return
    with tempfile.TemporaryDirectory() as directory:
        node = ServerProcess("node", directory, *options.setting)
        leave_first_processor()
        try:
            if options.pictures is not None:
                rows = draw(node, options, options.pictures)
            else:
                rows = measure_calls(node, options) + measure_traffic(node, options)
        finally:
            node.close()
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) | {"ratio": row.ratio} for row in rows], indent=2))


if __name__ == "__main__":
    main()
