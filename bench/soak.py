"""A node under strain, each with a verdict: exit status 0 if it holds.

    soak.py connections [--idle 10000] [--slow 1000] [--seconds 15]   held open while half of the load runs
    soak.py keep-alive [--connections 200] [--cycles 20]              reuse at the announced time-out, 1 ms more or less
    soak.py memory [--seconds 120]                                    seven tenths of the load: memory and descriptors

The load is the sample of wallet traffic on 32 connections; all of it is what the node manages at the start, on one
processor.  Times to the answer count from when a request was due.
"""

from __future__ import annotations

import argparse
import heapq
import os
import random
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, cycle
from statistics import median
from typing import NamedTuple

from load import call
from load_client import Client, Measured, post, wallet_requests
from load_servers import ServerProcess, State, leave_first_processor
from workload import SAMPLE, ask_over_http, fitted, learn_chain

LOAD_CONNECTIONS = 32
MIB = 1 << 20
#: More than before, with all connections open.
RESIDENT_GROWTH_MAX = 200 * MIB
#: Between the second and the last quarter of a soak.
SOAK_GROWTH_MAX = 4 * MIB
REUSE_JITTER_S = 0.001
#: Parts of a second, in which a part of the slow connections sends.
SLOW_TURNS = 50


class Found(NamedTuple):
    """One thing that must hold."""

    text: str
    holds: bool


def load_of(node: ServerProcess) -> list[bytes]:
    return wallet_requests(fitted(SAMPLE, learn_chain(ask_over_http(f"http://127.0.0.1:{node.port}/"))))


def full_rate(client: Client, requests: Sequence[bytes]) -> float:
    """What the node manages; the best of three, as other work beside it only takes away."""
    client.ask(requests, len(requests))
    return max(client.ask(requests, 3 * len(requests)).rate for _ in range(3))


def describe(name: str, measured: Measured) -> str:
    times = ", ".join(f"p{percent:g} {measured.percentile(percent) * 1e3:.2f} ms" for percent in (50, 99, 99.9))
    return f"{name}: {measured.rate:.0f} requests/s, {times}"


# ---- connections ---------------------------------------------------------------------------------


def soak_connections(node: ServerProcess, options: argparse.Namespace) -> list[Found]:
    requests = load_of(node)
    client = Client(node.port, LOAD_CONNECTIONS)
    rate = full_rate(client, requests) / 2
    print(f"half of the load: {rate:.0f} requests/s")
    client.ask_at_rate(requests, rate, options.seconds / 3)
    print(describe("alone", client.ask_at_rate(requests, rate, options.seconds)))
    # What watches the machine may look at every connection there is, so the baseline has as many, to another server.
    bystander = ServerProcess("canned", "200/100")
    with held_connections(bystander.port, options):
        before = client.ask_at_rate(requests, rate, options.seconds)
    bystander.close()
    print(describe("beside as many connections of others", before))
    state_before = node.state()
    with held_connections(node.port, options) as said:
        during = client.ask_at_rate(requests, rate, options.seconds)
        state = node.state()
    print(describe("with them", during))
    lost_idle = int(said[0].split()[0])
    held = state.open_files - state_before.open_files
    growth = state.resident_bytes - state_before.resident_bytes
    ratio = during.percentile(99) / before.percentile(99)
    client.close()
    return [
        Found(
            f"{held} more descriptors while {options.idle + options.slow} connections are held", held >= options.idle
        ),
        Found(f"p99 is {ratio:.2f} times that beside connections of others (less than 2)", ratio < 2),
        Found(f"memory grew by {growth / MIB:.0f} MB (less than 200)", growth < RESIDENT_GROWTH_MAX),
        Found(f"{lost_idle} idle connections were lost before their time", lost_idle == 0),
    ]


@contextmanager
def held_connections(port: int, options: argparse.Namespace) -> Iterator[list[str]]:
    """The list gets what the holder says in the end."""
    holder = subprocess.Popen(
        [sys.executable, __file__, "hold", str(port), str(options.idle), str(options.slow)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    said: list[str] = []
    try:
        assert holder.stdout is not None
        print(holder.stdout.readline().strip())
        yield said
    finally:
        last, _ = holder.communicate("\n")
        print(last.strip())
        said.append(last)


def hold(port: int, idle: int, slow: int) -> None:
    """Hold connections open until a line comes.  Each slow one sends a byte of its head a second, at a moment of its
    own, and comes again when the server has had enough of it."""
    request = post(call("getBlockNumber"))
    idle_sockets = [_connected(port) for _ in range(idle)]
    slow_sockets = {each.fileno(): [each, 0] for each in (_connected(port) for _ in range(slow))}
    poll = select.epoll()
    poll.register(sys.stdin, select.EPOLLIN)
    for each in idle_sockets:
        each.sendall(request)
    for each in idle_sockets:
        each.recv(4096)
    print(f"{idle} idle and {slow} slow connections are open", flush=True)
    came_again = 0
    turns = cycle(range(SLOW_TURNS))  # this process must not take a processor for itself, once a second
    while not poll.poll(1 / SLOW_TURNS):
        turn = next(turns)
        for descriptor in [descriptor for descriptor in slow_sockets if descriptor % SLOW_TURNS == turn]:
            entry = slow_sockets[descriptor]
            connected, sent = entry
            try:
                connected.send(request[sent % 60 : sent % 60 + 1] if sent < 60 else b"x")
                entry[1] += 1
            except (BlockingIOError, ConnectionError):
                del slow_sockets[descriptor]
                connected.close()
                again = _connected(port)
                slow_sockets[again.fileno()] = [again, 0]
                came_again += 1
    lost = 0
    for each in idle_sockets:
        each.setblocking(False)
        try:
            each.recv(1)
            lost += 1
        except BlockingIOError:
            pass
        except ConnectionError:
            lost += 1
    print(f"{lost} of the idle connections were closed, {came_again} slow ones came again")


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


# ---- keep-alive ----------------------------------------------------------------------------------


def soak_keep_alive(node: ServerProcess, options: argparse.Namespace) -> list[Found]:
    """Each connection asks, waits for the announced time and up to 1 ms more or less, and asks again."""
    request = post(call("getBlockNumber"))
    announced = float(options.keep_alive)
    due: list[tuple[float, int, socket.socket]] = []
    order = count()
    start = time.perf_counter()
    for number in range(options.connections):
        heapq.heappush(due, (start + number * announced / options.connections, next(order), _connected(node.port)))
    lost = reused = 0
    latest = 0.0
    cycles = dict.fromkeys((each for _, _, each in due), 0)
    while due:
        when, _, connected = heapq.heappop(due)
        while (now := time.perf_counter()) < when:
            time.sleep(max(0.0, when - now - 0.0002))
        latest = max(latest, now - when)
        try:
            connected.sendall(request)
            answer = connected.recv(4096)
        except ConnectionError:
            answer = b""
        if b"result" not in answer:
            lost += 1
            connected.close()
            continue
        cycles[connected] += 1
        reused += cycles[connected] > 1
        if cycles[connected] > options.cycles:
            connected.close()
            continue
        jitter = random.uniform(-REUSE_JITTER_S, REUSE_JITTER_S)
        heapq.heappush(due, (time.perf_counter() + announced + jitter, next(order), connected))
    print(f"{reused} reuses {announced:g} s after the last answer, 1 ms more or less; up to {latest * 1e3:.1f} ms late")
    return [Found(f"{lost} connections were lost", lost == 0 and reused == options.connections * options.cycles)]


# ---- memory --------------------------------------------------------------------------------------


def soak_memory(node: ServerProcess, options: argparse.Namespace) -> list[Found]:
    requests = load_of(node)
    client = Client(node.port, LOAD_CONNECTIONS)
    rate = full_rate(client, requests) * 0.7
    print(f"seven tenths of the load: {rate:.0f} requests/s")
    states: list[State] = []
    slowest = 0.0
    ends = time.monotonic() + options.seconds
    while time.monotonic() < ends:
        measured = client.ask_at_rate(requests, rate, min(2.0, options.seconds / 20))
        slowest = max(slowest, measured.percentile(99))
        states.append(node.state())
    client.close()
    quarter = len(states) // 4
    early, late = states[quarter : 2 * quarter], states[-quarter:]
    growth = median(each.resident_bytes for each in late) - median(each.resident_bytes for each in early)
    files = [each.open_files for each in states[quarter:]]
    resident = states[-1].resident_bytes / MIB
    print(f"{len(states)} looks in {options.seconds:.0f} s, worst p99 {slowest * 1e3:.1f} ms, memory {resident:.0f} MB")
    return [
        Found(f"memory grew by {growth / MIB:.1f} MB from the second to the last quarter", growth <= SOAK_GROWTH_MAX),
        Found(f"descriptors: {min(files)} to {max(files)}", max(files) - min(files) <= 2),
    ]


# ---- the command -------------------------------------------------------------------------------

Soak = Callable[[ServerProcess, argparse.Namespace], list[Found]]
SOAKS: dict[str, tuple[Soak, list[str]]] = {
    "connections": (soak_connections, ["rpc_max_connections_per_address=0"]),
    "keep-alive": (soak_keep_alive, ["rpc_keep_alive_s={keep_alive}"]),
    "memory": (soak_memory, []),
}


def main() -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if sys.argv[1:2] == ["hold"]:
        hold(*map(int, sys.argv[2:]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("soak", choices=SOAKS)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--slow", type=int, default=1_000)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--keep-alive", type=int, default=2, help="seconds")
    options = parser.parse_args()
    options.seconds = options.seconds or (120.0 if options.soak == "memory" else 15.0)
    soak, settings = SOAKS[options.soak]
    print(f"{options.soak}; load average before: {', '.join(f'{each:.1f}' for each in os.getloadavg())}")
    with tempfile.TemporaryDirectory() as directory:
        node = ServerProcess("node", directory, *(each.format(keep_alive=options.keep_alive) for each in settings))
        leave_first_processor()
        try:
            found = soak(node, options)
        finally:
            node.close()
    for each in found:
        print(f"{'holds' if each.holds else 'DOES NOT HOLD'}: {each.text}")
    return 0 if all(each.holds for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
