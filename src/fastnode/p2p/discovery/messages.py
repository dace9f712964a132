"""Messages of discovery: one byte, the kind, and an RLP list that begins with the id of the request.

1 ping          id, sequence of the sender's record
2 pong          id, sequence of the sender's record, address and port that the sender sees
3 find node     id, distances (0 to 256; 0 is the receiver itself)
4 nodes         id, how many packets there are in all, records
5 talk request  id, protocol, request
6 talk answer   id, answer
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fastnode.p2p.discovery.wire import MESSAGE_BYTES_MAX
from fastnode.protocol import rlp

__all__ = [
    "DISTANCE_MAX",
    "RECORDS_MAX",
    "FindNode",
    "Message",
    "Nodes",
    "Ping",
    "Pong",
    "TalkAnswer",
    "TalkRequest",
    "nodes_messages",
    "read_message",
    "write_message",
]

DISTANCE_MAX: Final = 256
#: Records of an answer, over all its packets.
RECORDS_MAX: Final = 16
_PACKETS_MAX: Final = 16
_ID_BYTES_MAX: Final = 8
_ITEMS_MAX: Final = 600
#: Message, list of records, record.
_DEPTH_MAX: Final = 3
#: Bytes of an answer beside its records: kind, the heads of two lists, id, number of packets.
_NODES_HEAD_BYTES: Final = 1 + 3 + 3 + 1 + _ID_BYTES_MAX + 2


class Ping(NamedTuple):
    request: bytes
    sequence: int


class Pong(NamedTuple):
    request: bytes
    sequence: int
    #: 4 or 16 bytes.
    address: bytes
    port: int


class FindNode(NamedTuple):
    request: bytes
    distances: tuple[int, ...]


class Nodes(NamedTuple):
    request: bytes
    total: int
    records: tuple[bytes, ...]


class TalkRequest(NamedTuple):
    request: bytes
    protocol: bytes
    content: bytes


class TalkAnswer(NamedTuple):
    request: bytes
    content: bytes


Message = Ping | Pong | FindNode | Nodes | TalkRequest | TalkAnswer
_KINDS: Final[tuple[type[Message], ...]] = (Ping, Pong, FindNode, Nodes, TalkRequest, TalkAnswer)


def read_message(plain: bytes) -> Message:
    """ValueError for what is none."""
    if not plain:
        raise ValueError("an empty message of discovery")
    items = rlp.decode(plain[1:], items_max=_ITEMS_MAX, depth_max=_DEPTH_MAX)
    if not isinstance(items, list) or not items:
        raise ValueError("no message of discovery")
    request, rest = _bytes(items[0], _ID_BYTES_MAX), items[1:]
    match plain[0], rest:
        case 1, [sequence]:
            return Ping(request, _number(sequence))
        case 2, [sequence, address, port]:
            return Pong(request, _number(sequence), _bytes(address, 16), _number(port, 2))
        case 3, [list() as distances]:
            return FindNode(request, tuple(_number(each, 2) for each in distances[: DISTANCE_MAX + 1]))
        case 4, [total, list() as records]:
            return Nodes(request, _total(total), tuple(rlp.encode(record) for record in records[:RECORDS_MAX]))
        case 5, [protocol, content]:
            return TalkRequest(request, _bytes(protocol), _bytes(content))
        case 6, [content]:
            return TalkAnswer(request, _bytes(content))
    raise ValueError("no message of discovery")


def write_message(message: Message) -> bytes:
    fields: list[rlp.Value] = []
    for value in message:
        if isinstance(value, tuple):
            fields.append([_as_it_is(each) if isinstance(each, bytes) else each for each in value])
        else:
            fields.append(value)
    return bytes([_KINDS.index(type(message)) + 1]) + rlp.encode(fields)


def nodes_messages(request: bytes, records: Sequence[bytes]) -> Iterator[Nodes]:
    """As many as it takes, one of them if there is no record; each fits into a packet."""
    groups: list[list[bytes]] = [[]]
    size = _NODES_HEAD_BYTES
    for record in records[:RECORDS_MAX]:
        if size + len(record) > MESSAGE_BYTES_MAX:
            groups.append([])
            size = _NODES_HEAD_BYTES
        groups[-1].append(record)
        size += len(record)
    for group in groups:
        yield Nodes(request, len(groups), tuple(group))


def _as_it_is(record: bytes) -> rlp.Value:
    return rlp.decode(record, items_max=_ITEMS_MAX, depth_max=_DEPTH_MAX)


def _bytes(item: rlp.Decoded, bytes_max: int = MESSAGE_BYTES_MAX) -> bytes:
    if not isinstance(item, bytes) or len(item) > bytes_max:
        raise ValueError("a message of discovery has a list, or too much, where bytes belong")
    return item


def _number(item: rlp.Decoded, bytes_max: int = 8) -> int:
    return int.from_bytes(_bytes(item, bytes_max), "big")


def _total(item: rlp.Decoded) -> int:
    total = _number(item)
    if not 1 <= total <= _PACKETS_MAX:
        raise ValueError("an answer of discovery has too many packets")
    return total
