"""Connections that arrive: all taken at once, opened in turn."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop
from tests.conftest import PATIENCE_S

from fastnode.http import listener as listener_module
from fastnode.http.listener import Arrival, Listener, bind
from fastnode.http.turns import Turns

REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n"


class Host:
    """Owner of the connections; admits ``admitted_max``."""

    def __init__(self, admitted_max: int = 10_000) -> None:
        self.turns = Turns()
        self.admitted = 0
        self.opened: list[str] = []
        self._admitted_max = admitted_max

    def admit(self, network: bytes | None) -> bytes | None:
        if self.admitted == self._admitted_max:
            return REFUSAL
        self.admitted += 1
        return None

    def release(self, network: bytes | None) -> None:
        self.admitted -= 1

    def refuse_late(self) -> bytes:
        return REFUSAL

    def answer_briefly(self, data: bytes) -> bytes:
        return b"briefly " + data

    def make_connection(self, arrival: Arrival) -> asyncio.BaseProtocol:
        self.opened.append(arrival.peer)
        return asyncio.Protocol()


@pytest.fixture
def run() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner.run


def connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    client = socket.socket()
    client.bind((source, 0))
    client.connect(("127.0.0.1", port))
    return client


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


async def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end
        await asyncio.sleep(0)


def test_hundreds_that_wait_are_accepted_in_a_few_rounds_of_the_loop(run: Callable[..., Any]) -> None:
    async def main() -> None:
        host = Host()
        door = Listener(host, await bind("127.0.0.1", 0))
        clients = [connect(door.port) for _ in range(500)]
        # Rounds that find some: the last of them may come late.
        counts = set[int]()

        def all_are_admitted() -> bool:
            counts.add(host.admitted)
            return host.admitted == 500

        await until(all_are_admitted)
        assert len(counts) < 100
        await until(lambda: len(host.opened) == 500)
        door.close()
        for client in clients:
            client.close()

    run(main())


def test_a_client_of_another_address_is_opened_before_hundreds_of_one(run: Callable[..., Any]) -> None:
    async def main() -> None:
        host = Host()
        door = Listener(host, await bind("127.0.0.1", 0))
        host.turns.time.is_crowded = True
        clients = [connect(door.port, "127.0.1.1") for _ in range(200)] + [connect(door.port)]
        await until(lambda: "127.0.0.1" in host.opened)
        place = host.opened.index("127.0.0.1")
        door.close()
        for client in clients:
            client.close()
        # On a busy machine many are opened before it has been accepted; without turns it would be the last one.
        assert place < 180

    run(main())


def test_one_that_has_gone_before_its_turn_is_not_opened(run: Callable[..., Any]) -> None:
    async def main() -> None:
        host = Host()
        door = Listener(host, await bind("127.0.0.1", 0))
        for _ in range(50):
            reset(connect(door.port))
        with connect(door.port):
            await until(lambda: len(host.opened) == 1 and host.admitted == 1)
        assert len(door._unopened) == 0
        door.close()

    run(main())


def test_one_whose_turn_comes_too_late_is_told_so_and_not_opened(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        host = Host()
        door = Listener(host, await bind("127.0.0.1", 0))
        host.turns.time.is_crowded = True
        monkeypatch.setattr(listener_module, "OPENED_WITHIN_S", 0.0)
        with connect(door.port) as client:
            client.setblocking(False)
            answer = await asyncio.get_running_loop().sock_recv(client, 1000)
            assert (answer, host.admitted, host.opened) == (REFUSAL, 0, [])
        assert len(door._unopened) == 0
        door.close()

    run(main())


def test_one_too_many_is_told_so_and_is_not_counted(run: Callable[..., Any]) -> None:
    async def main() -> None:
        host = Host(admitted_max=1)
        door = Listener(host, await bind("127.0.0.1", 0))
        with connect(door.port) as first, connect(door.port) as second:
            second.send(b"GET / HTTP/1.1\r\nHost: node\r\n\r\n")
            second.setblocking(False)
            answer = await asyncio.get_running_loop().sock_recv(second, 1000)
            assert (answer, host.admitted, host.opened) == (REFUSAL, 1, ["127.0.0.1"])
            first.close()
        door.close()

    run(main())


def test_those_that_wait_for_their_turn_go_with_the_port_to_another_host(run: Callable[..., Any]) -> None:
    async def main() -> None:
        before, after = Host(), Host()
        door = Listener(before, await bind("127.0.0.1", 0))
        before.turns.time.is_crowded = True
        before.turns.wait = lambda share, turn: None  # type: ignore[method-assign]  # it never comes
        with connect(door.port):
            await until(lambda: len(door._unopened) == 1)
            door.hand_over(after)
            assert (before.admitted, after.admitted) == (0, 1)
            await until(lambda: after.opened == ["127.0.0.1"])
        door.close()
        assert after.admitted == 1  # it is open; its end is its protocol's to tell

    run(main())


def test_one_that_is_being_opened_goes_with_the_port_to_another_host(run: Callable[..., Any]) -> None:
    async def main() -> None:
        before, after = Host(), Host()
        door = Listener(before, await bind("127.0.0.1", 0))
        with connect(door.port):
            while not before.admitted:  # the system may be a moment behind
                door._accept(door._listening[0])
            assert (before.admitted, before.opened) == (1, [])
            door.hand_over(after)
            await until(lambda: after.opened == ["127.0.0.1"])
            assert (before.admitted, before.opened, after.admitted) == (0, [], 1)
        door.close()

    run(main())


def test_a_closed_port_closes_those_that_wait_for_their_turn(run: Callable[..., Any]) -> None:
    async def main() -> None:
        host = Host()
        door = Listener(host, await bind("127.0.0.1", 0))
        host.turns.time.is_crowded = True
        host.turns.wait = lambda share, turn: None  # type: ignore[method-assign]
        with connect(door.port) as client:
            await until(lambda: len(door._unopened) == 1)
            door.close()
            assert (host.admitted, client.recv(1)) == (0, b"")

    run(main())


def test_without_files_accepting_pauses_and_goes_on(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Exhausted(socket.socket):
        refused = 0

        def accept(self) -> Any:
            if self.refused < 4:  # each time also of the one that would be answered briefly
                self.refused += 1
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    monkeypatch.setattr(listener_module, "PAUSE_S", 0.01)

    async def main() -> None:
        host = Host()
        listening = Exhausted()
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        door = Listener(host, [listening])
        with connect(door.port):
            while not host.opened:
                await asyncio.sleep(0.01)
        door.close()
        assert listening.refused == 4

    run(asyncio.wait_for(main(), 30))
    assert caplog.messages == ["no connection can be accepted: Too many open files"], "it is said now and then"


def test_without_files_one_after_the_other_is_answered_briefly(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that say nothing keep the others waiting for a moment each."""

    class Exhausted(socket.socket):
        is_brief = False

        def accept(self) -> Any:
            if not self.is_brief:
                self.is_brief = True
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    monkeypatch.setattr(listener_module, "PAUSE_S", 3600.0)

    async def main() -> None:
        listening = Exhausted()
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        host = Host()
        loop = asyncio.get_running_loop()
        clients = [connect(listening.getsockname()[1]) for _ in range(4)]
        for number, client in enumerate(clients):
            client.setblocking(False)
            if number != 1:
                client.sendall(b"%d" % number)
        door = Listener(host, [listening])
        said = [await loop.sock_recv(client, 100) for client in clients]
        assert said == [b"briefly 0", b"", b"briefly 2", b"briefly 3"]
        assert host.opened == []
        assert host.admitted == 0
        for client in clients:
            client.close()
        door.close()

    run(asyncio.wait_for(main(), 30))


def test_a_port_that_is_taken_leaves_nothing_open(run: Callable[..., Any]) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            with pytest.raises(OSError, match="in use") as refusal:
                await bind("127.0.0.1", taken.getsockname()[1])
            assert refusal.value.errno == errno.EADDRINUSE

    run(main())
