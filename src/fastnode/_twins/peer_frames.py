"""What peers put on the wire, cut into pieces, in plain Python: the readable form of the peer_frames kernel.

The stub ``fastnode/_ext/peers/peer_frames.pyi`` says what everything does.
"""

from __future__ import annotations

import struct
from typing import Final

__all__ = [
    "delimited_messages",
    "discovery_header",
    "read_fields",
    "read_rpc",
    "read_varint",
    "sealed_messages",
    "write_varint",
    "yamux_frames",
]

_VARINT_BYTES_MAX: Final = 10
_YAMUX_HEAD: Final = struct.Struct(">BBHII")
_YAMUX_DATA: Final = 0
_YAMUX_GO_AWAY: Final = 3
_ID_BYTES_MAX: Final = 64
#: Of discovery: protocol and version, flag, nonce, length of what follows.
_DISCOVERY_HEAD: Final = struct.Struct(">8sB12sH")
_DISCOVERY: Final = b"discv5\0\1"
_NODE_ID_BYTES: Final = 32
_CHALLENGE_BYTES: Final = 24
#: Signature and ephemeral key, and before them their lengths.
_PROOF_BYTES: Final = 97
_PROOF_LENGTHS: Final = b"\x40\x21"
_RECORD_BYTES_MAX: Final = 300
#: Wire types of protobuf.
_VARINT: Final = 0
_FIXED: Final = {1: 8, 5: 4}
_LENGTH: Final = 2
_FIELD_NUMBER_MAX: Final = 0x1FFFFFFF
#: Fields of a message of gossip that make it signed: author, number, signature, key.
_SIGNED: Final = (1, 3, 5, 6)


def read_varint(data: bytes, at: int) -> tuple[int, int] | None:
    _require_offset(data, at)
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if at == len(data):
            return None
        byte = data[at]
        at += 1
        if index == _VARINT_BYTES_MAX - 1 and byte > 1:
            break
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at
    raise ValueError("a number has more than 64 bits")


def write_varint(value: int) -> bytes:
    if not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise ValueError("no unsigned number of at most 64 bits")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _require_offset(data: bytes, at: int) -> None:
    if not 0 <= at <= len(data):
        raise ValueError("the offset is outside of the data")


# ---- frames -------------------------------------------------------------------------------------


def sealed_messages(data: bytes, at: int, count_max: int) -> tuple[list[bytes], int]:
    _require_offset(data, at)
    found: list[bytes] = []
    while len(data) - at >= 2 and len(found) < count_max:
        length = int.from_bytes(data[at : at + 2], "big")
        if len(data) - at - 2 < length:
            break
        found.append(data[at + 2 : at + 2 + length])
        at += 2 + length
    return found, at


def delimited_messages(data: bytes, at: int, length_max: int, count_max: int) -> tuple[list[bytes], int]:
    _require_offset(data, at)
    if length_max < 0:
        raise ValueError("no length")
    found: list[bytes] = []
    while len(found) < count_max:
        head = read_varint(data, at)
        if head is None:
            break
        length, behind = head
        if length > length_max:
            raise ValueError("a message is longer than allowed")
        if len(data) - behind < length:
            break
        at = behind + length
        found.append(data[behind:at])
    return found, at


def yamux_frames(
    data: bytes, at: int, payload_max: int, count_max: int
) -> tuple[list[tuple[int, int, int, int, bytes]], int]:
    _require_offset(data, at)
    found: list[tuple[int, int, int, int, bytes]] = []
    while len(data) - at >= _YAMUX_HEAD.size and len(found) < count_max:
        version, kind, flags, stream, number = _YAMUX_HEAD.unpack_from(data, at)
        if version != 0 or kind > _YAMUX_GO_AWAY:
            raise ValueError("no frame of yamux")
        payload = number if kind == _YAMUX_DATA else 0
        if payload > payload_max:
            raise ValueError("a frame is longer than allowed")
        if len(data) - at - _YAMUX_HEAD.size < payload:
            break
        at += _YAMUX_HEAD.size
        found.append((kind, flags, stream, number, data[at : at + payload]))
        at += payload
    return found, at


# ---- discovery ----------------------------------------------------------------------------------


def discovery_header(data: bytes) -> tuple[int, bytes, bytes, bytes, bytes, bytes, int]:
    if len(data) < _DISCOVERY_HEAD.size or not data.startswith(_DISCOVERY):
        raise ValueError("no packet of discovery")
    _, flag, nonce, size = _DISCOVERY_HEAD.unpack_from(data)
    end = _DISCOVERY_HEAD.size + size
    if len(data) < end:
        raise ValueError("a packet of discovery is not complete")
    rest = data[_DISCOVERY_HEAD.size : end]
    if flag == 0 and size == _NODE_ID_BYTES:
        return flag, nonce, rest, b"", b"", b"", end
    if flag == 1 and size == _CHALLENGE_BYTES:
        return flag, nonce, b"", rest[:16], rest[16:], b"", end
    source, lengths, proof = rest[:32], rest[32:34], rest[34:]
    record_bytes = len(proof) - _PROOF_BYTES
    if flag != 2 or not 0 <= record_bytes <= _RECORD_BYTES_MAX or lengths != _PROOF_LENGTHS:
        raise ValueError("no packet of discovery")
    return flag, nonce, source, proof[:64], proof[64:97], proof[97:], end


# ---- protobuf -----------------------------------------------------------------------------------


def _field_at(data: bytes, at: int) -> tuple[int, int, int | bytes, int]:
    """Number, wire type, value, and the offset behind it; ValueError for what is no field."""
    tag, at = _number_at(data, at)
    number, kind = tag >> 3, tag & 7
    if not 0 < number <= _FIELD_NUMBER_MAX:
        raise ValueError("no field of protobuf")
    if kind == _VARINT:
        value, at = _number_at(data, at)
        return number, kind, value, at
    if kind == _LENGTH:
        length, at = _number_at(data, at)
    elif kind in _FIXED:
        length = _FIXED[kind]
    else:
        raise ValueError("no wire type of protobuf")
    if length > len(data) - at:
        raise ValueError("a field of protobuf is longer than its message")
    return number, kind, data[at : at + length], at + length


def _number_at(data: bytes, at: int) -> tuple[int, int]:
    try:
        found = read_varint(data, at)
    except ValueError:
        found = None
    if found is None:
        raise ValueError("no number of protobuf")
    return found


def _fields(data: bytes) -> list[tuple[int, int, int | bytes]]:
    found = []
    at = 0
    while at < len(data):
        number, kind, value, at = _field_at(data, at)
        found.append((number, kind, value))
    return found


def read_fields(data: bytes, count_max: int) -> list[tuple[int, int | bytes]]:
    found: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(data):
        number, _, value, at = _field_at(data, at)
        if len(found) >= count_max:
            raise ValueError("a message of protobuf has more fields than allowed")
        found.append((number, value))
    return found


# ---- gossip -------------------------------------------------------------------------------------


class _Rpc:
    """What is read of one message of gossip, within its limits."""

    def __init__(self, items_max: int, ids_max: int, topic_bytes_max: int) -> None:
        self.items_max, self.ids_left, self.topic_bytes_max = items_max, ids_max, topic_bytes_max
        self.left_out = 0
        self.subscriptions: list[tuple[bool, bytes]] = []
        self.messages: list[tuple[bytes, bytes, bool]] = []
        self.ihave: list[tuple[bytes, list[bytes]]] = []
        self.iwant: list[bytes] = []
        self.graft: list[bytes] = []
        self.prune: list[tuple[bytes, int]] = []

    def has_room(self, topic: bytes, count: int) -> bool:
        if len(topic) <= self.topic_bytes_max and count < self.items_max:
            return True
        self.left_out += 1
        return False

    def read(self, data: bytes) -> None:
        for number, kind, value in _fields(data):
            if kind == _LENGTH and isinstance(value, bytes):
                if number == 1:
                    self.read_subscription(value)
                elif number == 2:
                    self.read_message(value)
                elif number == 3:
                    self.read_control(value)

    def read_subscription(self, data: bytes) -> None:
        is_wanted, topic = False, b""
        for number, kind, value in _fields(data):
            if number == 1 and kind == _VARINT:
                is_wanted = value != 0
            elif number == 2 and kind == _LENGTH and isinstance(value, bytes):
                topic = value
        if self.has_room(topic, len(self.subscriptions)):
            self.subscriptions.append((is_wanted, topic))

    def read_message(self, data: bytes) -> None:
        topic, content, is_bare = b"", b"", True
        for number, kind, value in _fields(data):
            if kind == _LENGTH and number == 4 and isinstance(value, bytes):
                topic = value
            elif kind == _LENGTH and number == 2 and isinstance(value, bytes):
                content = value
            elif number in _SIGNED:
                is_bare = False
        if self.has_room(topic, len(self.messages)):
            self.messages.append((topic, content, is_bare))

    def read_control(self, data: bytes) -> None:
        for number, kind, value in _fields(data):
            if kind != _LENGTH or not isinstance(value, bytes):
                continue
            if number == 1:
                topic, _ = self.topic_of(value)
                if self.has_room(topic, len(self.ihave)):
                    self.ihave.append((topic, self.ids_of(value, 2)))
            elif number == 2:
                self.iwant += self.ids_of(value, 1)
            elif number == 3:
                topic, _ = self.topic_of(value)
                if self.has_room(topic, len(self.graft)):
                    self.graft.append(topic)
            elif number == 4:
                topic, backoff = self.topic_of(value)
                if self.has_room(topic, len(self.prune)):
                    self.prune.append((topic, backoff))

    def topic_of(self, data: bytes) -> tuple[bytes, int]:
        topic, backoff = b"", 0
        for number, kind, value in _fields(data):
            if number == 1 and kind == _LENGTH and isinstance(value, bytes):
                topic = value
            elif number == 3 and kind == _VARINT and isinstance(value, int):
                backoff = value
        return topic, backoff

    def ids_of(self, data: bytes, wanted: int) -> list[bytes]:
        ids = []
        for number, kind, value in _fields(data):
            if number == wanted and kind == _LENGTH and isinstance(value, bytes):
                if self.ids_left <= 0 or len(value) > _ID_BYTES_MAX:
                    self.left_out += 1
                else:
                    self.ids_left -= 1
                    ids.append(value)
        return ids


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
    rpc = _Rpc(items_max, ids_max, topic_bytes_max)
    rpc.read(data)
    return rpc.subscriptions, rpc.messages, rpc.ihave, rpc.iwant, rpc.graft, rpc.prune, rpc.left_out
