"""The server over real sockets: requests as they should be, and as they should not."""

from __future__ import annotations

import asyncio
import gzip
import logging
import re
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import orjson
import pytest
import uvloop

from fastnode.rpc import server as server_module
from fastnode.rpc.engine import Engine
from fastnode.rpc.limits import Limits
from fastnode.rpc.methods import Call, Method, MethodTable, Parameter, common
from fastnode.rpc.parameters import Integer
from fastnode.rpc.server import RpcServer

SMALL = Limits(body_bytes_max=10_000, head_bytes_max=2_000, headers_max=20)
QUICK = Limits(head_time_s=0.3, body_time_s=0.3, idle_time_s=0.0, write_time_s=0.3)
VERSION = ("x-aztec-packageVersion", "4.1.2")


class Workshop:
    """Methods to be served; ``gate`` holds back ``test_wait`` until the test opens it."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.waiting = threading.Semaphore(0)
        self.filled = 0

    def double(self, call: Call, number: int) -> bytes:
        return b"%d" % (2 * number)

    def wait(self, call: Call, number: int) -> bytes:
        self.waiting.release()
        assert self.gate.wait(10)
        return b"%d" % number

    def fill(self, call: Call, size: int) -> bytes:
        self.filled += 1
        return b'"%b"' % (b"field " * (size // 6))

    def methods(self) -> list[Method]:
        number = Parameter("number", Integer(minimum=0))
        return [
            Method(name="test_double", summary="", handler=self.double, **common("number", number)),
            Method(name="test_doubleInThread", summary="", handler=self.double, in_thread=True, **common("n", number)),
            Method(name="test_wait", summary="", handler=self.wait, in_thread=True, **common("number", number)),
            Method(name="test_fill", summary="", handler=self.fill, **common("string", number)),
        ]


class RunningServer:
    """A server on a loop in a thread of its own."""

    def __init__(self, limits: Limits, **options: Any) -> None:
        self.workshop = Workshop()
        engine = Engine(MethodTable(self.workshop.methods()), lambda: None, limits=limits)
        self.server = RpcServer(engine, host="127.0.0.1", port=0, headers=[VERSION], **options)
        self._stop_requested: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._grace = 5.0
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,))
        self._thread.start()
        assert started.wait(5)

    def _run(self, started: threading.Event) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._stop_requested = asyncio.Event()
            await self.server.start()
            started.set()
            await self._stop_requested.wait()
            await self.server.stop(grace_seconds=self._grace)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())

    def request_stop(self, grace: float = 5.0) -> None:
        self._grace = grace
        self._loop.call_soon_threadsafe(self._stop_requested.set)

    def stop(self) -> None:
        self.workshop.gate.set()
        if self._thread.is_alive():
            self.request_stop(1.0)
            self._thread.join(10)
        assert not self._thread.is_alive()

    def connect(self, **options: Any) -> Connection:
        return Connection(self.server.port, **options)

    def wait_until_connections(self, count: int) -> None:
        deadline = time.monotonic() + 5
        while self.server.connection_count != count:
            assert time.monotonic() < deadline, f"{self.server.connection_count} connections are left"
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

    def __init__(self, port: int, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(10)
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
        while len(self._buffer) < length:
            data = self.socket.recv(65536)
            assert data, "closed in the middle of a body"
            self._buffer += data
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return Answer(status, headers, body)

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


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RunningServer]]:
    monkeypatch.setattr(server_module, "SWEEP_INTERVAL_S", 0.05)
    monkeypatch.setattr("fastnode.rpc.http.LINGER_S", 0.5)
    monkeypatch.setattr("fastnode.rpc.http.IDLE_SLACK_S", 0.3)
    with ExitStack() as stack:

        def start(limits: Limits = SMALL, **options: Any) -> RunningServer:
            running = RunningServer(limits, **options)
            stack.callback(running.stop)
            return running

        yield start


@pytest.fixture
def running(serve: Callable[..., RunningServer]) -> RunningServer:
    return serve()


@pytest.fixture
def connection(running: RunningServer) -> Iterator[Connection]:
    with running.connect() as connected:
        yield connected


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


RIGHT = {"jsonrpc": "2.0", "id": 1, "result": 42}

# ---- one request ------------------------------------------------------------------------------


def test_a_call_is_answered_with_the_documented_headers(connection: Connection) -> None:
    answer = connection.ask(post(call()))
    assert (answer.status, answer.json) == (200, RIGHT)
    headers = answer.headers
    sent_at = parsedate_to_datetime(headers.pop("date"))
    assert abs(sent_at.timestamp() - time.time()) < 5
    assert headers == {
        "vary": "Accept-Encoding, Origin",
        "access-control-allow-origin": "*",
        "content-type": "application/json; charset=utf-8",
        "x-aztec-packageversion": "4.1.2",
        "content-length": str(len(answer.body)),
        "connection": "keep-alive",
        "keep-alive": "timeout=65",
    }


@pytest.mark.parametrize("target", ["/", "//", "/?x=1", "/?", "http://node/", "http://node", "HTTP://node:80?x"])
def test_every_way_to_name_the_root_is_the_rpc_route(connection: Connection, target: str) -> None:
    assert connection.ask(post(call(), target=target)).json == RIGHT


@pytest.mark.parametrize("target", ["/foo", "/rpc/", "/status/x", "/%2f", "/..", "*", "/statuss"])
def test_other_paths_are_not_found(connection: Connection, target: str) -> None:
    for verb in ("GET", "POST", "DELETE", "OPTIONS"):
        answer = connection.ask(request(verb, target, "Content-Length: 0"))
        assert (answer.status, answer.body) == (404, b"Not Found"), verb
        assert answer.headers["x-aztec-packageversion"] == "4.1.2"


def test_the_status_is_ok(connection: Connection) -> None:
    answer = connection.ask(request("GET", "/status"))
    assert (answer.status, answer.body) == (200, b"OK")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    connection.send(request("HEAD", "/status"))
    answer = connection.read(of_head_request=True)
    assert (answer.status, answer.headers["content-length"]) == (200, "2")
    assert connection.ask(request("GET", "/status?verbose")).body == b"OK"


@pytest.mark.parametrize("verb", ["GET", "PUT", "DELETE", "PATCH", "PROPFIND"])
def test_other_verbs_on_the_root_are_not_allowed(connection: Connection, verb: str) -> None:
    answer = connection.ask(request(verb, "/"))
    assert (answer.status, answer.body, answer.headers["allow"]) == (405, b"Method Not Allowed", "POST")


@pytest.mark.parametrize("verb", ["POST", "PUT", "DELETE"])
def test_other_verbs_on_the_status_are_not_allowed(connection: Connection, verb: str) -> None:
    answer = connection.ask(request(verb, "/status", "Content-Length: 0"))
    assert (answer.status, answer.headers["allow"]) == (405, "HEAD, GET")


def test_a_head_request_to_the_root_has_no_body(connection: Connection) -> None:
    connection.send(request("HEAD", "/"))
    assert connection.read(of_head_request=True).status == 405
    assert connection.ask(post(call())).json == RIGHT


def test_a_notification_gets_204_without_content(connection: Connection) -> None:
    answer = connection.ask(post(b'{"method":"test_double","params":[1]}'))
    assert answer.status == 204
    assert "content-length" not in answer.headers
    assert "content-type" not in answer.headers
    assert connection.ask(post(call())).json == RIGHT


@pytest.mark.parametrize("body", [b'{"id":1,"method":"test_nope"}', b"{", b"[]"])
def test_an_rpc_error_is_http_200_unless_the_setting_says_400(serve: Callable[..., RunningServer], body: bytes) -> None:
    for options, status in (({}, 200), ({"error_status": 400}, 400)):
        with serve(**options).connect() as connection:
            assert connection.ask(post(body)).status == status


def test_errors_inside_a_batch_never_change_the_http_status(serve: Callable[..., RunningServer]) -> None:
    with serve(error_status=400).connect() as connection:
        answer = connection.ask(post(b'[{"id":1,"method":"test_nope"}]'))
        assert answer.status == 200
        assert connection.ask(post(call())).status == 200


def test_the_headers_of_a_later_chain_replace_the_first_ones(running: RunningServer, connection: Connection) -> None:
    running.server.set_headers([("x-aztec-rollupVersion", "7")])
    headers = connection.ask(post(call())).headers
    assert headers["x-aztec-rollupversion"] == "7"
    assert "x-aztec-packageversion" not in headers


def test_a_header_with_a_line_break_is_refused(running: RunningServer) -> None:
    with pytest.raises(ValueError, match="line break"):
        running.server.set_headers([("x-version", "1\r\nSet-Cookie: a=b")])


# ---- content types ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=latin1",
        "application/vnd.api+json",
        "text/plain",
        "application/x-www-form-urlencoded",
        "nonsense",
        "",
    ],
)
def test_json_is_taken_under_any_content_type(connection: Connection, content_type: str) -> None:
    assert connection.ask(post(call(), f"Content-Type: {content_type}")).json == RIGHT


def test_json_is_taken_without_a_content_type(connection: Connection) -> None:
    body = call()
    assert connection.ask(request("POST", "/", f"Content-Length: {len(body)}") + body).json == RIGHT


def test_what_is_not_json_and_does_not_say_so_is_415(connection: Connection) -> None:
    for content_type in ("text/plain", "text/json-ish", "application/jsonp", "multipart/form-data"):
        answer = connection.ask(post(b"a=1&b=2", f"Content-Type: {content_type}"))
        assert answer.status == 415
        assert answer.json["error"]["code"] == -32600
    answer = connection.ask(post(b"a=1&b=2"))
    assert (answer.status, answer.json["error"]["code"]) == (200, -32700)


# ---- CORS -------------------------------------------------------------------------------------


def test_a_preflight_is_answered(connection: Connection) -> None:
    wanted = ["Origin: https://dapp.example", "Access-Control-Request-Method: POST"]
    answer = connection.ask(
        request("OPTIONS", "/", *wanted, "Access-Control-Request-Headers: content-type,x-foo, Authorization")
    )
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-methods"] == "GET,HEAD,POST"
    assert answer.headers["access-control-allow-headers"] == "content-type,x-foo, Authorization"
    assert "access-control-allow-headers" not in connection.ask(request("OPTIONS", "/", *wanted)).headers


def test_only_header_names_are_sent_back_to_a_preflight(connection: Connection) -> None:
    lines = ["Origin: x", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: a b<script>"]
    answer = connection.ask(request("OPTIONS", "/", *lines))
    assert "access-control-allow-headers" not in answer.headers


def test_options_without_a_preflight_says_what_is_allowed(connection: Connection) -> None:
    answer = connection.ask(request("OPTIONS", "/"))
    assert (answer.status, answer.headers["allow"], answer.body) == (200, "POST", b"")


def test_every_answer_may_be_read_by_a_browser(connection: Connection) -> None:
    for sent in (post(b"{"), request("GET", "/nope"), post(b"x", "Content-Type: text/plain"), b"GARBAGE\r\n\r\n"):
        assert connection.ask(sent).headers["access-control-allow-origin"] == "*"


# ---- content codings --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("identity", bytes),
        ("gzip", lambda data: gzip.compress(data[:10]) + gzip.compress(data[10:])),
    ],
)
def test_a_request_body_may_be_compressed(connection: Connection, coding: str, pack: Callable[[bytes], bytes]) -> None:
    assert connection.ask(post(pack(call()), f"Content-Encoding: {coding}")).json == RIGHT


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress", "x"])
def test_an_unknown_request_coding_is_415(connection: Connection, coding: str) -> None:
    answer = connection.ask(post(gzip.compress(call()), f"Content-Encoding: {coding}"))
    assert answer.status == 415
    assert "gzip" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"not gzip",
        gzip.compress(call())[:-4],
        gzip.compress(call()) + b"tail",
        gzip.compress(call())[:12] + b"\0" * 20,
    ],
)
def test_a_damaged_gzip_body_is_refused(connection: Connection, damaged: bytes) -> None:
    answer = connection.ask(post(damaged, "Content-Encoding: gzip"))
    assert answer.json["error"]["code"] in (-32600, -32700)
    assert answer.status == (400 if damaged else 200)
    assert connection.ask(post(call())).json == RIGHT


def test_a_gzip_bomb_is_refused_without_inflating_it(connection: Connection) -> None:
    bomb = gzip.compress(gzip.compress(b" " * 50_000_000, 9), 9)
    assert len(bomb) < SMALL.body_bytes_max
    started = time.monotonic()
    for data in (bomb, gzip.compress(b" " * 5_000_000)):
        answer = connection.ask(post(data, "Content-Encoding: gzip"))
        assert answer.status == 413
        assert "limit of 10000 bytes" in answer.json["error"]["message"]
    members = gzip.compress(b"[" * 4_000) * 3
    assert connection.ask(post(members, "Content-Encoding: gzip")).status == 413
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip", "gzip"),
        ("gzip, deflate, br", "gzip"),
        ("deflate", "deflate"),
        ("*", "gzip"),
        ("gzip;q=0.1, deflate;q=0.9", "deflate"),
        ("gzip; q=0, *", "deflate"),
        ("GZIP", "gzip"),
        ("br", None),
        ("identity", None),
        ("gzip;q=0", None),
        ("gzip;q=nonsense", None),
        ("", None),
        (None, None),
    ],
)
@pytest.mark.parametrize("size", [2_000, 200_000])
def test_an_answer_is_compressed_as_the_client_accepts(
    serve: Callable[..., RunningServer], accepted: str | None, coding: str | None, size: int
) -> None:
    with serve().connect() as connection:
        lines = [] if accepted is None else [f"Accept-Encoding: {accepted}"]
        answer = connection.ask(post(call("test_fill", size), *lines))
    assert answer.headers.get("content-encoding") == coding
    unpack = {"gzip": gzip.decompress, "deflate": zlib.decompress, None: bytes}[coding]
    assert len(orjson.loads(unpack(answer.body))["result"]) == size // 6 * 6
    assert (len(answer.body) < size / 10) == (coding is not None)


def test_a_short_answer_is_not_compressed(connection: Connection) -> None:
    assert "content-encoding" not in connection.ask(post(call(), "Accept-Encoding: gzip")).headers


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


def test_the_refusal_of_a_large_body_reaches_a_client_that_goes_on_sending(running: RunningServer) -> None:
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


def test_a_target_without_end_is_431(connection: Connection) -> None:
    assert connection.ask(b"POST /" + b"x" * 5_000).status == 431


def test_a_header_without_end_is_431(running: RunningServer) -> None:
    with running.connect() as connection:
        connection.send(b"POST / HTTP/1.1\r\nX: ")
        for _ in range(30):
            connection.send(b"x" * 100)
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


def test_half_a_request_and_then_silence_harms_nobody(running: RunningServer) -> None:
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
            assert connection.read().json["result"] == (42 if method == "test_double" else 21)
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
        connection.socket.settimeout(10)
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
        assert running.workshop.waiting.acquire(timeout=5)
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


def test_a_client_that_leaves_while_its_call_runs_harms_nobody(
    running: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        connection = running.connect()
        connection.send(post(call("test_wait")))
        assert running.workshop.waiting.acquire(timeout=5)
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
            while time.monotonic() - started < 5:
                connection.send(b"X: y\r\n")
                time.sleep(0.02)
                connection.socket.setblocking(False)
                try:
                    assert not connection.socket.recv(65536).startswith(b"HTTP/1.1 408")
                except BlockingIOError:
                    pass
                finally:
                    connection.socket.settimeout(10)
        assert time.monotonic() - started < 2


def test_half_a_request_behind_a_long_call_is_timed_out_too(serve: Callable[..., RunningServer]) -> None:
    running = serve(QUICK)
    with running.connect() as connection:
        connection.send(post(call("test_wait")) + b"POST / HTTP/1.1\r\n")
        assert running.workshop.waiting.acquire(timeout=5)
        time.sleep(0.5)
        running.workshop.gate.set()
        assert connection.read().status == 200
        assert connection.read().status == 408


def test_a_stream_of_pipelined_requests_is_not_taken_for_a_slow_one(serve: Callable[..., RunningServer]) -> None:
    running = serve(QUICK)
    whole = post(call())
    with running.connect() as connection:
        started = time.monotonic()
        connection.send(whole[:20])
        while time.monotonic() - started < 1:
            connection.send(whole[20:] + whole[:20])  # each read ends in the middle of the next head
            assert connection.read().json == RIGHT
            time.sleep(0.02)


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


def test_a_client_that_never_takes_its_answers_is_cut_off(serve: Callable[..., RunningServer]) -> None:
    running = serve(QUICK)
    with running.connect(receive_buffer=4096) as connection:
        connection.send(b"".join(post(call("test_fill", 300_000)) for _ in range(50)))
        running.wait_until_connections(0)


# ---- stopping ---------------------------------------------------------------------------------


def test_a_stop_completes_what_runs_and_closes_what_rests(running: RunningServer) -> None:
    with running.connect() as idle, running.connect() as busy, running.connect() as sending:
        assert idle.ask(post(call())).json == RIGHT
        busy.send(post(call("test_wait")) + post(call(identifier=2)))
        assert running.workshop.waiting.acquire(timeout=5)
        sending.send(post(call())[:30])
        time.sleep(0.05)
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
        assert running.workshop.waiting.acquire(timeout=5)
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
        text = server_module.describe_bind_error(caught.value, "127.0.0.1", running.server.port)
        assert text == f"port {running.server.port} on 127.0.0.1 is in use by another program; choose another one"
        await second.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(start())
