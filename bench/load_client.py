"""The client: keep-alive connections with one request under way on each, over epoll; or wrk, where it is installed.

Without a rate the next request leaves as soon as an answer has come.  With one, requests are due at equal distances,
and their time counts from when they were due: a server that falls behind does not slow down the clock it is measured
with.
"""

from __future__ import annotations

import json
import re
import select
import shutil
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

#: What wallets send along.
WALLET_LINES = (
    "Accept: */*",
    "Accept-Language: *",
    "Sec-Fetch-Mode: cors",
    "User-Agent: node",
    "Accept-Encoding: gzip, deflate",
)
WRK_SCRIPT = Path(__file__).parent / "load.lua"

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


def post(body: bytes, *lines: str, host: str = "localhost:8080") -> bytes:
    head = [
        "POST / HTTP/1.1",
        f"Host: {host}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *lines,
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def body_of(calls: Sequence[tuple[str, list[Any]]], *, is_batch: bool = True, first_id: int = 1) -> bytes:
    """The calls as one body, as wallets send them: a batch, even of one, with ids that count on."""
    found = [
        {"jsonrpc": "2.0", "id": first_id + number, "method": method, "params": params}
        for number, (method, params) in enumerate(calls)
    ]
    return json.dumps(found if is_batch else found[0], separators=(",", ":")).encode()


def wallet_requests(traffic: Iterable[Sequence[tuple[str, list[Any]]]]) -> list[bytes]:
    """What a wallet sends, one request after the other."""
    requests = []
    count = 0
    for calls in traffic:
        requests.append(post(body_of(calls, first_id=count), *WALLET_LINES))
        count += len(calls)
    return requests


@dataclass
class Measured:
    seconds: float
    #: Of each answer, sorted, in seconds; of wrk only three of them.
    times: list[float] = field(default_factory=list)
    requests: int = 0
    #: The times without what ``waited`` grew by, and without how late the client itself was; sorted.
    own: list[float] = field(default_factory=list)
    at: dict[float, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    def percentile(self, percent: float) -> float:
        """Seconds within which so many of a hundred answers came."""
        if percent in self.at:
            return self.at[percent]
        return self.times[min(len(self.times) - 1, int(len(self.times) * percent / 100))]


class _Link:
    """One connection."""

    __slots__ = ("asked", "missing", "received", "request", "sent", "socket", "waited")

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.missing = 0  # bytes; unknown as long as something is in received
        self.received = self.request = b""
        self.asked = self.sent = self.waited = 0.0

    def take(self, data: bytes) -> bool:
        """Whether the answer is complete with this."""
        if not data:
            raise ConnectionError("the server closed a connection")
        if self.missing > 0:
            self.missing -= len(data)
            return self.missing <= 0
        self.received = received = self.received + data if self.received else data
        head_end = received.find(b"\r\n\r\n")
        if head_end < 0:
            return False
        if received[9:12] not in (b"200", b"204"):
            raise RuntimeError(f"unexpected answer {received[:300]!r}")
        length = _LENGTH.search(received, 0, head_end)
        if length is None:  # chunked
            if not received.endswith(b"\r\n0\r\n\r\n"):
                return False
            self.received = b""
            return True
        self.missing = head_end + 4 + int(length[1]) - len(received)
        self.received = b""
        return self.missing <= 0


class Client:
    """``connections`` to one server.

    With ``reopens``, :meth:`ask` opens those anew that the server closes, and all when none is answered for so many
    seconds, and asks again: ``reopened`` times so far.
    """

    def __init__(self, port: int, connections: int, host: str = "127.0.0.1", *, reopens: float | None = None) -> None:
        self._address = (host, port)
        self._links: dict[int, _Link] = {}
        self._poll = select.epoll()
        self._reopens = reopens
        self.reopened = 0
        for _ in range(connections):
            self._open()

    def _open(self) -> _Link:
        link = _Link(self._address)
        self._links[link.socket.fileno()] = link
        self._poll.register(link.socket, select.EPOLLIN)
        return link

    def _reopen(self, link: _Link) -> None:
        self._poll.unregister(link.socket)
        del self._links[link.socket.fileno()]
        link.socket.close()
        self.reopened += 1
        again = self._open()
        again.request, again.asked = link.request, link.asked
        again.socket.sendall(link.request)

    def places(self) -> dict[int, int]:
        """The connections: what :meth:`keep` calls each, by the port at this end."""
        return {link.socket.getsockname()[1]: place for place, link in self._links.items()}

    def keep(self, places: Iterable[int]) -> None:
        """Close all connections but these."""
        for place in set(self._links) - set(places):
            link = self._links.pop(place)
            self._poll.unregister(link.socket)
            link.socket.close()

    def answer(self, request: bytes) -> tuple[bytes, int]:
        """One answer as it came, and the length of its body."""
        link = next(iter(self._links.values()))
        link.socket.sendall(request)
        received = b""
        while True:
            data = link.socket.recv(1 << 20)
            received += data
            if link.take(data):
                return received, len(received) - received.index(b"\r\n\r\n") - 4

    def ask(self, requests: Sequence[bytes], count: int) -> Measured:
        """``count`` answers to the requests in turn, as fast as they come."""
        links, poll, clock = self._links, self._poll.poll, time.perf_counter
        times: list[float] = []
        sent, kinds = 0, len(requests)
        started = clock()
        for link in links.values():
            if sent < count:
                link.asked = clock()
                link.request = requests[sent % kinds]
                link.socket.sendall(link.request)
                sent += 1
        while len(times) < count:
            ready = poll(self._reopens)
            if not ready:
                for link in [link for link in links.values() if link.request]:
                    self._reopen(link)
            for descriptor, _ in ready:
                link = links[descriptor]
                try:
                    if not link.take(link.socket.recv(1 << 20)):
                        continue
                except ConnectionError:
                    if self._reopens is None:
                        raise
                    self._reopen(link)
                    continue
                now = clock()
                times.append(now - link.asked)
                if sent < count:
                    link.asked = now
                    link.request = requests[sent % kinds]
                    link.socket.sendall(link.request)
                    sent += 1
                else:
                    link.request = b""
        return Measured(clock() - started, sorted(times), len(times))

    def ask_at_rate(
        self, requests: Sequence[bytes], rate: float, seconds: float, waited: Callable[[], float] | None = None
    ) -> Measured:
        """``rate`` requests a second; the time of each counts from when it was due.

        ``waited``: for how many seconds the server has waited so far for what is not its own.
        """
        links, poll, clock = self._links, self._poll.poll, time.perf_counter
        free = deque(links.values())  # in turn, so that none is idle for so long that the server closes it
        times: list[float] = []
        own: list[float] = []
        sent, kinds, count = 0, len(requests), int(rate * seconds)
        started = clock()
        while len(times) < count:
            due = started + sent / rate
            while sent < count and free and due <= clock():
                link = free.popleft()
                link.asked = due
                if waited is not None:
                    link.waited = waited()
                    link.sent = clock()
                link.socket.sendall(requests[sent % kinds])
                sent += 1
                due = started + sent / rate
            # epoll waits for whole milliseconds, which would be most of what is measured.
            select.select([self._poll], [], [], max(0.0, due - clock()) if free and sent < count else 1.0)
            for descriptor, _ in poll(0.0):
                link = links[descriptor]
                if link.take(link.socket.recv(1 << 20)):
                    now = clock()
                    times.append(now - link.asked)
                    if waited is not None:
                        own.append(now - link.sent - (waited() - link.waited))
                    free.append(link)
        return Measured(clock() - started, sorted(times), len(times), sorted(own))

    def close(self) -> None:
        self._poll.close()
        for link in self._links.values():
            link.socket.close()


# ---- wrk ---------------------------------------------------------------------------------------------


def has_wrk() -> bool:
    return shutil.which("wrk") is not None


def ask_with_wrk(url: str, requests: Sequence[bytes], connections: int, seconds: float) -> Measured:
    """wrk puts the requests to a server in turn; RuntimeError for failed requests."""
    with tempfile.NamedTemporaryFile("wb", suffix=".requests") as file:
        for request in requests:
            file.write(b"%d\n%b" % (len(request), request))
        file.flush()
        command = [
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{max(1, round(seconds))}s",
            "-s",
            str(WRK_SCRIPT),
            url,
            file.name,
        ]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(output[output.rindex("{") :])
    if found["errors"]:
        raise RuntimeError(f"{found['errors']} requests of wrk failed")
    at = {percent: value / 1e6 for percent, value in zip((50, 99, 99.9), found["at_us"], strict=True)}
    return Measured(found["duration_us"] / 1e6, requests=found["requests"], at=at)


def port_of(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or 80
