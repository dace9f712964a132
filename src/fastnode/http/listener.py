"""The door of a server: connections that arrive are taken from the system at once, and opened in turn.

    system -> accepted, all that are there -> too many: 503    -> gone already: closed
                                           -> the loop is free: opened
                                           -> crowded: opened when it is its address's turn (http/turns.py)
                                                       the turn comes too late: 503

The system hands connections out in the order in which they came.  A client behind a thousand others that connect and
leave would wait for all of them, so they are taken over quickly, which costs some microseconds each, and what is dear,
a transport and the first data, is shared out like everything else.  What the clients of unopened ones send stays in
the system meanwhile.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sys
import time
from contextlib import suppress
from typing import Any, Final, Protocol

from fastnode.http.turns import Turns
from fastnode.kernels import loop_time
from fastnode.values.client_network import network_of

__all__ = ["Arrival", "ConnectionHost", "Listener", "bind", "listen"]

logger = logging.getLogger("fastnode.rpc")

#: Connections that the system may hold ready before they are accepted.
BACKLOG: Final = 4096
#: Longest stretch of accepting connections: all others wait meanwhile, and a client that is behind those that
#: come as fast as they can waits for each stretch.
ACCEPTING_NS: Final = 3_000_000
#: Rough cost of accepting a connection; and of opening it, most of it later: its transport, its first read.
ACCEPTED_NS: Final = 15_000
OPENING_NS: Final = 60_000
CLOSING_NS: Final = 10_000
TURNING_AWAY_NS: Final = 40_000
#: Longest wait of an accepted connection for its turn.  Later it is not opened: most clients have given up then, one
#: that has cannot be told from one that waits while the system still holds what it sent.  So the requests of a burst
#: that no client waits for end with it.
OPENED_WITHIN_S: Final = 5.0
#: After the system had no more files or memory for a connection.
PAUSE_S: Final = 0.5
#: Rest between two lines of the log about that.
SAID_EVERY_S: Final = 10.0
#: Time for one connection to ask that is answered with the file that is kept for that, and what is read of it: probes
#: say how the node is, and others that there is no room.
BRIEF_S: Final = 0.25
BRIEF_BYTES_MAX: Final = 16 * 1024
#: Bytes that are read from a client that is turned away: closing before would destroy the answer.
DROPPED_BYTES_MAX: Final = 64 * 1024
#: Bytes of Linux's ``struct tcp_info``, up to the milliseconds since the client's last acknowledgement.
_TCP_INFO_BYTES: Final = 60
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class ConnectionHost(Protocol):
    """The client's share of the loop."""

    @property
    def turns(self) -> Turns: ...

    def admit(self, network: bytes | None) -> bytes | None:
        """Count a connection from ``network``; the answer, and not counted, if there are too many."""

    def release(self, network: bytes | None) -> None:
        """Take back one :meth:`admit`: the connection has gone before it was opened."""

    def refuse_late(self) -> bytes:
        """The answer to a connection that has waited for too long, which is released then."""

    def answer_briefly(self, data: bytes) -> bytes:
        """The whole answer to what a connection has sent first, which is closed then."""

    def make_connection(self, arrival: Arrival) -> asyncio.BaseProtocol:
        """The protocol of a connection that is opened."""


class Arrival:
    """A connection that has been accepted; ``peer`` is its client's address, empty if there is none."""

    __slots__ = ("accepted_at", "host", "network", "peer", "share", "socket")

    def __init__(self, connection: socket.socket, peer_name: Any) -> None:
        #: The counter that has it; None: not counted yet.
        self.host: ConnectionHost | None = None
        self.socket = connection
        self.accepted_at = time.monotonic()
        self.peer = str(peer_name[0]) if isinstance(peer_name, tuple) and peer_name else ""
        #: The address as it is counted (http/client_connections.py).
        self.network = network_of(peer_name)
        #: Share of all new connections of that address.
        self.share = loop_time.Share()

    def has_gone(self) -> bool:
        """True if the client has broken the connection off: the system knows no peer any more."""
        try:
            self.socket.getpeername()
        except OSError:
            return True
        return False

    def turn_away(self, answer: bytes) -> None:
        """Send an answer, as far as the system takes it at once, and close."""
        try:
            self.socket.send(answer)
            self.socket.recv(DROPPED_BYTES_MAX)
        except OSError:  # nothing was sent, or the client has gone
            pass
        self.socket.close()


async def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on all addresses of ``host``.  Raises OSError (such as EADDRINUSE); nothing is left open."""
    infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listening: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(infos):
            each = socket.socket(family, kind, protocol)
            listening.append(each)
            if os.name == "posix" and sys.platform != "cygwin":
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.bind(address)
            listen(each)
    except OSError:
        for each in listening:
            each.close()
        raise
    return listening


def listen(bound: socket.socket) -> socket.socket:
    """Let a socket that is bound hold connections ready.  OSError."""
    bound.setblocking(False)
    bound.listen(BACKLOG)
    return bound


def _waits_for_s(connection: socket.socket) -> float:
    """Seconds since a client that has said nothing was connected by the system; 0 where the system does not tell."""
    if not hasattr(socket, "TCP_INFO") or sys.platform != "linux":
        return 0.0
    with suppress(OSError):
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        return int.from_bytes(info[-4:], sys.byteorder) / 1000
    return 0.0


def _open_spare() -> int | None:
    """A file that is kept open, to be closed when one is needed; None if the system has none left."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


class Listener:
    """Accepts for its ``host``, which may be replaced while it runs, until :meth:`close`."""

    def __init__(self, host: ConnectionHost, listening: list[socket.socket]) -> None:
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._unopened: set[Arrival] = set()
        self._opening: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self._spare = _open_spare()
        self._brief: tuple[socket.socket, asyncio.TimerHandle] | None = None
        self._said_at = -SAID_EVERY_S
        for each in listening:
            self._loop.add_reader(each, self._accept, each)

    @property
    def port(self) -> int:
        return int(self._listening[0].getsockname()[1])

    def hand_over(self, host: ConnectionHost) -> None:
        """Let new connections come to another host, and those that wait for their turn: with it they wait anew."""
        waiting, self._unopened = self._unopened, set()
        before, self._host = self._host, host
        for arrival in waiting:
            before.release(arrival.network)
            self._admit(arrival)  # what is being opened comes to the other host by itself

    def close(self) -> None:
        """Listen no more; what has not been opened is closed."""
        self._is_closed = True
        if self._brief is not None:
            self._end_brief(b"")
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        for each in self._listening:
            self._loop.remove_reader(each)
            each.close()
        for arrival in tuple(self._unopened):
            self._drop(arrival)

    def _accept(self, listening: socket.socket) -> None:
        end = time.monotonic_ns() + ACCEPTING_NS
        while time.monotonic_ns() < end:  # the loop asks again for those that are left
            try:
                connection, peer_name = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                if time.monotonic() >= self._said_at + SAID_EVERY_S:
                    logger.error("no connection can be accepted: %s", error.strerror)
                    self._said_at = time.monotonic()
                self._loop.remove_reader(listening)
                self._loop.call_later(PAUSE_S, self._resume, listening)
                self._begin_brief(listening)
                return
            self._receive(connection, peer_name)

    # ---- without files -----------------------------------------------------------------------

    def _begin_brief(self, listening: socket.socket) -> None:
        """Take over the next connection with the file that is kept for it."""
        if self._is_closed or self._brief is not None:
            return
        self._spare = self._spare or _open_spare()
        if self._spare is None:
            return
        os.close(self._spare)
        self._spare = None
        try:
            connection, _ = listening.accept()
        except OSError:  # nobody waits, or another one took the file
            self._spare = _open_spare()
            return
        connection.setblocking(False)
        timer = self._loop.call_later(BRIEF_S, self._end_brief, b"", listening)
        self._brief = connection, timer
        self._loop.add_reader(connection, self._on_brief, connection, listening)
        if _waits_for_s(connection) >= BRIEF_S:
            # Its time has passed behind others; those that wait now must not wait for each that says nothing.
            self._on_brief(connection, listening, is_late=True)

    def _on_brief(self, connection: socket.socket, listening: socket.socket, *, is_late: bool = False) -> None:
        try:
            data = connection.recv(BRIEF_BYTES_MAX)
        except (BlockingIOError, InterruptedError):
            if not is_late:
                return
            data = b""
        except OSError:
            data = b""
        self._end_brief(self._host.answer_briefly(data) if data else b"", listening)

    def _end_brief(self, answer: bytes, listening: socket.socket | None = None) -> None:
        assert self._brief is not None
        connection, timer = self._brief
        self._brief = None
        timer.cancel()
        self._loop.remove_reader(connection)
        with suppress(OSError):
            connection.send(answer)
        connection.close()
        self._spare = _open_spare()
        if listening is not None:
            self._loop.call_soon(self._begin_brief, listening)

    # ---- connections -------------------------------------------------------------------------

    def _resume(self, listening: socket.socket) -> None:
        if not self._is_closed:
            self._loop.add_reader(listening, self._accept, listening)

    def _receive(self, connection: socket.socket, peer_name: Any) -> None:
        connection.setblocking(False)
        self._admit(Arrival(connection, peer_name))

    def _admit(self, arrival: Arrival) -> None:
        turns = self._host.turns
        arrival.share = turns.groups.door(arrival.network, OPENING_NS)
        turns.time.add(arrival.share, ACCEPTED_NS)
        refusal = self._host.admit(arrival.network)
        if refusal is not None:
            turns.time.add(arrival.share, TURNING_AWAY_NS)
            arrival.turn_away(refusal)
            return
        host = arrival.host = self._host
        self._unopened.add(arrival)
        if turns.time.is_crowded:
            turns.wait(arrival.share, lambda: self._open_in_turn(arrival, host), OPENING_NS)
        else:
            self._open(arrival, host)

    def _open_in_turn(self, arrival: Arrival, host: ConnectionHost) -> None:
        arrival.share.used_ns -= OPENING_NS  # as it was charged for it when it began to wait
        self._open(arrival, host)

    def _open(self, arrival: Arrival, host: ConnectionHost) -> None:
        if arrival not in self._unopened or host is not self._host:  # closed or handed over meanwhile
            return
        time_ = host.turns.time
        if arrival.has_gone():
            time_.add(arrival.share, CLOSING_NS)
            self._drop(arrival)
        elif time.monotonic() - arrival.accepted_at > OPENED_WITHIN_S:
            time_.add(arrival.share, TURNING_AWAY_NS)
            arrival.turn_away(host.refuse_late())
            self._drop(arrival)
        else:
            time_.add(arrival.share, OPENING_NS)
            self._unopened.discard(arrival)
            task = self._loop.create_task(
                self._loop.connect_accepted_socket(lambda: self._make_connection(arrival), arrival.socket)
            )
            self._opening.add(task)
            task.add_done_callback(lambda done: self._note_opened(done, arrival))

    def _make_connection(self, arrival: Arrival) -> asyncio.BaseProtocol:
        host = self._host
        if arrival.host is not None and arrival.host is not host and host.admit(arrival.network) is None:
            arrival.host.release(arrival.network)
            arrival.host = host
        return (arrival.host or host).make_connection(arrival)

    def _note_opened(self, task: asyncio.Task[Any], arrival: Arrival) -> None:
        self._opening.discard(task)
        if task.cancelled() or (error := task.exception()) is not None:
            arrival.socket.close()
            (arrival.host or self._host).release(arrival.network)
            if not task.cancelled() and not isinstance(error, OSError):
                logger.error("a connection could not be opened", exc_info=error)

    def _drop(self, arrival: Arrival) -> None:
        self._unopened.discard(arrival)
        arrival.socket.close()
        self._host.release(arrival.network)
