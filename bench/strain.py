"""A node under attack: what does another client notice, what does it cost in memory, and does the node go on?

    .venv/bin/python bench/strain.py [--attack NAME ...] [--attackers 1 4 64] [--seconds 6] [--json FILE]
    .venv/bin/python bench/strain.py --table --json FILE [--one-address]     # all of it in some twelve minutes
    .venv/bin/python bench/strain.py --table-of FILE     # its rows of bench/figures.json

Each round starts from an idle node that serves the sample chain.  Attackers do their worst, each from an address of
its own; meanwhile the *victim*, a client of its own, asks for the block number a hundred times a second.  Its times
count from when a request was due, so that what could not be sent for want of an answer counts too.  Then they stop,
and ten seconds later the memory is read again.

Everything stays on the loopback interface, and every round is bounded in time.  Where the system shares processors out
among sessions (Linux's autogroup), this one comes before others: their work is not the node's.  The verdict (exit
status 0 if all hold): p99 of the victim at most 20 ms with up to four attackers and 50 ms with more, memory at most the
budget and 200 MB, back within 50 MB of rest, and the node answers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import mmap
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import uvloop

from node_command import node_command

MIB = 1 << 20
PACE_S = 0.01
SETTLE_S = 10.0
MEMORY_BUDGET = 256 * MIB
MEMORY_ABOVE_BUDGET_MAX = 200 * MIB
MEMORY_KEPT_MAX = 50 * MIB
#: Of the victim's p99, by how many attackers.
P99_FEW_S, P99_MANY_S, FEW = 0.020, 0.050, 4
TOUCHED_BYTES = 1024 * MIB
HOST = "127.0.0.1"
TXS = Path(__file__).parent.parent / "tests" / "data" / "txs_recorded.jsonl.gz"


# ---- requests ------------------------------------------------------------------------------------


def post(body: bytes, *lines: str) -> bytes:
    head = ["POST / HTTP/1.1", "Host: node", "Content-Type: application/json", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def packed(body: bytes) -> bytes:
    return post(gzip.compress(body, 9, mtime=0), "Content-Encoding: gzip")


def call(method: str, *params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}


def batch(of: dict[str, Any], count: int = 100) -> bytes:
    return orjson.dumps([of] * count)


BLOCK_NUMBER = post(orjson.dumps(call("node_getBlockNumber")))


class Chain:
    """What the attacks know of the chain that is served."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.tag, self.page_bytes = self._dearest_tag()
        self.tx = next(_recorded_txs())

    def ask(self, method: str, *params: Any) -> Any:
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            connection.sendall(post(orjson.dumps(call(method, *params)), "Connection: close"))
            data = b"".join(iter(lambda: connection.recv(1 << 20), b""))
        return orjson.loads(data.partition(b"\r\n\r\n")[2]).get("result")

    def _dearest_tag(self) -> tuple[str, int]:
        """The tag of private logs with the largest first page."""
        tags: set[str] = set()
        for first in range(1, self.ask("node_getBlockNumber") + 1, 20):
            for block in self.ask("node_getBlocks", first, 20):
                for effect in block["body"]["txEffects"]:
                    tags.update(log["fields"][0] for log in effect["privateLogs"])
        sizes = {tag: len(orjson.dumps(self.ask("node_getPrivateLogsByTags", [tag]))) for tag in tags}
        return max(sizes.items(), key=lambda item: item[1])


def _recorded_txs() -> Iterator[dict[str, Any]]:
    with gzip.open(TXS) as lines:
        for line in lines:
            record = json.loads(line)
            del record["origin"], record["label"]
            yield record


# ---- what attackers do ---------------------------------------------------------------------------

Attacker = Callable[[int], Awaitable[None]]

#: Of the attacker that is running, as the node sees it.
ADDRESS: ContextVar[str] = ContextVar("ADDRESS", default=HOST)


async def _connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(HOST, port, limit=1 << 22, local_addr=(ADDRESS.get(), 0))


async def _drop_answers(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 20):
        pass


async def _read_answer(reader: asyncio.StreamReader) -> int:
    """The status of one answer, whose body is dropped."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
    while length:
        length -= len(await reader.readexactly(min(length, 1 << 20)))
    return int(head[9:12])


def asks(request: bytes) -> Attacker:
    """One request after the other, each when the one before is answered."""

    async def attack(port: int) -> None:
        reader, writer = await _connect(port)
        status = 200
        while status < 500:
            writer.write(request)
            status = await _read_answer(reader)
        writer.close()
        await asyncio.sleep(0.05)

    return attack


def floods(request: bytes, count: int = 64) -> Attacker:
    """Requests without waiting for answers, which are taken as they come."""

    async def attack(port: int) -> None:
        reader, writer = await _connect(port)
        dropping = asyncio.ensure_future(_drop_answers(reader))
        try:
            while not dropping.done():
                writer.write(request * count)
                await writer.drain()
        finally:
            dropping.cancel()
            writer.close()

    return attack


def leaves_unread(request: bytes, count: int = 1) -> Attacker:
    """Requests whose answers are never taken."""

    async def attack(port: int) -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
            connection.bind((ADDRESS.get(), 0))
            await loop.sock_connect(connection, ("127.0.0.1", port))
            await loop.sock_sendall(connection, request * count)
            await asyncio.sleep(3600)

    return attack


def leaves_early(request: bytes) -> Attacker:
    """Requests whose client is gone a moment later."""

    async def attack(port: int) -> None:
        _, writer = await _connect(port)
        writer.write(request)
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.transport.abort()

    return attack


def holds(part: bytes) -> Attacker:
    """The beginning of a request, and nothing more."""

    async def attack(port: int) -> None:
        _, writer = await _connect(port)
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(3600)

    return attack


def trickles(head: bytes, piece: bytes) -> Attacker:
    """A body without end, in small pieces."""

    async def attack(port: int) -> None:
        reader, writer = await _connect(port)
        dropping = asyncio.ensure_future(_drop_answers(reader))
        try:
            writer.write(head)
            while not dropping.done():
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        finally:
            dropping.cancel()
            writer.close()

    return attack


def leaves_in_the_middle(part: bytes) -> Attacker:
    """Uploads that are broken off, one after the other."""

    async def attack(port: int) -> None:
        _, writer = await _connect(port)
        writer.write(part)
        await writer.drain()
        writer.transport.abort()

    return attack


def connects() -> Attacker:
    """Connections that are closed at once."""

    async def attack(port: int) -> None:
        _, writer = await _connect(port)
        writer.transport.abort()

    return attack


def registers_names() -> Attacker:
    """New names of functions without end."""

    async def attack(port: int) -> None:
        reader, writer = await _connect(port)
        number = os.getpid() * 10**9 + id(writer) % 10**9 * 1000
        while True:
            calls = []
            for _ in range(100):
                number += 100
                names = [f"f{each}()" for each in range(number, number + 100)]
                calls.append(call("node_registerContractFunctionSignatures", names))
            writer.write(packed(orjson.dumps(calls)))
            await _read_answer(reader)

    return attack


class Attack(NamedTuple):
    what: str
    attacker: Attacker
    #: Connections of one attacker.
    connections: int = 1


def attacks(chain: Chain) -> dict[str, Attack]:
    half = (MIB - 4096) * b" "
    empty_member = gzip.compress(b"", mtime=0)
    number = orjson.dumps(call("node_getBlockNumber"))
    tagged = call("node_getPrivateLogsByTags", [chain.tag] * 100)
    few = call("node_getPrivateLogsByTags", [chain.tag] * 10)
    fields = [f"0x{each:064x}" for each in range(1, 101)]
    signature = "transfer(Field,Field,u128,Field)"
    long_signature = "f(" + "Field," * 1600 + "Field)"
    unread_tags = batch(tagged)
    surrogate = b'{"method":"node_getBlockNumber","params":[],"id":["\\ud800",%b1]}' % (b"1," * 500_000)
    tx = orjson.dumps(call("node_isValidTx", chain.tx))
    simulated = orjson.dumps(call("node_simulatePublicCalls", chain.tx, True))
    return {
        "containers": Attack(
            "1.2 kB of gzip that holds 349,000 arrays",
            asks(packed(b'{"method":"node_getBlockNumber","id":1,"params":[%b[]]}' % (b"[]," * 348_999))),
        ),
        "values": Attack(
            "1 kB of gzip that holds 500,000 numbers",
            asks(packed(b'{"method":"node_getBlockNumber","id":1,"params":[%b1]}' % (b"1," * 500_000))),
        ),
        "surrogate": Attack("an id of 1 MB with half a character", asks(post(surrogate))),
        "escaped ids": Attack(
            "a batch of 100 whose ids have to be looked up, 1 MB",
            asks(post(b"[" + b",".join([number.replace(b":1,", b':"\\u0041%b",' % (b"x" * 9000))] * 100) + b"]")),
        ),
        "plain containers": Attack(
            "1 MB that holds 349,000 arrays",
            asks(post(b'{"method":"node_getBlockNumber","id":1,"params":[%b[]]}' % (b"[]," * 348_999))),
        ),
        "plain deep": Attack("1 MB of opening brackets", asks(post(b"[" * MIB))),
        "members": Attack(
            "50,000 empty gzip members", asks(post(empty_member * (MIB // len(empty_member)), "Content-Encoding: gzip"))
        ),
        "deep": Attack("1 MB of opening brackets, in gzip", asks(packed(b"[" * MIB))),
        "text": Attack("a text of 1 MB as method", asks(post(b'{"id":1,"method":"%b"}' % (b"x" * (MIB - 99))))),
        "pipeline": Attack("getBlockNumber without waiting for answers", floods(BLOCK_NUMBER)),
        "pipelined errors": Attack(
            "calls of no method without waiting for answers", floods(post(orjson.dumps(call("node_no"))))
        ),
        "pipelined heads": Attack(
            "GET / without waiting for answers", floods(b"GET /status HTTP/1.1\r\nHost: node\r\n\r\n")
        ),
        "event queries": Attack(
            "GET /events with 16 kB of parameters, pipelined",
            floods(b"GET /events?types=no&%b HTTP/1.1\r\nHost: node\r\n\r\n" % (b"a&" * 7_900)),
        ),
        "signatures": Attack(
            "registrations of 60 names without waiting for answers",
            floods(post(orjson.dumps(call("node_registerContractFunctionSignatures", [signature] * 60)))),
        ),
        "signature batch": Attack(
            "100 x 100 registrations of the longest names",
            asks(post(batch(call("node_registerContractFunctionSignatures", [long_signature[:10_000]])))),
        ),
        "new names": Attack("new names of functions without end", registers_names()),
        "known tags": Attack("batch of 100 x 100 times a known tag", asks(post(batch(tagged)))),
        "few known tags": Attack("batch of 100 x 10 times a known tag", asks(post(batch(few)))),
        "pipelined tags": Attack("100 times a known tag, pipelined", floods(post(orjson.dumps(tagged)), 4)),
        "leaves": Attack(
            "batch of 100 x 100 leaves to find",
            asks(post(batch(call("node_findLeavesIndexes", "latest", 0, fields)))),
        ),
        "witnesses": Attack(
            "batches of 100 witnesses", floods(post(batch(call("node_getPublicDataWitness", "latest", fields[7]))), 8)
        ),
        "blocks": Attack("batch of 20 x 50 blocks", asks(packed(batch(call("node_getBlocks", 1, 50), 20)))),
        "packed blocks": Attack(
            "50 blocks, in gzip",
            asks(post(orjson.dumps(call("node_getBlocks", 1, 50)), "Accept-Encoding: gzip, deflate;q=0.5")),
        ),
        "logs": Attack(
            "batch of 100 ranges of logs", asks(packed(batch(call("node_getPublicLogs", {"fromBlock": 1}))))
        ),
        "txs": Attack("isValidTx, 16 pipelined", floods(post(tx), 16)),
        "damaged txs": Attack(
            "sendTx of something damaged",
            floods(post(tx.replace(b"isValidTx", b"sendTx").replace(b"AAAA", b"AAAB", 9)), 16),
        ),
        "simulations": Attack("simulations, 16 pipelined", floods(post(simulated), 16)),
        "early leave": Attack("batches whose client leaves at once", leaves_early(post(batch(tagged)))),
        "early simulations": Attack("simulations whose client leaves at once", leaves_early(post(simulated))),
        "discovery": Attack("rpc.discover, pipelined", floods(post(orjson.dumps(call("rpc.discover"))), 4)),
        "unread": Attack("large answers that are not taken", leaves_unread(post(unread_tags)), 12),
        "unread small": Attack("small answers that are not taken", leaves_unread(BLOCK_NUMBER, 40_000), 12),
        "half bodies": Attack("1 MB of a body that does not end", holds(post(b"x" * MIB)[:-4096]), 64),
        "two-byte chunks": Attack(
            "a body in chunks of two bytes",
            trickles(b"POST / HTTP/1.1\r\nHost: node\r\nTransfer-Encoding: chunked\r\n\r\n", b"2\r\n  \r\n" * 4096),
            8,
        ),
        "broken uploads": Attack("uploads that are broken off", leaves_in_the_middle(post(half + b"12345")[:-5])),
        "connections": Attack("connections that are closed at once", connects()),
    }


# ---- the two sides -------------------------------------------------------------------------------


def attack_for(attack: Attack, count: int, port: int, seconds: float, one_address: bool = False) -> None:
    """``count`` attackers in this process, which leaves the processor to others where it can.  Each has an address of
    its own, or all have the other client's."""
    os.nice(10)

    async def go_on(number: int) -> None:
        ADDRESS.set(HOST if one_address else f"127.0.1.{1 + number % count}")
        while True:
            try:
                await attack.attacker(port)
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.02)

    async def attack_together() -> None:
        tasks = [asyncio.ensure_future(go_on(number)) for number in range(count * attack.connections)]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=2)
        os._exit(0)  # the end of the runner would wait for attackers that do not end when they are cancelled

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(attack_together())


def be_victim(port: int, seconds: float) -> list[float]:
    """Seconds to the answer, for a request every hundredth of a second.

    While one waits, those that become due are not sent; each counts with the time that it would have waited.
    """
    return _ask_in_time(port, seconds)


def _ask_in_time(port: int, seconds: float) -> list[float]:
    took = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        start = due = time.perf_counter()
        connection.settimeout(60)
        while due - start < seconds:
            time.sleep(max(0.0, due - time.perf_counter()))
            connection.sendall(BLOCK_NUMBER)
            data = connection.recv(65536)
            if b" 200 " not in data[:20]:
                raise RuntimeError(f"the victim was answered {data[:200]!r}")
            answered = time.perf_counter()
            while due <= answered:
                took.append(answered - due)
                due += PACE_S
    return took


class Node:
    def __init__(self, directory: Path, flags: list[str]) -> None:
        log = directory / "log"
        command = node_command(directory / "data", *flags)
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stderr=output)
        self._log = log
        self.port = self._wait()

    def _wait(self) -> int:
        while True:
            entries = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
            ports = [entry["port"] for entry in entries if entry["message"] == "serving"]
            if ports and any(entry["message"] == "chain file loaded" for entry in entries):
                return int(ports[0])
            if self._process.poll() is not None:
                raise RuntimeError(self._log.read_text())
            time.sleep(0.1)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def memory(self) -> tuple[int, int]:
        """Resident bytes now and at most since :meth:`forget_peak`."""
        fields = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
            if ":" in line
        )
        return int(fields["VmRSS"].split()[0]) * 1024, int(fields["VmHWM"].split()[0]) * 1024

    def forget_peak(self) -> None:
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()


# ---- rounds --------------------------------------------------------------------------------------


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


@contextmanager
def node_at_rest(flags: list[str]) -> Iterator[Node]:
    with tempfile.TemporaryDirectory() as folder:
        node = Node(Path(folder), flags)
        try:
            time.sleep(0.5)
            yield node
        finally:
            node.close()


_chains: list[Chain] = []


def chain_of(port: int) -> Chain:
    """It is the same in each round."""
    if not _chains:
        _chains.append(Chain(port))
    return _chains[0]


def run_round(name: str, count: int, options: argparse.Namespace) -> Callable[[], dict[str, Any]]:
    """Attack a node.  What is returned waits, looks how the node is then, and ends it."""
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(node_at_rest(options.flags))
        attack = attacks(chain_of(node.port))[name]
        be_victim(node.port, 0.5)
        rest, _ = node.memory()
        node.forget_peak()
        args = (attack, count, node.port, options.seconds, options.one_address)
        attacking = multiprocessing.Process(target=attack_for, args=args)
        attacking.start()
        time.sleep(0.3)
        try:
            took = be_victim(node.port, options.seconds - 0.5)
        except (OSError, RuntimeError) as error:
            print(f"the victim: {error}")
            took = [float("inf")]
        attacking.join()
        _, peak = node.memory() if node.is_alive else (0, 0)
        over = stack.pop_all()
    ended = time.monotonic()

    def settle() -> dict[str, Any]:
        with over:
            time.sleep(max(0.0, ended + options.settle - time.monotonic()))
            after = node.memory()[0] if node.is_alive else 0
            try:
                answers = node.is_alive and be_victim(node.port, 0.1) != []
            except (OSError, RuntimeError):
                answers = False
        found = {
            "attack": name,
            "what": attack.what,
            "attackers": count,
            "answers": len(took),
            "p50_ms": percentile(took, 0.5) * 1e3,
            "p99_ms": percentile(took, 0.99) * 1e3,
            "max_ms": max(took) * 1e3,
            "rest_mb": rest // MIB,
            "peak_mb": peak // MIB,
            "after_mb": after // MIB,
            "answers_after": answers,
        }
        found["holds"] = holds_of(found, options)
        return found

    return settle


def run_rounds(names: list[str], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One after the other; for a table the next one begins while the node of the one before comes to rest."""
    with ThreadPoolExecutor(4) as settling:
        waiting: deque[Future[dict[str, Any]]] = deque()
        for name in names:
            for count in options.attackers:
                waiting.append(settling.submit(run_round(name, count, options)))
                while waiting and (waiting[0].done() or not options.table):
                    yield waiting.popleft().result()
        for each in waiting:
            yield each.result()


def table_of(rounds: list[dict[str, Any]]) -> list[str]:
    """Rows of ``attacks`` in bench/figures.json, one for each attack; memory is of the most attackers.  What fails is
    marked, and of rounds that were repeated the last one counts."""
    last = {(found["attack"], found["attackers"]): found for found in rounds}
    by_name: dict[str, list[dict[str, Any]]] = {}
    for found in sorted(last.values(), key=lambda found: found["attackers"]):
        by_name.setdefault(found["attack"], []).append(found)
    counts = sorted({found["attackers"] for found in rounds})
    lines = []
    for name in (name for name in attacks(_NO_CHAIN) if name in by_name):
        by_count = {found["attackers"]: found for found in by_name[name]}
        most = by_name[name][-1]
        times = [_cell(by_count[count]) if count in by_count else "" for count in counts]
        memory = f"{most['peak_mb']}, {most['after_mb']} MB"
        lines.append(json.dumps([most["what"], *times, memory]))
    return [*(f"        {line}," for line in lines[:-1]), *(f"        {line}" for line in lines[-1:])]


def _cell(found: dict[str, Any]) -> str:
    return f"{found['p99_ms']:.1f} ms{'' if found['holds'] else ' (fails)'}"


def holds_of(found: dict[str, Any], options: argparse.Namespace) -> bool:
    p99_max = P99_FEW_S if found["attackers"] <= FEW else P99_MANY_S
    return bool(
        found["answers_after"]
        and found["p99_ms"] <= p99_max * 1e3
        and found["peak_mb"] <= (options.budget + MEMORY_ABOVE_BUDGET_MAX) // MIB
        and not _keeps_memory(found)
    )


def _keeps_memory(found: dict[str, Any]) -> bool:
    """Whether ten seconds after the attack the node has much more than before it."""
    return bool(found["after_mb"] - found["rest_mb"] > MEMORY_KEPT_MAX // MIB)


COLUMNS = (
    "{attack:18} {attackers:3}  p50 {p50_ms:8.2f}  p99 {p99_ms:8.2f}  max {max_ms:8.2f} ms  "
    "memory {rest_mb:4} -> {peak_mb:4} -> {after_mb:4} MB  {verdict}"
)


def _come_first() -> None:
    """Let what other sessions do on this machine disturb as little as may be."""
    with contextlib.suppress(OSError):
        os.setsid()
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("-20")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attack", nargs="*", help="names; default: all")
    parser.add_argument("--attackers", nargs="*", type=int, default=[1, 4, 64])
    parser.add_argument("--seconds", type=float, help="of an attack; default: 6, for a table 3")
    parser.add_argument("--settle", type=float, default=SETTLE_S)
    parser.add_argument("--budget", type=int, default=MEMORY_BUDGET)
    parser.add_argument("--one-address", action="store_true", help="everybody has one address, as behind a proxy")
    parser.add_argument(
        "--table",
        action="store_true",
        help="let rounds overlap with the rest of those before; repeat alone what kept memory; print rows",
    )
    parser.add_argument("--json", type=Path, help="append each round's figures to this file")
    parser.add_argument("--table-of", type=Path, metavar="FILE", help="measure nothing: print the table of such a file")
    parser.add_argument("--flags", nargs="*", default=None, help="of the node, without their two dashes")
    options = parser.parse_args()
    if options.table_of is not None:
        rounds = [json.loads(line) for line in options.table_of.read_text().splitlines()]
        print(*table_of(rounds), sep="\n")
        return _say_what_fails(rounds)
    _come_first()
    if options.seconds is None:
        options.seconds = 3.0 if options.table else 6.0
    if options.flags is None:
        options.flags = [f"rpc-memory-budget={options.budget}"]
        if options.one_address:  # which then has too many connections, and that is not what is measured
            options.flags.append("rpc-max-connections-per-address=0")
    options.flags = [f"--{flag}" for flag in options.flags]
    known = list(attacks(_NO_CHAIN))
    touch_memory(TOUCHED_BYTES)
    rounds = [_note(found, options) for found in run_rounds(options.attack or known, options)]
    if options.table:
        # What still came in when the next round began had to share the processors with that one.
        options.table = False
        for found in [found for found in rounds if _keeps_memory(found)]:
            options.attackers = [found["attackers"]]
            rounds += [_note(again, options) for again in run_rounds([found["attack"]], options)]
        options.table = True
        rounds = list({(found["attack"], found["attackers"]): found for found in rounds}.values())
    if options.table:
        print(*table_of(rounds), sep="\n")
    return _say_what_fails(rounds)


def _say_what_fails(rounds: list[dict[str, Any]]) -> int:
    fails = [f"{found['attack']} ({found['attackers']})" for found in rounds if not found["holds"]]
    print(
        f"{len(fails)} of {len(rounds)} rounds fail: {', '.join(fails)}" if fails else f"all {len(rounds)} rounds hold"
    )
    return 1 if fails else 0


def _note(found: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    print(COLUMNS.format(**found, verdict="holds" if found["holds"] else "FAILS"), flush=True)
    if options.json is not None:
        with options.json.open("a") as file:
            file.write(json.dumps(found) + "\n")
    return found


def touch_memory(size: int) -> None:
    """Let a virtual machine have as much memory as a round may need: pages that it never had take it ten times as long
    as others, which is not the node's."""
    with mmap.mmap(-1, size) as pages:
        for place in range(0, size, mmap.PAGESIZE):
            pages[place] = 1


class _NoChain(Chain):
    """For the names of the attacks."""

    def __init__(self) -> None:
        self.tag, self.page_bytes, self.tx = "0x00", 0, {}


_NO_CHAIN = _NoChain()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
