"""The end of one connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.conftest import PATIENCE_S

from fastnode.http.allowance import MemoryBudget
from fastnode.p2p.transport import link as link_module
from fastnode.p2p.transport.identity import Identity
from fastnode.p2p.transport.limits import Limits
from fastnode.p2p.transport.link import Link, LinkEvents


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The node's socket, and that of a peer that takes little and reads nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        theirs.connect(server.getsockname())
        ours, _ = server.accept()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with ours:
            yield ours, theirs


def make_link() -> Link:
    events = LinkEvents(ready=lambda _: None, stream=lambda *_: None, lost=lambda *_: None)
    return Link(Identity(), Limits(), MemoryBudget(1 << 20), events, is_dialer=False)


def fill(transport: asyncio.Transport) -> None:
    """Until the socket takes no more."""
    while not transport.get_write_buffer_size():
        transport.write(bytes(10_000))


async def until_closed(ours: socket.socket) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while ours.fileno() != -1:
            await asyncio.sleep(0.01)


def test_a_peer_that_is_left_and_does_not_read_does_not_keep_the_socket(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "_LAST_WORDS_S", 0.1)

    async def leave() -> None:
        link = make_link()
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: link, sock=ends[0])
        fill(transport)
        link.close("a test")
        assert ends[0].fileno() != -1, "what is on its way has a moment"
        await until_closed(ends[0])

    asyncio.run(leave())


def test_what_is_on_its_way_to_a_peer_that_is_left_arrives(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    received = bytearray()

    async def leave() -> None:
        link = make_link()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: link, sock=ours)
        fill(transport)
        transport.write(b"goodbye")
        link.close("a test")
        theirs.setblocking(False)
        while piece := await loop.sock_recv(theirs, 65_536):
            received.extend(piece)
        await until_closed(ours)

    asyncio.run(leave())
    assert received.endswith(b"goodbye")


def test_a_node_that_stops_waits_for_no_peer(ends: tuple[socket.socket, socket.socket]) -> None:
    async def stop() -> None:
        link = make_link()
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: link, sock=ends[0])
        fill(transport)
        link.close("a test", at_once=True)

    asyncio.run(stop())
    assert ends[0].fileno() == -1


def test_a_connection_that_was_given_up_while_it_was_dialled_is_not_kept(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    async def dial() -> None:
        link = make_link()
        link.close("it took too long")
        with suppress(ConnectionError):
            await asyncio.get_running_loop().create_connection(lambda: link, sock=ends[0])
        await until_closed(ends[0])

    asyncio.run(dial())


def test_a_peer_that_is_gone_before_it_is_looked_at_has_no_address() -> None:
    class Transport(asyncio.Transport):
        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
            pass

        def write(self, data: bytes | bytearray | memoryview) -> None:
            pass

    async def accept() -> None:
        link = make_link()
        link.connection_made(Transport())
        assert link.address == ("", 0)

    asyncio.run(accept())
