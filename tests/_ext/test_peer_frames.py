"""Bytes of peers, cut into pieces."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.kernels import peer_frames
from fastnode.p2p.gossip import wire as gossip_wire
from fastnode.p2p.transport.encoding import protobuf

MAXIMA = {"items_max": 100, "ids_max": 100, "topic_bytes_max": 50}


@given(value=st.integers(0, (1 << 64) - 1))
def test_a_number_is_read_as_it_was_written(value: int) -> None:
    data = peer_frames.write_varint(value)
    assert peer_frames.read_varint(b"x" + data + b"y", 1) == (value, 1 + len(data))
    assert all(peer_frames.read_varint(data[:size], 0) is None for size in range(len(data)))


@pytest.mark.parametrize("data", [b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x00", b"\xff" * 40])
def test_a_number_of_more_than_64_bits_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="more than 64 bits"):
        peer_frames.read_varint(data, 0)


@pytest.mark.parametrize("value", [-1, 1 << 64, None])
def test_what_is_no_such_number_is_not_written(value: Any) -> None:
    with pytest.raises(ValueError, match="no unsigned number"):
        peer_frames.write_varint(value)


@pytest.mark.parametrize("at", [-1, 4])
def test_an_offset_outside_is_refused(at: int) -> None:
    for call in (
        lambda: peer_frames.read_varint(b"abc", at),
        lambda: peer_frames.sealed_messages(b"abc", at, 1),
        lambda: peer_frames.delimited_messages(b"abc", at, 1, 1),
        lambda: peer_frames.yamux_frames(b"abc", at, 1, 1),
    ):
        with pytest.raises(ValueError, match="outside of the data"):
            call()


@given(messages=st.lists(st.binary(max_size=300), max_size=5), rest=st.integers(0, 301))
def test_complete_messages_are_found_and_the_rest_is_left(messages: list[bytes], rest: int) -> None:
    sealed = b"".join(len(message).to_bytes(2, "big") + message for message in messages)
    assert peer_frames.sealed_messages(sealed, 0, 99) == (messages, len(sealed))
    tail = ((rest + 1).to_bytes(2, "big") + bytes(rest))[: rest + 1]
    assert peer_frames.sealed_messages(sealed + tail, 0, 99) == (messages, len(sealed))
    delimited = b"".join(peer_frames.write_varint(len(message)) + message for message in messages)
    assert peer_frames.delimited_messages(delimited, 0, 300, 99) == (messages, len(delimited))
    assert peer_frames.delimited_messages(delimited, 0, 300, 1)[0] == messages[:1]


def test_a_message_that_is_too_long_is_refused_before_it_is_there() -> None:
    with pytest.raises(ValueError, match="longer than allowed"):
        peer_frames.delimited_messages(peer_frames.write_varint(301), 0, 300, 9)
    with pytest.raises(ValueError, match="longer than allowed"):
        peer_frames.yamux_frames(struct.pack(">BBHII", 0, 0, 0, 1, 301), 0, 300, 9)


def test_frames_of_yamux_are_told_apart() -> None:
    data = struct.pack(">BBHII", 0, 1, 1, 7, 5) + struct.pack(">BBHII", 0, 0, 4, 7, 3) + b"abc" + b"\0\2"
    assert peer_frames.yamux_frames(data, 0, 300, 9) == ([(1, 1, 7, 5, b""), (0, 4, 7, 3, b"abc")], len(data) - 2)
    for wrong in (b"\1\0", b"\0\4"):
        with pytest.raises(ValueError, match="no frame of yamux"):
            peer_frames.yamux_frames(wrong + bytes(10), 0, 300, 9)


def test_fields_of_protobuf_come_in_order() -> None:
    data = protobuf((1, 5), (2, b"ab"), (1, 300)) + b"\x19" + bytes(8) + b"\x25abcd"
    assert peer_frames.read_fields(data, 9) == [(1, 5), (2, b"ab"), (1, 300), (3, bytes(8)), (4, b"abcd")]
    with pytest.raises(ValueError, match="more fields"):
        peer_frames.read_fields(data, 4)


@pytest.mark.parametrize("data", [b"\x00", b"\x0b", b"\x12\x05ab", b"\x08", b"\x12", b"\x09abc", b"\xff" * 12])
def test_what_is_no_protobuf_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="protobuf"):
        peer_frames.read_fields(data, 9)


def test_a_message_of_gossip_is_taken_apart() -> None:
    rpc = (
        gossip_wire.subscriptions(["one", "two"])
        + gossip_wire.message("one", b"content")
        + gossip_wire.control(gossip_wire.ihave("one", [b"a", b"b"]), gossip_wire.iwant([b"c"]))
        + gossip_wire.control(gossip_wire.graft("one"), gossip_wire.prune("two"))
    )
    assert peer_frames.read_rpc(rpc, **MAXIMA) == (
        [(True, b"one"), (True, b"two")],
        [(b"one", b"content", True)],
        [(b"one", [b"a", b"b"])],
        [b"c"],
        [b"one"],
        [(b"two", 60)],
        0,
    )


@pytest.mark.parametrize("field", [1, 3, 5, 6])
def test_a_message_with_an_author_a_number_or_a_signature_is_not_bare(field: int) -> None:
    rpc = protobuf((2, protobuf((2, b"content"), (4, "one"), (field, b"x"))))
    assert peer_frames.read_rpc(rpc, **MAXIMA)[1] == [(b"one", b"content", False)]


def test_what_is_too_much_is_left_out_and_counted() -> None:
    maxima = {"items_max": 2, "ids_max": 3, "topic_bytes_max": 3}
    many = [bytes([n]) for n in range(5)]
    rpc = gossip_wire.subscriptions(["a", "b", "c", "long"]) + gossip_wire.control(gossip_wire.ihave("a", many))
    found = peer_frames.read_rpc(rpc, **maxima)
    assert found[0] == [(True, b"a"), (True, b"b")]
    assert found[2] == [(b"a", many[:3])]
    assert found[-1] == 4
