"""What requests cost two versions of a node, asked by turns: has a change made well-behaved clients' requests dearer?

    python bench/beside.py --before FOLDER [--rounds 25] [--requests 2000] [--only NAME] [--setting NAME=VALUE]
                           [--json FILE]
    python bench/beside.py --before . --setting rpc_limits=preset:public    what a setting costs, with one version

``FOLDER`` is a tree of the other version with its extensions built (git worktree add FOLDER COMMIT; in it
``python setup.py build_ext --inplace``).  Both nodes have the sample chain and run on the first processor; the client
has the others: 32 keep-alive connections, one request at a time on each.  The two are asked by turns, many short rounds
in an order that changes, so that what else the machine does meets both alike.

``cpu`` is the processor time of the server's process per request, all its threads.  The ratio is that of this version
to the other one: of the least rounds, and the median of the ratios of neighbouring rounds.  Where a version closes
connections in the middle of it, or answers none for a second, they are opened anew and asked again, and the row says
how many.
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
from typing import NamedTuple

from load import CALLS
from load_client import WALLET_LINES, Client, post, wallet_requests
from load_servers import CORE_VARIABLE, FIRST_PROCESSOR, ServerProcess, leave_first_processor
from workload import SAMPLE, ask_over_http, fitted, learn_chain

HERE = Path(__file__).parent.parent
#: A version that answers nothing for so long has lost its turns: an older one did, under load.
STALL_S = 1.0


class Version(ServerProcess):
    """The node of one tree."""

    def __init__(self, tree: Path, directory: str, *settings: str) -> None:
        environment = {
            **os.environ,
            CORE_VARIABLE: str(FIRST_PROCESSOR),
            "PYTHONPATH": str(tree / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, str(tree / "bench" / "load_servers.py"), "node", directory, *settings]
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
        self._client = Client(version.port, 32, reopens=STALL_S)
        self.cpu_us: list[float] = []

    def ask(self) -> None:
        before = self._version.processor_seconds()
        self._client.ask(self._requests, self._count)
        self.cpu_us.append((self._version.processor_seconds() - before) / self._count * 1e6)

    @property
    def reopened(self) -> int:
        """Connections that had to be opened anew."""
        return self._client.reopened

    def close(self) -> None:
        self._client.close()


class Compared(NamedTuple):
    """Processor time per request: the least of the rounds, and medians of what neighbouring rounds differ by."""

    now_us: float
    before_us: float
    ratio: float
    more_us: float
    #: Connections that had to be opened anew in the middle of it, now and before.
    reopened: tuple[int, int]

    def row(self, name: str) -> str:
        figures = f"{self.now_us:.2f} us | {self.before_us:.2f} us | {self.now_us / self.before_us:.3f}"
        closed = "" if self.reopened == (0, 0) else " (connections opened anew: {} and {})".format(*self.reopened)
        return f"| {name}{closed} | {figures} | {self.ratio:.3f} | {self.more_us:+.2f} us |"


def compare(now: Version, before: Version, requests: Sequence[bytes], options: argparse.Namespace) -> Compared:
    pair = [Asked(version, requests, options.requests) for version in (now, before)]
    for number in range(options.rounds + 2):
        for asked in pair if number % 2 else reversed(pair):
            asked.ask()
    for asked in pair:
        asked.close()
        del asked.cpu_us[:2]  # to warm up
    rounds = list(zip(pair[0].cpu_us, pair[1].cpu_us, strict=True))
    return Compared(
        now_us=min(pair[0].cpu_us),
        before_us=min(pair[1].cpu_us),
        ratio=statistics.median(ours / theirs for ours, theirs in rounds),
        more_us=statistics.median(ours - theirs for ours, theirs in rounds),
        reopened=(pair[0].reopened, pair[1].reopened),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--requests", type=int, default=2000, help="in each round")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="of this version")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        now, before = Version(HERE, one, *options.setting), Version(options.before.resolve(), other)
        leave_first_processor()
        try:
            rows = {name: [post(body)] for name, body in CALLS.items()}
            rows |= {f"{name}, gzip": [post(CALLS[name], *WALLET_LINES)] for name in ("getBlock by number",)}
            chain = learn_chain(ask_over_http(f"http://127.0.0.1:{now.port}/"))
            rows["wallet traffic"] = wallet_requests(list(fitted(SAMPLE, chain)))
            print("| requests | cpu | before | ratio | median | median difference |\n|---|---|---|---|---|---|")
            for name, requests in rows.items():
                if options.only in name:
                    found[name] = compare(now, before, requests, options)
                    print(found[name].row(name), flush=True)
        finally:
            now.close()
            before.close()
    if options.json is not None:
        options.json.write_text(json.dumps({name: each._asdict() for name, each in found.items()}))


if __name__ == "__main__":
    main()
