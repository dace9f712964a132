"""Receivers of webhooks that answer anything: what they are sent comes in order once they behave, and costs nothing."""

from __future__ import annotations

import gzip
import random
import socket
import struct
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import groupby
from pathlib import Path

import orjson
import pytest
from tests.clock import Clock
from tests.conftest import PATIENCE_S
from tests.serving.sockets import wait_until

from fastnode.outgoing.network import ClientLimits, Network
from fastnode.serving import webhooks as hooking
from fastnode.serving.webhooks import Hook, Webhook, Webhooks
from fastnode.view import View

SECRET = b"sixteen bytes or more"
#: Time of an exchange here; a receiver that drips takes all of it.
REQUEST_S = 0.2
#: The newest ones of the chain.
BLOCKS = 30
#: More than one answer may take, and much less than a receiver sends here.
MEMORY_MAX = 2 << 20

#: Answer to a request that was read; the connection is closed behind it.
Trick = Callable[["MeanReceiver", socket.socket], None]


class MeanReceiver:
    """Plays a trick on each request that ``trick`` gives one for, and takes all others."""

    def __init__(self, trick: Callable[[], Trick | None]) -> None:
        self.numbers: list[int] = []
        self.ids: list[str] = []
        self.tries = 0
        self.released = threading.Event()
        self._trick = trick
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/"
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                connection.settimeout(PATIENCE_S)
                serving = threading.Thread(target=self._serve, args=(connection,))
                self._threads = [*filter(threading.Thread.is_alive, self._threads), serving]
                serving.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while True:
                head, body = read_request(connection)
                self.tries += 1
                trick = self._trick()
                if trick is not None:
                    trick(self, connection)
                    return
                self.ids.append(head.partition(b"X-Fastnode-Delivery: ")[2].split(b"\r\n")[0].decode())
                self.numbers.append(orjson.loads(body)["data"]["number"])
                connection.sendall(b"HTTP/1.1 204 taken\r\n\r\n")

    def close(self) -> None:
        self.released.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in (self._accepting, *self._threads):
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def read_request(connection: socket.socket) -> tuple[bytes, bytes]:
    """Head and body.  OSError at its end."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += received(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < size:
        body += received(connection)
    return head, body


def received(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise ConnectionError
    return data


# ---- tricks ----------------------------------------------------------------------------------------------


def says(text: bytes) -> Trick:
    return lambda _receiver, connection: connection.sendall(text)


def repeats(head: bytes, text: bytes) -> Trick:
    """Says the head once, and the text until nobody listens."""

    def play(_receiver: MeanReceiver, connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(text)

    return play


def drips(text: bytes) -> Trick:
    def play(receiver: MeanReceiver, connection: socket.socket) -> None:
        for place in range(len(text)):
            connection.sendall(text[place : place + 1])
            if receiver.released.wait(0.02):
                return

    return play


def resets(_receiver: MeanReceiver, connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def answers_late(receiver: MeanReceiver, connection: socket.socket) -> None:
    """An error, and some time later, on the same connection, that all is well."""
    connection.sendall(b"HTTP/1.1 500 no\r\nContent-Length: 0\r\n\r\n")
    receiver.released.wait(0.01)
    connection.sendall(b"HTTP/1.1 200 yes\r\nContent-Length: 0\r\n\r\n" * 3)
    receiver.released.wait(0.05)


def hints(receiver: MeanReceiver, connection: socket.socket) -> None:
    """An answer will come, and an error does."""
    connection.sendall(b"HTTP/1.1 103 hints\r\nLink: </x>\r\n\r\n")
    receiver.released.wait(0.01)
    connection.sendall(b"HTTP/1.1 503 no\r\nContent-Length: 0\r\n\r\n")


@cache
def bomb() -> bytes:
    """Thirty MiB in a few kilobytes."""
    return gzip.compress(bytes(30 << 20))


def trick_of(dice: random.Random) -> Trick:
    status = dice.choice([*range(300, 600), 0, 99, 1000, -5])
    noise = dice.randbytes(dice.randint(1, 300))
    ok = b"HTTP/1.1 200 OK\r\n"
    kinds: list[Trick] = [
        says(b"HTTP/1.1 %d x\r\nContent-Length: 0\r\nX: %b\r\n\r\n" % (status, noise.replace(b"\n", b""))),
        says(b"HTTP/1.1 %d x\r\nRetry-After: %b\r\n\r\n%b" % (status, dice.choice([b"-1", b"1e9", b"soon"]), noise)),
        says(
            b"HTTP/1.1 302 x\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % dice.choice([b"/", noise.hex().encode()])
        ),
        says(ok + b"Content-Length: %d\r\n\r\n%b" % (len(noise) + 1, noise)),
        says(ok + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n%b" % noise),
        says(ok + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"),
        says(ok + b"Content-Encoding: gzip\r\n\r\n" + noise),
        says(ok + b"Content-Encoding: gzip\r\n\r\n" + bomb()),
        says(ok + b"Content-Encoding: br\r\n\r\n" + noise),
        says(ok + b"X: y\r\n" * 200 + b"\r\n"),
        says(ok + b"X: " + b"y" * 70_000 + b"\r\n\r\n"),
        says(ok[: dice.randint(1, len(ok) - 1)]),
        says(noise),
        says(b"\x16\x03\x01" + noise),
        says(b""),
        resets,
        hints,
        answers_late,
        repeats(ok + b"Content-Length: 1099511627776\r\n\r\n", bytes(65536)),
        repeats(ok + b"Transfer-Encoding: chunked\r\n\r\n", b"8000\r\n" + bytes(0x8000) + b"\r\n"),
        repeats(ok, b"X: y\r\n" * 1000),
        repeats(b"", b"HTTP/1.1 100 go on\r\n\r\n" * 100),
        repeats(b"", b"HTTP/1.1 103 hints\r\nX: y\r\n\r\n" * 100),
        repeats(b"", b"x" * 65536),
        drips(ok + b"Content-Length: 1000\r\n\r\n" + bytes(1000)),
        drips(b"HTTP/1.1 100 go on\r\n\r\n" * 1000),
    ]
    return dice.choice(kinds)


# ---- tests -----------------------------------------------------------------------------------------------


@pytest.fixture
def exchanges() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture
def short_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ClientLimits(request_time_s=REQUEST_S, connect_time_s=PATIENCE_S, response_bytes_max=64 * 1024)
    monkeypatch.setattr(hooking, "LIMITS", limits)


@pytest.mark.usefixtures("short_exchanges")
@pytest.mark.parametrize("seed", range(2))
def test_a_receiver_that_answers_anything_gets_every_block_in_order_once_it_behaves(
    seed: int, view: View, tmp_path: Path, exchanges: Network
) -> None:
    dice = random.Random(seed)
    bomb()
    first = view.chain.tip_number - BLOCKS + 1
    receiver = MeanReceiver(lambda: trick_of(dice) if dice.random() < 0.6 else None)
    clock = Clock(1_700_000_000.0)
    hook = Webhook(
        Hook(f"{receiver.url}#blocks&from={first}"), SECRET, tmp_path / "cursors", lambda: view, exchanges, clock=clock
    )
    tracemalloc.start()
    try:
        while (pause := hook.step()) is not None:
            assert pause <= hooking.RETRY_AFTER_MAX_S
            clock.now += pause
            tracemalloc.reset_peak()
        assert not [thread for thread in threading.enumerate() if "webhook" in thread.name]
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        exchanges.close()
        receiver.close()
    # Whoever is held up for longer than an exchange may take gets a block again, under the same id.
    deliveries = [delivery for delivery, _ in groupby(zip(receiver.numbers, receiver.ids, strict=True))]
    assert [number for number, _ in deliveries] == [*range(first, view.chain.tip_number + 1)]
    assert len({name for _, name in deliveries}) == len(deliveries)
    assert receiver.tries > len(receiver.numbers) + 20
    assert hook.delivered == len(deliveries)
    assert hook.trouble is None
    assert peak < MEMORY_MAX


def test_a_receiver_that_never_ends_its_answer_delays_no_other(view: View, tmp_path: Path) -> None:
    def hold(receiver: MeanReceiver, _connection: socket.socket) -> None:
        receiver.released.wait(PATIENCE_S)

    held, good = MeanReceiver(lambda: hold), MeanReceiver(lambda: None)
    hooks = [Hook(f"{receiver.url}#blocks&from=1") for receiver in (held, good)]
    webhooks = Webhooks(hooks, SECRET, tmp_path, lambda: view)
    webhooks.start()
    try:
        wait_until(lambda: len(good.numbers) == view.chain.tip_number)
        assert held.tries == 1
        assert not held.released.is_set()
        names = [thread.name for thread in threading.enumerate() if "webhook" in thread.name]
        assert len(names) == len(hooks)
    finally:
        webhooks.close()
        for receiver in (held, good):
            receiver.close()
    assert good.numbers == [*range(1, view.chain.tip_number + 1)]
    assert held.numbers == []
