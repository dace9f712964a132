"""Bytes of peers, cut into pieces: frames, delimited messages, protobuf.

Each function gets untrusted bytes, and the most that it may make of them.  ValueError says that what
was sent makes no sense, or is larger than allowed; what is not complete yet is left for the next call.
"""

def read_varint(data: bytes, at: int) -> tuple[int, int] | None:
    """An unsigned number of at most 64 bits, seven bits a byte, lowest first; and the offset behind it.

    None: it is not complete.  ValueError: it has more than 64 bits.
    """

def write_varint(value: int) -> bytes:
    """The shortest form of an unsigned number of at most 64 bits; ValueError for another one."""

def sealed_messages(data: bytes, at: int, count_max: int) -> tuple[list[bytes], int]:
    """Messages of noise, each behind its length as two bytes, and the offset of the first one that is not complete."""

def delimited_messages(data: bytes, at: int, length_max: int, count_max: int) -> tuple[list[bytes], int]:
    """Messages behind their lengths as varints; ValueError for one that is longer than ``length_max``."""

def yamux_frames(
    data: bytes, at: int, payload_max: int, count_max: int
) -> tuple[list[tuple[int, int, int, int, bytes]], int]:
    """Complete frames as (type, flags, stream, number, payload), and the offset of the first one that is not.

    Frame: version 0 (1) | type 0 data, 1 window, 2 ping, 3 go away (1) | flags (2) | stream (4) | number (4), then a
    payload of that many bytes if it is data.  ValueError: another version or type, or too long a payload.
    """

def discovery_header(data: bytes) -> tuple[int, bytes, bytes, bytes, bytes, bytes, int]:
    """The head of a packet of discovery, unmasked: (flag, nonce, who sends it, and three more), and its length.

    Head: ``discv5`` (6) | version 1 (2) | flag (1) | nonce (12) | length of the rest (2), then for flag

        0 message       node id (32)
        1 challenge     id nonce (16) | sequence of the record that is known (8): the first two of the three
        2 handshake     node id (32) | 64 (1) | 33 (1) | signature (64) | ephemeral key (33) | record (0 to 300)

    ValueError: anything else, or not all of it.  What follows is not looked at.
    """

def read_fields(data: bytes, count_max: int) -> list[tuple[int, int | bytes]]:
    """The fields of a protobuf message as (number, value), in order; ValueError for more than ``count_max``."""

def read_rpc(
    data: bytes, *, items_max: int, ids_max: int, topic_bytes_max: int
) -> tuple[
    list[tuple[bool, bytes]],
    list[tuple[bytes, bytes, bool]],
    list[tuple[bytes, list[bytes]]],
    list[bytes],
    list[bytes],
    list[tuple[bytes, int]],
    int,
]:
    """A message of gossip: subscriptions (wanted, topic), messages (topic, data, bare), ihave (topic, ids), iwant
    (ids), graft (topics), prune (topic, back-off in s; 0 if none is given), and how much of it was left out.

    A message is *bare* if author, number, signature and key are absent.  Of each kind at most ``items_max`` are
    returned, of ids ``ids_max`` in all; longer ids than 64 bytes and longer topics than ``topic_bytes_max`` are left
    out.
    """
