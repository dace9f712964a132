"""The limits that keep a server alive, over real sockets, on the fast path and on the strict one."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.clock import Clock
from tests.conftest import PATIENCE_S
from tests.serving.sockets import QUICK, RIGHT, SMALL, Connection, RunningServer, call, chunked, post, wait_until

from fastnode.http.connection import HttpConnection
from fastnode.http.limits import Limits
from fastnode.serving import server as server_module
from fastnode.serving.server import HttpServer, RpcServer

MIB = 1 << 20
#: More than the system takes over for a client that does not read (its buffers grow to a few megabytes).
LARGE = 12 * MIB


@pytest.fixture(params=["fast", "strict"])
def start(
    request: pytest.FixtureRequest, serve: Callable[..., RunningServer], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., RunningServer]:
    """Starts a server whose connections are of the path that is tested."""
    if request.param == "strict":
        monkeypatch.setattr(RpcServer, "make_connection", HttpServer.make_connection)
    return serve


def only_connection(running: RunningServer) -> HttpConnection:
    [connection] = running.server._connections
    return connection


# ---- connections of one address -----------------------------------------------------------------


def test_where_all_places_are_taken_the_most_crowded_address_gives_up_one(start: Callable[..., RunningServer]) -> None:
    running = start(Limits(connections_max=6, connections_per_address_max=4))
    port = running.server.port
    with ExitStack() as stack:
        held = {
            source: [stack.enter_context(Connection(port, source=source)) for _ in range(count)]
            for source, count in (("127.0.0.2", 4), ("127.0.0.3", 2))
        }
        for connection in (*held["127.0.0.2"], *held["127.0.0.3"]):
            assert connection.ask(post(call())).json == RIGHT
        for _ in range(3):
            with running.connect() as honest:
                assert honest.ask(post(call())).json == RIGHT
            running.wait_until_connections(5)
        assert [connection.ask(post(call())).json for connection in held["127.0.0.3"]] == [RIGHT] * 2
        # Its own address has as many as any other then.
        for _ in range(2):
            assert stack.enter_context(Connection(port, source="127.0.0.4")).ask(post(call())).json == RIGHT
        assert stack.enter_context(Connection(port, source="127.0.0.4")).read().status == 503


def test_one_address_has_so_many_connections_and_no_more(start: Callable[..., RunningServer]) -> None:
    running = start(Limits(connections_per_address_max=2))
    with running.connect() as first, running.connect() as second:
        assert first.ask(post(call())).json == second.ask(post(call())).json == RIGHT
        with running.connect() as third:
            answer = third.read()
            assert answer.status == 503
            assert b"from one address; the limit is 2" in answer.body
            third.assert_closed()
        assert first.ask(post(call())).json == RIGHT
        with elsewhere(running) as other:
            assert other.ask(post(call())).json == RIGHT
    running.wait_until_connections(0)
    assert len(running.server._connection_counts) == 0
    with running.connect() as fourth:
        assert fourth.ask(post(call())).json == RIGHT


def elsewhere(running: RunningServer) -> Connection:
    """A connection from another address of this machine."""
    return Connection(running.server.port, source="127.0.0.2")


def test_without_a_limit_one_address_may_have_all(start: Callable[..., RunningServer]) -> None:
    running = start(Limits(connections_per_address_max=0, connections_max=20))
    with ExitStack() as stack:
        connections = [stack.enter_context(running.connect()) for _ in range(20)]
        assert all(each.ask(post(call())).json == RIGHT for each in connections)
        assert stack.enter_context(running.connect()).read().status == 503


def test_connections_that_were_turned_away_are_not_counted(start: Callable[..., RunningServer]) -> None:
    running = start(Limits(connections_per_address_max=1))
    with running.connect() as first:
        assert first.ask(post(call())).json == RIGHT
        for _ in range(5):
            with running.connect() as refused:
                assert refused.read().status == 503
                refused.assert_closed()
    running.wait_until_connections(0)
    with running.connect() as again:
        assert again.ask(post(call())).json == RIGHT


# ---- one ambiguous request, one answer ----------------------------------------------------------


@pytest.mark.parametrize("before", [0, 1, 5])
@pytest.mark.parametrize(
    "ambiguous",
    [
        post(call(), "Transfer-Encoding: chunked"),
        post(chunked(call()), "Transfer-Encoding: chunked"),
        post(call(), "Content-Length: 0"),
        post(call(), "Content-Length: 7, 7", length=False),
        post(call(), "Content-Length : 5", length=False),
        post(call(), "Transfer-Encoding : chunked"),
        post(call(), "Transfer-Encoding:\tchunked", "Transfer-Encoding: identity", length=False),
        post(call(), "Transfer-Encoding: chunked, identity", length=False),
        post(chunked(call()), "Transfer-Encoding: chunked", length=False, version="1.0"),
        post(call()).replace(b"Host: node\r\n", b"Host: node\nX: y\r\n"),
        post(call()).replace(b"Host: node\r\n", b"Host: node\rX: y\r\n"),
    ],
)
def test_one_ambiguous_request_gets_one_answer_and_nothing_behind_it_is_read(
    start: Callable[..., RunningServer], ambiguous: bytes, before: int
) -> None:
    running = start()
    smuggled = post(call("test_fill", 10))
    with running.connect() as connection:
        connection.send(post(call()) * before + ambiguous + smuggled)
        assert [connection.read().status for _ in range(before)] == [200] * before
        answer = connection.read()
        assert 400 <= answer.status < 600
        assert answer.headers["connection"] == "close"
        connection.assert_closed()
    assert running.workshop.filled == 0


# ---- time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "what"), [(1, b"headers"), (60, b"headers"), (-3, b"body")])
@pytest.mark.parametrize("before", [0, 3])
def test_a_request_that_stalls_is_408_after_any_answers_before_it(
    start: Callable[..., RunningServer], size: int, what: bytes, before: int
) -> None:
    running = start(QUICK)
    with running.connect() as connection:
        connection.send(post(call()) * before + post(call())[:size])
        assert [connection.read().json for _ in range(before)] == [RIGHT] * before
        answer = connection.read()
        assert answer.status == 408
        assert what in answer.body
        connection.assert_closed()


def test_an_idle_connection_is_closed_after_its_time_and_not_before(
    start: Callable[..., RunningServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(replace(QUICK, idle_time_s=0.5))
    # A client that comes at the last moment, as announced, is late by what the machine needs besides.
    monkeypatch.setattr("fastnode.http.patience.IDLE_SLACK_S", PATIENCE_S)
    with running.connect() as connection:
        assert connection.ask(post(call())).json == RIGHT
        time.sleep(0.5)
        monkeypatch.setattr("fastnode.http.patience.IDLE_SLACK_S", 0.1)
        started = time.monotonic()
        assert connection.ask(post(call())).json == RIGHT
        connection.assert_closed()
        assert time.monotonic() - started > 0.5


def test_a_request_that_arrived_while_the_server_was_held_up_is_answered(start: Callable[..., RunningServer]) -> None:
    clock = Clock()
    running = start(QUICK, clock=clock)
    workshop = running.workshop
    with running.connect() as connection, running.connect() as other:
        for _ in range(3):
            assert connection.ask(post(call())).json == RIGHT
            # Reading comes last in a turn of the loop: the next turn begins with what is due.
            workshop.gate.clear()
            other.send(post(call("test_hold")))
            assert workshop.waiting.acquire(timeout=PATIENCE_S)
            connection.send(post(call()))  # in time, but the loop sees the end of the idle time first
            clock.now += 10
            time.sleep(2 * server_module.SWEEP_INTERVAL_S)
            workshop.gate.set()
            assert connection.read().json == RIGHT
            assert other.read().json["result"] == 21


class LateConnection:
    """Only its deadline, and when it was told."""

    def __init__(self, turns: list[int]) -> None:
        self.patience = SimpleNamespace(deadline=0.0)
        self._turns = turns
        self.told_at: int | None = None

    def on_deadline(self) -> None:
        self.told_at = self._turns[0]
        self.patience.deadline = float("inf")


def test_many_connections_whose_time_is_over_do_not_keep_requests_waiting(running: RunningServer) -> None:
    turns = [0]
    late = [LateConnection(turns) for _ in range(300)]

    async def take_turns() -> None:
        running.server._connections.update(late)  # type: ignore[arg-type]
        while any(each.told_at is None for each in late):
            turns[0] += 1
            await asyncio.sleep(0)
        running.server._connections.difference_update(late)  # type: ignore[arg-type]

    running.run(take_turns())
    told = Counter(each.told_at for each in late)
    assert max(told.values()) <= server_module.DEADLINES_PER_TURN
    assert told.total() == 300


# ---- clients that do not read -----------------------------------------------------------------------


def test_a_client_that_does_not_read_holds_one_answer_above_the_mark(start: Callable[..., RunningServer]) -> None:
    limits = Limits(write_buffer_bytes_max=256 * 1024)
    running = start(limits)
    size = 100_000
    with running.connect(receive_buffer=4096) as connection:
        connection.socket.setblocking(False)
        requests = post(call("test_fill", size)) * 2_000
        running.wait_until_connections(1)
        most, stopped_at = 0, float("inf")
        patience = time.monotonic() + PATIENCE_S
        while time.monotonic() < min(stopped_at + 1, patience) or (
            most <= limits.write_buffer_bytes_max and time.monotonic() < patience
        ):
            try:
                requests = requests[connection.socket.send(requests) :]
            except BlockingIOError:
                time.sleep(0.01)
            unread = only_connection(running).unread_bytes
            if unread > most:
                most, stopped_at = unread, time.monotonic()
        # One burst of corked answers can be added to a buffer that is just below the mark.
        assert limits.write_buffer_bytes_max < most < limits.write_buffer_bytes_max + 128 * 1024 + 2 * size


def test_answers_behind_one_that_is_not_ready_are_held_up_to_the_mark(start: Callable[..., RunningServer]) -> None:
    running = start(replace(SMALL, write_buffer_bytes_max=256 * 1024))
    count, size = 200, 100_000
    with running.connect() as connection:
        connection.send(post(call("test_wait")) + post(call("test_fill", size)) * count)
        assert running.workshop.waiting.acquire(timeout=PATIENCE_S)
        wait_until(lambda: running.workshop.filled > 0)
        time.sleep(0.2)
        assert running.workshop.filled <= 256 * 1024 // size + 1
        assert only_connection(running).unread_bytes < 256 * 1024 + size
        running.workshop.gate.set()
        assert connection.read().json["result"] == 21
        assert all(len(connection.read().json["result"]) == size // 6 * 6 for _ in range(count))
        wait_until(lambda: not running.server._behind)


def test_the_client_that_is_behind_longest_is_cut_off(start: Callable[..., RunningServer]) -> None:
    # The system takes over up to 4 MB for each client: two answers are below this whatever it took, and three above.
    size = 2 * LARGE
    limit = 2 * size + size // 4
    running = start(Limits(unsent_bytes_max=limit))
    with ExitStack() as stack:
        connections = [stack.enter_context(running.connect(receive_buffer=4096)) for _ in range(4)]
        for number, connection in enumerate(connections[:2], 1):
            connection.send(post(call("test_fill", size)))
            wait_until(lambda number=number: len(running.server._behind) == number)  # type: ignore[misc]
        connections[2].send(post(call("test_fill", size)))
        wait_until(lambda: running.server.traffic.rejected["unsent_size"] == 1)
        connections[3].send(post(call("test_fill", size)))
        running.wait_until_connections(2)
        assert running.server.traffic.rejected["unsent_size"] == 2
        assert sum(each.unread_bytes for each in running.server._connections) <= limit
        for connection in connections[2:]:
            assert len(connection.read().json["result"]) == size // 6 * 6
        for connection in connections[:2]:
            with pytest.raises((ConnectionError, AssertionError)):
                connection.read()
        wait_until(lambda: not running.server._behind)


def test_a_client_that_leaves_with_much_unread_leaves_nothing_behind(start: Callable[..., RunningServer]) -> None:
    running = start()
    with running.connect(receive_buffer=4096) as connection:
        connection.send(post(call("test_fill", LARGE)))
        wait_until(lambda: len(running.server._behind) == 1)
        connection.socket.shutdown(socket.SHUT_RDWR)
    running.wait_until_connections(0)
    assert not running.server._behind
