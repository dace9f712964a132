"""The server: one port, its connections, their deadlines, and a stop that loses no answer."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastnode.errors import SettingError, StartError
from fastnode.http.allowance import Allowance, MemoryBudget, Party
from fastnode.http.client_connections import ConnectionCounts
from fastnode.http.connection import HttpConnection
from fastnode.http.guard import RequestGuard
from fastnode.http.health import PROBE_PATHS, Health
from fastnode.http.limits import Limits
from fastnode.http.listener import Arrival, Listener, bind, listen
from fastnode.http.messages import Refusal, Request, Response, ResponseWriter
from fastnode.http.meters import Traffic
from fastnode.http.protocols import Application
from fastnode.http.turns import Turns
from fastnode.jsonrpc.engine import Engine
from fastnode.jsonrpc.rate_limits import RateLimits
from fastnode.kernels import cached_responses
from fastnode.records import dataclass
from fastnode.serving.application import OwnPages, Pages, RpcApplication
from fastnode.serving.event_streams import EventStreams
from fastnode.serving.fast_path import FastPath
from fastnode.serving.rate_limit_gate import ClientsRequests, RateLimitGate
from fastnode.trace import Spans
from fastnode.values.client_network import most_crowded

if TYPE_CHECKING:
    from fastnode.serving.push import Push

__all__ = ["HttpServer", "RpcServer", "bind_failure", "describe_bind_error"]

logger = logging.getLogger("fastnode.rpc")

#: Deadlines are checked, and the Date header renewed, this often.
SWEEP_INTERVAL_S: Final = 1.0
#: Connections whose time is over that are told so before requests have their turn again: a thousand that came
#: together would keep everybody waiting.
DEADLINES_PER_TURN: Final = 16


@dataclass(frozen=True, slots=True)
class New:
    """Nobody can connect yet."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Connections come here."""

    listener: Listener


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another server listens, and what is under way here ends."""

    successor: HttpServer


@dataclass(frozen=True, slots=True)
class Stopping:
    """Nothing new is accepted, or it has stopped."""

    #: Set when the last connection has gone.
    all_gone: asyncio.Event


class HttpServer:
    """Serves an application over HTTP.  ``start`` and ``stop`` belong to one running event loop.

        New ── start, take_over ──► Listening ── another one takes over ──► Replaced
                                        │                                       │
                                        └── stop ──► Stopping ◄── stop ─────────┘

    A stage has what it needs; what all but the first need is the task that looks at deadlines.

    Servers on one loop share its ``turns``, and those of one process the memory ``budget``; by default each has
    its own.
    """

    def __init__(
        self,
        application: Application,
        *,
        host: str,
        port: int,
        limits: Limits,
        traffic: Traffic | None = None,
        turns: Turns | None = None,
        budget: MemoryBudget | None = None,
    ) -> None:
        self.turns = turns or Turns()
        self.budget = budget or MemoryBudget()
        self.application = application
        self.limits = limits
        self.traffic = traffic or Traffic()
        self.writer = ResponseWriter(limits.idle_time_s)
        self.host = host
        self._wanted_port = port
        self._sweeper: asyncio.Task[None] | None = None
        self._connections: set[HttpConnection] = set()
        self._given_up: set[HttpConnection] = set()  # about to be disconnected, in favour of others
        self._admitted_count = 0  # with those that are not opened yet
        self._connection_counts = ConnectionCounts(limits.connections_per_address_max)
        #: Connections that leave answers unread, from the one that has done so longest on.
        self._behind: dict[HttpConnection, None] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stage: New | Listening | Replaced | Stopping = New()
        self._bound_port = 0
        #: Connections since the start, and those turned away because there were too many.
        self.accepted_count = 0
        self.turned_away_count = 0

    def invariant(self) -> None:
        """AssertionError unless the server has what its stage needs, and each connection its place."""
        assert (self._sweeper is None) == isinstance(self._stage, New)
        assert len(self._connections) <= self._admitted_count
        assert self._admitted_count <= self.accepted_count
        assert self._behind.keys() <= self._connections
        assert self._given_up <= self._connections

    # ---- life --------------------------------------------------------------------------------

    async def start(self, listening: socket.socket | None = None) -> None:
        """Bind and listen, or listen on a socket that is bound already.  Raises OSError (such as EADDRINUSE), with
        nothing left open."""
        if not isinstance(self._stage, New):
            raise RuntimeError("the server has been started already")
        sockets = await bind(self.host, self._wanted_port) if listening is None else [listen(listening)]
        listener = Listener(self, sockets)
        self._begin(listener, listener.port)

    def _begin(self, listener: Listener, port: int) -> None:
        self._bound_port = port
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        self._stage = Listening(listener)

    def take_over(self, other: HttpServer) -> None:
        """Listen where ``other`` does: new connections come here, and its own too; those with something under way end
        with those answers instead."""
        stage = other._stage
        if not isinstance(self._stage, New) or not isinstance(stage, Listening):
            raise RuntimeError("there is nothing to take over, or the server has been started already")
        stage.listener.hand_over(self)
        self._begin(stage.listener, other._bound_port)
        other._stage = Replaced(self)
        for connection in tuple(other._connections):
            self._adopt(connection)

    def _adopt(self, connection: HttpConnection) -> None:
        """Let another server's client ask here.  To close what rests would reset it: its next request may be under way,
        and a client that has just come has not asked at all."""
        transport = connection.give_up()
        if transport is None:
            connection.drain()
            return
        arrival = Arrival(transport.get_extra_info("socket"), transport.get_extra_info("peername"))
        refusal = self.admit(arrival.network)
        protocol = asyncio.Protocol() if refusal is not None else self.make_connection(arrival)
        transport.set_protocol(protocol)
        if refusal is None:
            protocol.connection_made(transport)
        else:
            transport.write(refusal)
            transport.close()

    def count_connections_in(self, counts: ConnectionCounts) -> None:
        """Before it starts: limits hold over what ``counts`` knows."""
        self._connection_counts = counts

    def stand_for(self, port: int) -> None:
        """Others answer on ``port``; this one is asked about what is served there."""
        self._bound_port = port

    @property
    def port(self) -> int:
        """The port that is listened on, also when port 0 asked for any free one."""
        return self._bound_port

    @property
    def url(self) -> str:
        """Address of the listening port."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def client_url(self) -> str:
        """Address for a client on this machine: nobody can connect to the address of all networks."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def stop(self, *, grace_seconds: float = 10.0) -> None:
        """Accept nothing new, finish the requests that have begun to arrive, close.

        What is not finished after ``grace_seconds`` is cut off.  May be called more than once.
        """
        before = self._stage
        if isinstance(before, New | Stopping):
            return
        all_gone = asyncio.Event()
        self._stage = Stopping(all_gone)
        if isinstance(before, Listening):  # else another server has taken it over
            before.listener.close()
        for connection in tuple(self._connections):
            connection.drain()
        await self._wait_until_gone(all_gone, grace_seconds)
        if self._connections:
            logger.warning("%d connections were cut off after %g s", len(self._connections), grace_seconds)
            for connection in tuple(self._connections):
                connection.abort()
            await self._wait_until_gone(all_gone, SWEEP_INTERVAL_S)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SWEEP_INTERVAL_S)
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)

    async def _wait_until_gone(self, all_gone: asyncio.Event, seconds: float) -> None:
        if not self._connections:
            return
        try:
            await asyncio.wait_for(all_gone.wait(), seconds)
        except TimeoutError:
            return

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_INTERVAL_S)
            self.writer.refresh_date()
            now = loop.time()
            late = [connection for connection in self._connections if connection.patience.deadline <= now]
            for number, connection in enumerate(late):
                if number % DEADLINES_PER_TURN == DEADLINES_PER_TURN - 1:
                    await asyncio.sleep(0)
                if connection.patience.deadline <= now:  # still
                    connection.on_deadline()

    # ---- connections -------------------------------------------------------------------------

    def make_connection(self, arrival: Arrival) -> HttpConnection:
        return HttpConnection(self, asyncio.get_running_loop(), arrival.network)

    def admit(self, network: bytes | None) -> bytes | None:
        reason = self._reason_against(network)
        if reason is None:
            self._admitted_count += 1
            self.accepted_count += 1
            return None
        return self._turn_away(reason)

    def answer_briefly(self, data: bytes) -> bytes:
        """Probes are answered, and all else is turned away: there is no file for a connection."""
        lines = data.partition(b"\r\n\r\n")[0].split(b"\r\n")
        method, _, rest = lines[0].partition(b" ")
        target = rest.rpartition(b" ")[0]
        if method in (b"GET", b"HEAD") and target.partition(b"?")[0].endswith(tuple(PROBE_PATHS)):
            pairs = [line.partition(b":") for line in lines[1:]]
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            request = Request(method, target, headers, b"", is_http_1_0=False, keep_alive=False)
            response = self.application.on_request(request, Allowance(Party(self.turns, self.budget, None)))
            if isinstance(response, Response):
                return b"".join(self.writer.render(response, keep_alive=False, omit_body=method == b"HEAD"))
            response.close()
        return self._turn_away("no files are left for connections")

    def refuse_late(self) -> bytes:
        return self._turn_away("too many connections wait for their turn")

    def _turn_away(self, reason: str) -> bytes:
        self.turned_away_count += 1
        response = self.refuse(Refusal(HTTPStatus.SERVICE_UNAVAILABLE, reason))
        return b"".join(self.writer.render(response, keep_alive=False, omit_body=False))

    def _reason_against(self, network: bytes | None) -> str | None:
        if isinstance(self._stage, Stopping):
            return "the server stops"
        if not self._connection_counts.enter(network):
            return f"too many connections from one address; the limit is {self.limits.connections_per_address_max}"
        is_full = self._admitted_count + self._connection_counts.elsewhere >= self.limits.connections_max
        if is_full and not self._make_room(network):
            self._connection_counts.leave(network)
            return f"too many connections; the limit is {self.limits.connections_max}"
        return None

    def _make_room(self, network: bytes | None) -> bool:
        """Disconnect a client of the most crowded network, if that is fairer than to turn away this one.

        One without a request that is being answered, if there is one.
        """
        if network is None:
            return False
        uncounted = Counter(each.network for each in self._given_up)
        uncounted[network] += 1  # the client that wants a place
        counts = {each: count - uncounted[each] for each, count in self._connection_counts.by_network.items()}
        crowded = most_crowded(counts, network)
        candidates = [each for each in self._connections if each.network == crowded and each not in self._given_up]
        if crowded is None or not candidates:
            return False
        given_up = next((each for each in candidates if not each.stream.is_busy()), candidates[0])
        self._given_up.add(given_up)
        asyncio.get_running_loop().call_soon(given_up.abort)
        return True

    def refuse(self, refusal: Refusal) -> Response:
        """The answer to a client that is turned away."""
        return self.application.on_refusal(refusal)

    def release(self, network: bytes | None) -> None:
        self._admitted_count -= 1
        self._connection_counts.leave(network)

    def register(self, connection: HttpConnection) -> None:
        self._connections.add(connection)
        stage = self._stage
        if isinstance(stage, Stopping):  # while it was opened
            connection.drain()
        elif isinstance(stage, Replaced):
            stage.successor._adopt(connection)

    def forget(self, connection: HttpConnection) -> None:
        self._connections.remove(connection)
        self._given_up.discard(connection)
        self._behind.pop(connection, None)
        self.release(connection.network)
        if not self._connections and isinstance(self._stage, Stopping):
            self._stage.all_gone.set()

    def note_unread(self, connection: HttpConnection) -> None:
        """Make room if all together leave too much unread, from the one on that has done so longest."""
        behind = self._behind
        behind[connection] = None
        unread_bytes = {each: each.unread_bytes for each in behind}
        total = sum(unread_bytes.values())
        for each, size in unread_bytes.items():
            if total <= self.limits.unsent_bytes_max:
                return
            total -= size
            del behind[each]
            self.traffic.rejected["unsent_size"] += 1
            # Not at once: its transport may be in the middle of a write.
            asyncio.get_running_loop().call_soon(each.abort)

    def note_read(self, connection: HttpConnection) -> None:
        self._behind.pop(connection, None)

    def keep_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class RpcServer(HttpServer):
    """Serves an engine.

    ``headers`` are added to every response (:meth:`set_headers` replaces them later); ``error_status``
    is the HTTP status of a body that is one JSON-RPC error; ``health`` is what /status, /livez and /readyz tell;
    ``path_prefix`` is a path under which all of it is found too.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        host: str,
        port: int,
        headers: Sequence[tuple[str, str]] = (),
        error_status: int = HTTPStatus.OK,
        executor: Executor | None = None,
        health: Callable[[], Health] = Health,
        path_prefix: str = "",
        turns: Turns | None = None,
        budget: MemoryBudget | None = None,
    ) -> None:
        self.engine = engine
        self._rpc = RpcApplication(
            engine,
            headers=headers,
            error_status=error_status,
            executor=executor,
            health=health,
            path_prefix=path_prefix,
        )
        super().__init__(
            self._rpc,
            host=host,
            port=port,
            limits=engine.limits,
            traffic=engine.traffic,
            turns=turns,
            budget=budget,
        )
        self._fast_path = FastPath(engine, self._rpc, self.writer)
        self._gate: RateLimitGate | None = None
        self._path_prefix = path_prefix

    def make_connection(self, arrival: Arrival) -> HttpConnection:
        loop, gate = asyncio.get_running_loop(), self._gate
        if gate is not None:  # it has to know who asks
            return HttpConnection(
                self,
                loop,
                arrival.network,
                application=ClientsRequests(gate, arrival.peer),
                scanner=self._fast_path,
                payer=gate.payer_at(arrival.peer),
            )
        if self._rpc.guard is not None:  # it asks for every header
            return super().make_connection(arrival)
        return HttpConnection(self, loop, arrival.network, scanner=self._fast_path)

    def refuse(self, refusal: Refusal) -> Response:
        return super().refuse(refusal) if self._gate is None else self._gate.on_refusal(refusal)

    @property
    def cached_responses(self) -> cached_responses.CachedResponses:
        """The results that are kept, and how often they were of use."""
        return self._fast_path.results

    def set_headers(self, headers: Sequence[tuple[str, str]]) -> None:
        self._rpc.set_headers(headers)

    def set_rate_limits(self, limits: RateLimits) -> None:
        """Budgets of clients: from the next connection on, or if there were some before, from the next request on."""
        if self._gate is None:
            self._gate = RateLimitGate(self._rpc, limits, self._path_prefix)
        else:
            self._gate.limits = limits

    @property
    def rate_limits(self) -> RateLimits | None:
        """The budgets of clients; None: there are none."""
        return None if self._gate is None else self._gate.limits

    def set_guard(self, guard: RequestGuard | None) -> None:
        """Guard from the next connection on; None: everybody is admitted."""
        self._rpc.guard = guard

    def set_own_pages(self, own_pages: OwnPages | None) -> None:
        """Name the pages that may call what is for them, from the next request on; None: those of all sites."""
        self._rpc.own_pages = own_pages

    def set_spans(self, spans: Spans | None) -> None:
        """Receiver of each call from the next connection on; None: nobody."""
        self._rpc.spans = spans

    def set_events(self, events: EventStreams, push: Push | None = None) -> None:
        """Streams of GET /events, and the same over WebSocket."""
        self._rpc.events = events
        self._rpc.push = push

    async def stop(self, *, grace_seconds: float = 10.0) -> None:
        await super().stop(grace_seconds=grace_seconds)
        if self._rpc.push is not None:
            self._rpc.push.close()

    @property
    def events(self) -> EventStreams | None:
        """Streams of clients that hear events; None: no client can."""
        return self._rpc.events

    @property
    def push(self) -> Push | None:
        """Clients that hear events over WebSocket; None: no client can."""
        return self._rpc.push

    def set_pages(self, pages: Pages) -> None:
        self._rpc.pages = pages


def describe_bind_error(error: OSError, host: str, port: int, prefix: str = "") -> str:
    """One line for an operator whose server could not listen; ``prefix`` as in ``--admin-port``."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use by another program; choose another one with --{prefix}port"
    if error.errno == errno.EACCES:
        return f"port {port} on {host} needs privileges; choose one above 1023 with --{prefix}port"
    if isinstance(error, socket.gaierror):  # its numbers are not those of the system's errors
        reason = error.strerror
    else:
        reason = os.strerror(error.errno) if error.errno else str(error)
    return f"cannot listen on {host}:{port}: {reason}; choose an address of this machine with --{prefix}host"


def bind_failure(error: OSError, host: str, port: int, prefix: str = "") -> StartError:
    """A SettingError where it will be the same at the next start."""
    is_lasting = isinstance(error, socket.gaierror) or error.errno == errno.EACCES
    return (SettingError if is_lasting else StartError)(describe_bind_error(error, host, port, prefix))
