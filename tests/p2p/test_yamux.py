"""Streams over one connection: windows, ends, and peers that do not keep to them."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.errors import PeerFault
from fastnode.p2p.transport.limits import Limits
from fastnode.p2p.transport.multistream import Selection
from fastnode.p2p.transport.yamux import Ended, Event, Muxer, Opened, Received, Reset, RoomMade

WINDOW = 256 * 1024


def frame(kind: int, flags: int, stream: int, number: int, payload: bytes = b"") -> bytes:
    return struct.pack(">BBHII", 0, kind, flags, stream, number) + payload


class Pair:
    def __init__(self, limits: Limits | None = None) -> None:
        self.dialer, self.listener = (
            Muxer(limits or Limits(), is_dialer=True),
            Muxer(limits or Limits(), is_dialer=False),
        )

    def exchange(self) -> tuple[list[Event], list[Event]]:
        """What each of them sees of what the other has sent."""
        seen: tuple[list[Event], list[Event]] = ([], [])
        while self.dialer.output or self.listener.output:
            for sender, receiver, events in (
                (self.dialer, self.listener, seen[1]),
                (self.listener, self.dialer, seen[0]),
            ):
                data = bytes(sender.output)
                sender.output.clear()
                events += receiver.receive(data, 0)
        return seen


def test_what_is_written_is_read_in_the_same_chunks_and_then_ends() -> None:
    pair = Pair()
    stream = pair.dialer.open()
    assert pair.dialer.send(stream, b"request") == 7
    pair.dialer.finish(stream)
    assert pair.exchange()[1] == [Opened(stream), Received(stream, b"request"), Ended(stream)]
    pair.listener.consumed(stream, 7)
    assert pair.listener.send(stream, b"\0") == 1
    assert pair.listener.send(stream, b"answer") == 6
    pair.listener.finish(stream)
    assert pair.exchange()[0] == [Received(stream, b"\0"), Received(stream, b"answer"), Ended(stream)]
    pair.dialer.consumed(stream, 7)
    assert pair.dialer.held_bytes == pair.listener.held_bytes == 0


def test_nobody_sends_more_than_the_window_until_it_is_read() -> None:
    pair = Pair()
    stream = pair.dialer.open()
    sent = 0
    while count := pair.dialer.send(stream, bytes(WINDOW)):
        sent += count
    assert sent == WINDOW
    pair.exchange()
    assert pair.listener.held_bytes == WINDOW
    assert pair.dialer.send(stream, b"x") == 0
    pair.listener.consumed(stream, WINDOW)
    assert pair.exchange()[0] == [RoomMade(stream)]
    assert pair.dialer.room(stream) == WINDOW


@pytest.mark.parametrize(
    "data",
    [
        frame(1, 1, 2, 0),  # a number of ours
        frame(1, 1, 0, 0),
        frame(1, 1, 1, 0) * 2,
        frame(1, 1, 1, 0) + frame(0, 0, 1, 256 * 1024, bytes(256 * 1024)) + frame(0, 0, 1, 1, b"x"),
        frame(1, 1, 1, 0) + frame(0, 4, 1, 0) + frame(0, 0, 1, 1, b"x"),  # data behind the end
        frame(1, 1, 1, 0) + frame(1, 0, 1, (1 << 32) - 1) * 2,
        frame(0, 0, 1, 256 * 1024 + 1),
        frame(2, 1, 0, 7) * 11,
        b"".join(frame(1, 1, number, 0) for number in range(1, 400, 2)),
        b"\1" + bytes(11),
    ],
)
def test_a_peer_that_breaks_the_rules_ends_the_connection(data: bytes) -> None:
    with pytest.raises(PeerFault, match="yamux"):
        list(Muxer(Limits(), is_dialer=False).receive(data, 0))


def test_a_ping_is_answered_and_what_was_given_up_is_ignored() -> None:
    muxer = Muxer(Limits(), is_dialer=False)
    assert list(muxer.receive(frame(2, 1, 0, 7) + frame(0, 0, 9, 1, b"x"), 0)) == []
    assert bytes(muxer.output) == frame(2, 2, 0, 7)
    assert list(muxer.receive(frame(1, 1, 1, 0) + frame(1, 8, 1, 0), 0)) == [Opened(1), Reset(1)]
    assert muxer.room(1) == 0


@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=5))
def test_it_does_not_matter_how_bytes_arrive(data: bytes, cuts: list[int]) -> None:
    data = frame(1, 1, 1, 0) + frame(0, 0, 1, len(data), data) + frame(0, 4, 1, 0)
    whole = list(Muxer(Limits(), is_dialer=False).receive(data, 0))
    muxer, pieces, events = Muxer(Limits(), is_dialer=False), sorted({0, len(data), *cuts}), []
    for start, end in pairwise(pieces):
        events += muxer.receive(data[start:end], 0)
    assert events == whole


def agreed(dialer: Selection, listener: Selection) -> None:
    to_listener, to_dialer = dialer.begin(), b""
    for _ in range(5):
        to_dialer = listener.receive(to_listener)
        to_listener = dialer.receive(to_dialer)


def test_both_sides_agree_on_a_protocol_and_what_comes_behind_is_kept() -> None:
    dialer, listener = Selection(["/a"], is_dialer=True), Selection(["/b", "/a"], is_dialer=False)
    listener_says = listener.receive(dialer.begin() + b"rest")
    assert (listener.chosen, listener.rest) == ("/a", b"rest")
    assert dialer.receive(listener_says) == b""
    assert dialer.chosen == "/a"


def test_without_a_common_protocol_there_is_none() -> None:
    with pytest.raises(PeerFault, match="does not speak /a"):
        agreed(Selection(["/a"], is_dialer=True), Selection(["/b"], is_dialer=False))


@pytest.mark.parametrize(
    "data", [b"\x03/x\n", b"\xff\xff\x7f", b"\x05abcde", b"\x13/multistream/1.0.0\n" + b"\x03/x\n" * 30]
)
def test_what_is_no_negotiation_ends_it(data: bytes) -> None:
    with pytest.raises(PeerFault, match="multistream"):
        Selection(["/a"], is_dialer=False).receive(data)


@pytest.mark.parametrize("frames", [frame(1, 0, 9, 1), frame(0, 0, 1, 1, b"x")], ids=["empty", "of one byte"])
def test_frames_without_end_are_too_many_however_small_they_are(frames: bytes) -> None:
    muxer = Muxer(Limits(frames_per_s_max=1000), is_dialer=False)
    list(muxer.receive(frame(1, 1, 1, 0), 0.0))
    for second in range(3):  # 1000 a second are taken
        list(muxer.receive(frames * 999, 1.0 + second))
    with pytest.raises(PeerFault, match="too many frames"):
        list(muxer.receive(frames * 999, 3.9))
