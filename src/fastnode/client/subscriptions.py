"""Subscriptions of the two clients: events over WebSocket, each once and in order, over disconnects and restarts.

    connect ─► subscribe, from the newest cursors ─► events, positions ─► the connection ends ─► a pause ─► connect

Both clients share what is said and heard (:class:`Course`); one has a socket and wsproto in the thread that asks, the
other the session of aiohttp.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from urllib.parse import SplitResult, urlsplit

import orjson

from fastnode import __version__
from fastnode.client.calls import Options, growing_pause, hex_of_bytes, seconds_of
from fastnode.errors import CallRejected, NoAnswer
from fastnode.outgoing.network import credentials_of
from fastnode.records import dataclass

if TYPE_CHECKING:
    import aiohttp
    from wsproto import WSConnection

__all__ = ["AsyncSubscription", "Event", "Subscription", "Topic", "wanted_of"]

Topic = Literal["blocks", "tips", "txs", "receipts", "publicLogs", "privateLogs", "reorgs"]

#: Cursors that are kept, and said when a connection begins, the newest first: a node finds from them where chains part.
CURSORS_MAX: Final = 128
#: A node says something every 15 seconds: who says nothing for so long is gone.
QUIET_S: Final = 45.0
#: One message.
MESSAGE_BYTES_MAX: Final = 64 << 20
_READ_BYTES: Final = 64 * 1024
_PATH: Final = "/events"
_CALL_ID: Final = 1
_METHOD: Final = "subscribe"
#: Error code of JSON-RPC 2.0 for parameters that are wrong.
_WRONG_PARAMETERS: Final = -32602
#: A cursor of another chain.
_POLICY_VIOLATION: Final = 1008
#: Refusals that pass by, of those that say that the request is wrong.
_PASSING: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


@dataclass(frozen=True, slots=True)
class Event:
    """One event: ``event`` is its kind, ``data`` what stands in the JSON (docs/push.md has all kinds).

    ``cursor`` is the place behind it: kept with what was made of the event, it is where another subscription goes on.
    """

    event: str
    data: Any
    cursor: str
    subscription: str


class _Lost(Exception):  # noqa: N818 - control flow: the connection has to be made anew
    """``retry_after``: seconds, as the node says it."""

    def __init__(self, reason: str, retry_after: str | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


def wanted_of(topic: str, values: Mapping[str, Any], from_block: int | None, cursors: Sequence[str]) -> dict[str, Any]:
    """Parameters of a subscription; ``cursors`` are the newest first, and count before ``from_block``."""
    wanted = {name: hex_of_bytes(value) for name, value in values.items() if value is not None}
    begin = list(cursors)[:CURSORS_MAX] or from_block
    return {"topic": topic, **wanted} | ({} if begin is None else {"from": begin})


class Course:
    """Words said and heard on the connections of one subscription, one after the other, and the place where it is."""

    def __init__(self, wanted: dict[str, Any], options: Options) -> None:
        self._wanted = wanted
        self._options = options
        begin = wanted.get("from")
        self.cursors: deque[str] = deque(begin if isinstance(begin, list) else (), CURSORS_MAX)
        #: It was subscribed to once: from now on it is tried for ever.
        self.has_begun = False
        #: The node has answered on this connection.
        self.is_on = False
        self._failed_in_row = 0
        # Receipts of transactions that are in a block already come behind the answer, at its cursor: it says nothing
        # of whether they have come. Tips have no history.
        topic = wanted["topic"]
        self._answer_counts = topic != "tips" and (topic != "receipts" or begin is not None)

    @property
    def request(self) -> str:
        """The call that begins, or goes on."""
        self.is_on = False
        begin = {"from": list(self.cursors)} if self.cursors and self._wanted["topic"] != "tips" else {}
        call = {"jsonrpc": "2.0", "id": _CALL_ID, "method": _METHOD, "params": self._wanted | begin}
        return orjson.dumps(call).decode()

    def hear(self, text: str) -> Event | None:
        """The event that a message is; None for all others.  _Lost, and CallRejected for a refusal that will last."""
        try:
            message = orjson.loads(text)
            if message.get("id") == _CALL_ID:
                self._on_answer(message)
                return None
            params = message.get("params")
            if message.get("method") == "event" and self.is_on:
                event = Event(params["event"], params["data"], params["cursor"], params["subscription"])
                self.cursors.appendleft(event.cursor)
                return event
            if message.get("method") == "position" and self.is_on:
                self.cursors.appendleft(params["cursor"])
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
            raise _Lost("it says what is no event") from None
        return None

    def _on_answer(self, message: dict[str, Any]) -> None:
        error = message.get("error")
        if error is not None:
            if self.has_begun and error.get("code") != _WRONG_PARAMETERS:
                raise _Lost(str(error.get("message")))
            raise CallRejected(_METHOD, error.get("code", 0), str(error.get("message")), error.get("data"))
        cursor = message["result"]["cursor"]
        if not self.cursors and self._answer_counts:
            self.cursors.append(cursor)
        self.has_begun = self.is_on = True
        self._failed_in_row = 0

    def on_closed(self, code: int | None, reason: str | None) -> _Lost:
        """CallRejected if the same would come again."""
        if code == _POLICY_VIOLATION:
            raise CallRejected(_METHOD, code, reason or "the node closes the subscription")
        return _Lost(f"the node closes the connection: {code} {reason or ''}".strip())

    def on_refused(self, status: int, retry_after: str | None) -> _Lost:
        """NoAnswer for an answer that means that there are no events here, or not for this client."""
        reason = f"{self._options.url} answers a subscription with HTTP {status}"
        if 300 <= status < 500 and status not in _PASSING:
            raise NoAnswer(reason)
        return _Lost(reason, retry_after)

    def pause_after(self, lost: _Lost) -> float:
        """Seconds before the next connection.  NoAnswer if there is to be none: it has never begun."""
        self._failed_in_row += 1
        if not self.has_begun and self._failed_in_row > self._options.retries:
            raise NoAnswer(f"no answer from {self._options.url}: {lost}") from None
        asked = seconds_of(lost.retry_after)
        return growing_pause(self._failed_in_row) if asked is None else asked


class Subscription:
    """Events of a node, for ever: ``for event in subscription``.

    It connects again when the connection ends, and goes on behind the newest event.  One thread reads; any may
    ``close``, which ends the loop.  CallRejected when the node refuses to go on: the cursors are of another chain.
    """

    def __init__(self, wanted: dict[str, Any], options: Options) -> None:
        self._course = Course(wanted, options)
        self._options = options
        self._link: _Link | None = None
        self._closed = threading.Event()
        self._lock = threading.Lock()
        #: Held by the thread that reads.
        self._reading = threading.Lock()
        while not self._course.is_on:
            self._next()

    @property
    def cursors(self) -> list[str]:
        """Places of the last events, the newest first: what ``subscribe(cursors=...)`` takes."""
        return list(self._course.cursors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the subscription; from any thread."""
        self._closed.set()
        with self._lock:
            if self._link is not None:
                self._link.shut()
        if self._reading.acquire(blocking=False):  # else the thread that reads does it
            self._drop()
            self._reading.release()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        with self._reading:
            while not self._closed.is_set():
                event = self._next()
                if event is not None:
                    return event
            self._drop()
        raise StopIteration

    def _next(self) -> Event | None:
        try:
            if self._link is None:
                link = _Link(self._options, self._course)
                with self._lock:
                    self._link = link
                    if self._closed.is_set():
                        link.shut()
                link.say(self._course.request)
            text = self._link.read()
            return None if self._closed.is_set() else self._course.hear(text)
        except _Lost as lost:
            self._drop()
            if not self._closed.is_set():
                self._closed.wait(self._course.pause_after(lost))
        except BaseException:
            self._drop()
            raise
        return None

    def _drop(self) -> None:
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            link.close()


class _Link:
    """One connection.  All methods raise _Lost, and what :class:`Course` raises."""

    def __init__(self, options: Options, course: Course) -> None:
        import wsproto.events

        self._events = wsproto.events
        self._course = course
        self._texts: deque[str] = deque()
        self._parts: list[str] = []
        self._parts_length = 0
        self._is_accepted = False
        #: Code and reason with which the node has closed.
        self._end: tuple[int, str | None] | None = None
        parts = urlsplit(options.url)
        self._protocol: WSConnection = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        try:
            self._socket = _connected(parts, options.timeout_s)
        except OSError as error:
            raise _Lost(str(error) or type(error).__name__) from None
        headers = _headers(options) | credentials_of(parts)
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        try:
            target = parts.path.rstrip("/") + _PATH
            self._send(self._events.Request(host=parts.netloc.rpartition("@")[2], target=target, extra_headers=fields))
            deadline = time.monotonic() + options.timeout_s
            while not self._is_accepted and self._end is None:
                self._socket.settimeout(max(0.001, deadline - time.monotonic()))
                self._receive()
            self._socket.settimeout(QUIET_S)
        except BaseException:
            self.close()
            raise

    def say(self, text: str) -> None:
        self._send(self._events.TextMessage(text))

    def read(self) -> str:
        """The next message."""
        while not self._texts:
            if self._end is not None:  # what came before it has been heard
                raise self._course.on_closed(*self._end)
            self._receive()
        return self._texts.popleft()

    def shut(self) -> None:
        """Make a read that is under way end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _send(self, event: Any) -> None:
        from wsproto.utilities import ProtocolError

        try:
            self._socket.sendall(self._protocol.send(event))
        except (OSError, ProtocolError) as error:
            raise _Lost(str(error) or type(error).__name__) from None

    def _receive(self) -> None:
        from wsproto.utilities import ProtocolError

        try:
            data = self._socket.recv(_READ_BYTES)
            self._protocol.receive_data(data or None)
            events = list(self._protocol.events())
        except (OSError, ProtocolError) as error:
            raise _Lost(str(error) or type(error).__name__) from None
        for event in events:
            self._on_event(event)
        if not data and self._end is None:
            raise _Lost("the connection has ended")

    def _on_event(self, event: Any) -> None:
        kinds = self._events
        if isinstance(event, kinds.AcceptConnection):
            self._is_accepted = True
        elif isinstance(event, kinds.RejectConnection):
            after = next((value.decode("latin-1") for name, value in event.headers if name == b"retry-after"), None)
            raise self._course.on_refused(event.status_code, after)
        elif isinstance(event, kinds.Ping):
            self._send(event.response())
        elif isinstance(event, kinds.CloseConnection):
            self._end = event.code, event.reason
        elif isinstance(event, kinds.TextMessage):
            self._parts.append(event.data)
            self._parts_length += len(event.data)
            if self._parts_length > MESSAGE_BYTES_MAX:
                raise _Lost(f"a message has more than {MESSAGE_BYTES_MAX} bytes")
            if event.message_finished:
                self._texts.append("".join(self._parts))
                self._parts, self._parts_length = [], 0


def _connected(parts: SplitResult, timeout_s: float) -> socket.socket:
    """OSError."""
    is_tls = parts.scheme == "https"
    host = parts.hostname or ""
    plain = socket.create_connection((host, parts.port or (443 if is_tls else 80)), timeout_s)
    if not is_tls:
        return plain
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def _headers(options: Options) -> dict[str, str]:
    key = {} if options.api_key is None else {"x-api-key": options.api_key}
    return {"User-Agent": f"fastnode/{__version__}", **key}


class AsyncSubscription:
    """The same for asyncio: ``async for event in subscription``.  Belongs to one event loop."""

    def __init__(self, wanted: dict[str, Any], options: Options, session: aiohttp.ClientSession) -> None:
        self._course = Course(wanted, options)
        self._options = options
        self._session = session
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._closed = asyncio.Event()

    @property
    def cursors(self) -> list[str]:
        """Places of the last events, the newest first: what ``subscribe(cursors=...)`` takes."""
        return list(self._course.cursors)

    async def begin(self) -> Self:
        """Subscribe for the first time."""
        while not self._course.is_on:
            await self._next()
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the subscription, and the loop over it."""
        self._closed.set()
        await self._drop()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._closed.is_set():
            event = await self._next()
            if event is not None:
                return event
        raise StopAsyncIteration

    async def _next(self) -> Event | None:
        try:
            if self._socket is None:
                self._socket = await self._connect()
                await self._socket.send_str(self._course.request)
            text = await self._read(self._socket)
            return None if self._closed.is_set() else self._course.hear(text)
        except (_Lost, OSError) as error:
            await self._drop()
            if not self._closed.is_set():
                lost = error if isinstance(error, _Lost) else _Lost(str(error) or type(error).__name__)
                pause = self._course.pause_after(lost)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closed.wait(), pause)
        except BaseException:
            await self._drop()
            raise
        return None

    async def _connect(self) -> aiohttp.ClientWebSocketResponse:
        import aiohttp

        url = self._options.url.rstrip("/") + _PATH
        try:
            async with asyncio.timeout(self._options.timeout_s):
                return await self._session.ws_connect(
                    url, headers=_headers(self._options), max_msg_size=MESSAGE_BYTES_MAX
                )
        except aiohttp.WSServerHandshakeError as error:
            after = None if error.headers is None else error.headers.get("Retry-After")
            raise self._course.on_refused(error.status, after) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _Lost(str(error) or type(error).__name__) from None

    async def _read(self, connection: aiohttp.ClientWebSocketResponse) -> str:
        from aiohttp import WSMsgType

        try:
            message = await connection.receive(QUIET_S)
        except TimeoutError:
            raise _Lost(f"it says nothing for {QUIET_S:g} s") from None
        if message.type is WSMsgType.TEXT:
            text: str = message.data
            return text
        if message.type is WSMsgType.CLOSE:
            raise self._course.on_closed(message.data, message.extra)
        raise _Lost("the connection has ended")

    async def _drop(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            with suppress(OSError):
                await connection.close()
