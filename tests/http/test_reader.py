"""The reader without a socket: whatever the pieces, the requests are the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.http.limits import Limits
from fastnode.http.messages import Refusal, Request
from fastnode.http.reader import ReadState, RequestReader

LIMITS = Limits(body_bytes_max=1_000, head_bytes_max=500, headers_max=10)

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n"
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
PLAIN = HEAD + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: 1\r\n\r\n"
REPEATED_HEADER = b"GET /status HTTP/1.1\r\nhost:a\r\nX: 1\r\nx: 2\r\n\r\n"
CLOSING = HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nok" + GET
WAITING = HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nok"
STREAMS = [
    PLAIN,
    CHUNKED,
    REPEATED_HEADER * 3,
    b"\r\nGET / HTTP/1.0\r\n\r\n",
    HEAD + b"Upgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nok" + GET,
    CLOSING,
    HEAD + b"Content-Length: 2\r\n\r\nokGARBAGE",
    HEAD + b"Content-Length: 1001\r\n\r\n",
    WAITING,
]


def read(*pieces: bytes) -> tuple[list[Request | Refusal], RequestReader]:
    reader = RequestReader(LIMITS)
    for piece in pieces:
        reader.feed(piece)
    return list(reader.arrived), reader


def verdicts(arrived: list[Request | Refusal]) -> list[Request | int]:
    return [item.status if isinstance(item, Refusal) else item for item in arrived]


@given(stream=st.sampled_from(STREAMS), cuts=st.lists(st.integers(0, 200), max_size=8))
def test_pieces_make_no_difference(stream: bytes, cuts: list[int]) -> None:
    whole, _ = read(stream)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(edges)]
    assert verdicts(read(*pieces)[0]) == verdicts(whole)
    assert verdicts(read(*(bytes([byte]) for byte in stream))[0]) == verdicts(whole)


def test_many_requests_from_the_middle_of_a_head_to_the_middle_of_another_are_no_large_head() -> None:
    """A read that is larger than a head may be: it ends one head, brings whole requests, and begins another."""
    stream = GET * 100
    cut = len(GET) * 50 + 7
    arrived, reader = read(stream[:5], stream[5:cut], stream[cut:])
    assert len(stream[5:cut]) > LIMITS.head_bytes_max
    assert [type(item) for item in arrived] == [Request] * 100
    assert reader.state is ReadState.IDLE


@given(stream=st.binary(max_size=300) | st.sampled_from(STREAMS), change=st.integers(0, 300), byte=st.integers(0, 255))
def test_no_bytes_break_the_reader(stream: bytes, change: int, byte: int) -> None:
    arrived, reader = read(stream[:change] + bytes([byte]) + stream[change + 1 :])
    refusals = [item for item in arrived if isinstance(item, Refusal)]
    assert len(refusals) <= 1
    if refusals:
        assert arrived[-1] is refusals[0]
        assert reader.state is ReadState.ENDED
        reader.feed(PLAIN)
        assert list(reader.arrived) == arrived


def test_equal_headers_are_joined_and_names_are_lower_case() -> None:
    [first, *_], _ = read(REPEATED_HEADER)
    assert isinstance(first, Request)
    assert first.headers == {b"host": b"a", b"x": b"1, 2"}


def test_a_trailer_is_no_header() -> None:
    [request], _ = read(CHUNKED)
    assert isinstance(request, Request)
    assert (request.body, b"trailer" in request.headers) == (b"hello", False)


@pytest.mark.parametrize(
    ("piece", "state"),
    [
        (b"", ReadState.IDLE),
        (b"P", ReadState.HEAD),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n", ReadState.BODY),
        (PLAIN, ReadState.IDLE),
        (CLOSING, ReadState.ENDED),
        (b"GARBAGE", ReadState.ENDED),
    ],
)
def test_the_state_says_what_is_waited_for(piece: bytes, state: ReadState) -> None:
    assert read(piece)[1].state is state


@pytest.mark.parametrize("piece_bytes", [1, 7, 100])
@pytest.mark.parametrize("line", [b"1;%b\r\n", b"1;name=%b\r\n", b'1;name="%b"\r\n'])
def test_chunk_extensions_are_bounded(line: bytes, piece_bytes: int) -> None:
    limits = replace(LIMITS, head_bytes_max=500)
    for each, count, is_refused in ((20, 10, False), (60, 20, True), (2000, 1, True)):
        reader = RequestReader(limits)
        chunks = (line % (b"e" * each) + b"x\r\n") * count
        data = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        for start in range(0, len(data), piece_bytes):
            reader.feed(data[start : start + piece_bytes])
        [item] = reader.arrived
        if is_refused:
            assert isinstance(item, Refusal)
            assert (item.status, "chunk extensions" in item.reason) == (413, True)
        else:
            assert isinstance(item, Request)
            assert item.body == b"x" * count


def test_small_chunks_alone_are_no_chunk_extensions() -> None:
    limits = replace(LIMITS, head_bytes_max=500)
    reader = RequestReader(limits)
    reader.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(1000):
        reader.feed(b"00001\r\nx\r\n")
    reader.feed(b"0\r\n\r\n")
    [item] = reader.arrived
    assert isinstance(item, Request)


def test_a_body_comes_in_so_many_chunks_and_no_more() -> None:
    """However few bytes they have: a client would otherwise keep the node reading long after it has gone."""
    limits = replace(LIMITS, body_chunks_max=3)
    for count, expected in ((2, b"xx"), (3, 413)):
        reader = RequestReader(limits)
        for _ in range(2):  # of each body, not of the connection
            reader.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * count + b"0\r\n\r\n")
        first = reader.arrived[0]
        assert (first.status if isinstance(first, Refusal) else first.body) == expected
        assert len(reader.arrived) == (2 if count == 2 else 1)


def test_an_idle_reader_holds_no_body() -> None:
    _, reader = read(PLAIN)
    reader.arrived.clear()
    body = reader._body
    assert (body.size, body._pieces, body._small_pieces, body.allowance) == (0, [], None, None)


def test_only_a_client_that_waits_is_told_to_continue() -> None:
    head, body = WAITING[:-2], WAITING[-2:]
    assert read(head)[1].awaits_continue
    assert not read(head, body[:1])[1].awaits_continue
    assert not read(head, body)[1].awaits_continue
    assert not read(head.replace(b"1.1", b"1.0"))[1].awaits_continue
    assert not read(head.replace(b"Length: 2", b"Length: 0"))[1].awaits_continue
