"""Connections that are written to without being asked: what a client takes, and whether it keeps up.

``is_behind``: the transport may keep something for it; else ``file``, the socket, can be written to past it, which
takes half the time.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from fastnode.http.socket_queues import unsent_bytes
from fastnode.kernels import fast_connection

if TYPE_CHECKING:
    from fastnode.http.meters import Traffic

__all__ = ["CLOSE_REASONS", "RECIPIENTS_PER_TURN", "UNSENT_BYTES_MAX", "Recipient", "write_to_each"]

#: Bytes that a client may leave untaken when the next text comes.
UNSENT_BYTES_MAX: Final = 64 * 1024
#: Asked of the system for each client, which would keep megabytes for one that takes nothing.
SEND_BUFFER_BYTES: Final = 64 * 1024
#: Clients that are written to before others have their turn on the loop.
RECIPIENTS_PER_TURN: Final = 128
#: Reasons to cut clients of WebSocket off: they leave too much untaken, take nothing, or answer no ping.
CLOSE_REASONS: Final = ("slow", "stuck", "silent")


class Recipient(asyncio.BufferedProtocol):
    """One connection from its answer on.  ``before`` is the protocol that it had, which is told of the end."""

    __slots__ = (
        "_before",
        "_taken_bytes",
        "file",
        "is_behind",
        "is_gone",
        "traffic",
        "transport",
        "written_bytes",
    )

    def __init__(self, transport: asyncio.Transport, before: asyncio.BaseProtocol, traffic: Traffic) -> None:
        self.traffic = traffic
        self.transport = transport
        self._before = before
        self.is_gone = self.is_behind = False
        self.written_bytes = 0
        #: At the last look; None: there was nothing to take.
        self._taken_bytes: int | None = None
        connection_socket = transport.get_extra_info("socket")
        self.file = connection_socket.fileno()
        connection_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        transport.set_protocol(self)

    @property
    def is_open(self) -> bool:
        """False once nothing more can be written."""
        return not self.is_gone and not self.transport.is_closing()

    def write(self, text: bytes) -> None:
        """Write, unless too much is untaken: then the client is dropped."""
        if not text or not self.is_open:
            return
        unsent = self.transport.get_write_buffer_size()
        if unsent > UNSENT_BYTES_MAX:
            self.drop("slow")
            return
        self.written_bytes += len(text)
        self.traffic.sent_bytes += len(text)
        short = [(0, 0)] if unsent else fast_connection.write_each([self.file], text)
        self.is_behind = False
        if short:
            [(_, taken)] = short
            self.keep(text[taken:])

    def keep(self, rest: bytes) -> None:
        """The transport keeps bytes that the system does not take now."""
        self.is_behind = True
        self.transport.write(rest)

    def is_stuck(self) -> bool:
        """True if it has taken nothing since the last look, and had something to take."""
        unsent = unsent_bytes(self.transport)
        taken = self.written_bytes - unsent
        if unsent and taken == self._taken_bytes:
            return True
        self._taken_bytes = taken if unsent else None
        return False

    def drop(self, reason: str) -> None:
        """Cut it off, because it does not keep up."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True
        self._before.connection_lost(exc)


def write_to_each(recipients: Sequence[Any], text: bytes, traffic: Traffic) -> None:
    """One text to some :class:`Recipient`, at most RECIPIENTS_PER_TURN; nearly all of it is the system's time."""
    ready: list[Recipient] = []
    for each in recipients:
        if each.is_behind or not each.is_open:
            each.write(text)
        else:
            ready.append(each)
    for each in ready:
        each.written_bytes += len(text)
    traffic.sent_bytes += len(text) * len(ready)
    for place, taken in fast_connection.write_each([each.file for each in ready], text):
        ready[place].keep(text[taken:])
