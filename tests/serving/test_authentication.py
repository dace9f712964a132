"""A port that asks for a key, at the socket: what is answered to whom, and that nothing comes before it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest
from tests.serving.sockets import SMALL, RunningServer

from fastnode.serving.api_key import ApiKeyGuard

KEY = "5a" * 32
UNAUTHORIZED = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Unauthorized: invalid or missing API key"}}'
)
CALL = b'{"jsonrpc":"2.0","id":1,"method":"test_double","params":[21]}'
RESULT = b'{"jsonrpc":"2.0","id":1,"result":42}'
GOOD = f"x-api-key: {KEY}"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    running = RunningServer(SMALL)
    running.server.set_guard(ApiKeyGuard(hashlib.sha256(KEY.encode()).digest()))
    yield running
    running.stop()


def request(line: str, *headers: str, body: bytes = b"") -> bytes:
    head = "\r\n".join((f"{line} HTTP/1.1", "Host: node", *headers, f"Content-Length: {len(body)}", "", ""))
    return head.encode() + body


def exchange(server: RunningServer, data: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (lower-case names) and all the bytes behind them until the server closes."""
    with server.connect() as connection:
        connection.send(data)
        connection.socket.shutdown(1)
        received = b"".join(iter(lambda: connection.socket.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return int(status_line.split()[1]), headers, body


@pytest.mark.parametrize("header", [GOOD, f"Authorization: Bearer {KEY}", f"Authorization: {KEY}"])
def test_with_the_key_a_call_is_answered(server: RunningServer, header: str) -> None:
    status, headers, body = exchange(server, request("POST /", header, body=CALL))
    assert (status, body) == (200, RESULT)
    assert headers["x-aztec-packageversion"] == "4.1.2"


@pytest.mark.parametrize(
    "data",
    [
        request("POST /", body=CALL),
        request("POST /", "x-api-key: ", body=CALL),
        request("POST /", f"x-api-key: {KEY[:-1]}", body=CALL),
        request("POST /", f"x-api-key: {'0' * 64}", body=CALL),
        request("POST /", "x-api-key: 0", f"Authorization: Bearer {KEY}", body=CALL),
        request("POST /", GOOD, GOOD, body=CALL),
        request("POST /", f"Authorization: Basic {KEY}", body=CALL),
        request("POST /", body=b"this is not JSON"),
        request("POST /", body=b"x" * 100_000),  # above the limit of a body
        request("POST /", "Content-Encoding: nonsense", body=CALL),
        request("POST /", "Content-Type: text/nonsense", body=CALL),
        request("POST /", "Expect: nonsense", body=CALL),
        request("POST /nothing", body=CALL),
        request("GET /nothing"),
        request("GET /status/"),
        request("DELETE /"),
        request("OPTIONS /", "Origin: http://example.org", "Access-Control-Request-Method: POST"),
        b"POST / HTTP/1.1\r\nHost: node\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\n\r\n",  # no Host header
    ],
)
def test_without_the_key_everything_is_refused_alike(server: RunningServer, data: bytes) -> None:
    status, headers, body = exchange(server, data)
    assert (status, body) == (401, UNAUTHORIZED)
    del headers["date"]
    assert headers == {
        "vary": "Accept-Encoding",
        "content-type": "application/json; charset=utf-8",
        "content-length": "104",
        "connection": "close",
    }


def test_head_of_the_status_is_refused_and_has_no_body(server: RunningServer) -> None:
    status, headers, body = exchange(server, request("HEAD /status"))
    assert (status, headers["content-length"], body) == (401, "104", b"")


def test_the_status_needs_no_key(server: RunningServer) -> None:
    status, _, body = exchange(server, request("GET /status", "x-api-key: wrong"))
    assert (status, body) == (200, b"OK")


def test_a_body_without_a_valid_key_is_not_waited_for(server: RunningServer) -> None:
    """The answer comes when the head is complete, to "100-continue" too."""
    for header in ("Content-Length: 5000", "Transfer-Encoding: chunked", "Content-Length: 5\r\nExpect: 100-continue"):
        with server.connect() as connection:
            connection.send(f"POST / HTTP/1.1\r\nHost: node\r\n{header}\r\n\r\n".encode())
            assert connection.socket.recv(1000).startswith(b"HTTP/1.1 401 Unauthorized\r\n")


def test_nothing_behind_a_refused_request_is_answered(server: RunningServer) -> None:
    data = request("POST /", body=request("POST /", GOOD, body=CALL)) + request("POST /", GOOD, body=CALL)
    status, _, body = exchange(server, data)
    assert (status, body) == (401, UNAUTHORIZED)


def test_every_request_of_a_connection_needs_the_key(server: RunningServer) -> None:
    data = request("POST /", GOOD, body=CALL) + request("POST /", body=CALL)
    _, _, rest = exchange(server, data)
    assert rest.startswith(RESULT + b"HTTP/1.1 401 Unauthorized\r\n")
    assert rest.endswith(UNAUTHORIZED)


def test_with_the_key_the_rules_of_the_port_hold(server: RunningServer) -> None:
    assert exchange(server, request("GET /nothing", GOOD))[0] == 404
    assert exchange(server, request("DELETE /", GOOD))[0] == 405
    assert exchange(server, request("POST /", GOOD, body=b"x" * 100_000))[0] == 413
