"""Clients that ask for much beside others, over real sockets: whose turn it is, and whose memory."""

from __future__ import annotations

import asyncio
import gzip
import random
import socket
import time
from collections.abc import Callable
from dataclasses import replace

import orjson
import pytest
from tests.conftest import PATIENCE_S
from tests.serving.sockets import RIGHT, SMALL, Connection, RunningServer, call, post, wait_until

from fastnode.http import connection
from fastnode.http.allowance import WAITING_BYTES, MemoryBudget
from fastnode.http.connection import HttpConnection
from fastnode.http.limits import Limits
from fastnode.http.turns import Turns
from fastnode.kernels import clock

KIB = 1 << 10
MIB = 1 << 20


def batch(*calls: bytes) -> bytes:
    return post(b"[" + b",".join(calls) + b"]")


def test_others_are_answered_between_the_calls_of_a_batch(serve: Callable[..., RunningServer]) -> None:
    running = serve(Limits())
    with running.connect() as greedy, running.connect() as modest:
        assert modest.ask(post(call())).json == RIGHT
        greedy.send(batch(call("test_hold"), *[call("test_holdUp", 10)] * 99))
        assert running.workshop.waiting.acquire(timeout=PATIENCE_S)
        modest.send(post(call()))  # it is there before the second call of the batch
        running.workshop.gate.set()
        assert modest.read().json == RIGHT
        assert len(greedy.read().json) == 100
    assert running.workshop.called[1:].index("double") < 50


def test_others_are_answered_between_pipelined_requests(serve: Callable[..., RunningServer]) -> None:
    running = serve(Limits())
    count = 100
    with running.connect() as greedy, running.connect() as modest:
        assert modest.ask(post(call())).json == RIGHT
        greedy.send(post(call("test_hold")) + post(call("test_holdUp", 10)) * (count - 1))
        assert running.workshop.waiting.acquire(timeout=PATIENCE_S)
        modest.send(post(call()))
        running.workshop.gate.set()
        assert modest.read().json == RIGHT
        assert [greedy.read().status for _ in range(count)] == [200] * count
    assert running.workshop.called[1:].index("double") < 50


def test_the_shortest_slice_is_enough_for_a_step(serve: Callable[..., RunningServer]) -> None:
    """Each turn of these is over before it begins."""
    running = serve(Limits(), turns=Turns(slice_ns=1, round_ns=1))
    chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
    with running.connect() as client, running.connect() as other:
        client.send(post(call()) * 3 + chunked % (len(call()), call()) + post(call()))
        other.send(batch(*[call()] * 5) + post(gzip.compress(call()), "Content-Encoding: gzip"))
        assert [client.read().json for _ in range(5)] == [RIGHT] * 5
        assert [other.read().json, other.read().json] == [[RIGHT] * 5, RIGHT]


def test_work_of_a_client_that_has_left_is_not_done(serve: Callable[..., RunningServer]) -> None:
    running = serve(Limits())
    with running.connect() as client:
        client.send(batch(*[call("test_holdUp", 10), call("test_fill", 600)] * 50))
        wait_until(lambda: running.workshop.filled > 0)
        client.reset()
    running.wait_until_connections(0)
    done = running.workshop.filled
    time.sleep(0.2)
    assert running.workshop.filled <= done + 1 < 50


@pytest.mark.parametrize("leave", [Connection.close, Connection.reset])
def test_work_for_a_client_that_closes_is_told_to_stop(
    serve: Callable[..., RunningServer], leave: Callable[[Connection], None]
) -> None:
    running = serve(Limits())
    with running.connect() as client:
        client.send(post(call("test_wait", 1)))
        assert running.workshop.waiting.acquire(timeout=PATIENCE_S)
        leave(client)
        running.wait_until_connections(0)  # the method still waits
    assert not running.workshop.gate.is_set()


def test_a_client_that_only_ends_its_side_gets_its_answer(serve: Callable[..., RunningServer]) -> None:
    running = serve(Limits())
    with running.connect() as client:
        client.send(post(call("test_wait", 1)))
        assert running.workshop.waiting.acquire(timeout=PATIENCE_S)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.read().status == 102
        running.workshop.gate.set()
        while (answer := client.read()).status == 102:
            pass
        assert (answer.status, answer.json["result"]) == (200, 1)


def test_a_connection_that_has_gone_is_not_kept_until_it_would_be_asked_again(
    serve: Callable[..., RunningServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[HttpConnection] = []
    begin = HttpConnection.connection_made

    def connection_made(self: HttpConnection, transport: asyncio.BaseTransport) -> None:
        made.append(self)
        begin(self, transport)

    monkeypatch.setattr(HttpConnection, "connection_made", connection_made)
    monkeypatch.setattr(connection, "ABSENT_AFTER_S", 60)
    running = serve(Limits())
    with running.connect() as client:
        client.send(post(call("test_wait", 1)))
        assert running.workshop.waiting.acquire(timeout=PATIENCE_S)
        client.socket.shutdown(socket.SHUT_WR)
        running.workshop.gate.set()
        while client.read().status == 102:
            pass
    running.wait_until_connections(0)
    timer = made[0]._asking
    assert timer is not None
    assert timer.cancelled()


def test_a_client_that_is_answered_at_once_is_not_asked_whether_it_is_there(
    serve: Callable[..., RunningServer],
) -> None:
    """Though it has ended its side: an interim answer is for those that wait for longer than a moment."""
    running = serve(Limits())
    with running.connect() as client:
        client.send(post(call()) * 3)
        client.socket.shutdown(socket.SHUT_WR)
        assert [client.read().status for _ in range(3)] == [200] * 3
        assert client.socket.recv(1) == b""
    running.wait_until_connections(0)


def test_an_answer_of_a_thread_that_comes_while_others_wait_is_handed_over_in_turn(
    serve: Callable[..., RunningServer],
) -> None:
    running = serve(Limits())
    turns = running.server.turns
    turns._end_round = lambda: None  # type: ignore[method-assign]  # the loop stays as crowded as it is made
    waiting: list[Callable[[], None]] = []
    with running.connect() as client:
        client.send(post(call("test_wait", 1)))
        assert running.workshop.waiting.acquire(timeout=PATIENCE_S)
        turns.wait = lambda share, turn: waiting.append(turn)  # type: ignore[method-assign]
        turns.time.is_crowded = True
        running.workshop.gate.set()
        wait_until(lambda: len(waiting) == 1)
        client.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.socket.recv(1)
        client.socket.settimeout(PATIENCE_S)
        turns.time.is_crowded = False
        running._loop.call_soon_threadsafe(waiting[0])
        assert client.read().json["result"] == 1


def test_what_waits_for_a_thread_is_charged_however_small(serve: Callable[..., RunningServer]) -> None:
    budget = MemoryBudget(3 * WAITING_BYTES)
    running = serve(Limits(), budget=budget)
    with running.connect() as first, running.connect() as second, running.connect() as third:
        for client in (first, second):
            client.send(post(call("test_wait", 1)))
            assert running.workshop.waiting.acquire(timeout=PATIENCE_S)
        assert budget.used_bytes == 2 * WAITING_BYTES
        long = b'{"jsonrpc":"2.0","id":1,"method":"test_wait","params":[1%b]}' % (b" " * 2 * WAITING_BYTES)
        answer = third.ask(post(long))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert third.ask(post(call())).json == RIGHT
        running.workshop.gate.set()
        assert [client.read().json["result"] for client in (first, second)] == [1, 1]
        wait_until(lambda: budget.used_bytes == 0)


def test_a_body_that_inflates_to_far_more_than_itself_is_refused(serve: Callable[..., RunningServer]) -> None:
    running = serve(Limits())
    with running.connect() as client:
        few = gzip.compress(call() + b" " * (60 * KIB), mtime=0)
        assert client.ask(post(few, "Content-Encoding: gzip")).json == RIGHT
        answer = client.ask(post(gzip.compress(call() + b" " * (900 * KIB), mtime=0), "Content-Encoding: gzip"))
        assert answer.status == 413
        assert "more than 100 times its size" in answer.json["error"]["message"]


def test_an_answer_that_finds_no_memory_is_503_and_says_when_to_come_again(
    serve: Callable[..., RunningServer],
) -> None:
    budget = MemoryBudget(1 * MIB)
    running = serve(Limits(), budget=budget)
    with running.connect() as client:
        answer = client.ask(post(call("test_fill", 2 * MIB)))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "--rpc-memory-budget" in answer.json["error"]["message"]
        assert client.ask(batch(call(), call("test_fill", 2 * MIB))).status == 503
        assert client.ask(post(call())).json == RIGHT
        wait_until(lambda: budget.used_bytes == 0)
    assert running.server.traffic.rejected["memory"] == 2


def test_bodies_that_do_not_end_leave_room_for_nothing_more_than_the_budget(
    serve: Callable[..., RunningServer],
) -> None:
    budget = MemoryBudget(300 * KIB)
    running = serve(Limits(), budget=budget)
    with running.connect() as holding, running.connect() as client:
        holding.send(post(b" " * MIB)[: 250 * KIB])
        wait_until(lambda: budget.used_bytes >= 240 * KIB)
        answer = client.ask(post(call() + b" " * 140 * KIB))
        assert (answer.status, answer.headers.get("retry-after")) == (503, "1"), answer
        holding.reset()
        wait_until(lambda: budget.used_bytes == 0)  # at once, not with the next collection
    with running.connect() as client:
        assert client.ask(post(call() + b" " * 140 * KIB)).json == RIGHT
    wait_until(lambda: budget.used_bytes == 0)


def test_a_body_in_small_chunks_takes_what_it_has(serve: Callable[..., RunningServer]) -> None:
    budget = MemoryBudget()
    running = serve(Limits(), budget=budget)
    with running.connect() as client:
        data = b"POST / HTTP/1.1\r\nHost: node\r\nTransfer-Encoding: chunked\r\n\r\n" + b"8\r\n        \r\n" * 15_000
        client.send(data)
        wait_until(lambda: running.server.traffic.received_bytes == len(data))
        assert 120_000 <= budget.used_bytes < 170_000


def test_a_large_answer_is_charged_until_it_is_taken(serve: Callable[..., RunningServer]) -> None:
    budget = MemoryBudget(100 * MIB)
    running = serve(Limits(), budget=budget)
    size = 24 * MIB
    with running.connect(receive_buffer=4096) as client:
        client.send(post(call("test_fill", size)))
        wait_until(lambda: budget.used_bytes > 10 * MIB)
        assert len(client.read().json["result"]) == size // 6 * 6
        wait_until(lambda: budget.used_bytes == 0)


def test_gzip_of_many_members_is_refused(serve: Callable[..., RunningServer]) -> None:
    running = serve(SMALL)
    member = gzip.compress(b"", mtime=0)
    with running.connect() as client:
        few = gzip.compress(call(), mtime=0) + 3 * member
        assert client.ask(post(few, "Content-Encoding: gzip")).json == RIGHT
        answer = client.ask(post(few + member, "Content-Encoding: gzip"))
        assert answer.status == 400
        assert "more than 4 members" in answer.json["error"]["message"]


def test_a_body_of_many_containers_is_refused(serve: Callable[..., RunningServer]) -> None:
    running = serve(replace(Limits(), json_containers_max=100))
    body = orjson.dumps({"id": 1, "method": "test_double", "params": [[]] * 20_000})
    with running.connect() as client:
        answer = client.ask(post(gzip.compress(body), "Content-Encoding: gzip")).json
        assert answer["error"] == {"code": -32700, "message": "Parse error: more than 100 arrays and objects"}
        assert client.ask(post(call())).json == RIGHT


def test_long_parameters_that_are_no_json_give_their_memory_back(serve: Callable[..., RunningServer]) -> None:
    budget = MemoryBudget(10 * MIB)
    running = serve(Limits(), budget=budget)
    broken = b'{"jsonrpc":"2.0","id":1,"method":"test_wait","params":[1%b,]}' % (b" " * 20 * KIB)
    with running.connect() as client:
        for body in (broken, b"[%b]" % broken, b"[%b,%b]" % (call(), broken)):
            assert client.ask(post(body)).json["error"]["code"] == -32700
        wait_until(lambda: budget.used_bytes == 0)


@pytest.mark.parametrize("seed", range(4))
def test_parties_are_charged_by_one_clock(serve: Callable[..., RunningServer], seed: int) -> None:
    """Requests of all kinds, cut anywhere, beside a clock that is a century away from every other one."""
    dice = random.Random(seed)
    running = serve(Limits())
    zipped = post(gzip.compress(call()), "Content-Encoding: gzip")
    clock.give(100 * 365 * 86_400 * 10**9)
    try:
        with running.connect() as client:
            for _ in range(20):
                kinds = [(post(call()), RIGHT), (zipped, RIGHT), (batch(call(), call()), [RIGHT] * 2)]
                asked = dice.choices(kinds, k=dice.randint(1, 6))
                whole = b"".join(request for request, _ in asked)
                cut = dice.choice([0, dice.randrange(len(whole))])
                client.send(whole[:cut])
                client.send(whole[cut:])
                assert [client.read().json for _ in asked] == [answer for _, answer in asked]
            (connection_,) = running.server._connections
            assert 0 <= connection_.stream.party.share.used_ns < 60 * 10**9
    finally:
        clock.give(0)
