"""Queues of the system for a connection: bytes that have arrived, bytes that the client has not taken."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from typing import Final, Protocol

__all__ = ["queued_bytes", "read_now", "unread_bytes", "unsent_bytes"]

#: The system's answer to TIOCOUTQ and FIONREAD: a C int.
_QUEUE_LENGTH: Final = struct.Struct("i")


class _HasFile(Protocol):
    def fileno(self) -> int: ...


def unsent_bytes(transport: asyncio.Transport) -> int:
    """Bytes that the client has not taken: those that wait here and those in the system."""
    connection_socket = transport.get_extra_info("socket")
    return transport.get_write_buffer_size() + queued_bytes(connection_socket, termios.TIOCOUTQ)


def unread_bytes(transport: asyncio.Transport) -> int:
    """Bytes that have arrived and have not been handed over."""
    return queued_bytes(transport.get_extra_info("socket"), termios.FIONREAD)


def read_now(transport: asyncio.Transport, bytes_max: int) -> bytes:
    """Read what has arrived at a transport whose reading is paused; the transport itself meets an error or the end."""
    connection_socket = transport.get_extra_info("socket")
    if connection_socket is not None:
        with contextlib.suppress(OSError):
            return os.read(connection_socket.fileno(), bytes_max)
    return b""


def queued_bytes(connection_socket: _HasFile | None, question: int) -> int:
    """Bytes that the system holds in one direction (TIOCOUTQ, FIONREAD); 0 if it does not say."""
    if connection_socket is None:
        return 0
    try:
        queued = fcntl.ioctl(connection_socket.fileno(), question, bytes(_QUEUE_LENGTH.size))
    except OSError:  # the socket has gone, or the system does not say
        return 0
    return int(_QUEUE_LENGTH.unpack(queued)[0])
