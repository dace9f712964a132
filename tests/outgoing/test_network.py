"""HTTP to servers that are slow, large, compressed, redirected or gone."""

from __future__ import annotations

import gzip
import http.server
import threading
import time
from collections.abc import Iterator

import pytest
from tests.http_stand_in import HttpStandIn, Respond, answer
from tests.ports import free_port

from fastnode.errors import UpstreamFault, UpstreamUnavailable
from fastnode.outgoing.network import OTHER_SERVERS, Answer, ClientLimits, ExchangeTimes, Network

LIMITS = ClientLimits(request_time_s=20.0, response_bytes_max=100_000)


class Server(HttpStandIn):
    """Says hello; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[http.server.BaseHTTPRequestHandler] = []
        self.reply: Respond = lambda handler, _body: answer(handler, b"hello")
        super().__init__()

    def respond(self, handler: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
        self.asked.append(handler)
        self.reply(handler, body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


# ---- what is sent and read ---------------------------------------------------------------------------


def test_a_post_carries_its_body_and_headers(server: Server, network: Network) -> None:
    bodies: list[bytes] = []
    server.reply = lambda handler, body: (bodies.append(body), answer(handler, b"yes", X_Thing="1"))[1]
    reply = network.post(server.url + "/a?b=1", b"question", LIMITS, {"x-api-key": "k"})
    assert (reply.status, reply.body, reply.headers["x-thing"]) == (200, b"yes", "1")
    assert bodies == [b"question"]
    assert (server.asked[0].path, server.asked[0].headers["x-api-key"]) == ("/a?b=1", "k")
    assert server.asked[0].headers["user-agent"].startswith("fastnode/")


def test_exchanges_are_timed_by_server_without_the_secrets_of_a_url(server: Server, network: Network) -> None:
    with_name = server.url.replace("http://", "http://name:secret@")
    for _ in range(3):
        network.post(with_name, b"question", LIMITS)
    nobody = f"127.0.0.1:{free_port()}"
    with pytest.raises(UpstreamUnavailable):
        network.get(f"http://{nobody}/", LIMITS)
    times = network.times.by_server()
    assert set(times) == {server.url.removeprefix("http://").rstrip("/"), nobody}
    assert [(count, failed) for count, _, failed in times.values()] == [(3, 0), (1, 1)]
    assert all(0 < seconds < 20 for _, seconds, _ in times.values())


def test_a_thousand_servers_are_counted_in_few_rows() -> None:
    times = ExchangeTimes()
    for number in range(1000):
        times.add(f"host{number}:80", 0.5, has_failed=True)
    rows = times.by_server()
    assert len(rows) == 65
    assert rows[OTHER_SERVERS] == (936, 468.0, 936)


def test_a_connection_is_used_again(server: Server, network: Network) -> None:
    for _ in range(5):
        assert network.get(server.url, LIMITS).body == b"hello"
    assert server.connections == 1


def test_a_connection_that_the_server_has_closed_is_replaced(server: Server, network: Network) -> None:
    def and_close(handler: http.server.BaseHTTPRequestHandler, _body: bytes) -> None:
        answer(handler, b"bye")
        handler.close_connection = True

    server.reply = and_close
    for _ in range(3):
        assert network.get(server.url, LIMITS).body == b"bye"
    assert server.connections == 3


def test_a_compressed_answer_is_read(server: Server, network: Network) -> None:
    server.reply = lambda handler, _: answer(handler, gzip.compress(b"x" * 50_000), Content_Encoding="gzip")
    assert network.get(server.url, LIMITS).body == b"x" * 50_000
    assert server.asked[0].headers["accept-encoding"] == "gzip"


def test_an_answer_in_chunks_is_read(server: Server, network: Network) -> None:
    def in_chunks(handler: http.server.BaseHTTPRequestHandler, _body: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")

    server.reply = in_chunks
    assert network.get(server.url, LIMITS).body == b"abcde"
    assert network.get(server.url, LIMITS).body == b"abcde"
    assert server.connections == 1


def test_the_user_of_a_url_is_sent_as_basic_authorization(server: Server, network: Network) -> None:
    network.get(server.url.replace("://", "://me:p%40ss@"), LIMITS)
    assert server.asked[0].headers["authorization"] == "Basic bWU6cEBzcw=="


def test_a_get_follows_redirects_and_a_post_does_not(server: Server, network: Network) -> None:
    def redirect(handler: http.server.BaseHTTPRequestHandler, _body: bytes) -> None:
        if handler.path == "/there":
            answer(handler, b"found")
        else:
            answer(handler, b"", 302, Location="/there")

    server.reply = redirect
    assert network.get(server.url, LIMITS).body == b"found"
    assert network.post(server.url, b"", LIMITS).status == 302


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "http://[",
        "http://[::1",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:port/",
        "http://b\u00fccher.example/",
        "http://a..b/",
        "http://" + 64 * "a" + ".example/",
        "/\u00fc",
    ],
)
def test_a_redirect_to_something_else_than_http_is_refused(server: Server, network: Network, location: str) -> None:
    server.reply = lambda handler, _: answer(handler, b"", 302, Location=location)
    with pytest.raises(UpstreamFault, match="redirects to what is no http"):
        network.get(server.url, LIMITS)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 -9999", None),
        ("Fri, 31 Dec 9999 23:59:59", None),
        ("Fri, 31 Dec 99999999999999 23:59:59 GMT", None),
        ("Sat, 01 Jan 0001 00:00:00 +2359", None),
        ("Sat, 01 Jan 2000 00:00:00 +99999999999", None),
        ("-1", None),
        ("soon", None),
        ("", None),
        ("\u00b2", None),
    ],
)
def test_a_time_to_ask_again_that_no_clock_has_is_none(value: str, seconds: float | None) -> None:
    told = Answer(503, b"", {"retry-after": value}).retry_after_s
    assert told == seconds or (seconds is None and told is not None and told >= 0)


@pytest.mark.parametrize("url", ["http://a..b/", "http://" + 64 * "a" + ".example/", "http://127.0.0.1/\u00fc"])
def test_a_url_that_no_server_can_have_is_a_fault_and_nothing_else(network: Network, url: str) -> None:
    with pytest.raises((UpstreamFault, UpstreamUnavailable)):
        network.get(url, LIMITS)


def test_redirects_without_end_are_given_up(server: Server, network: Network) -> None:
    server.reply = lambda handler, _: answer(handler, b"", 302, Location="/again")
    with pytest.raises(UpstreamFault, match="redirects more than 5 times"):
        network.get(server.url, LIMITS)


# ---- limits ------------------------------------------------------------------------------------------


def test_an_answer_that_is_too_large_is_not_read_to_its_end(server: Server, network: Network) -> None:
    server.reply = lambda handler, _: answer(handler, b"x" * 100_001)
    with pytest.raises(UpstreamFault, match="its answer exceeds 100000 bytes"):
        network.get(server.url, LIMITS)


def test_an_answer_that_is_too_large_when_inflated_is_refused(server: Server, network: Network) -> None:
    server.reply = lambda handler, _: answer(handler, gzip.compress(b"\0" * 10_000_000), Content_Encoding="gzip")
    with pytest.raises(UpstreamFault, match="its answer exceeds 100000 bytes"):
        network.get(server.url, LIMITS)


@pytest.mark.parametrize("part", ["head", "body"])
def test_a_server_that_sends_a_byte_now_and_then_is_given_up(server: Server, network: Network, part: str) -> None:
    """The limit is one for the whole answer: every byte in time does not make a whole one in time."""

    def trickle(handler: http.server.BaseHTTPRequestHandler, _body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n"
        handler.wfile.write(head if part == "head" else head + b"\r\n")
        try:
            for _ in range(1000):
                handler.wfile.write(b"x")
                handler.wfile.flush()
                time.sleep(0.02)
        except OSError:
            return

    server.reply = trickle
    with pytest.raises(UpstreamUnavailable, match=r"no complete answer within 0\.2 s"):
        network.get(server.url, ClientLimits(request_time_s=0.2))


def test_an_answer_that_is_cut_off_is_no_answer(server: Server, network: Network) -> None:
    def cut(handler: http.server.BaseHTTPRequestHandler, _body: bytes) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        handler.close_connection = True

    server.reply = cut
    with pytest.raises(UpstreamUnavailable, match="the connection broke"):
        network.get(server.url, LIMITS)


def test_what_is_no_http_is_a_fault(server: Server, network: Network) -> None:
    server.reply = lambda handler, _: (handler.wfile.write(b"SSH-2.0-x\r\n\r\n"), None)[1]
    with pytest.raises(UpstreamFault, match="no HTTP"):
        network.get(server.url, LIMITS)


def test_a_server_that_is_not_there_is_unavailable_and_its_address_is_not_told(network: Network) -> None:
    port = free_port()
    with pytest.raises(UpstreamUnavailable) as failure:
        network.get(f"http://127.0.0.1:{port}", LIMITS)
    assert str(failure.value) == "cannot connect: Connection refused"


# ---- the end -----------------------------------------------------------------------------------------


def test_closing_ends_what_is_under_way_in_other_threads(server: Server, network: Network) -> None:
    arrived, leave = threading.Event(), threading.Event()
    server.reply = lambda _handler, _body: (arrived.set(), leave.wait(60), None)[2]
    failures: list[Exception] = []

    def ask() -> None:
        try:
            network.get(server.url, LIMITS)
        except UpstreamUnavailable as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert arrived.wait(60)
    network.close()
    thread.join(10)
    leave.set()
    assert [str(failure) for failure in failures] == ["the node is stopping"]
    with pytest.raises(UpstreamUnavailable, match="the node is stopping"):
        network.get(server.url, LIMITS)
    network.close()


def test_a_proxy_of_the_environment_is_asked_for_other_machines_only(
    server: Server, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("http_proxy", server.url)
    assert network.get("http://node.invalid/x", LIMITS).body == b"hello"
    assert server.asked[0].path == "http://node.invalid/x"
    network.get(server.url + "/y", LIMITS)
    assert server.asked[1].path == "/y"
    monkeypatch.setenv("NO_PROXY", "node.invalid")
    monkeypatch.setenv("no_proxy", "node.invalid")
    with Network() as other, pytest.raises(UpstreamUnavailable):
        other.get("http://node.invalid/x", LIMITS)
