"""A server with methods made for tests, and a client that writes bytes and reads answers."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

import orjson
import uvloop
from tests.clock import Clock
from tests.conftest import PATIENCE_S

from fastnode.http.limits import Limits
from fastnode.jsonrpc.engine import Engine
from fastnode.jsonrpc.methods import Context, Method, MethodTable, Parameter, common
from fastnode.serving.server import RpcServer
from fastnode.testing import RunningNetwork
from fastnode.values.numbers import Integer

T = TypeVar("T")

SMALL = Limits(body_bytes_max=10_000, head_bytes_max=2_000, headers_max=20)
QUICK = Limits(head_time_s=0.3, body_time_s=0.3, idle_time_s=0.0, write_time_s=0.3)
VERSION = ("x-aztec-packageVersion", "4.1.2")


def port_of(network: RunningNetwork) -> int:
    """The port of its calls."""
    port = urlsplit(network.url).port
    assert port is not None
    return port


#: The answer to :func:`call` as it stands.
RIGHT = {"jsonrpc": "2.0", "id": 1, "result": 42}


class Workshop:
    """Methods to be served; ``gate`` holds back ``test_wait`` until the test opens it."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.waiting = threading.Semaphore(0)
        self.filled = 0
        #: Methods that the loop has called, in this order.
        self.called: list[str] = []

    def double(self, context: Context, number: int) -> bytes:
        self.called.append("double")
        return b"%d" % (2 * number)

    def wait(self, context: Context, number: int) -> bytes:
        self.waiting.release()
        assert self.gate.wait(PATIENCE_S)
        return b"%d" % number

    def fill(self, context: Context, size: int) -> bytes:
        self.filled += 1
        return b'"%b"' % (b"field " * (size // 6))

    def hold_up(self, context: Context, milliseconds: int) -> bytes:
        self.called.append("hold_up")
        time.sleep(milliseconds / 1000)
        return b"%d" % milliseconds

    def hold(self, context: Context, number: int) -> bytes:
        """Hold the loop up until the gate is open."""
        return self.wait(context, number)

    def methods(self) -> list[Method]:
        number = Parameter("number", Integer(minimum=0))
        return [
            Method(name="test_double", summary="", handler=self.double, **common("number", number)),
            Method(name="test_doubleInThread", summary="", handler=self.double, in_thread=True, **common("n", number)),
            Method(name="test_wait", summary="", handler=self.wait, in_thread=True, **common("number", number)),
            Method(name="test_fill", summary="", handler=self.fill, **common("string", number)),
            Method(name="test_hold", summary="", handler=self.hold, **common("number", number)),
            Method(name="test_holdUp", summary="", handler=self.hold_up, **common("number", number)),
        ]


class TimedLoop(uvloop.Loop):
    """Its time, by which clients are late, is a test's; it sleeps by that of the system."""

    clock: Clock | None = None

    def time(self) -> float:
        return super().time() if self.clock is None else self.clock()


class RunningServer:
    """A server on a loop in a thread of its own.  ``clock``: the time of its clients; None: that of the system."""

    def __init__(self, limits: Limits, *, clock: Clock | None = None, **options: Any) -> None:
        self._clock = clock
        self.workshop = Workshop()
        engine = Engine(MethodTable(self.workshop.methods()), lambda: None, limits=limits)
        self.server = RpcServer(engine, host="127.0.0.1", port=0, headers=[VERSION], **options)
        self._stop_requested: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._grace = PATIENCE_S
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,))
        self._thread.start()
        assert started.wait(PATIENCE_S)

    def _run(self, started: threading.Event) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._stop_requested = asyncio.Event()
            await self.server.start()
            started.set()
            await self._stop_requested.wait()
            await self.server.stop(grace_seconds=self._grace)

        with asyncio.Runner(loop_factory=TimedLoop) as runner:
            cast("TimedLoop", runner.get_loop()).clock = self._clock
            runner.run(main())

    def request_stop(self, grace: float = PATIENCE_S) -> None:
        self._grace = grace
        with suppress(RuntimeError):  # it has just ended
            self._loop.call_soon_threadsafe(self._stop_requested.set)

    def stop(self) -> None:
        self.workshop.gate.set()
        if self._thread.is_alive():
            self.request_stop(1.0)
            self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run something on the server's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_S)

    def connect(self, **options: Any) -> Connection:
        return Connection(self.server.port, **options)

    def wait_until_connections(self, count: int) -> None:
        wait_until(lambda: self.server.connection_count == count)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


class Connection:
    """A client that writes bytes and reads answers."""

    def __init__(self, port: int, *, receive_buffer: int | None = None, source: str | None = None) -> None:
        self.socket = socket.socket()
        if source is not None:
            self.socket.bind((source, 0))
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE_S)
        try:
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _read_until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            data = self.socket.recv(65536)
            assert data, f"closed after {self._buffer!r}"
            self._buffer += data
        part, _, self._buffer = self._buffer.partition(end)
        return part

    def read(self, *, of_head_request: bool = False) -> Answer:
        status_line, *lines = self._read_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(re.fullmatch(r"HTTP/1\.1 (\d{3}) .+", status_line)[1])  # type: ignore[index]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = 0 if of_head_request else int(headers.get("content-length", "0"))
        pieces, missing = [self._buffer], length - len(self._buffer)
        while missing > 0:
            data = self.socket.recv(65536)
            assert data, "closed in the middle of a body"
            pieces.append(data)
            missing -= len(data)
        self._buffer = b"".join(pieces)
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return Answer(status, headers, body)

    def read_bytes(self, count: int) -> bytes:
        while len(self._buffer) < count:
            data = self.socket.recv(65536)
            assert data, f"closed after {self._buffer!r}"
            self._buffer += data
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def read_to_end(self) -> bytes:
        """Whatever is left until the server closes."""
        rest, self._buffer = self._buffer, b""
        while data := self.socket.recv(65536):
            rest += data
        return rest

    def assert_closed(self) -> None:
        assert self.read_to_end() == b""

    def ask(self, request: bytes) -> Answer:
        self.send(request)
        return self.read()

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Close without a word: the other side gets a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


# ---- requests ----------------------------------------------------------------------------------


def call(method: str = "test_double", number: int = 21, *, identifier: int = 1) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": identifier, "method": method, "params": [number]})


def post(body: bytes, *lines: str, target: str = "/", version: str = "1.1", length: bool = True) -> bytes:
    """A POST request; ``lines`` are further header lines."""
    head = [f"POST {target} HTTP/{version}", "Host: node", *lines]
    if not any(line.lower().startswith("content-type") for line in lines):
        head.append("Content-Type: application/json")
    if length:
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def request(verb: str, target: str, *lines: str) -> bytes:
    return "\r\n".join([f"{verb} {target} HTTP/1.1", "Host: node", *lines, "", ""]).encode()


def chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + end
