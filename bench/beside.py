"""What requests cost two versions of a node, asked by turns: has a change made well-behaved clients' requests dearer?

    python bench/beside.py --before FOLDER [--rounds 25] [--requests 2000] [--only NAME] [--json FILE]

``FOLDER`` is a tree of the other version with its extensions built (git worktree add FOLDER COMMIT; in it
``python setup.py build_ext --inplace``).  Both nodes have the sample chain and run on the first processor; the client
has the others: 32 keep-alive connections, one request at a time on each.  The two are asked by turns, many short rounds
in an order that changes, so that what else the machine does meets both alike.

``cpu`` is the processor time of the server's process per request, all its threads.  The ratio is that of this version
to the other one: of the least rounds, and the median of the ratios of neighbouring rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from load import CALLS
from load_client import WALLET_LINES, Client, post, wallet_requests
from load_servers import CORE_VARIABLE, FIRST_PROCESSOR, ServerProcess, leave_first_processor
from workload import SAMPLE, ask_over_http, fitted, learn_chain

HERE = Path(__file__).parent.parent


class Version(ServerProcess):
    """The node of one tree."""

    def __init__(self, tree: Path, directory: str) -> None:
        environment = {
            **os.environ,
            CORE_VARIABLE: str(FIRST_PROCESSOR),
            "PYTHONPATH": str(tree / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, str(tree / "bench" / "load_servers.py"), "node", directory]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.pid = self._process.pid
        self.port = int(self._read())


class Asked:
    """One version, and what it took."""

    def __init__(self, version: Version, requests: Sequence[bytes], count: int) -> None:
        self._version = version
        self._requests = requests
        self._count = max(1, round(count / len(requests))) * len(requests)
        self._client = Client(version.port, 32)
        self.cpu_us: list[float] = []

    def ask(self) -> None:
        before = self._version.processor_seconds()
        self._client.ask(self._requests, self._count)
        self.cpu_us.append((self._version.processor_seconds() - before) / self._count * 1e6)

    def close(self) -> None:
        self._client.close()


def compare(
    now: Version, before: Version, requests: Sequence[bytes], options: argparse.Namespace
) -> tuple[float, float, float, float]:
    """Microseconds now and before, least; the ratio of these; the median of the ratios."""
    pair = [Asked(version, requests, options.requests) for version in (now, before)]
    for number in range(options.rounds + 2):
        for asked in pair if number % 2 else reversed(pair):
            asked.ask()
    for asked in pair:
        asked.close()
        del asked.cpu_us[:2]  # to warm up
    least = [min(asked.cpu_us) for asked in pair]
    ratios = [ours / theirs for ours, theirs in zip(pair[0].cpu_us, pair[1].cpu_us, strict=True)]
    return least[0], least[1], least[0] / least[1], statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--requests", type=int, default=2000, help="in each round")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        now, before = Version(HERE, one), Version(options.before.resolve(), other)
        leave_first_processor()
        try:
            rows = {name: [post(body)] for name, body in CALLS.items()}
            rows |= {f"{name}, gzip": [post(CALLS[name], *WALLET_LINES)] for name in ("getBlock by number",)}
            chain = learn_chain(ask_over_http(f"http://127.0.0.1:{now.port}/"))
            rows["wallet traffic"] = wallet_requests(list(fitted(SAMPLE, chain)))
            print("| requests | cpu | before | ratio | median |\n|---|---|---|---|---|")
            for name, requests in rows.items():
                if options.only in name:
                    ours, theirs, ratio, median = found[name] = compare(now, before, requests, options)
                    print(f"| {name} | {ours:.2f} us | {theirs:.2f} us | {ratio:.3f} | {median:.3f} |", flush=True)
        finally:
            now.close()
            before.close()
    if options.json is not None:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
