"""The ways between peers of a world: TCP and UDP in memory, with delay, loss, repetition, damage and partition.

    node's loop ── create_server, create_connection, UDP socket ──► PeerWire ── carrier (a thread) ──► other's loop

TCP keeps bytes in order: a segment that is lost comes later, one that is damaged breaks what the peers have agreed on,
and while two hosts are parted all waits.  A host that was killed and is there again resets connections of its last life
at what comes for them.  Datagrams are lost, come twice, late and in another order.
"""

from __future__ import annotations

import asyncio
import errno
import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.scheduler import Loop, Task, the_world

__all__ = ["PathFaults", "PeerWire", "UdpSocket"]

Address = tuple[str, int]

#: Bytes on their way that the kernels of both ends hold; more wait in the sender.
_IN_KERNEL_BYTES: Final = 256 * 1024
_HIGH_BYTES: Final = 64 * 1024
#: Datagrams that wait at a socket, at most.
_DATAGRAMS_MAX: Final = 512
_FIRST_EPHEMERAL: Final = 50_000
#: Seconds after which a segment that nobody has taken is sent again first; each time it waits twice as long.
_SENT_AGAIN_S: Final = 0.5


@dataclass
class PathFaults:
    """Chances of each segment or datagram, and seconds."""

    delay_s: float = 0.03
    slow_s: float = 2.0
    slow: float = 0.0
    #: A datagram is gone; a segment of TCP comes when it was sent again.
    lost: float = 0.0
    #: A datagram comes twice.
    twice: float = 0.0
    damaged: float = 0.0
    #: The connection is reset.
    broken: float = 0.0


@dataclass(eq=False)
class Listener:
    """``loop`` takes connections for ``host``."""

    host: str
    address: Address
    loop: asyncio.AbstractEventLoop
    factory: Callable[[], asyncio.BaseProtocol]
    wire: PeerWire

    @property
    def sockets(self) -> list[Listener]:
        return [self]

    def getsockname(self) -> Address:
        return self.address

    def close(self) -> None:
        if self.wire.listening.get(self.address) is self:
            del self.wire.listening[self.address]

    def accept(self, end: End) -> None:
        end.protocol = self.factory()
        end.protocol.connection_made(end)


@dataclass
class PeerWire:
    """``host_of`` says whose thread is running; ``names``: hosts by their addresses."""

    chance: random.Random
    host_of: Callable[[], str]
    faults: PathFaults = field(default_factory=PathFaults)
    names: dict[str, str] = field(default_factory=dict)
    #: Pairs of hosts between which nothing arrives.
    cut: set[tuple[str, str]] = field(default_factory=set)
    listening: dict[Address, Listener] = field(default_factory=dict)
    datagrams: dict[Address, UdpSocket] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    #: Time at which hosts were parted or joined, or one of them died, the last time.
    changed_at: float = 0.0
    _ends: list[End] = field(default_factory=list)
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _carrier: Task | None = None
    _count: int = 0

    # ---- the carrier ---------------------------------------------------------------------------

    def carry(self) -> None:
        """The body of its thread: do what is due, in order."""
        world = the_world()
        while True:
            left = self._due[0][0] - world.now if self._due else None
            if left is not None and left <= 0:
                heapq.heappop(self._due)[2]()
                continue
            self._carrier = world.current()
            world.wait(left)
            self._carrier = None

    def at(self, time: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (time, self._count, action))
        if self._carrier is not None:
            the_world().wake(self._carrier)

    # ---- faults --------------------------------------------------------------------------------

    def is_hit(self, chance: float, what: str) -> bool:
        if chance <= 0 or self.chance.random() >= chance:
            return False
        self.counts[what] = self.counts.get(what, 0) + 1
        return True

    def delay(self) -> float:
        faults = self.faults
        if self.is_hit(faults.slow, "peers slow"):
            return self.chance.uniform(faults.delay_s, faults.slow_s)
        return self.chance.uniform(0.2, 1.0) * faults.delay_s

    def damage(self, data: bytes) -> bytes:
        changed = bytearray(data)
        changed[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        return bytes(changed)

    def is_cut(self, one: str, other: str) -> bool:
        return (one, other) in self.cut or (other, one) in self.cut

    def part(self, one: str, other: str, *, is_parted: bool = True) -> None:
        self.changed_at = the_world().now
        if is_parted:
            self.cut.add((one, other))
        else:
            self.cut -= {(one, other), (other, one)}

    def join(self) -> None:
        """All hosts reach each other."""
        if self.cut:
            self.changed_at = the_world().now
        self.cut.clear()

    def is_up(self, host: str) -> bool:
        """True while it takes connections."""
        return any(listener.host == host for listener in self.listening.values())

    def forget(self, host: str) -> None:
        """Its process is killed: the system tells the other ends, or is gone too, and resets what comes once it is
        there again."""
        self.changed_at = the_world().now
        for listener in [each for each in self.listening.values() if each.host == host]:
            listener.close()
        for bound in [each for each in self.datagrams.values() if each.host == host]:
            bound.close()
        ends, self._ends = self._ends, [end for end in self._ends if host != end.host]
        is_told = self.chance.random() < 0.5
        for end in ends:
            if end.host == host:
                end.is_dead = True
                if is_told:
                    end.other.put(None)

    # ---- TCP -----------------------------------------------------------------------------------

    async def listen(self, loop: Loop, factory: Callable[[], Any], host: str, port: int) -> Listener:
        if (host, port) in self.listening:
            raise OSError(errno.EADDRINUSE, "in use")
        listener = self.listening[host, port] = Listener(self.host_of(), (host, port), loop, factory, self)
        return listener

    async def dial(self, loop: Loop, factory: Callable[[], Any], host: str, port: int) -> tuple[End, Any]:
        here, there = self.host_of(), self.names.get(host, host)
        await asyncio.sleep(self.delay() + self.delay())
        while self.is_cut(here, there):
            await asyncio.sleep(1.0)  # the caller has a limit
        listener = self.listening.get((host, port))
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        self._count += 1
        own = next((ip for ip, name in self.names.items() if name == here), here)
        source = own, _FIRST_EPHEMERAL + self._count % 10_000
        one, other = End(self, loop, here, there, (host, port)), End(self, listener.loop, there, here, source)
        one.other, other.other = other, one
        self._ends = [end for end in self._ends if not end.is_over] + [one, other]
        one.protocol = factory()
        other.is_open_soon(listener)
        one.protocol.connection_made(one)
        return one, one.protocol

    # ---- UDP -----------------------------------------------------------------------------------

    def send(self, source: UdpSocket, target: Address, data: bytes) -> None:
        if self.is_cut(source.host, self.names.get(target[0], target[0])):
            return
        for _ in range(2 if self.is_hit(self.faults.twice, "datagrams twice") else 1):
            if self.is_hit(self.faults.lost, "datagrams lost"):
                continue
            sent = self.damage(data) if data and self.is_hit(self.faults.damaged, "datagrams damaged") else data

            def arrive(sent: bytes = sent) -> None:
                bound = self.datagrams.get(target)
                if bound is not None:
                    bound.arrive(sent, source.address)

            self.at(the_world().now + self.delay(), arrive)


class End(asyncio.Transport):
    """One end of a connection."""

    other: End

    def __init__(self, wire: PeerWire, loop: Any, host: str, peer: str, peername: Address) -> None:
        super().__init__()
        self._wire, self._loop, self._peername = wire, loop, peername
        self.host, self.peer = host, peer
        self.protocol: Any = None
        self._arriving: deque[tuple[float, bytes | None]] = deque()
        self._arriving_bytes = 0
        self._is_closing = self.is_over = self.is_dead = self._is_paused = False
        self._high, self._low = _HIGH_BYTES, _HIGH_BYTES // 4

    def is_open_soon(self, listener: Listener) -> None:
        self._loop.call_soon_threadsafe(listener.accept, self)

    # ---- from the other end ----------------------------------------------------------------------

    def put(self, data: bytes | None) -> None:
        """Put on the way to this end, behind what is there; b"" is its end, None that it broke."""
        wire, now = self._wire, the_world().now
        at = now + wire.delay()
        if data and wire.is_hit(wire.faults.lost, "segments sent again"):
            at += wire.chance.uniform(0.2, 1.5)
        if data and wire.is_hit(wire.faults.damaged, "segments damaged"):
            data = wire.damage(data)
        if data and wire.is_hit(wire.faults.broken, "connections broken"):
            data = None
            self.other.put(None)
        if self._arriving:
            at = max(at, self._arriving[-1][0])
        self._arriving.append((at, data))
        self._arriving_bytes += len(data or b"")
        if len(self._arriving) == 1:
            wire.at(at, self._step)

    def _step(self) -> None:
        """In the carrier."""
        wire, now = self._wire, the_world().now
        if not self._arriving or self.is_over:
            self._arriving.clear()
            return
        if self.is_dead:
            self._step_dead(now)
            return
        if wire.is_cut(self.host, self.peer):
            wire.at(now + wire.chance.uniform(0.5, 2.0), self._step)
            return
        _, data = self._arriving.popleft()
        self._arriving_bytes -= len(data or b"")
        if not self._loop.is_closed():
            if data:
                self._loop.call_soon_threadsafe(self._receive, data)
            else:
                self._loop.call_soon_threadsafe(self._lose, data is None)
        self.other.look_at_room()
        if self._arriving:
            wire.at(max(now, self._arriving[0][0]), self._step)

    def _step_dead(self, now: float) -> None:
        """The next life of the host knows nothing of the connection, and says so; a reset is not answered."""
        wire, (since, data) = self._wire, self._arriving[0]
        if data is None or self.other.is_dead or self.other.is_over:
            self._arriving.clear()
        elif wire.is_up(self.host) and not wire.is_cut(self.host, self.peer):
            self._arriving.clear()
            self.other.put(None)
        else:
            wire.at(now + max(_SENT_AGAIN_S, now - since), self._step)

    def _receive(self, data: bytes) -> None:
        if not self._is_closing and self.protocol is not None:
            self.protocol.data_received(data)

    def _lose(self, is_broken: bool) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._end(ConnectionResetError(errno.ECONNRESET, "reset") if is_broken else None)

    def _end(self, error: Exception | None) -> None:
        self.is_over = True
        if self.protocol is not None:
            self.protocol.connection_lost(error)

    def look_at_room(self) -> None:
        """From any thread: go on with writing when there is room."""
        if self._is_paused and self.get_write_buffer_size() <= self._low and not self._loop.is_closed():
            self._is_paused = False
            self._loop.call_soon_threadsafe(self._resume)

    def _resume(self) -> None:
        if not self._is_closing:
            self.protocol.resume_writing()

    # ---- asyncio.Transport -----------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._peername if name == "peername" else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        found: asyncio.BaseProtocol = self.protocol
        return found

    def is_closing(self) -> bool:
        return self._is_closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or not data:
            return
        self.other.put(bytes(data))
        if not self._is_paused and self.get_write_buffer_size() > self._high:
            self._is_paused = True
            self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return max(0, self.other._arriving_bytes - _IN_KERNEL_BYTES)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self.other.put(b"")
            self._loop.call_soon(self._end, None)

    def abort(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self.other.put(None)
            self._loop.call_soon(self._end, None)


class UdpSocket:
    """As much of a socket as discovery uses."""

    def __init__(self, wire: PeerWire) -> None:
        self._wire = wire
        self.host = wire.host_of()
        self.address: Address = ("", 0)
        self.on_arrival: Callable[[], object] = lambda: None
        self._waiting: deque[tuple[bytes, Address]] = deque()
        self._is_closed = False

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def bind(self, address: Address) -> None:
        if address in self._wire.datagrams:
            raise OSError(errno.EADDRINUSE, "in use")
        self.address = address
        self._wire.datagrams[address] = self

    def setblocking(self, _: bool) -> None:
        """It never blocks."""

    def fileno(self) -> UdpSocket:
        return self

    def arrive(self, data: bytes, source: Address) -> None:
        if len(self._waiting) < _DATAGRAMS_MAX:
            self._waiting.append((data, source))
            self.on_arrival()

    def recvfrom(self, size: int) -> tuple[bytes, Address]:
        if not self._waiting:
            raise BlockingIOError
        data, source = self._waiting.popleft()
        return data[:size], source

    def sendto(self, data: bytes, target: Address) -> int:
        self._wire.send(self, target, data)
        return len(data)

    def close(self) -> None:
        if self._wire.datagrams.get(self.address) is self:
            del self._wire.datagrams[self.address]
        self.on_arrival = lambda: None
