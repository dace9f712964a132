"""Memory of a node under attack, the longest block of its event loop, and the longest wait of another client."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conftest import PATIENCE_S, NodeProcess

#: Between two probes of the event loop.
PROBE_S = 0.01
STEADY_S = 2.0


class Watched:
    """``peak``: bytes above what the process had before.  ``longest_block_s``: the most processor time that the event
    loop used while a probe waited for its answer, which does not depend on the load of the machine.
    ``longest_wait_s``: the longest that a probe waited."""

    def __init__(self) -> None:
        self.peak = 0
        self.longest_block_s = self.longest_wait_s = 0.0


class Measured:
    """A node as a process on this machine."""

    def __init__(self, process: NodeProcess) -> None:
        self.process = process
        self.port = process.port
        self._proc = Path(f"/proc/{process.process.pid}")
        #: At rest, once all that is loaded on demand by common calls is there.
        self.call("node_getBlockNumber")
        self.call("rpc.discover")
        time.sleep(STEADY_S)
        self.idle = self._memory("VmRSS:")

    def _memory(self, name: str) -> int:
        text = (self._proc / "status").read_text()
        return int(text.split(name)[1].split()[0]) << 10

    def _loop_time_s(self) -> float:
        """Processor time of the main thread, which runs the event loop."""
        schedule = (self._proc / "task" / str(self.process.process.pid) / "schedstat").read_text()
        return int(schedule.split()[0]) / 1e9

    # ---- calls ---------------------------------------------------------------------------------

    def request(self, body: bytes, *, closes: bool = False, lines: bytes = b"") -> bytes:
        closing = b"Connection: close\r\n" if closes else b""
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%b%bContent-Length: %d\r\n\r\n"
        return head % (closing, lines, len(body)) + body

    def answer(self, data: bytes) -> tuple[int, bytes]:
        """Bytes of the answer to what is sent on a connection of its own, and the first of them."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.settimeout(10 * PATIENCE_S)
            connection.sendall(data)
            size, first = 0, b""
            while piece := connection.recv(1 << 20):
                size += len(piece)
                if len(first) < 1 << 16:
                    first += piece
        return size, first

    def call(self, method: str, *params: Any) -> Any:
        return self.process.call(method, *params)["result"]

    def call_status(self) -> int:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "node_getBlocks", "params": [1, 1]}).encode()
        return int(self.answer(self.request(body, closes=True))[1][9:12])

    # ---- measures --------------------------------------------------------------------------------

    @contextmanager
    def watched(self) -> Iterator[Watched]:
        """What happens inside is measured: memory above idle, and answers to a client that asks little."""
        found, ended = Watched(), threading.Event()
        (self._proc / "clear_refs").write_text("5")

        def probe() -> None:
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "node_getBlockNumber", "params": []}).encode()
            request = self.request(body)
            with socket.create_connection(("127.0.0.1", self.port), source_address=("127.0.0.77", 0)) as connection:
                connection.settimeout(PATIENCE_S)
                while not ended.wait(PROBE_S):
                    begun, loop_begun = time.monotonic(), self._loop_time_s()
                    connection.sendall(request)
                    connection.recv(1 << 16)
                    found.longest_wait_s = max(found.longest_wait_s, time.monotonic() - begun)
                    found.longest_block_s = max(found.longest_block_s, self._loop_time_s() - loop_begun)

        thread = threading.Thread(target=probe)
        thread.start()
        try:
            yield found
        finally:
            ended.set()
            thread.join()
            found.peak = self._memory("VmHWM:") - self.idle

    def peak_of(self, body: bytes) -> tuple[int, int]:
        """Size of the answer to a body that is read, and the memory above idle meanwhile."""
        with self.watched() as watched:
            size, _ = self.answer(self.request(body, closes=True))
        return size, watched.peak

    def wait_until_steady(self) -> None:
        """Until memory has not changed for two seconds."""
        deadline, since, before = time.monotonic() + 10 * PATIENCE_S, time.monotonic(), -1
        while time.monotonic() - since < STEADY_S:
            now = self._memory("VmRSS:") >> 20
            if now != before:
                since, before = time.monotonic(), now
            assert time.monotonic() < deadline, "memory goes on changing"
            time.sleep(0.1)
