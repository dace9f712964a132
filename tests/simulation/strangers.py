"""Clients of a world's nodes that are none of a node's friends: they send requests in pieces, or half of one, or no
request at all, announce more than they send, or listen to what happens and go away.

A node answers each of them or ends the connection, and says of itself what it said before: what must hold beside is
that nothing in it ends.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final

from tests.simulation.network import Connection, _Transport
from tests.simulation.scheduler import the_world
from tests.simulation.world import PORT, NodeOfWorld, World

from fastnode.serving import recipients
from fastnode.serving.recipients import Recipient

__all__ = ["Strangers", "put_listeners_in_place"]

Later = Callable[[float, Callable[[], None]], None]
_ASK: Final = b'{"jsonrpc":"2.0","id":1,"method":"node_getBlockNumber","params":[]}'
_POST: Final = b"POST / HTTP/1.1\r\nHost: node\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_GET: Final = b"GET %b HTTP/1.1\r\nHost: node\r\n\r\n"
#: More than any request may have.
_TOO_LONG: Final = 1 << 40
#: Seconds that one stays at most.
_STAY_S: Final = 90.0


class Strangers:
    def __init__(self, world: World) -> None:
        self._world = world

    def come(self, nodes: Sequence[NodeOfWorld], dice: random.Random, later: Later) -> None:
        node = dice.choice(nodes)
        name, pieces = dice.choice(list(_requests(dice).items()))
        try:
            connection = socket.create_connection((node.name, PORT), timeout=5)
        except OSError:
            return
        assert isinstance(connection, Connection)
        self._world.say("stranger", f"comes to {node.name}: {name}")
        self._world.count("strangers")
        for piece in pieces:
            connection.send_piece(piece)
            the_world().sleep(dice.choice([0.0, 0.5]))
        if dice.random() < 0.5:
            connection.close()
        else:
            later(dice.uniform(1, _STAY_S), connection.close)


def _requests(dice: random.Random) -> dict[str, list[bytes]]:
    """Pieces of what is sent, by what it is."""
    ask = _POST % len(_ASK) + _ASK
    at = dice.randrange(1, len(ask))
    path = dice.choice([b"/readyz", b"/status", b"/", b"/nothing"])
    return {
        "two halves of a request": [ask[:at], ask[at:]],
        "half a request": [ask[:at]],
        "two requests at once, and a half": [ask + ask + ask[:at]],
        "a request without a content": [_GET % path, _GET % path],
        "no request": [dice.randbytes(dice.randrange(1, 60)) + b"\r\n\r\n"],
        "more than may be": [_POST % _TOO_LONG, b"{", b" " * 1000],
        "one who listens": [_GET % b"/events"],
    }


class _Descriptor:
    """In the place of a socket and of its number: what is written by number goes to the transport."""

    def __init__(self, transport: _Transport) -> None:
        self.transport = transport

    def fileno(self) -> _Descriptor:
        return self

    def setsockopt(self, *_: Any) -> None:
        """There is nothing to set."""


def put_listeners_in_place() -> None:
    """Let those who are told what happens be written to without a system, once in a process."""
    begin = Recipient.__init__

    def beginning(self: Recipient, transport: Any, *arguments: Any) -> None:
        transport.socket = _Descriptor(transport)
        try:
            begin(self, transport, *arguments)
        finally:
            transport.socket = None

    def write_each(descriptors: list[_Descriptor], data: bytes) -> list[tuple[int, int]]:
        for descriptor in descriptors:
            descriptor.transport.write(data)
        return []

    Recipient.__init__ = beginning  # type: ignore[method-assign,assignment]
    recipients.fast_connection = SimpleNamespace(write_each=write_each)  # type: ignore[assignment]
