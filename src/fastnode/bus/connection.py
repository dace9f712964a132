"""A connection to the bus that is kept, and the few things that are done over it.

The client library lives in an event loop of its own, in one thread; everything here may be called from any other
thread and blocks until the bus has answered.  While the bus is away every call fails at once with UpstreamUnavailable;
what was under way when a server went away fails then too, and whether it took place is not known: callers repeat what
may be repeated.

Streams are read by direct requests, which any server that has a copy answers, and what is new is pushed by the server
after it is stored (republished): no consumer is kept on the servers, so no number of replicas is too many for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson

from fastnode.bus.options import BusOptions
from fastnode.errors import FastnodeError, UpstreamFault, UpstreamUnavailable
from fastnode.extras import LazyModule
from fastnode.log import log_facts
from fastnode.loop import CLOCK, Clock, Setbacks
from fastnode.records import dataclass

if TYPE_CHECKING:
    import nats
    import nats.errors as nats_errors
    from nats.aio.client import Client
else:
    nats, nats_errors = LazyModule("nats"), LazyModule("nats.errors")

__all__ = ["Bus", "Message", "Outgoing", "StreamSetup"]

logger = logging.getLogger("fastnode.bus")

T = TypeVar("T")

#: Time between two lines about messages that are left out.
_FAULT_LINES_S: Final = 1.0
#: Limit of one request, in seconds; a cluster that elects a leader needs a few of them.
REQUEST_S: Final = 4.0
CONNECT_S: Final = 2.0
RECONNECT_S: Final = 0.25
#: Time of cancelled tasks to end in.
CLOSE_S: Final = 1.0
PING_S: Final = 4
#: Time between two checks of the connection, and time away after which it is made anew, in seconds.
WATCH_S: Final = 0.5
RENEW_S: Final = 5.0
#: Publications on their way at a time.
WINDOW: Final = 64
#: Messages in one answer to :meth:`Bus.since`, and their bytes.
BATCH_MAX: Final = 256
BATCH_BYTES_MAX: Final = 8 << 20
#: Bytes of messages that wait for their turn; what does not fit is left out, and asked for when it is missed.
PENDING_BYTES_MAX: Final = 16 << 20

_EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
_MESSAGE_ID: Final = "Nats-Msg-Id"
#: Error codes of JetStream.
_WRONG_LAST: Final = frozenset({10071, 10164})
_NO_STREAM: Final = 10059
_NAME_IN_USE: Final = 10058


@dataclass(frozen=True, slots=True)
class Message:
    """One that is stored: its subject, its place in the stream, its content."""

    subject: str
    sequence: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One to be stored.  ``message_id``: the same one twice is stored once.  ``expected``: only if the newest message
    on the subject has this place in the stream, 0 for none."""

    subject: str
    data: bytes
    message_id: str | None = None
    expected: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSetup:
    """Each subject keeps its newest message; ``live`` is where what was stored is told to listeners.

    At ``bytes_max``, 0 for no limit, the oldest messages go, unless what is new is refused.
    """

    name: str
    subjects: tuple[str, ...]
    live: tuple[str, str] | None = None
    live_headers_only: bool = False
    age_s: float = 0.0
    bytes_max: int = 0
    refuses_when_full: bool = False
    is_compressed: bool = True
    duplicates_s: float = 120.0


class Bus:
    """``start`` it once; ``close`` it at the end."""

    def __init__(self, options: BusOptions, clock: Clock = CLOCK) -> None:
        self.options = options
        #: Clock of all that repeats on this bus.
        self.clock = clock
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="fastnode-bus", daemon=True)
        self._client: Client | None = None
        #: What connects and watches; None until it has begun.
        self._life: asyncio.Future[Any] | None = None
        self._is_connecting = False
        self._listeners: list[tuple[str, Callable[[Any], Coroutine[Any, Any, None]]]] = []
        self._under_way: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        #: Reason why the bus cannot be used; None while it can.
        self.trouble: str | None = "the bus has not answered yet"
        #: ``received``, ``published``, ``duplicates``, ``reconnections``: since the start.
        self.counts: Counter[str] = Counter()
        self._on_connected: list[Callable[[], None]] = []
        self._setbacks = Setbacks("the bus gives an answer that makes no sense")

    # ---- its life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect, in the background, for as long as it takes."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._live(), self._loop)

    def close(self) -> None:
        """May be called more than once; what is under way fails."""
        if self._is_closed or self._thread.ident is None:
            return
        self._is_closed = True
        self.trouble = "the node is stopping"
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._disconnect(), self._loop).result(CONNECT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CONNECT_S)

    def on_connected(self, action: Callable[[], None]) -> None:
        """Call this after each connection, the first too; it runs in the loop's thread and must not block."""
        self._on_connected.append(action)

    @property
    def is_connected(self) -> bool:
        return self.trouble is None

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def connection_number(self) -> int:
        """Another one after each loss of the connection: servers that come back may have lost the end of what they had
        acknowledged, which they sync to their disks every two minutes unless they are told otherwise."""
        return self.counts["reconnections"]

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            with contextlib.suppress(Exception):
                if tasks:
                    self._loop.run_until_complete(asyncio.wait(tasks, timeout=CLOSE_S))
            with contextlib.suppress(Exception):
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _live(self) -> None:
        """Connect, and watch the connection, until the bus is closed: also while it connects, which may take as long as
        a server that accepts and says nothing wants."""
        self._life = asyncio.gather(self._connect_guarded(), self._watch())
        with contextlib.suppress(asyncio.CancelledError):
            await self._life

    async def _connect(self) -> None:
        options = self.options
        while not self._is_closed:
            client = nats.NATS()  # type: ignore[attr-defined]
            self._client = client
            try:
                await client.connect(
                    list(options.urls),
                    name=f"fastnode {options.name}",
                    connect_timeout=int(CONNECT_S),
                    reconnect_time_wait=RECONNECT_S,  # type: ignore[arg-type]
                    max_reconnect_attempts=-1,
                    ping_interval=PING_S,
                    max_outstanding_pings=1,
                    tls=_tls_of(options),
                    user_credentials=None if options.credentials is None else str(options.credentials),
                    nkeys_seed=None if options.nkey is None else str(options.nkey),
                    disconnected_cb=self._on_away,
                    reconnected_cb=self._on_back,
                    error_cb=self._on_error,
                )
            except Exception as error:  # noqa: BLE001 - a server that refuses now may take it later
                self._set_trouble(f"the bus cannot be reached: {_reason(error)}")
                await _abandon(client)
                await asyncio.sleep(CONNECT_S)
            else:
                await self._listen_again(client)
                self._connected()
                return

    async def _listen_again(self, client: Client) -> None:
        for pattern, handle in tuple(self._listeners):
            await client.subscribe(pattern, cb=handle, pending_bytes_limit=PENDING_BYTES_MAX)

    async def _watch(self) -> None:
        """The library gives a connection up for good after some answers, and stops reading without a word after others:
        a connection that does not come back is made anew."""
        away_since: float | None = None
        while not self._is_closed:
            await asyncio.sleep(WATCH_S)
            client = self._client
            try:
                if client is None or self._is_connecting:
                    continue
                if client.is_connected and not _has_stopped_reading(client):
                    away_since = None
                    continue
                now = self._loop.time()
                away_since = now if away_since is None else away_since
                if client.is_closed or client.is_connected or now - away_since >= RENEW_S:
                    away_since = None
                    await self._renew(client)
            except Exception as error:  # noqa: BLE001 - counted, and logged once
                self._setbacks.note(error)

    async def _renew(self, client: Client) -> None:
        self._set_trouble("the connection to the bus is lost")
        self._give_up_all()
        await _abandon(client)
        self.counts["reconnections"] += 1
        await self._connect_guarded()

    async def _connect_guarded(self) -> None:
        self._is_connecting = True
        try:
            await self._connect()
        finally:
            self._is_connecting = False

    async def _disconnect(self) -> None:
        if self._life is not None:
            self._life.cancel()
        self._give_up_all()
        client = self._client
        if client is not None and client.is_connected:
            await client.close()
        elif client is not None:
            await _abandon(client)

    def _connected(self) -> None:
        if self._is_closed:
            return
        logger.info("bus connected")
        self.trouble = None
        for action in self._on_connected:
            try:
                action()
            except Exception as error:  # noqa: BLE001 - counted, and logged once
                self._setbacks.note(error)

    async def _on_back(self) -> None:
        self.counts["reconnections"] += 1
        self._connected()

    async def _on_away(self) -> None:
        if not self._is_closed:
            self._set_trouble("the connection to the bus is lost")
            self._give_up_all()

    async def _on_error(self, error: Exception) -> None:
        if not self.is_connected:
            self._set_trouble(f"the bus cannot be reached: {_reason(error)}")
        else:
            logger.info("bus", extra=log_facts(error=_reason(error)))

    def _set_trouble(self, reason: str) -> None:
        if self._is_closed:
            return
        if self.trouble != reason:
            logger.warning("bus away", extra=log_facts(reason=reason))
        self.trouble = reason

    def _give_up_all(self) -> None:
        for task in tuple(self._under_way):
            task.cancel()

    # ---- requests --------------------------------------------------------------------------------

    def _run(self, work: Callable[[Client], Coroutine[Any, Any, T]], timeout_s: float = REQUEST_S) -> T:
        trouble = self.trouble
        if trouble is not None or self._client is None:
            raise UpstreamUnavailable(trouble or "the bus has not answered yet")
        client = self._client

        async def run() -> T:
            task = asyncio.ensure_future(work(client))
            self._under_way.add(task)
            try:
                return await asyncio.wait_for(task, timeout_s)
            finally:
                self._under_way.discard(task)

        try:
            return asyncio.run_coroutine_threadsafe(run(), self._loop).result()
        except TimeoutError:
            raise UpstreamUnavailable(f"the bus has not answered within {timeout_s:g} s") from None
        except (CancelledError, asyncio.CancelledError):
            raise UpstreamUnavailable(self.trouble or "the connection to the bus was lost") from None
        except (nats_errors.Error, OSError, RuntimeError) as error:
            raise UpstreamUnavailable(f"the bus: {_reason(error)}") from error
        except FastnodeError:
            raise
        except Exception as error:
            raise self._nonsense(error) from error

    def _nonsense(self, error: Exception) -> UpstreamFault:
        """Note an answer that JetStream would not give; the error to raise for it."""
        self._setbacks.note(error)
        return UpstreamFault(f"the bus gives an answer that makes no sense ({type(error).__name__})")

    def _read(self, read: Callable[[], T]) -> T:
        """Value read from an answer; UpstreamFault when it is not there."""
        try:
            return read()
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise self._nonsense(error) from error

    def publish(self, message: Outgoing) -> int | None:
        """Store it; returns its place in the stream once that is durable, None when it was not ``expected``."""
        return self.publish_all([message])[0]

    def publish_all(self, messages: Sequence[Outgoing], timeout_s: float = 2 * REQUEST_S) -> list[int | None]:
        """Store them in their order; returns when all are durable.  UpstreamUnavailable: some may be stored."""

        async def work(client: Client) -> list[int | None]:
            window = asyncio.Semaphore(WINDOW)

            async def one(message: Outgoing) -> int | None:
                try:
                    return await self._publish(client, message)
                finally:
                    window.release()

            tasks = []
            try:
                for message in messages:
                    await window.acquire()
                    tasks.append(asyncio.ensure_future(one(message)))
                return await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()

        return self._run(work, timeout_s + 0.05 * len(messages))

    async def _publish(self, client: Client, message: Outgoing) -> int | None:
        headers = {}
        if message.message_id is not None:
            headers[_MESSAGE_ID] = message.message_id
        if message.expected is not None:
            headers[_EXPECTED] = str(message.expected)
        answer = await client.request(message.subject, message.data, timeout=REQUEST_S, headers=headers or None)
        value = orjson.loads(answer.data)
        error = value.get("error")
        if error is not None:
            if error.get("err_code") in _WRONG_LAST:
                return None
            raise UpstreamUnavailable(f"the bus does not take a message: {error.get('description')}")
        self.counts["duplicates" if value.get("duplicate") else "published"] += 1
        return int(value["seq"])

    def last(self, stream: str, subject: str) -> Message | None:
        """The newest message on a subject; None if there is none."""
        return self.lasts(stream, [subject])[0]

    def lasts(self, stream: str, subjects: Sequence[str]) -> list[Message | None]:
        """The newest message on each of the subjects, asked for side by side."""

        async def work(client: Client) -> list[Message | None]:
            return await _all(lambda subject: _direct(client, f"$JS.API.DIRECT.GET.{stream}.{subject}", b""), subjects)

        return self._run(work, REQUEST_S + 0.02 * len(subjects))

    def matching(self, stream: str, pattern: str) -> list[Message]:
        """The newest message on each subject that the pattern matches."""
        return self._batch(stream, {"multi_last": [pattern]})

    def since(self, stream: str, sequence: int, pattern: str) -> list[Message]:
        """Some messages from a place in the stream on, in order; none: there are no more now."""
        request = {"seq": sequence, "next_by_subj": pattern, "batch": BATCH_MAX, "max_bytes": BATCH_BYTES_MAX}
        return self._batch(stream, request)

    def _batch(self, stream: str, request: Mapping[str, Any]) -> list[Message]:
        async def work(client: Client) -> list[Message]:
            inbox = client.new_inbox()
            subscription = await client.subscribe(inbox, pending_bytes_limit=PENDING_BYTES_MAX)
            found: list[Message] = []
            # A server ends with the message that goes beyond what was asked for.
            room = BATCH_BYTES_MAX + client.max_payload
            try:
                await client.publish(f"$JS.API.DIRECT.GET.{stream}", orjson.dumps(request), reply=inbox)
                while True:
                    answer = await subscription.next_msg(REQUEST_S)
                    message = _stored(answer)
                    if message is None:
                        return found
                    room -= len(message.data)
                    if room < 0:
                        raise UpstreamUnavailable("the bus gives more than was asked for")
                    found.append(message)
            finally:
                with contextlib.suppress(Exception):
                    await subscription.unsubscribe()

        return self._run(work, 2 * REQUEST_S)

    def listen(self, pattern: str, on_message: Callable[[str, Mapping[str, str], bytes], None]) -> None:
        """From now on, and after each loss of the connection, call this with subject, headers and content of what
        comes; in the loop's thread, so it must not block.  Some may be left out."""

        left_out, faults = Setbacks("a message of the bus is left out"), _Faults()

        async def handle(message: Any) -> None:
            self.counts["received"] += 1
            try:
                on_message(message.subject, message.headers or {}, message.data)
            except FastnodeError as error:
                faults.note(str(error))
            except Exception as error:  # noqa: BLE001 - counted, and logged once
                left_out.note(error)
            else:
                left_out.end()

        async def work(client: Client) -> None:
            await client.subscribe(pattern, cb=handle, pending_bytes_limit=PENDING_BYTES_MAX)
            self._listeners.append((pattern, handle))

        self._run(work)

    def tell(self, subject: str, data: bytes) -> None:
        """To those who listen now; nothing is stored.  No error when the bus is away."""
        with contextlib.suppress(UpstreamUnavailable):
            self._run(lambda client: client.publish(subject, data))

    # ---- streams ---------------------------------------------------------------------------------

    def names(self, prefix: str) -> list[str]:
        """Names of the streams that begin with ``prefix``."""
        found: list[str] = []
        while True:
            answer = self._api("STREAM.NAMES", {"offset": len(found)})
            names = self._read(lambda: [str(name) for name in answer.get("streams") or []])  # noqa: B023 - read now
            found += names
            if not names or len(found) >= self._read(lambda: int(answer.get("total", 0))):  # noqa: B023 - read now
                return sorted(name for name in found if name.startswith(prefix))

    def state(self, stream: str) -> dict[str, Any] | None:
        """``created``, ``max_bytes`` (-1: no limit), and ``messages``, ``bytes``, ``first_seq``, ``last_seq``; None if
        there is no such stream."""
        try:
            answer = self._api(f"STREAM.INFO.{stream}", {})
        except _NoStream:
            return None
        return self._read(lambda: _state_of(answer))

    def subjects(self, stream: str, pattern: str) -> set[str]:
        """Subjects of the stream that match ``pattern`` and have a message."""
        found: set[str] = set()
        while True:
            answer = self._api(f"STREAM.INFO.{stream}", {"subjects_filter": pattern, "offset": len(found)})
            before = len(found)
            found.update(self._read(lambda: map(str, answer["state"].get("subjects") or {})))  # noqa: B023 - read now
            total = self._read(lambda: int(answer.get("total", 0)))  # noqa: B023 - read now
            if len(found) == before or len(found) >= total:
                return found

    def set_up(self, setup: StreamSetup) -> None:
        """Make the stream unless it is there: an operator's own limits stay, and users of replicas may make none."""
        if self.state(setup.name) is not None:
            return
        config = {
            "name": setup.name,
            "subjects": list(setup.subjects),
            "retention": "limits",
            "storage": "file",
            "compression": "s2" if setup.is_compressed else "none",
            "discard": "new" if setup.refuses_when_full else "old",
            "max_msgs_per_subject": 1,
            "max_bytes": setup.bytes_max or -1,
            "max_age": int(setup.age_s * 1e9),
            "duplicate_window": int(setup.duplicates_s * 1e9),
            "num_replicas": self.options.replicas,
            "allow_direct": True,
            # With them a message on one subject could remove those on all others.
            "allow_rollup_hdrs": False,
        }
        if setup.live is not None:
            source, destination = setup.live
            config["republish"] = {"src": source, "dest": destination, "headers_only": setup.live_headers_only}
        try:
            self._api(f"STREAM.CREATE.{setup.name}", config)
        except _InUse:
            pass  # another node was first
        except UpstreamUnavailable as error:
            raise UpstreamUnavailable(f"there is no stream {setup.name}, and none can be made here: {error}") from error
        else:
            logger.info("stream ready", extra=log_facts(stream=setup.name))

    def purge(self, stream: str, *, subject: str | None = None, before: int | None = None) -> None:
        """Remove what is on a subject, or what has a lower place in the stream."""
        request: dict[str, Any] = {}
        if subject is not None:
            request["filter"] = subject
        if before is not None:
            request["seq"] = before
        self._api(f"STREAM.PURGE.{stream}", request)

    def _api(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        async def work(client: Client) -> dict[str, Any]:
            answer = await client.request(f"$JS.API.{name}", orjson.dumps(request), timeout=REQUEST_S)
            value = orjson.loads(answer.data)
            if not isinstance(value, dict):
                raise UpstreamFault("the bus gave no record")
            return value

        value = self._run(work)
        error = value.get("error")
        if error is None:
            return value
        if not isinstance(error, dict):
            raise UpstreamFault("the bus gives an error that makes no sense")
        if error.get("err_code") == _NO_STREAM:
            raise _NoStream(str(error.get("description")))
        if error.get("err_code") == _NAME_IN_USE:
            raise _InUse(str(error.get("description")))
        raise UpstreamUnavailable(f"the bus: {error.get('description')}")


class _Faults:
    """Lines about messages that are left out: one a second, however many there are."""

    def __init__(self) -> None:
        self._next_at = 0.0
        self._count = 0

    def note(self, reason: str) -> None:
        self._count += 1
        now = time.monotonic()
        if now < self._next_at:
            return
        logger.warning("a message of the bus is left out", extra=log_facts(reason=reason, count=self._count))
        self._next_at, self._count = now + _FAULT_LINES_S, 0


def _state_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    limit = int(answer["config"].get("max_bytes", -1))
    state = {"created": str(answer["created"]), **answer["state"], "max_bytes": limit if limit > 0 else -1}
    for name in ("messages", "bytes", "first_seq", "last_seq"):
        state[name] = int(state.get(name, 0))
    return state


class _NoStream(UpstreamUnavailable):
    pass


class _InUse(UpstreamFault):
    pass


def _has_stopped_reading(client: Client) -> bool:
    task = getattr(client, "_reading_task", None)
    return task is not None and task.done()


async def _abandon(client: Client) -> None:
    """End a connection that may be half made; the library leaves its socket open when a close fails on the way."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(CONNECT_S):
            await client.close()
    transport = getattr(client, "_transport", None)
    if transport is not None:
        with contextlib.suppress(Exception):
            transport.close()


async def _all(ask: Callable[[str], Awaitable[Message | None]], subjects: Sequence[str]) -> list[Message | None]:
    window = asyncio.Semaphore(WINDOW)

    async def one(subject: str) -> Message | None:
        async with window:
            return await ask(subject)  # made here: those that are given up before their turn leave nothing behind

    return list(await asyncio.gather(*map(one, subjects)))


async def _direct(client: Client, subject: str, data: bytes) -> Message | None:
    return _stored(await client.request(subject, data, timeout=REQUEST_S))


def _stored(answer: Any) -> Message | None:
    """None for the end of an answer, and for nothing found."""
    headers = answer.headers or {}
    status = headers.get("Status")
    if status in ("404", "204"):
        return None
    if status == "503":
        raise nats_errors.NoRespondersError
    if status is not None or "Nats-Sequence" not in headers:
        raise UpstreamUnavailable(f"the bus: {headers.get('Description', 'an answer that is not understood')}")
    return Message(headers["Nats-Subject"], int(headers["Nats-Sequence"]), answer.data or b"")


def _tls_of(options: BusOptions) -> ssl.SSLContext | None:
    if options.tls_ca is None and options.tls_certificate is None:
        return None
    context = ssl.create_default_context(cafile=None if options.tls_ca is None else str(options.tls_ca))
    if options.tls_certificate is not None and options.tls_key is not None:
        context.load_cert_chain(str(options.tls_certificate), str(options.tls_key))
    return context


def _reason(error: BaseException) -> str:
    """Without addresses: the text may be seen by clients."""
    if isinstance(error, nats_errors.NoRespondersError):
        return "no server has the stream"
    return type(error).__name__ if isinstance(error, OSError) else str(error)[:200] or type(error).__name__
