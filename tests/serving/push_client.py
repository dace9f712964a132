"""A client of GET /events over WebSocket that keeps what it is told, and comes again where it was."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import orjson
import pytest
from tests.conftest import PATIENCE_S
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from fastnode.client import AsyncClient, Client, Event

__all__ = ["AsyncFollowing", "Follower", "Following", "PushClient", "push_client"]

#: Cursors that a client says it was at, the newest first.
CURSORS_MAX = 128


class PushClient:
    def __init__(self, port: int, **options: Any) -> None:
        options.setdefault("compression", "deflate")
        self._stack = ExitStack()
        url = f"ws://127.0.0.1:{port}{options.pop('path', '/events')}"
        self.socket: ClientConnection = self._stack.enter_context(connect(url, open_timeout=PATIENCE_S, **options))
        self.told: list[dict[str, Any]] = []
        self._calls = 0

    def read(self) -> dict[str, Any]:
        message: dict[str, Any] = orjson.loads(self.socket.recv(PATIENCE_S))
        if message.get("method") == "event":
            self.told.append(message["params"])
        return message

    def call(self, method: str, params: Any) -> dict[str, Any]:
        """The answer: with result or error."""
        self._calls += 1
        self.socket.send(
            orjson.dumps({"jsonrpc": "2.0", "id": self._calls, "method": method, "params": params}).decode()
        )
        while (message := self.read()).get("id") != self._calls:
            pass
        return message

    def subscribe(self, topic: str, **wanted: Any) -> dict[str, Any]:
        answer = self.call("subscribe", {"topic": topic, **wanted})
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def wait_for(self, event: str, is_it: Callable[[Any], bool] = lambda data: True) -> dict[str, Any]:
        """The next event of this name that is it."""
        while True:
            message = self.read()
            params: dict[str, Any] = message.get("params", {})
            if message.get("method") == "event" and params["event"] == event and is_it(params["data"]):
                return params

    def close_code(self) -> tuple[int, str]:
        """Code and reason with which the server closes."""
        with pytest.raises(ConnectionClosed) as closed:
            self._read_all()
        received = closed.value.rcvd
        assert received is not None
        return received.code, received.reason

    def _read_all(self) -> None:
        while True:
            self.read()

    def close(self) -> None:
        self._stack.close()


@contextmanager
def push_client(port: int, **options: Any) -> Iterator[PushClient]:
    client = PushClient(port, **options)
    try:
        yield client
    finally:
        client.close()


class Follower:
    """Repeats a chain from the feed of its blocks, over any number of connections.  AssertionError for an event that is
    lost or comes twice."""

    def __init__(self, first: int = 1) -> None:
        self.first = first
        self.blocks: list[str] = []
        self.cursors: list[str] = []
        self.pruned = 0

    def subscribe(self, client: PushClient) -> None:
        client.subscribe("blocks", **{"from": self.cursors or self.first})

    @property
    def next_number(self) -> int:
        return self.first + len(self.blocks)

    def take(self, told: dict[str, Any]) -> None:
        data = told["data"]
        if told["event"] == "pruned":
            assert data["toBlock"] == self.next_number - 1, f"{data} at {self.next_number}"
            assert data["fromBlock"] <= data["toBlock"]
            del self.blocks[data["fromBlock"] - self.first :]
            self.pruned += 1
        else:
            assert data["number"] == self.next_number, f"{data['number']} at {self.next_number}"
            self.blocks.append(data["hash"])
        self.cursors = [told["cursor"], *self.cursors[: CURSORS_MAX - 1]]


class Following(threading.Thread):
    """Repeats the chain in a thread, from a subscription of the client that users have."""

    def __init__(self, url: str, first: int) -> None:
        super().__init__()
        self.follower = Follower(first)
        self.changed = threading.Condition()
        self.error: BaseException | None = None
        self.is_ending = False
        self._url = url

    def run(self) -> None:
        try:
            self.read()
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.error = error
        with self.changed:
            self.changed.notify_all()

    def take(self, event: Event) -> None:
        with self.changed:
            self.follower.take({"event": event.event, "data": event.data, "cursor": event.cursor})
            self.changed.notify_all()

    def read(self) -> None:
        with Client(self._url).subscribe("blocks", from_block=self.follower.first) as subscription:
            for event in subscription:
                self.take(event)
                if self.is_ending:
                    return

    def wait_for(self, number: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.error or self.follower.next_number > number, PATIENCE_S)
        if self.error is not None:
            raise self.error


class AsyncFollowing(Following):
    def read(self) -> None:
        asyncio.run(self._follow())

    async def _follow(self) -> None:
        async with AsyncClient(self._url) as node:
            async for event in await node.subscribe("blocks", from_block=self.follower.first):
                self.take(event)
                if self.is_ending:
                    return
