"""The processes that a load is put on: a node, and a raw uvloop protocol with canned replies.

    python bench/load_servers.py node DIRECTORY [--flag value ...]
    python bench/load_servers.py canned LENGTH [LENGTH ...]

Each says its port in a line, and for every line it reads ``processor seconds, resident bytes, open files``.  It runs on
the first processor of those it may use, so that the client can have the others.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import uvloop

#: Tells a server which processor is its own.
CORE_VARIABLE = "FASTNODE_BENCH_CORE"
#: Before any process has left it.
FIRST_PROCESSOR = min(os.sched_getaffinity(0))


class State(NamedTuple):
    """What a server process has used so far and uses now."""

    processor_s: float
    resident_bytes: int
    open_files: int


class ServerProcess:
    """A server of this file in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, __file__, *arguments]
        environment = {**os.environ, CORE_VARIABLE: str(FIRST_PROCESSOR)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.pid = self._process.pid
        first = self._read()
        if not first:
            raise RuntimeError(f"the server did not start: {' '.join(arguments[:1])}")
        self.port = int(first)

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def state(self) -> State:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        processor_s, resident_bytes, open_files = self._read().split()
        return State(float(processor_s), int(resident_bytes), int(open_files))

    def processor_seconds(self) -> float:
        return self.state().processor_s

    def close(self) -> None:
        self._process.communicate()  # the end of its input ends it


def leave_first_processor() -> None:
    """For the client: the first processor is the server's."""
    available = sorted(os.sched_getaffinity(0))
    if len(available) > 1:
        os.sched_setaffinity(0, available[1:])


# ---- inside the process --------------------------------------------------------------------------


def _take_first_processor() -> None:
    os.sched_setaffinity(0, {int(os.environ.get(CORE_VARIABLE, FIRST_PROCESSOR))})


class CannedProtocol(asyncio.Protocol):
    """One answer for every read that completes a body; the answers of all connections by turns."""

    def __init__(self, next_answer: Callable[[], bytes]) -> None:
        self._next_answer = next_answer
        self._write: Callable[[bytes], None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = transport.write  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if data.endswith((b"}", b"]")):
            self._write(self._next_answer())


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nPadding: %b\r\n\r\n"
HEAD_BYTES_MIN = len(HEAD % (0, b""))


def canned_answer(length: int, body_length: int) -> bytes:
    """An answer of ``length`` bytes, ``body_length`` of them behind the head."""
    padding = length - body_length - HEAD_BYTES_MIN - len(str(body_length)) + 1
    answer = HEAD % (body_length, b"x" * max(0, padding)) + b"x" * body_length
    assert padding < 0 or len(answer) == length
    return answer


async def serve_canned(sizes: list[str]) -> None:
    answers = [canned_answer(*map(int, size.split("/"))) for size in sizes]
    position = -1

    def next_answer() -> bytes:
        nonlocal position
        position = (position + 1) % len(answers)
        return answers[position]

    listener = await asyncio.get_running_loop().create_server(
        lambda: CannedProtocol(next_answer), "127.0.0.1", 0, backlog=4096
    )
    gc.freeze()
    await _answer_questions(listener.sockets[0].getsockname()[1])


async def serve_node(directory: str, flags: list[str]) -> None:
    from fastnode.app.process.node import Node
    from fastnode.config.settings import Settings

    settings = Settings(
        data_directory=Path(directory),
        port=0,
        admin_port=0,
        metrics_port=_free_port(),
        metrics_host="127.0.0.1",
        disable_admin_api_key=True,
        **_settings_of(flags),
    )
    node = await Node.start(settings)
    try:
        await _wait_until_at_rest(node)
        await _answer_questions(node.public.port)
    finally:
        await node.stop()


def _settings_of(flags: list[str]) -> dict[str, object]:
    """``name=value`` as settings, each read as its flag is; a comma at the end of a list is not needed."""
    from fastnode.config.settings import Settings

    kinds = {item.name: item.metadata["kind"] for item in dataclasses.fields(Settings)}
    found: dict[str, object] = {}
    for flag in flags:
        name, _, text = flag.partition("=")
        found[name] = kinds[name].from_text(text.rstrip(","))
    return found


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _wait_until_at_rest(node: object) -> None:
    """Until the chain is there: nothing new for a while."""
    last, since = -1, time.monotonic()
    failure = asyncio.ensure_future(node.wait_for_failure())  # type: ignore[attr-defined]
    while time.monotonic() - since < 0.7 or last <= 0:
        await asyncio.sleep(0.05)
        if failure.done():
            failure.result()
        tip = -1 if node.view is None else node.view.chain.tip_number  # type: ignore[attr-defined]
        if tip != last:
            last, since = tip, time.monotonic()
    failure.cancel()


async def _answer_questions(port: int) -> None:
    print(port, flush=True)
    page = os.sysconf("SC_PAGE_SIZE")
    while await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * page
        print(time.process_time(), resident, len(list(Path("/proc/self/fd").iterdir())), flush=True)


def main(role: str, *arguments: str) -> None:
    _take_first_processor()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if role == "node":
            sys.setswitchinterval(100e-6)
            runner.run(serve_node(arguments[0], list(arguments[1:])))
        else:
            runner.run(serve_canned(list(arguments)))


if __name__ == "__main__":
    main(*sys.argv[1:])
