"""One connection without a socket: bytes are fed, and bytes are read."""

from __future__ import annotations

import ast
import re
from collections.abc import Coroutine
from http import HTTPStatus
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest

from fastnode.errors import NodeBusy
from fastnode.http import connection, stream
from fastnode.http.allowance import Allowance, MemoryBudget, Party
from fastnode.http.limits import Limits
from fastnode.http.messages import CONTINUE, Refusal, Request, Response, ResponseWriter
from fastnode.http.meters import Traffic
from fastnode.http.stream import LINGER_BYTES_MAX, WRITTEN_BYTES, HttpStream, Next, Slot
from fastnode.serving import server

ENDLESS_NS = 10**18
LIMITS = Limits(body_bytes_max=100_000, head_bytes_max=1_000, pipelined_calls_max=3, write_buffer_bytes_max=10_000)
_ANSWER = re.compile(rb"HTTP/1\.1 (\d+) [^\r]*\r\n(.*?)\r\n\r\n", re.DOTALL)


class Client:
    """A stream with an application that answers with what it was asked, and the far end of it.

    What is asked of ``/later`` is answered when the test says so; of ``/large``, with so many bytes; of ``/endless``,
    with a head, behind which the connection is somebody else's.
    """

    guard = None

    def __init__(self) -> None:
        self.started: list[Slot] = []
        self.asked: list[bytes] = []
        self.received = b""
        self.party = Party()
        self.stream = HttpStream(LIMITS, self, ResponseWriter(65.0), Traffic(), self.party, self._start)

    def on_request(self, request: Request, allowance: Allowance) -> Response | Coroutine[Any, Any, Response]:
        self.asked.append(request.body)
        if request.target == b"/later":
            return self._later()
        if request.target == b"/endless":
            return Response(HTTPStatus.OK, b"", None, lambda transport, before: lambda: None)
        body = b"x" * int(request.body) if request.target == b"/large" else request.body
        return Response(HTTPStatus.OK, b"", body)

    def on_refusal(self, refusal: Refusal) -> Response:
        return Response(refusal.status, b"", refusal.reason.encode())

    async def _later(self) -> Response:
        raise AssertionError("nobody runs it here")

    def _start(self, slot: Slot, answer: Coroutine[Any, Any, Response]) -> None:
        answer.close()
        self.started.append(slot)

    def answer_later(self, number: int, body: bytes | None) -> None:
        response = None if body is None else Response(HTTPStatus.OK, b"", body)
        self.stream.finish(self.started[number], response)

    def write(self) -> None:
        self.received += b"".join(self.stream.take_output())
        self.stream.note_written()

    def go_on(self) -> Next:
        """As a connection does that has all the time."""
        self.stream.advance(ENDLESS_NS)
        self.write()
        while self.stream.can_advance():
            self.stream.advance(ENDLESS_NS)
            self.write()
        return self.stream.settle()

    def send(self, data: bytes) -> Next:
        self.stream.receive(data)
        return self.go_on()

    def answers(self) -> list[tuple[int, bytes]]:
        """Status and body of all that has come."""
        found, rest = [], self.received
        while (head := _ANSWER.match(rest)) is not None:
            length = re.search(rb"Content-Length: (\d+)", head[2])
            end = head.end() + (0 if length is None else int(length[1]))
            found.append((int(head[1]), rest[head.end() : end]))
            rest = rest[end:]
        assert rest == b""
        return found


@pytest.fixture
def client() -> Client:
    return Client()


def post(body: bytes, *lines: bytes, target: bytes = b"/") -> bytes:
    head = b"\r\n".join((b"POST %b HTTP/1.1" % target, b"Host: a", b"Content-Length: %d" % len(body), *lines))
    return head + b"\r\n\r\n" + body


def test_a_stream_knows_no_loop_and_no_socket() -> None:
    names = set()
    for node in ast.walk(ast.parse(Path(stream.__file__).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    assert not names & {"asyncio", "socket", "uvloop", "ssl", "select", "selectors"}


def test_nothing_inherits_a_connection() -> None:
    assert server.HttpConnection is connection.HttpConnection
    assert connection.HttpConnection.__subclasses__() == HttpStream.__subclasses__() == []


CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"


@pytest.mark.parametrize("request_bytes", [post(b"first"), CHUNKED, post(b"5", target=b"/large")])
def test_a_request_split_at_every_byte_is_answered_once(request_bytes: bytes) -> None:
    whole = Client()
    assert whole.send(request_bytes * 2) is Next.DATA
    for place in range(1, len(request_bytes) * 2):
        client = Client()
        for piece in ((request_bytes * 2)[:place], (request_bytes * 2)[place:]):
            assert client.send(piece) is Next.DATA
        assert client.answers() == whole.answers()
        assert client.asked == whole.asked
        assert len(client.asked) == 2


def test_bytes_that_come_one_by_one_are_answered_once_each_request(client: Client) -> None:
    for number in range(5):
        for byte in post(b"%d" % number):
            client.send(bytes([byte]))
    assert client.answers() == [(200, b"%d" % number) for number in range(5)]


def test_an_end_of_the_time_leaves_the_rest_for_the_next_turn(client: Client) -> None:
    client.stream.receive(b"".join(post(b"%d" % number) for number in range(3)))
    client.stream.advance(monotonic_ns() - 1)
    assert not client.asked
    assert client.stream.settle() is Next.TURN
    client.stream.advance(monotonic_ns() - 1)
    assert client.asked == [b"0"]
    assert client.stream.settle() is Next.TURN
    assert client.go_on() is Next.DATA
    assert client.asked == [b"0", b"1", b"2"]


# ---- order ---------------------------------------------------------------------------------------


def test_answers_leave_in_the_order_of_the_requests(client: Client) -> None:
    later = post(b"", target=b"/later")
    assert client.send(post(b"a") + later + post(b"b") + later + post(b"c")) is Next.DATA
    assert client.answers() == [(200, b"a")]
    client.answer_later(1, b"second")
    client.go_on()
    assert client.answers() == [(200, b"a")]
    client.answer_later(0, b"first")
    client.go_on()
    assert [body for _, body in client.answers()] == [b"a", b"first", b"b", b"second", b"c"]
    assert not client.stream.is_busy()


def test_an_answer_that_cannot_be_made_is_an_error_in_its_place(client: Client) -> None:
    client.send(post(b"", target=b"/later") + post(b"b"))
    client.answer_later(0, None)
    client.go_on()
    assert [status for status, _ in client.answers()] == [500, 200]


def test_no_more_requests_are_worked_on_than_the_limit(client: Client) -> None:
    assert client.send(post(b"", target=b"/later") * 5 + post(b"b")) is Next.CLIENT
    assert len(client.started) == LIMITS.pipelined_calls_max
    for number in range(5):
        client.answer_later(number, b"%d" % number)
        client.go_on()
    assert [body for _, body in client.answers()] == [b"0", b"1", b"2", b"3", b"4", b"b"]


def test_answers_that_are_held_back_are_so_many_and_no_more(client: Client) -> None:
    large = post(b"4000", target=b"/large")
    assert client.send(post(b"", target=b"/later") + large * 20) is Next.CLIENT
    assert client.stream.held_bytes <= LIMITS.write_buffer_bytes_max + 4_000
    client.answer_later(0, b"first")
    assert client.go_on() is Next.DATA
    assert len(client.answers()) == 21


def test_nothing_is_written_behind_an_answer_without_an_end(client: Client) -> None:
    """Not even what was asked and answered while an earlier answer held both back."""
    client.party.budget = MemoryBudget(200_000)
    asked = post(b"", target=b"/later") + post(b"", target=b"/endless") + post(b"late" * 1_000)
    client.send(asked + post(b"", target=b"/later") + post(b"later still"))
    client.answer_later(0, b"first")
    assert client.go_on() is Next.STREAM
    client.stream.begin = None  # as a connection does that has begun with it
    client.answer_later(1, b"too late")
    client.write()
    head = client.received.partition(b"first")[2]
    assert head.count(b"HTTP/1.1") == 1
    assert head.endswith(b"\r\n\r\n")
    assert client.party.budget.used_bytes == 0


# ---- clients that do not take ----------------------------------------------------------------------


def test_nothing_is_answered_while_the_client_takes_nothing(client: Client) -> None:
    client.stream.is_paused = True
    assert client.send(post(b"a")) is Next.CLIENT
    assert client.asked == []
    client.stream.is_paused = False
    assert client.go_on() is Next.DATA
    assert client.answers() == [(200, b"a")]


def test_a_large_answer_is_taken_in_parts_and_those_behind_it_wait(client: Client) -> None:
    size = 3 * WRITTEN_BYTES
    assert client.send(post(b"%d" % size, target=b"/large") + post(b"b")) is Next.TURN
    assert len(client.received) == WRITTEN_BYTES
    client.stream.is_paused = True
    client.write()
    assert len(client.received) == WRITTEN_BYTES
    client.stream.is_paused = False
    turns = 0
    while client.stream.settle() is Next.TURN:
        client.write()
        client.go_on()
        turns += 1
    assert turns >= 2
    assert client.answers() == [(200, b"x" * size), (200, b"b")]


def test_memory_is_given_back_when_an_answer_is_written_or_its_connection_goes(client: Client) -> None:
    client.party.budget = MemoryBudget(200_000)
    client.send(post(b"y" * 50_000) * 3)
    client.send(post(b"z" * 50_000, target=b"/later") + post(b"w" * 90_000)[:-1])
    with pytest.raises(NodeBusy):
        client.party.budget.take(100_000)
    client.stream.close()
    client.answer_later(0, b"too late")
    client.party.budget.take(200_000)


# ---- ends ------------------------------------------------------------------------------------------


def test_after_a_refusal_nothing_is_read_and_the_rest_is_dropped(client: Client) -> None:
    assert client.send(post(b"a") + b"nonsense\r\n\r\n" + post(b"b")) is Next.LINGER
    assert [status for status, _ in client.answers()] == [200, 400]
    assert client.asked == [b"a"]
    assert client.stream.drop(LINGER_BYTES_MAX)
    assert not client.stream.drop(1)


def test_a_time_out_is_answered_behind_what_came_before(client: Client) -> None:
    assert client.send(post(b"", target=b"/later") + post(b"abc")[:-1]) is Next.DATA
    client.stream.refuse(HTTPStatus.REQUEST_TIMEOUT, "too slow")
    client.go_on()
    client.answer_later(0, b"first")
    assert client.go_on() is Next.LINGER
    assert client.answers() == [(200, b"first"), (408, b"too slow")]


def test_a_client_that_ends_its_side_gets_what_it_asked_for(client: Client) -> None:
    client.send(post(b"", target=b"/later"))
    client.stream.has_ended = True
    assert client.go_on() is Next.DATA
    client.answer_later(0, b"first")
    assert client.go_on() is Next.CLOSE
    assert client.answers() == [(200, b"first")]


def test_a_server_that_stops_says_so_with_the_last_answer(client: Client) -> None:
    client.send(post(b"a"))
    client.send(post(b"b")[:-1])
    client.stream.is_draining = True
    assert client.send(b"b") is Next.CLOSE
    assert client.received.count(b"Connection: close") == 1
    assert client.received.endswith(b"b")


def test_a_request_for_a_go_ahead_behind_a_large_answer_is_counted_too(client: Client) -> None:
    size = 2 * WRITTEN_BYTES
    expecting = post(b"abc", b"Expect: 100-continue").removesuffix(b"abc")
    assert client.send(post(b"%d" % size, target=b"/large") + expecting) is Next.TURN
    while client.stream.settle() is Next.TURN:
        client.write()
    assert client.received.endswith(CONTINUE)
    assert client.stream.outgoing_bytes == 0
    assert client.stream.written_bytes == len(client.received)


def test_a_request_that_closes_the_connection_is_the_last_one(client: Client) -> None:
    assert client.send(post(b"a", b"Connection: close") + post(b"b")) is Next.LINGER
    assert client.answers() == [(200, b"a")]


def test_a_client_that_waits_to_send_its_body_is_told_to(client: Client) -> None:
    request = post(b"abc", b"Expect: 100-continue")
    client.send(request[:-3])
    assert client.received == CONTINUE
    client.send(request[-3:])
    client.received = client.received.removeprefix(CONTINUE)
    assert client.answers() == [(200, b"abc")]
