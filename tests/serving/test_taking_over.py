"""A server that takes another's port over: whatever its clients are at, each is answered, and none is reset."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import uvloop
from tests.conftest import PATIENCE_S
from tests.serving.sockets import Workshop, call, post

from fastnode.http.limits import Limits
from fastnode.jsonrpc.engine import Engine
from fastnode.jsonrpc.methods import MethodTable
from fastnode.serving.server import HttpServer, RpcServer
from fastnode.serving.starting_application import StartingApplication

REQUEST = post(call())
STARTING, SERVED = b"HTTP/1.1 503", b'"result":42'
CLIENTS = 12
#: Turns of the loop between two things that happen.
TURNS_MAX = 4


@pytest.fixture
def visitors() -> Iterator[list[Visitor]]:
    """Closed at the end."""
    visitors: list[Visitor] = []
    yield visitors
    for visitor in visitors:
        visitor.close()


@pytest.fixture
def run() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield lambda work: runner.run(asyncio.wait_for(work, PATIENCE_S))


class Visitor:
    """A client that connects, asks in pieces, and reads each answer to its end."""

    def __init__(self, port: int) -> None:
        self._socket = socket.socket()
        self._socket.connect(("127.0.0.1", port))
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._to_send = REQUEST
        #: Last step before its port was taken over.
        self.did = "connected"

    async def asks(self) -> None:
        """An answer before, so that the connection is kept alive."""
        self.did = "asked"
        assert STARTING in await self.answer()

    def begins(self, size: int) -> None:
        self._socket.send(self._to_send[:size])
        self._to_send = self._to_send[size:]
        self.did = f"sent {size} bytes"

    async def answer(self) -> bytes:
        """The answer to the next request."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._socket, self._to_send)
        self._to_send = REQUEST
        answer = b""
        while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
            data = await loop.sock_recv(self._socket, 65536)
            assert data, f"closed after {answer!r}"
            answer += data
        return answer

    async def last_word(self) -> bytes:
        """Bytes that come unasked until the server closes."""
        loop, answer = asyncio.get_running_loop(), b""
        while data := await loop.sock_recv(self._socket, 65536):
            answer += data
        return answer

    def close(self) -> None:
        self._socket.close()


@asynccontextmanager
async def servers(limits: Limits) -> AsyncIterator[tuple[HttpServer, RpcServer]]:
    """One that has been started, and one that may take it over."""
    starting = HttpServer(StartingApplication(lambda: "its turn"), host="127.0.0.1", port=0, limits=Limits())
    engine = Engine(MethodTable(Workshop().methods()), lambda: None, limits=limits)
    server = RpcServer(engine, host="127.0.0.1", port=0)
    await starting.start()
    try:
        yield starting, server
    finally:
        await starting.stop(grace_seconds=0.0)
        await server.stop(grace_seconds=0.0)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def visit(port: int, random: Random, visitors: list[Visitor]) -> None:
    for _ in range(CLIENTS):
        visitor = Visitor(port)
        visitors.append(visitor)
        await turns(random.randrange(TURNS_MAX))
        if random.random() < 0.3:
            await visitor.asks()
        if random.random() < 0.5:
            visitor.begins(random.choice((1, len(REQUEST) // 2, len(REQUEST))))
        await turns(random.randrange(TURNS_MAX))


@pytest.mark.parametrize("seed", range(12))
def test_no_client_of_a_server_that_is_taken_over_is_reset(
    run: Callable[..., Any], visitors: list[Visitor], seed: int
) -> None:
    async def main() -> None:
        random = Random(seed)
        async with servers(Limits()) as (starting, server):
            await visit(starting.port, random, visitors)
            server.take_over(starting)
            await turns(random.randrange(TURNS_MAX))
            for visitor in random.sample(visitors, len(visitors)):
                answer = await visitor.answer()
                assert STARTING in answer or SERVED in answer, (visitor.did, answer)
                if b"Connection: close" not in answer:  # as one whose request was under way is told
                    assert SERVED in await visitor.answer(), visitor.did
                elif visitor.did in ("connected", "asked"):
                    raise AssertionError(f"{visitor.did}, and is sent away: {answer!r}")
                visitor.close()
        assert (starting.connection_count, server.connection_count) == (0, 0)
        assert (starting._admitted_count, server._admitted_count) == (0, 0)

    run(main())


def test_what_rests_counts_where_it_goes(run: Callable[..., Any], visitors: list[Visitor]) -> None:
    async def main() -> None:
        async with servers(Limits(connections_max=1)) as (starting, server):
            for _ in range(2):
                visitors.append(Visitor(starting.port))
                await visitors[-1].asks()
            server.take_over(starting)
            assert (starting.connection_count, server.connection_count, server.turned_away_count) == (0, 1, 1)
            ends = [asyncio.ensure_future(visitor.last_word()) for visitor in visitors]
            (ended,), (stays,) = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            assert b"too many connections; the limit is 1" in ended.result()
            stays.cancel()
            assert SERVED in await visitors[ends.index(stays)].answer()

    run(main())
