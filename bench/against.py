"""The same traffic to another node: does it answer the same, and how many times as long does it take?

A node started here follows the other one, so that both have the same chain; the sample of traffic is fitted to it.
It serves the methods of the release unless --setting method_set says something else.
First every request of the sample is put to both, uncompressed, and the answers are compared as JSON.  Then both are put
under the same load by turns.  The node here has the first processor alone; the other one may use what it finds.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from load_client import Client, Measured, ask_with_wrk, body_of, port_of, wallet_requests
from load_servers import ServerProcess, leave_first_processor
from workload import SAMPLE, ask_over_http, fitted, learn_chain

#: A new block may come between the two answers; then both are asked again.
ATTEMPTS = 6
PAUSE_S = 0.5
#: After so many answers that stay different it is no block that comes between.
ATTEMPTED_DIFFERENCES_MAX = 10
FOLLOW_S_MAX = 600.0
ROUND_S = 3
DIFFERENCES_SHOWN = 12
#: A private member that the reference node lets out.
IGNORED = {"_cachedHash"}


def compare(options: argparse.Namespace) -> None:
    url = options.against
    with tempfile.TemporaryDirectory() as directory:
        node = ServerProcess("node", directory, "method_set=release", f"upstream_url={url},", *options.setting)
        leave_first_processor()
        try:
            here = f"http://127.0.0.1:{node.port}/"
            _wait_until_level(here, url)
            traffic = list(fitted(SAMPLE, learn_chain(ask_over_http(url))))
            _report_differences(traffic, here, url)
            _report_load(node, wallet_requests(traffic), options)
        finally:
            node.close()


def _tips(url: str) -> Any:
    return ask_over_http(url)("node_getL2Tips", [])


def _wait_until_level(here: str, url: str) -> None:
    deadline = time.monotonic() + FOLLOW_S_MAX
    while (tips := _tips(here)) != (wanted := _tips(url)):
        if time.monotonic() > deadline:
            raise SystemExit(f"the node here has not caught up: {tips} instead of {wanted}")
        time.sleep(PAUSE_S)
    print(f"both nodes are at block {wanted['proposed']['number']}", flush=True)


# ---- answers ----------------------------------------------------------------------------------------


def _ask(url: str, body: bytes) -> list[Any]:
    with urlopen(Request(url, body, {"Content-Type": "application/json"})) as response:
        answers = json.load(response)
    return answers if isinstance(answers, list) else [answers]


def _report_differences(traffic: Sequence[Sequence[tuple[str, list[Any]]]], here: str, url: str) -> None:
    different: dict[str, tuple[str, list[Any]]] = {}
    asked: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for calls in traffic:
        body = body_of(calls)
        for attempt in range(ATTEMPTS if wrong.total() < ATTEMPTED_DIFFERENCES_MAX else 1):
            if attempt:
                time.sleep(PAUSE_S)
            pairs = list(zip(calls, _ask(here, body), _ask(url, body), strict=True))
            found = [(call, list(_differences(ours, theirs))) for call, ours, theirs in pairs]
            if not any(paths for _, paths in found):
                break
        for (method, params), paths in found:
            asked[method] += 1
            if paths:
                wrong[method] += 1
                different.setdefault(f"{method} {paths[0]}", (method, params))
    print(f"\n{asked.total()} calls compared, {wrong.total()} answers differ{': ' if wrong else ''}", end="")
    print(", ".join(f"{method} {count} of {asked[method]}" for method, count in wrong.most_common()))
    for text, (_, params) in list(different.items())[:DIFFERENCES_SHOWN]:
        print(f"  {text}\n    params {json.dumps(params)[:200]}")


def _differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Where two answers differ; of errors only that there is one."""
    if path == ".error":
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in {**ours, **theirs}:
            if key in IGNORED:
                continue
            if key not in ours or key not in theirs:
                yield f"{path}.{key} {'is missing there' if key in ours else 'is missing here'}"
            else:
                yield from _differences(ours[key], theirs[key], f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from _differences(*pair, f"{path}[{number}]")
    elif ours != theirs or type(ours) is not type(theirs):
        yield f"{path}: {json.dumps(ours)[:80]} here, {json.dumps(theirs)[:80]} there"


# ---- load -------------------------------------------------------------------------------------------


def _report_load(node: ServerProcess, requests: Sequence[bytes], options: argparse.Namespace) -> None:
    here: list[tuple[Measured, float]] = []
    there: list[tuple[Measured, float]] = []
    for number in range(options.rounds + 1):
        for found, address, used in (
            (here, ("127.0.0.1", node.port), node.processor_seconds),
            (there, port_of(options.against), lambda: _processor_seconds(options.against_pid)),
        ):
            before = used()
            measured = _put_under_load(address, requests, options)
            if number:  # the first round warms up
                found.append((measured, (used() - before) / measured.requests))
    print("\n| wallet traffic | requests/s | p50 | p99 | p99.9 | cpu |\n|---|---|---|---|---|---|")
    for name, found in (("fastnode", here), (options.against, there)):
        measured = sorted((each for each, _ in found), key=lambda each: each.rate)[len(found) // 2]
        times = " | ".join(f"{measured.percentile(percent) * 1e3:.2f} ms" for percent in (50, 99, 99.9))
        cpu = min(used for _, used in found) * 1e6
        print(f"| {name} | {measured.rate:.0f} | {times} | {f'{cpu:.0f} us' if cpu else ''} |")
    ratios = sorted(ours.rate / theirs.rate for (ours, _), (theirs, _) in zip(here, there, strict=True))
    middle = ratios[len(ratios) // 2]
    print(f"\nrequests per second here, times those there: {middle:.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f})")
    if options.against_pid:
        print(f"processor time there, times that here: {min(u for _, u in there) / min(u for _, u in here):.1f}")


def _put_under_load(address: tuple[str, int], requests: Sequence[bytes], options: argparse.Namespace) -> Measured:
    host, port = address
    if options.client == "wrk":
        return ask_with_wrk(f"http://{host}:{port}/", requests, options.connections, ROUND_S)
    client = Client(port, options.connections, host)
    try:
        return client.ask(requests, len(requests))
    finally:
        client.close()


def _processor_seconds(pid: int | None) -> float:
    """What a process has used; 0 if it is not known."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
