"""A client of GET /events that keeps what it is told."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import orjson
from tests.conftest import PATIENCE_S
from tests.serving.sockets import Connection


class Told(NamedTuple):
    name: str
    data: Any
    #: The last id at the time of the event.
    at: str


class EventClient:
    """As a browser reads events: an id counts from its line on, also without an event."""

    def __init__(self, port: int, types: str | None = None, last_id: str | None = None, *lines: str) -> None:
        self.connection = Connection(port)
        target = "/events" if types is None else f"/events?types={types}"
        also = [] if last_id is None else [f"Last-Event-ID: {last_id}"]
        self.connection.send("\r\n".join([f"GET {target} HTTP/1.1", "Host: node", *also, *lines, "", ""]).encode())
        self.head = self.connection._read_until(b"\r\n\r\n").decode()
        self.id = ""
        self.heartbeats = 0
        self.told: list[Told] = []

    def wait_for(self, name: str, is_it: Callable[[Any], bool] = lambda data: True) -> Told:
        """The next event of this name."""
        return next(told for told in self.events() if told.name == name and is_it(told.data))

    def events(self) -> Iterator[Told]:
        while True:
            told = self.read()
            if told is not None:
                yield told

    def read(self) -> Told | None:
        """The next part of the text: an event, or something else."""
        lines = self.connection._read_until(b"\n\n").decode().split("\n")
        fields = dict(line.partition(": ")[::2] for line in lines)
        self.heartbeats += ":" in lines
        self.id = fields.get("id", self.id)
        if "data" not in fields:
            return None
        self.told.append(Told(fields["event"], orjson.loads(fields["data"]), self.id))
        return self.told[-1]

    def told_within(self, seconds: float) -> list[Told]:
        """Events of this time."""
        before, deadline = len(self.told), time.monotonic() + seconds
        try:
            while (left := deadline - time.monotonic()) > 0:
                self.connection.socket.settimeout(left)
                self.read()
        except TimeoutError:
            pass
        finally:
            self.connection.socket.settimeout(PATIENCE_S)
        return self.told[before:]

    def close(self) -> None:
        self.connection.close()


@contextmanager
def event_client(port: int, types: str | None = None, last_id: str | None = None, *lines: str) -> Iterator[EventClient]:
    client = EventClient(port, types, last_id, *lines)
    try:
        yield client
    finally:
        client.close()


def is_gone(connection: socket.socket) -> bool:
    """True if the other side has cut the connection off; reads what there is."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True
