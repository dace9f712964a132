"""The receiver of a connection: what it answers by itself, and what it hands on."""

from __future__ import annotations

import contextlib
import gc
import socket
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests._ext.test_simple_request import ASKED, make_reader, results_of
from tests.serving.sockets import post

from fastnode.kernels import call_meter, fast_connection, loop_time, simple_request

ANSWER = b'HEAD 35 END {"jsonrpc":"2.0","id":1,"result":7}'
BYTES_MAX = 5000


def test_sockets_that_do_not_take_all_of_a_text_are_told() -> None:
    pairs = [socket.socketpair() for _ in range(4)]
    for ours, _ in pairs:
        ours.setblocking(False)
    full, gone = pairs[1][0], pairs[2]
    with contextlib.suppress(BlockingIOError):
        while True:
            full.send(bytes(1 << 16))
    gone[1].close()
    text = b"event" * 20
    descriptors = [ours.fileno() for ours, _ in pairs]
    assert fast_connection.write_each(descriptors, text) == [(1, 0), (2, 0)]
    assert [pairs[place][1].recv(1000) for place in (0, 3)] == [text, text]
    large = bytes(1 << 22)
    [(place, taken)] = fast_connection.write_each(descriptors[:1], large)
    assert place == 0
    assert 0 < taken < len(large)
    assert fast_connection.write_each([], text) == []
    assert fast_connection.write_each([-1], text) == [(0, 0)]
    with pytest.raises(ValueError, match="257 sockets, more than 256"):
        fast_connection.write_each([-1] * (fast_connection.WRITTEN_TO_MAX + 1), text)
    for pair in pairs:
        for end in pair:
            end.close()


class Wire:
    """A transport that may fill up."""

    def __init__(self) -> None:
        self.receiver: Any = None
        self.written: list[bytes | list[bytes]] = []
        self.is_full = False

    def write(self, data: bytes) -> None:
        self.written.append(data)
        if self.is_full:
            self.receiver.is_resting = False

    def writelines(self, chunks: Sequence[bytes]) -> None:
        self.written.append(list(chunks))


class Connection:
    def __init__(self, **options: Any) -> None:
        self.requests = make_reader(**options)
        self.traffic = call_meter.Traffic()
        self.wire = Wire()
        self.handed_on: list[Any] = []
        self.loop_time = loop_time.LoopTime(1_000_000_000, 1_000_000_000)
        self.share = loop_time.Share()
        self.receiver = fast_connection.Receiver(
            self.requests,
            self.traffic,
            BYTES_MAX,
            self.loop_time,
            self.share,
            bytearray(1000),
            bytearray(100),
        )
        self.wire.receiver = self.receiver
        self.receiver.open(self, self.wire)
        self.receiver.is_resting = True

    def receive(self, data: bytes) -> None:
        self.handed_on.append(data)

    def receive_rest(self, data: bytes, answers: Any, view: Any, started_ns: int) -> None:
        self.handed_on.append((data, answers, view))

    def settle(self) -> None:
        self.handed_on.append("settle")


def test_a_burst_of_usual_requests_is_answered_with_one_write() -> None:
    connection = Connection()
    receiver, burst = connection.receiver, post(ASKED) * 3
    begun_ns = time.monotonic_ns()
    receiver.receive(burst)
    assert connection.wire.written == [ANSWER * 3]
    assert (receiver.begun, receiver.written_bytes) == (3, 3 * len(ANSWER))
    first_ns = receiver.active_ns
    assert begun_ns <= first_ns <= time.monotonic_ns()
    assert (connection.traffic.received_bytes, connection.traffic.sent_bytes) == (len(burst), 3 * len(ANSWER))
    receiver.receive(post(ASKED))
    assert (receiver.begun, receiver.is_resting) == (4, True)
    assert first_ns < receiver.active_ns <= time.monotonic_ns()
    assert connection.handed_on == []


def test_what_is_not_answered_to_its_end_is_handed_on() -> None:
    connection = Connection(source=lambda: "the view")
    for data, answers in (
        (post(ASKED)[:-1], None),
        (post(ASKED) + b"G", ANSWER),
        (b"", None),
        (post(b'{"method":"other","id":1}'), None),
        (post(ASKED) * 200, ANSWER * (BYTES_MAX // len(ANSWER) + 1)),
    ):
        connection.receiver.receive(data)
        assert connection.handed_on.pop() == (data, answers, "the view")
    assert connection.wire.written == []
    assert (connection.receiver.begun, connection.traffic.received_bytes) == (0, 0)


def test_data_goes_elsewhere_while_the_connection_does_not_rest() -> None:
    connection = Connection()
    connection.receiver.is_resting = False
    connection.receiver.receive(b"1")
    connection.receiver.is_resting = True
    connection.requests.is_open = False
    connection.receiver.receive(b"2")
    assert connection.handed_on == [b"1", b"2"]


def test_a_write_that_ends_the_rest_is_followed_up() -> None:
    connection = Connection()
    connection.wire.is_full = True
    connection.receiver.receive(post(ASKED))
    assert connection.wire.written == [ANSWER]
    assert connection.handed_on == ["settle"]


def test_a_large_result_is_written_as_it_is() -> None:
    results = results_of(result_bytes_max=100_000)
    connection = Connection(results=results)
    large = b'"%b"' % (b"x" * 70_000)
    results.keep("node_getNodeInfo", None, large)
    connection.receiver.receive(post(ASKED) + post(b'{"id":2,"method":"node_getNodeInfo"}') + post(ASKED))
    # Data beyond one burst is the connection's: the large answer ended it.
    [(_, answers, _)] = connection.handed_on
    assert [len(chunk) for chunk in answers][1] == len(large)
    assert answers[1] is large
    assert b"".join(answers) == ANSWER + b'HEAD %d END {"jsonrpc":"2.0","id":2,"result":%b}' % (len(large) + 34, large)
    connection.receiver.receive(post(b'{"id":2,"method":"node_getNodeInfo"}'))
    assert connection.wire.written[0][1] is large


class SocketWire(Wire):
    """A transport with a socket; ``held`` bytes of it wait."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__()
        self.socket = connected
        self.held = 0
        self.is_closed = False
        self.asked = 0

    def get_write_buffer_size(self) -> int:
        self.asked += 1
        return self.held

    def is_closing(self) -> bool:
        return self.is_closed


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    here.setblocking(False)
    there.setblocking(False)
    with here, there:
        yield here, there


def test_answers_go_straight_to_the_system_while_the_transport_holds_nothing(pair: Any) -> None:
    here, there = pair
    connection, wire = Connection(), SocketWire(here)
    receiver = connection.receiver
    receiver.open(connection, wire, here.fileno())
    for _ in range(3):
        receiver.receive(post(ASKED))
    assert there.recv(1000) == ANSWER * 3
    assert (wire.written, wire.asked, receiver.written_bytes) == ([], 1, 3 * len(ANSWER))
    # After anything else may have written, the transport is asked again.
    receiver.wake()
    assert not receiver.is_resting
    receiver.is_resting, wire.held = True, 1
    receiver.receive(post(ASKED))
    assert (wire.written, wire.asked) == ([ANSWER], 2)
    wire.held = 0
    receiver.receive(post(ASKED))
    assert there.recv(1000) == ANSWER


def test_what_the_system_does_not_take_is_the_transports(pair: Any) -> None:
    here, there = pair
    connection, wire = Connection(), SocketWire(here)
    connection.receiver.open(connection, wire, here.fileno())
    burst = post(ASKED) * (BYTES_MAX // len(ANSWER))
    count = 0
    while not wire.written:
        connection.receiver.receive(burst)
        count += 1
    received = bytearray()
    with contextlib.suppress(BlockingIOError):
        while True:
            received += there.recv(1 << 20)
    # Taken and remaining data are one text, without a gap.
    assert received + wire.written[0] == ANSWER * (BYTES_MAX // len(ANSWER)) * count
    # From now on nothing overtakes what the transport holds.
    wire.held = 1
    connection.receiver.receive(post(ASKED))
    assert wire.written[1] == ANSWER


def test_a_socket_that_is_closing_is_not_written_to(pair: Any) -> None:
    here, there = pair
    connection, wire = Connection(), SocketWire(here)
    connection.receiver.open(connection, wire, here.fileno())
    wire.is_closed = True
    connection.receiver.receive(post(ASKED))
    assert wire.written == [ANSWER]
    with pytest.raises(BlockingIOError):
        there.recv(1)


def test_a_client_that_has_gone_is_the_transports(pair: Any) -> None:
    here, there = pair
    connection, wire = Connection(), SocketWire(here)
    connection.receiver.open(connection, wire, here.fileno())
    there.close()
    connection.receiver.receive(post(ASKED))
    assert wire.written == [ANSWER]


def test_a_closed_receiver_lets_go_of_its_connection() -> None:
    connection = Connection()
    receiver, gone = connection.receiver, weakref.ref(connection)
    receiver.close()
    receiver.receive(post(ASKED))
    assert not receiver.is_resting
    gc.disable()
    try:
        del connection
        assert gone() is None
    finally:
        gc.enable()


def test_what_is_published_has_a_version() -> None:
    published = simple_request.Published("first")
    assert (published(), published.value, published.version) == ("first", "first", 0)
    published.publish("second")
    assert (published(), published.value, published.version) == ("second", "second", 1)


def test_a_view_is_renewed_once_for_each_version() -> None:
    published = simple_request.Published("first")
    renewed: list[str] = []
    connection = Connection(source=published, renew=renewed.append)
    for _ in range(2):
        connection.receiver.receive(post(ASKED))
    published.publish("second")
    for _ in range(2):
        connection.receiver.receive(post(ASKED))
    assert renewed == ["first", "second"]


def test_what_is_read_goes_into_little_while_others_wait_unless_it_is_the_connections_turn() -> None:
    connection = Connection()
    receiver, request = connection.receiver, post(ASKED)

    def read(data: bytes) -> int:
        buffer = receiver.get_buffer(65536)
        size = len(buffer)
        count = min(size, len(data))
        buffer[:count] = data[:count]
        receiver.buffer_updated(count)
        return size

    assert read(request) == 1000
    assert connection.wire.written == [ANSWER]
    connection.loop_time.is_crowded = True
    assert read(request) == 100
    assert connection.handed_on == [request[:100]]
    receiver.has_turn = True
    assert [read(request), read(request)] == [1000, 100]
    with pytest.raises(ValueError, match="101 bytes in a buffer of 100"):
        receiver.buffer_updated(101)
