"""Messages between the primary and a worker, over a socket in the file system.

    u32 length of the payload, big-endian | u8 kind | payload

    primary -> worker
        COPY      path of a copy of the databases made for this worker; what follows continues it
        BATCH     u8 which database, marshal: [(key, value or None), ...] as it was written
        BLOCK     the batches that come now were shown at this time, in nanoseconds of CLOCK_MONOTONIC
        VIEW      what has been written so far is what requests are answered from: :class:`Shown`
        FACTS     what else answers rest on: :class:`~fastnode.workers.facts.Facts`
        NAMES     signatures of functions that clients have registered
        REPLY     for each answer: number of the question, (True, result) or (False, error)
        MARK      a number; the worker says MARKED with it once everything before is what requests are answered from
    worker -> primary
        HELLO     number of the worker, process id
        CALL      number of the question or 0 for none, name, arguments; NEW_COPY is answered by COPY, and
                  MARKED is said of a MARK

Payloads other than those of batches are pickled.  Both ends are processes of one node, forked by one supervisor from
one interpreter; the socket is in a folder that no other user can enter.
"""

from __future__ import annotations

import contextlib
import marshal
import pickle
import socket
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

from fastnode.records import dataclass

__all__ = [
    "CHAIN",
    "MARKED",
    "NEW_COPY",
    "POOL",
    "STATE",
    "Connection",
    "Kind",
    "Shown",
    "batch_frame",
    "batch_of",
    "frame",
]

_HEAD: Final = struct.Struct(">IB")
#: Bytes that the system is asked to take without a reader: a block of ten transactions.  It may grant less.
BUFFER_BYTES: Final = 1 << 20
#: A frame is read in one piece up to here.
_READ_BYTES: Final = 1 << 18

#: Numbers of the databases in batches.
CHAIN, STATE, POOL = range(3)

#: Name of the call by which a worker asks for a new copy.
NEW_COPY: Final = "new copy"
#: Name of the call by which it says that it has come to a mark.
MARKED: Final = "marked"

#: A database key and its new value; None removes it.
Change = tuple[bytes, bytes | None]


class Kind(IntEnum):
    COPY = 1
    BATCH = 2
    VIEW = 3
    FACTS = 4
    NAMES = 5
    REPLY = 6
    HELLO = 7
    CALL = 8
    BLOCK = 9
    MARK = 10


@dataclass(frozen=True, slots=True)
class Shown:
    """The tip that the primary has made readable; ``at_ns`` on the clock that all processes share (CLOCK_MONOTONIC).

    ``has_state``: the state trees are at the same block.
    """

    number: int
    block_hash: bytes
    has_state: bool
    at_ns: int


def frame(kind: Kind, content: Any) -> bytes:
    payload = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    return _HEAD.pack(len(payload), kind) + payload


def batch_frame(database: int, changes: Sequence[Change]) -> bytes:
    payload = marshal.dumps(list(changes))
    return _HEAD.pack(len(payload) + 1, Kind.BATCH) + bytes([database]) + payload


def batch_of(payload: bytes) -> tuple[int, list[Change]]:
    """The database's number and the changes."""
    return payload[0], marshal.loads(memoryview(payload)[1:])


class Connection:
    """One end.  One thread reads; those that send see to it that one does at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        self._reader = sock.makefile("rb", buffering=_READ_BYTES)

    def send(self, data: bytes) -> None:
        """OSError when the other end has gone."""
        self._socket.sendall(data)

    def send_now(self, data: bytes) -> int:
        """Send as many bytes as the system has room for; returns their number.  OSError when the other end has gone."""
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def receive(self) -> tuple[Kind, bytes] | None:
        """The next frame; None when the other end has gone, in the middle of a frame too."""
        try:
            head = self._reader.read(_HEAD.size)
            if len(head) < _HEAD.size:
                return None
            length, kind = _HEAD.unpack(head)
            payload = self._reader.read(length)
        except (OSError, ValueError):
            return None
        return None if len(payload) < length else (Kind(kind), payload)

    def shut_down(self) -> None:
        """Both ends notice at once, whatever they wait for."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        """By the thread that reads."""
        self.shut_down()
        self._reader.close()
        self._socket.close()
