"""A bus that says anything at all ends neither a thread nor a node, and a replica follows again as soon as it behaves.

A proxy before a real server mutates what the server says: contents, headers, subjects, and the protocol itself.
FASTNODE_LONG=1 mutates ten thousand messages, FASTNODE_SEED=N repeats those of another run."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.bus.conftest import Fleet
from tests.bus.nats import NatsServer, open_bus
from tests.mutated_answers import ANSWERS, Mutator, seed
from tests.sources import conftest as following_nodes
from tests.sources.conftest import following
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream
from tests.sources.test_mutated_answers import AT_ONCE, LONG_S, grow, until
from tests.test_loop import KINDS

from fastnode.bus import connection
from fastnode.bus.budgets import SharedBudgets
from fastnode.bus.connection import Bus
from fastnode.bus.members import Heartbeat
from fastnode.bus.publisher import Publisher
from fastnode.bus.subjects import Subjects
from fastnode.view import View

#: What a server says when it will not go on, and what no server says.
WORDS = (
    *(b"-ERR 'Stale Connection'\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", b"-ERR 'Authorization Violation'\r\n"),
    *(
        b"-ERR 'Maximum Payload Violation'\r\n",
        b"-ERR 'no'\r\n",
        b"-ERR\r\n",
        b"+OK\r\n",
        b"INFO {}\r\n",
        b"INFO x\r\n",
    ),
    *(
        b"MSG a 1 -5\r\n\r\n",
        b"MSG a 99999 2\r\nhi\r\n",
        b"MSG a 1 99999999999\r\n",
        b"HMSG a 1 5 2\r\nhi\r\n",
        b"\r\n",
    ),
    *(b"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n", b"PING\r\n", b"PONG\r\n", b"\xff\xfe\r\n", b"x" * 5000 + b"\r\n"),
)
HEADERS = (
    *(
        b"NATS/1.0 503\r\n\r\n",
        b"NATS/1.0 404\r\n\r\n",
        b"NATS/1.0 999 \xff\r\n\r\n",
        b"NATS/1.0\r\n\r\n",
        b"NATS/1.0 \r\n\r\n",
    ),
    *(
        b"NATS/1.0\r\nNats-Sequence: x\r\n\r\n",
        b"NATS/1.0\r\nNats-Sequence: -1\r\nNats-Subject: \r\n\r\n",
        b"no\r\n\r\n",
    ),
    b"NATS/1.0\r\nNats-Sequence: " + b"9" * 5000 + b"\r\nNats-Subject: a\r\n\r\n",
)


class Proxy:
    """Before a server; mutates while the mutator is switched on."""

    def __init__(self, port: int, mutator: Mutator) -> None:
        self._port = port
        self._mutator = mutator
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _begin(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                self._open += [client, server]
                self._begin(self._copy, client, server)
                self._begin(self._say, server, client)

    def _copy(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), client, server:
            while data := client.recv(1 << 16):
                server.sendall(data)

    def _say(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError, ValueError), server.makefile("rb") as lines, client:
            while line := lines.readline():
                client.sendall(self._said(line, lines))

    def _said(self, line: bytes, lines: Any) -> bytes:
        """One message of the server, with all that belongs to it."""
        words = line.split()
        kind = words[0] if words else b""
        if kind not in (b"MSG", b"HMSG"):
            return line
        content = lines.read(int(words[-1]) + 2)[:-2]
        cut = int(words[-2]) if kind == b"HMSG" else 0
        if not self._mutator.is_turn():
            return line + content + b"\r\n"
        return self._bent(words[: -2 if cut else -1], content[:cut], content[cut:])

    def _bent(self, words: list[bytes], headers: bytes, body: bytes) -> bytes:
        mutator, chance = self._mutator, self._mutator.chance
        with mutator.lock:
            match chance.randrange(14):
                case 0:
                    words[1] = mutator.bent(words[1])
                case 1 | 2:
                    headers = chance.choice(HEADERS)
                case 3 | 4:
                    headers = mutator.bent(headers)
                case 5:
                    return chance.choice(WORDS) + _framed(words, headers, body)
                case 6:
                    return b""  # it is lost
                case 7:
                    return mutator.bent(_framed(words, headers, body)) if chance.random() < 0.2 else b""
                case _:
                    body = mutator.content(body)
        return _framed(words, headers, body)


def _framed(words: list[bytes], headers: bytes, body: bytes) -> bytes:
    lengths = [b"%d" % len(headers), b"%d" % (len(headers) + len(body))] if headers else [b"%d" % len(body)]
    return b" ".join([b"HMSG" if headers else b"MSG", *words[1:], *lengths]) + b"\r\n" + headers + body + b"\r\n"


@contextmanager
def mutating_proxy(server: NatsServer, mutator: Mutator) -> Iterator[Proxy]:
    proxy = Proxy(server.port, mutator)
    try:
        yield proxy
    finally:
        proxy.close()


class NoBudgets:
    """Of clients that ask for nothing."""

    def take_spent(self) -> dict[str, float]:
        return {"somebody": 1.0}

    def charge(self, client: str, cost: float) -> None:
        pass


# The library lets go of sockets that it has half connected, and makes others: only the collector closes them.
@pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning")
def test_a_bus_may_say_anything(
    tmp_path: Path,
    server: NatsServer,
    fleet: Fleet,
    chain: MadeChain,
    upstream: ScriptedUpstream,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following_nodes, "QUICK", AT_ONCE)
    monkeypatch.setattr(connection, "REQUEST_S", 0.3)
    monkeypatch.setattr(connection, "CONNECT_S", 1.0)
    monkeypatch.setattr(connection, "WATCH_S", 0.02)
    monkeypatch.setattr(connection, "RENEW_S", 0.5)
    mutator = Mutator(seed(4), share=0.15)
    mutator.is_on = False
    publishing = fleet.publisher(upstream)
    with ExitStack() as stack:
        proxy = stack.enter_context(mutating_proxy(server, mutator))
        bus = open_bus(proxy.url, name="replica")
        stack.callback(bus.close)
        replica = stack.enter_context(following(tmp_path / "replica", bus=bus))
        replica.wait_for(chain)
        loops = _beside(bus, publishing.subjects, lambda: View(replica.ingestor.view))
        for each in loops:
            each.start()
            stack.callback(each.close)
        mutator.is_on = True
        for tenth in range(1, 11):
            grow(chain, upstream)
            until(
                lambda wanted=ANSWERS * tenth // 10: mutator.count >= wanted or bool(replica.failures),
                lambda: (mutator.count, replica.follower.describe()),
                LONG_S,
            )
            assert not replica.failures, replica.failures
        mutator.is_on = False
        begun = time.monotonic()
        replica.wait_for(chain)
        print(f"{mutator.count} mutated messages; at the tip {time.monotonic() - begun:.2f} s after it behaves")
        assert bus.counts["reconnections"] > 0
        for each in loops:
            replica.wait(lambda one=each: one.trouble is None, type(each).__name__)


def _beside(bus: Bus, subjects: Subjects, view: Callable[[], View]) -> list[Heartbeat | SharedBudgets | Publisher]:
    """What else a node does with the bus; it publishes a stream of its own, so that it does not follow itself."""
    others = Subjects(f"{subjects.stream}-others")
    return [
        Heartbeat(bus, subjects, lambda: {"role": "replica"}),
        SharedBudgets(bus, subjects, NoBudgets, session="1"),
        Publisher(bus, others, view),
    ]


@pytest.mark.parametrize("word", WORDS[:9], ids=lambda word: word.decode().strip() or "nothing")
def test_whatever_a_server_says_the_connection_comes_back(
    server: NatsServer, word: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library gives a connection up for good after some words, and stops reading without a word after others."""
    monkeypatch.setattr(connection, "WATCH_S", 0.02)
    monkeypatch.setattr(connection, "RENEW_S", 0.2)
    monkeypatch.setattr(connection, "REQUEST_S", 0.5)
    mutator = Mutator(1, share=1.0)
    mutator.is_on = False
    heard = threading.Event()
    with mutating_proxy(server, mutator) as proxy:
        monkeypatch.setattr(proxy, "_bent", lambda words, headers, body: word)
        bus = open_bus(proxy.url)
        try:
            bus.listen("news", lambda *_: heard.set())
            mutator.is_on = True
            with suppress(Exception):
                bus.names("x")
            mutator.is_on = False

            def told() -> bool:
                bus.tell("news", b"")
                return heard.wait(0.05)

            until(told, lambda: bus.trouble)
            assert bus.names("x") == []
        finally:
            bus.close()


@pytest.mark.parametrize("kind", [type(kind).__name__ for kind in KINDS if isinstance(kind, Exception)])
def test_what_a_node_does_with_the_bus_goes_on_after_any_exception(
    tmp_path: Path, server: NatsServer, upstream: ScriptedUpstream, chain: MadeChain, kind: str, fleet: Fleet
) -> None:
    error = next(each for each in KINDS if type(each).__name__ == kind)
    publishing = fleet.publisher(upstream)
    publishing.node.wait_for(chain)
    is_bad = threading.Event()
    failed: set[str] = set()
    with ExitStack() as stack:
        bus = open_bus(server.url, name="beside")
        stack.callback(bus.close)
        loops = _beside(bus, publishing.subjects, lambda: View(publishing.node.ingestor.view))
        for each in loops:
            _fail_while(is_bad, each._loop, type(each).__name__, failed, error)
            stack.callback(each.close)
        is_bad.set()
        for each in loops:
            each.start()
        publishing.node.wait(lambda: len(failed) == len(loops))
        publishing.node.wait(lambda: all(kind in (each.trouble or "") for each in loops))
        is_bad.clear()
        publishing.node.wait(lambda: all(each.trouble is None for each in loops))


def _fail_while(is_bad: threading.Event, loop: Any, name: str, failed: set[str], error: Exception) -> None:
    step = loop._step

    def failing() -> Any:
        if is_bad.is_set():
            failed.add(name)
            raise error
        return step()

    loop._step = failing
