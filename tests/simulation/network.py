"""The network of a world: connections in memory with delay, loss, reordering, partition and damage, all from the seed.

    Network (src/fastnode/outgoing) ── http.client ── Connection ──┬── a model: its function answers a whole request
                                                                    └── a node: its own listener, parser and server

The seam is the socket, on both sides: what the shipped client does with connections that are kept, that break, that
end in the middle of an answer or never give one is what is tried.  TCP keeps bytes of one connection in order and
comes with no byte twice; so duplication and reordering are those of whole requests: one that was sent again because
its connection broke, and answers that overtake each other on several connections.
"""

from __future__ import annotations

import asyncio
import errno
import io
import random
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tests.simulation.scheduler import Task, the_world

__all__ = ["Faults", "Listening", "Wire"]

#: Status and body of an answer, or with headers.
ModelAnswer: TypeAlias = tuple[int, bytes] | tuple[int, bytes, dict[str, str]]
#: Method, path and body of a request; its answer, None: it never comes.
Model: TypeAlias = Callable[[str, str, bytes], ModelAnswer | None]

_HEAD_END: Final = b"\r\n\r\n"
_REASONS: Final = {200: "OK", 404: "Not Found", 429: "Too Many Requests", 500: "Error", 503: "Service Unavailable"}


@dataclass
class Faults:
    """Chances of each request between two hosts, and seconds."""

    delay_s: float = 0.02
    #: Longest delay of a request that is slow.
    slow_s: float = 8.0
    slow: float = 0.0
    #: The connection breaks before or after the server has done what was asked.
    broken: float = 0.0
    #: No answer ever comes.
    silent: float = 0.0
    #: The answer is cut, or a bit of it is another.
    damaged: float = 0.0
    #: A request arrives a second time, as after a connection that broke.
    twice: float = 0.0


@dataclass
class Wire:
    """All hosts of the world.  ``host_of`` says whose thread is running."""

    chance: random.Random
    host_of: Callable[[], str]
    faults: Faults = field(default_factory=Faults)
    #: Pairs of hosts (who asks, who is asked) between which nothing arrives.
    cut: set[tuple[str, str]] = field(default_factory=set)
    models: dict[str, Model] = field(default_factory=dict)
    nodes: dict[tuple[str, int], Listening] = field(default_factory=dict)
    #: Exchanges by what became of them.
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def connect(self, address: tuple[str, int], timeout: Any = None, _source: Any = None, **_: Any) -> Connection:
        """In the place of ``socket.create_connection``."""
        host, port = address
        here = self.host_of()
        if (here, host) in self.cut:
            self.count("unreachable")
            the_world().sleep(float(timeout))
            raise TimeoutError
        the_world().sleep(self.delay())
        if host in self.models:
            return Connection(self, here, host, None)
        listening = self.nodes.get((host, port))
        if listening is None or not listening.is_open:
            self.count("refused")
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        return Connection(self, here, host, listening)

    def delay(self) -> float:
        if self.faults.slow and self.chance.random() < self.faults.slow:
            self.count("slow")
            return self.chance.uniform(self.faults.delay_s, self.faults.slow_s)
        return self.chance.uniform(0.2, 1.0) * self.faults.delay_s

    def is_hit(self, chance: float, what: str) -> bool:
        if chance <= 0 or self.chance.random() >= chance:
            return False
        self.count(what)
        return True

    def damage(self, data: bytes) -> bytes:
        """Cut, or with one bit changed."""
        if self.chance.random() < 0.5:
            return data[: self.chance.randrange(len(data))]
        changed = bytearray(data)
        changed[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        return bytes(changed)


class Connection:
    """The client's end: as much of a socket as ``http.client`` and the outgoing network use."""

    family = socket.AF_UNIX

    def __init__(self, wire: Wire, here: str, host: str, listening: Listening | None) -> None:
        self._wire, self._here, self._host = wire, here, host
        self._timeout: float | None = None
        self._sent = bytearray()
        #: What has been put on the way to this end, and when it is there; b"" is the end.
        self._arriving: deque[tuple[float, bytes]] = deque()
        self._reader: Task | None = None
        self._is_shut = False
        self._is_silent = False
        self._server = None if listening is None else listening.connect(self, here)

    # ---- the client's side ---------------------------------------------------------------------

    def settimeout(self, seconds: float | None) -> None:
        self._timeout = seconds

    def setsockopt(self, *_: Any) -> None:
        """There is nothing to set."""

    def sendall(self, data: bytes) -> None:
        if self._is_shut or self.is_ended:
            raise BrokenPipeError(errno.EPIPE, "broken")
        self._sent += data
        if self._server is not None:
            self._send_to_node()
        elif (request := _whole(self._sent)) is not None:
            self._sent.clear()
            self._ask_model(*request)

    def send_piece(self, data: bytes) -> None:
        """Send what may be no whole request, to a node."""
        if self._server is not None and not self._is_shut and not self.is_ended and not self._is_lost():
            the_world().sleep(self._wire.delay())
            self._server.receive(data)

    def _send_to_node(self) -> None:
        assert self._server is not None
        if _whole(self._sent) is None:
            return
        data = bytes(self._sent)
        self._sent.clear()
        if self._is_lost():
            return
        the_world().sleep(self._wire.delay())
        self._server.receive(data)

    def _ask_model(self, method: str, path: str, body: bytes) -> None:
        wire = self._wire
        if self._is_lost():
            return
        the_world().sleep(wire.delay())
        model = wire.models[self._host]
        if wire.is_hit(wire.faults.twice, "twice"):
            model(method, path, body)
        answered = model(method, path, body)
        if answered is None:
            self._is_silent = True
            return
        status, answer, headers = answered if len(answered) == 3 else (*answered, {})
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {status} {_REASONS.get(status, 'Other')}\r\nContent-Length: {len(answer)}\r\n{lines}\r\n"
        self.arrive(head.encode() + answer)

    def _is_lost(self) -> bool:
        wire = self._wire
        if (self._here, self._host) in wire.cut or wire.is_hit(wire.faults.silent, "silent"):
            self._is_silent = True
        elif wire.is_hit(wire.faults.broken, "broken"):
            self.arrive(b"")
        else:
            return False
        return True

    def arrive(self, data: bytes) -> None:
        """Put on the way to this end, behind what is there; may be damaged."""
        wire = self._wire
        if self._is_silent or (self._here, self._host) in wire.cut:
            self._is_silent = True
            return
        if data and wire.is_hit(wire.faults.damaged, "damaged"):
            data = wire.damage(data)
        if data and wire.is_hit(wire.faults.broken, "broken"):
            data = b""
        at = max(the_world().now + wire.delay(), self._arriving[-1][0] if self._arriving else 0.0)
        self._arriving.append((at, data))
        if self._reader is not None:
            the_world().wake(self._reader)

    def read(self, size: int) -> bytes:
        world = the_world()
        deadline = None if self._timeout is None else world.now + self._timeout
        while True:
            if self._is_shut:
                return b""
            at, data = self._arriving[0] if self._arriving else (None, b"")
            if at is not None and at <= world.now:
                break
            left = None if deadline is None else deadline - world.now
            if left is not None and left <= 0:
                raise TimeoutError
            waits = [each for each in (left, None if at is None else at - world.now) if each is not None]
            self._reader = world.current()
            world.wait(min(waits) if waits else None)
            self._reader = None
        if not data:
            return b""  # and so it stays
        self._arriving.popleft()
        if len(data) > size:
            self._arriving.appendleft((at, data[size:]))
        return data[:size]

    @property
    def is_ended(self) -> bool:
        """True when an idle connection has something to read, which can only be its end."""
        return bool(self._arriving) and self._arriving[0][0] <= the_world().now

    def makefile(self, _mode: str, buffering: int = 0) -> io.RawIOBase:
        return _File(self)

    def shutdown(self, _how: int) -> None:
        self._is_shut = True
        if self._reader is not None:
            the_world().wake(self._reader)

    def close(self) -> None:
        """The client's file may still be read from, as from a real socket; the server sees the end."""
        if self._server is not None:
            self._server.end()


class _File(io.RawIOBase):
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._connection.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _whole(data: bytearray) -> tuple[str, str, bytes] | None:
    """The request; None while a part of it is missing."""
    head, found, body = bytes(data).partition(_HEAD_END)
    if not found:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers: Mapping[str, str] = {name.lower(): value.strip() for name, _, value in pairs}
    if len(body) < int(headers.get("content-length", 0)):
        return None
    method, path, _ = first.split(" ")
    return method, path, body


# ---- the side of a node ----------------------------------------------------------------------------


class Listening:
    """A listening socket of a node."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.is_open = True
        self.on_arrival: Callable[[], object] = lambda: None
        self._waiting: deque[Accepted] = deque()

    def connect(self, client: Connection, peer: str) -> Accepted:
        accepted = Accepted(client, peer)
        self._waiting.append(accepted)
        self.on_arrival()
        return accepted

    def accept(self) -> tuple[Accepted, Any]:
        if not self._waiting:
            raise BlockingIOError
        accepted = self._waiting.popleft()
        return accepted, accepted.address  # also of a client that has gone meanwhile

    def getsockname(self) -> tuple[str, int]:
        return self.host, self.port

    def close(self) -> None:
        self.is_open = False


class Accepted:
    """The node's end of a connection."""

    family = socket.AF_UNIX

    def __init__(self, client: Connection, peer: str) -> None:
        self.client = client
        self._peer = peer
        self._transport: _Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early: list[bytes] = []
        self._has_ended = False

    def setblocking(self, _: bool) -> None:
        """It never blocks."""

    def getpeername(self) -> tuple[str, int]:
        if self._has_ended:
            raise OSError(errno.ENOTCONN, "gone")
        return self.address

    @property
    def address(self) -> tuple[str, int]:
        return f"10.0.0.{sum(self._peer.encode()) % 250 + 1}", 4000

    def send(self, data: bytes) -> int:
        self.client.arrive(bytes(data))
        return len(data)

    def recv(self, _: int) -> bytes:
        return b""

    def close(self) -> None:
        self.client.arrive(b"")

    def open_transport(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.BaseProtocol) -> _Transport:
        self._loop, self._transport = loop, _Transport(self, loop, protocol)
        early, self._early = self._early, []
        for data in early:
            loop.call_soon(self._transport.receive, data)
        if self._has_ended:
            loop.call_soon(self._transport.lose)
        return self._transport

    def receive(self, data: bytes) -> None:
        """Hand over what has arrived, from any thread."""
        if self._transport is None or self._loop is None:
            self._early.append(data)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._transport.receive, data)

    def end(self) -> None:
        self._has_ended = True
        if self._transport is not None and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._transport.lose)


class _Transport(asyncio.Transport):
    """What is written goes on its way at once."""

    def __init__(self, accepted: Accepted, loop: asyncio.AbstractEventLoop, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._accepted, self._loop, self._protocol = accepted, loop, protocol
        self._is_closing = self._is_paused = False
        self._held: list[bytes] = []
        #: In the place of the socket, for those that cannot do without.
        self.socket: Any = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "socket":
            return self.socket
        return self._accepted.getpeername() if name == "peername" and not self._accepted._has_ended else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def receive(self, data: bytes) -> None:
        if self._is_closing:
            return
        if self._is_paused:
            self._held.append(data)
            return
        protocol: Any = self._protocol
        if not hasattr(protocol, "get_buffer"):
            protocol.data_received(data)
            return
        while data and not self._is_closing:
            buffer = protocol.get_buffer(len(data))
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            protocol.buffer_updated(count)

    def lose(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._protocol.connection_lost(None)  # type: ignore[attr-defined]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing:
            self._accepted.client.arrive(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._accepted.client.arrive(b"")
            self._loop.call_soon(self._protocol.connection_lost, None)  # type: ignore[attr-defined]

    abort = close

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not self._is_paused and not self._is_closing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        held, self._held = self._held, []
        for data in held:
            self._loop.call_soon(self.receive, data)

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits to be written."""
