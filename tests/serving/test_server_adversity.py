"""The server over real sockets: bytes in pieces, in masses, ambiguous, broken, late or never."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from collections.abc import Callable

import pytest
import uvloop
from tests.clock import Clock
from tests.conftest import PATIENCE_S
from tests.serving.sockets import QUICK, RIGHT, Connection, RunningServer, call, chunked, post, request, wait_until

from fastnode.http.limits import Limits
from fastnode.serving import server as server_module
from fastnode.serving.server import RpcServer

#: More than the system's buffers take.
LARGE = 6_000_000

# ---- body limits ------------------------------------------------------------------------------


def padded(size: int) -> bytes:
    return call().ljust(size)


def test_a_body_at_the_limit_is_read_and_one_byte_more_is_413(running: RunningServer) -> None:
    with running.connect() as connection:
        assert connection.ask(post(padded(10_000))).json == RIGHT
    with running.connect() as connection:
        answer = connection.ask(post(padded(10_001)))
        assert answer.status == 413
        assert answer.json["error"] == {
            "code": -32600,
            "message": "Invalid request: the request body exceeds the limit of 10000 bytes",
        }
        assert answer.headers["connection"] == "close"
        connection.assert_closed()


def test_a_body_that_is_announced_too_large_is_refused_before_it_is_sent(connection: Connection) -> None:
    answer = connection.ask(request("POST", "/", "Content-Type: application/json", "Content-Length: 99999999999999"))
    assert answer.status == 413


def test_the_refusal_of_a_large_body_reaches_a_client_that_goes_on_sending(
    running: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastnode.http.patience.LINGER_S", PATIENCE_S)
    with running.connect() as connection:
        connection.send(post(b" " * 1_000_000))
        assert connection.read().status == 413


def test_who_never_stops_sending_is_cut_off(running: RunningServer) -> None:
    with running.connect() as connection:
        connection.send(request("POST", "/", "Transfer-Encoding: chunked"))
        with pytest.raises((ConnectionError, TimeoutError)):  # noqa: PT012 - whichever send meets the reset
            for _ in range(10_000):
                connection.send(chunked(b" " * 60_000, end=b""))
    running.wait_until_connections(0)


def test_a_chunked_body_above_the_limit_is_413_as_soon_as_it_is_known(connection: Connection) -> None:
    connection.send(request("POST", "/", "Transfer-Encoding: chunked"))
    connection.send(chunked(b" " * 10_001, end=b""))
    assert connection.read().status == 413


# ---- framing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        chunked(call()),
        chunked(*(call()[i : i + 1] for i in range(len(call())))),
        b"%x;name=value\r\n%b\r\n0;last\r\n\r\n" % (len(call()), call()),
        chunked(call(), end=b"0\r\nX-Trailer: 1\r\nHost: other\r\n\r\n"),
        b"%04X\r\n%b\r\n000\r\n\r\n" % (len(call()), call()),
    ],
)
def test_chunked_bodies_are_read(connection: Connection, body: bytes) -> None:
    sent = post(body, "Transfer-Encoding: chunked", length=False)
    assert connection.ask(sent).json == RIGHT
    assert connection.ask(sent).json == RIGHT


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (post(call(), "Transfer-Encoding: chunked"), 400),
        (post(call(), "Content-Length: 5"), 400),
        (post(call(), f"Content-Length: {len(call())}"), 400),
        (post(call(), "Content-Length: -1", length=False), 400),
        (post(call(), "Content-Length: 1_0", length=False), 400),
        (post(call(), "Content-Length: +10", length=False), 400),
        (post(call(), "Content-Length: 0x10", length=False), 400),
        (post(call(), "Content-Length: 5, 5", length=False), 400),
        (post(chunked(call()), "Transfer-Encoding: gzip, chunked", length=False), 501),
        (post(chunked(call()), "Transfer-Encoding: chunked, gzip", length=False), 400),
        (post(chunked(call()), "Transfer-Encoding: xchunked", length=False), 501),
        (post(chunked(call(), end=b"0\r\nContent-Length: 3\r\n\r\n"), "Transfer-Encoding: chunked", length=False), 400),
        (post(chunked(call()), "Transfer-Encoding: chunked", length=False, version="1.0"), 400),
        (post(b"zz\r\n" + call(), "Transfer-Encoding: chunked", length=False), 400),
        (post(b"5\r\nabcdefg\r\n0\r\n\r\n", "Transfer-Encoding: chunked", length=False), 400),
        (post(b"ffffffffffffffffff\r\n", "Transfer-Encoding: chunked", length=False), 400),
        (post(call(), "Host: other"), 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 400),
        (post(call(), version="2.0"), 505),
        (post(call(), version="1.7"), 400),
        (post(call(), version="0.9"), 505),
        (post(call(), "Expect: a-miracle"), 417),
        (post(call(), " Folded: value"), 400),
        (post(call(), "Bad Name: value"), 400),
        (post(call(), "No-Colon"), 400),
        (post(call(), "Space-Before-Colon : value"), 400),
        (post(call(), "Null: a\0b"), 400),
        (b"GARBAGE\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"POST\t/\tHTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1 \r\nHost: x\r\n\r\n", 400),
        (b'{"id":1,"method":"test_double","params":[1]}\r\n\r\n', 400),
    ],
)
def test_ambiguous_or_broken_requests_are_refused_and_the_connection_is_closed(
    running: RunningServer, sent: bytes, status: int
) -> None:
    with running.connect() as connection:
        connection.send(sent)
        connection.socket.shutdown(socket.SHUT_WR)
        answer = connection.read()
        assert answer.status == status
        assert answer.headers["connection"] == "close"
        connection.assert_closed()
    running.wait_until_connections(0)


def test_bytes_after_a_refused_request_are_never_a_second_request(running: RunningServer) -> None:
    smuggled = post(call("test_fill", 10))
    with running.connect() as connection:
        connection.send(post(call(), "Transfer-Encoding: chunked") + smuggled)
        assert connection.read().status == 400
        connection.assert_closed()
    with running.connect() as connection:
        connection.send(post(call(), "Connection: close") + smuggled)
        assert connection.read().json == RIGHT
        connection.assert_closed()
    assert running.workshop.filled == 0


@pytest.mark.parametrize(
    "lines",
    [
        ["X-Long: " + "x" * 3_000],
        [f"X-{number}: {number}" for number in range(30)],
        [f"X-{number}: {'y' * 100}" for number in range(18)],
    ],
)
def test_too_much_head_is_431_with_the_limit(connection: Connection, lines: list[str]) -> None:
    answer = connection.ask(post(call(), *lines))
    assert answer.status == 431
    assert re.search(rb"2000 bytes|20 headers", answer.body)


@pytest.mark.parametrize("begin", [b"POST /", b"POST / HTTP/1.1\r\nX: "])
def test_a_target_or_header_without_end_is_431_at_once(connection: Connection, begin: bytes) -> None:
    assert connection.ask(begin + b"x" * 3_000).status == 431


@pytest.mark.parametrize(("pieces", "size"), [(1, 3_000), (2, 1_500), (30, 100)])
def test_a_header_without_end_is_431(running: RunningServer, pieces: int, size: int) -> None:
    with running.connect() as connection:
        connection.send(b"POST / HTTP/1.1\r\nX: ")
        for _ in range(pieces):
            connection.send(b"x" * size)
            time.sleep(0.002)
        assert connection.read().status == 431


def test_a_wish_to_upgrade_is_ignored(connection: Connection) -> None:
    lines = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"]
    assert connection.ask(post(call(), *lines)).json == RIGHT
    websocket = request("GET", "/status", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    assert connection.ask(websocket).body == b"OK"
    assert connection.ask(post(call())).json == RIGHT


def test_connect_is_not_a_tunnel(connection: Connection) -> None:
    connection.send(b"CONNECT node:443 HTTP/1.1\r\nHost: node:443\r\n\r\n")
    assert connection.read().status in (400, 404, 405)
    connection.assert_closed()


# ---- pieces -----------------------------------------------------------------------------------


def test_half_a_request_and_then_silence_does_not_affect_others(running: RunningServer) -> None:
    whole = post(call())
    for size in (0, 1, 10, len(whole) // 2, len(whole) - 1):
        with running.connect() as connection:
            connection.send(whole[:size])
        connection = running.connect()
        connection.send(whole[:size])
        connection.reset()
    running.wait_until_connections(0)
    with running.connect() as connection:
        assert connection.ask(whole).json == RIGHT


def test_a_client_that_ends_its_side_in_the_middle_of_a_request_is_let_go(running: RunningServer) -> None:
    with running.connect() as connection:
        connection.send(post(call())[:-3])
        connection.socket.shutdown(socket.SHUT_WR)
        connection.assert_closed()


def test_a_client_that_ends_its_side_after_a_request_gets_the_answer(running: RunningServer) -> None:
    running.workshop.gate.set()
    for method in ("test_double", "test_wait"):
        with running.connect() as connection:
            connection.send(post(call(method)))
            connection.socket.shutdown(socket.SHUT_WR)
            while (answer := connection.read()).status == 102:
                pass
            assert answer.json["result"] == (42 if method == "test_double" else 21)
            connection.assert_closed()


@pytest.mark.parametrize("form", ["length", "chunked"])
def test_a_request_split_at_every_byte_is_the_same_request(running: RunningServer, form: str) -> None:
    if form == "length":
        whole = post(call())
    else:
        whole = post(chunked(call()[:20], call()[20:]), "Transfer-Encoding: chunked", length=False)
    with running.connect() as connection:
        for position in range(1, len(whole)):
            connection.send(whole[:position])
            time.sleep(0.001)  # two reads at the other end
            assert connection.ask(whole[position:]).json == RIGHT, position


def test_a_request_sent_byte_by_byte_is_the_same_request(connection: Connection) -> None:
    for byte in post(call()):
        connection.send(bytes([byte]))
        time.sleep(0.0005)
    assert connection.read().json == RIGHT


# ---- pipelining -------------------------------------------------------------------------------


def test_a_thousand_pipelined_requests_are_answered_in_order(connection: Connection) -> None:
    connection.send(b"".join(post(call(number=number, identifier=number)) for number in range(1_000)))
    for number in range(1_000):
        assert connection.read().json == {"jsonrpc": "2.0", "id": number, "result": 2 * number}


def test_pipelined_requests_in_threads_keep_their_order(connection: Connection) -> None:
    names = ["test_double", "test_doubleInThread", "test_fill", "test_nope"]
    sent = [call(names[number % 4], number, identifier=number) for number in range(1_000)]
    connection.send(b"".join(map(post, sent)))
    assert [connection.read().json["id"] for _ in range(1_000)] == list(range(1_000))


def test_an_answer_in_a_thread_holds_back_only_those_behind_it(running: RunningServer) -> None:
    with running.connect() as connection:
        connection.send(post(call(identifier=1)) + post(call("test_wait", identifier=2)) + post(call(identifier=3)))
        assert connection.read().json["id"] == 1
        connection.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.socket.recv(1)
        connection.socket.settimeout(PATIENCE_S)
        running.workshop.gate.set()
        assert [connection.read().json["id"] for _ in range(2)] == [2, 3]


def test_a_fault_after_pipelined_requests_comes_in_its_turn(running: RunningServer) -> None:
    running.workshop.gate.set()
    with running.connect() as connection:
        connection.send(post(call("test_wait")) + post(call()) + b"GARBAGE\r\n\r\n")
        assert [connection.read().status for _ in range(3)] == [200, 200, 400]
        connection.assert_closed()


def test_a_client_that_does_not_read_stops_being_answered(serve: Callable[..., RunningServer]) -> None:
    running = serve()
    with running.connect(receive_buffer=4096) as connection:
        count = 400
        connection.send(b"".join(post(call("test_fill", 100_000)) for _ in range(count)))
        time.sleep(0.3)
        assert running.workshop.filled < count / 2
        for _ in range(count):
            assert len(connection.read().json["result"]) == 99_996


def test_nothing_more_is_read_from_a_client_that_does_not_read(running: RunningServer) -> None:
    far_too_many = post(call("test_fill", 100_000)) * 300_000
    with running.connect(receive_buffer=4096) as connection:
        connection.socket.settimeout(1)
        with pytest.raises(TimeoutError):
            connection.socket.sendall(far_too_many)


def test_one_connection_does_not_take_all_threads(running: RunningServer) -> None:
    limit = running.server.limits.pipelined_calls_max
    with running.connect() as connection:
        count = 3 * limit
        connection.send(b"".join(post(call("test_wait", number, identifier=number)) for number in range(count)))
        assert running.workshop.waiting.acquire(timeout=PATIENCE_S)
        wait_until(lambda: len(running.server._tasks) >= limit)
        time.sleep(0.1)
        assert len(running.server._tasks) == limit
        running.workshop.gate.set()
        assert [connection.read().json["id"] for _ in range(count)] == list(range(count))


# ---- connections ------------------------------------------------------------------------------


def test_a_connection_is_kept_for_many_requests(running: RunningServer) -> None:
    with running.connect() as connection:
        for number in range(50):
            assert connection.ask(post(call(number=number))).json["result"] == 2 * number
    assert running.server.accepted_count == 1


@pytest.mark.parametrize(
    ("version", "lines", "stays"),
    [
        ("1.1", [], True),
        ("1.1", ["Connection: close"], False),
        ("1.1", ["Connection: Close, x"], False),
        ("1.1", ["Connection: keep-alive"], True),
        ("1.0", [], False),
        ("1.0", ["Connection: keep-alive"], True),
    ],
)
def test_the_client_decides_whether_a_connection_stays(
    connection: Connection, version: str, lines: list[str], stays: bool
) -> None:
    answer = connection.ask(post(call(), *lines, version=version))
    assert answer.json == RIGHT
    assert answer.headers["connection"] == ("keep-alive" if stays else "close")
    if stays:
        assert connection.ask(post(call())).json == RIGHT
    else:
        connection.assert_closed()


def test_a_body_may_wait_for_100_continue(connection: Connection) -> None:
    body = call()
    head = post(body, "Expect: 100-continue")[: -len(body)]
    connection.send(head)
    assert connection.read().status == 100
    assert connection.ask(body).json == RIGHT
    connection.send(head + body)  # a client that does not wait
    answers = [connection.read()]
    if answers[0].status == 100:
        answers.append(connection.read())
    assert answers[-1].json == RIGHT


def test_a_large_body_that_waits_is_refused_without_100_continue(connection: Connection) -> None:
    head = request("POST", "/", "Expect: 100-continue", "Content-Length: 10001")
    assert connection.ask(head).status == 413


def test_too_many_connections_are_turned_away_with_503(serve: Callable[..., RunningServer]) -> None:
    running = serve(Limits(connections_max=2))
    with running.connect() as first, running.connect() as second:
        assert first.ask(post(call())).json == second.ask(post(call())).json == RIGHT
        with running.connect() as third:
            assert third.read().status == 503
            third.assert_closed()
        assert first.ask(post(call())).json == RIGHT
    running.wait_until_connections(0)
    with running.connect() as fourth:
        assert fourth.ask(post(call())).json == RIGHT
    assert running.server.turned_away_count == 1


def test_a_client_that_leaves_while_its_call_runs_does_not_affect_others(
    running: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        connection = running.connect()
        connection.send(post(call("test_wait")))
        assert running.workshop.waiting.acquire(timeout=PATIENCE_S)
        connection.reset()
        running.wait_until_connections(0)
        running.workshop.gate.set()
        with running.connect() as other:
            assert other.ask(post(call("test_wait"))).json["result"] == 21
    assert not caplog.records


# ---- time -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "what"), [(1, b"headers"), (40, b"headers"), (-3, b"body")])
def test_a_request_that_stalls_is_408(serve: Callable[..., RunningServer], size: int, what: bytes) -> None:
    running = serve(QUICK)
    with running.connect() as connection:
        connection.send(post(call())[:size])
        answer = connection.read()
        assert answer.status == 408
        assert what in answer.body
        connection.assert_closed()


def test_trickling_bytes_does_not_extend_the_time_for_the_headers(serve: Callable[..., RunningServer]) -> None:
    running = serve(QUICK)
    with running.connect() as connection:
        started = time.monotonic()
        connection.send(b"POST / HTTP/1.1\r\n")
        with pytest.raises((ConnectionError, AssertionError)):  # noqa: PT012 - whichever write meets the end
            while time.monotonic() - started < PATIENCE_S:
                connection.send(b"X: y\r\n")
                time.sleep(0.02)
                connection.socket.setblocking(False)
                try:
                    assert not connection.socket.recv(65536).startswith(b"HTTP/1.1 408")
                except BlockingIOError:
                    pass
                finally:
                    connection.socket.settimeout(PATIENCE_S)


def test_half_a_request_behind_a_long_call_is_timed_out_too(serve: Callable[..., RunningServer]) -> None:
    running = serve(QUICK)
    with running.connect() as connection:
        connection.send(post(call("test_wait")) + b"POST / HTTP/1.1\r\n")
        assert running.workshop.waiting.acquire(timeout=PATIENCE_S)
        time.sleep(0.5)
        running.workshop.gate.set()
        assert connection.read().status == 200
        assert connection.read().status == 408


def test_a_stream_of_pipelined_requests_is_not_taken_for_a_slow_one(serve: Callable[..., RunningServer]) -> None:
    clock = Clock()
    running = serve(QUICK, clock=clock)
    whole = post(call())
    with running.connect() as connection:
        connection.send(whole[:20])
        end = clock.now + 4 * QUICK.head_time_s
        while clock.now < end:
            connection.send(whole[20:] + whole[:20])  # each read ends in the middle of the next head
            assert connection.read().json == RIGHT
            clock.now += QUICK.head_time_s / 4
            time.sleep(server_module.SWEEP_INTERVAL_S)


def test_an_idle_connection_is_closed_without_a_word(serve: Callable[..., RunningServer]) -> None:
    running = serve(QUICK)
    with running.connect() as silent, running.connect() as used:
        assert used.ask(post(call())).json == RIGHT
        silent.assert_closed()
        used.assert_closed()


def test_a_call_may_take_longer_than_any_time_for_the_client(serve: Callable[..., RunningServer]) -> None:
    running = serve(QUICK)
    with running.connect() as connection:
        connection.send(post(call("test_wait")))
        time.sleep(0.8)
        running.workshop.gate.set()
        assert connection.read().json["result"] == 21


@pytest.mark.parametrize("lines", [[], ["Connection: close"]])
def test_a_client_that_reads_slowly_gets_its_whole_answer(
    serve: Callable[..., RunningServer], lines: list[str]
) -> None:
    clock = Clock()
    running = serve(QUICK, clock=clock)
    with running.connect(receive_buffer=65536) as connection:
        connection.send(post(call("test_fill", LARGE), *lines))
        started, received = clock.now, 0
        while received < LARGE:
            data = connection.socket.recv(100_000)
            assert data, f"cut off after {received} bytes and {clock.now - started:.1f} s"
            received += len(data)
            clock.now += 0.02
            time.sleep(0.02)
        assert clock.now - started > 2 * QUICK.write_time_s


@pytest.mark.parametrize("lines", [[], ["Connection: close"]])
@pytest.mark.parametrize("ends_its_side", [False, True])
def test_a_client_that_never_takes_its_answers_is_cut_off(
    serve: Callable[..., RunningServer], lines: list[str], ends_its_side: bool
) -> None:
    running = serve(QUICK)
    with running.connect(receive_buffer=4096) as connection:
        connection.send(post(call("test_fill", LARGE), *lines))
        if ends_its_side:
            connection.socket.shutdown(socket.SHUT_WR)
        wait_until(lambda: running.workshop.filled == 1)
        running.wait_until_connections(0)


def test_a_stop_waits_for_a_client_that_reads_slowly(serve: Callable[..., RunningServer]) -> None:
    running = serve()
    with running.connect(receive_buffer=65536) as connection:
        connection.send(post(call("test_fill", LARGE)))
        first = connection.socket.recv(1000)
        running.request_stop()
        time.sleep(0.3)
        assert len(first) + len(connection.read_to_end()) > LARGE


# ---- stopping ---------------------------------------------------------------------------------


def test_a_stop_completes_what_runs_and_closes_what_rests(running: RunningServer) -> None:
    with running.connect() as idle, running.connect() as busy, running.connect() as sending:
        assert idle.ask(post(call())).json == RIGHT
        busy.send(post(call("test_wait")) + post(call(identifier=2)))
        assert running.workshop.waiting.acquire(timeout=PATIENCE_S)
        received = running.server.traffic.received_bytes
        sending.send(post(call())[:30])
        wait_until(lambda: running.server.traffic.received_bytes == received + 30)
        running.request_stop()
        idle.assert_closed()
        with pytest.raises(ConnectionRefusedError):
            running.connect()
        sending.send(post(call())[30:])
        assert sending.read().json == RIGHT
        running.workshop.gate.set()
        first, second = busy.read(), busy.read()
        assert (first.json["id"], second.json["id"]) == (1, 2)
        assert second.headers["connection"] == "close"
        busy.assert_closed()
        sending.assert_closed()
    running.stop()


def test_a_stop_cuts_off_what_takes_too_long(running: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    with running.connect() as connection:
        connection.send(post(call("test_wait")))
        assert running.workshop.waiting.acquire(timeout=PATIENCE_S)
        with caplog.at_level(logging.WARNING, "fastnode.rpc"):
            running.request_stop(grace=0.1)
            with pytest.raises((ConnectionError, AssertionError)):
                connection.read()
        running.stop()
    assert "1 connections were cut off after 0.1 s" in caplog.text


def test_a_taken_port_is_an_os_error_and_leaves_nothing_open(running: RunningServer) -> None:
    async def start() -> None:
        second = RpcServer(running.server.engine, host="127.0.0.1", port=running.server.port)
        with pytest.raises(OSError, match="in use") as caught:
            await second.start()
        text = server_module.describe_bind_error(caught.value, "127.0.0.1", running.server.port, "admin-")
        taken = f"port {running.server.port} on 127.0.0.1 is in use by another program"
        assert text == f"{taken}; choose another one with --admin-port"
        await second.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(start())
