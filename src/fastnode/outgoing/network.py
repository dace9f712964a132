"""HTTP to other servers: connections that are kept, a deadline for the whole exchange, a limit on the answer.

A caller waits in its own thread; the event loop that serves clients never does.  ``close`` ends what is under way
in all threads, so that a stop waits for no other server.
"""

from __future__ import annotations

import base64
import http.client
import io
import os
import select
import socket
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from fastnode import __version__
from fastnode.errors import AnswerTooLarge, FastnodeError, UpstreamFault, UpstreamUnavailable
from fastnode.loop import Setbacks
from fastnode.outgoing.answer_room import room_here
from fastnode.records import dataclass
from fastnode.values.urls import is_http_url

if TYPE_CHECKING:
    import ssl

__all__ = ["OTHER_SERVERS", "Answer", "ClientLimits", "ExchangeTimes", "Network", "credentials_of"]

_MIB: Final = 1 << 20
_READ_BYTES: Final = 256 * 1024
#: Connections to one server that are kept while no request is under way on them.
_IDLE_PER_SERVER_MAX: Final = 8
_REDIRECTS_MAX: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
#: Answers before the answer, such as 103.
_INTERIM_MAX: Final = 32
_CONTINUE: Final = 100
_SWITCHING: Final = 101
_SUCCESS: Final = 200
#: zlib: a gzip or a zlib head.
_ANY_HEAD: Final = 32 + zlib.MAX_WBITS
#: Addresses of this machine, which are never asked through a proxy.
_THIS_MACHINE: Final = ("localhost", "127.", "[::1]", "::1")


#: Reasons that OpenSSL gives for a server whose first bytes are HTTP.
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})

STOPPING: Final = "the node is stopping"
#: Servers beyond this number are counted together.
_SERVERS_COUNTED_MAX: Final = 64
OTHER_SERVERS: Final = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """``request_time_s`` covers a whole exchange, from connecting to the last byte of the answer; ``memory_bytes_max``
    is what an answer and its values may take together: with two answers that are fetched ahead, and with what a bus
    keeps ready, 256 MiB."""

    request_time_s: float = 15.0
    connect_time_s: float = 5.0
    response_bytes_max: int = 64 * _MIB
    memory_bytes_max: int = 192 * _MIB

    @classmethod
    def of_provider(cls, request_time_s: float) -> ClientLimits:
        """For L1 and places of blobs, which are asked beside nodes, and by several threads."""
        return cls(request_time_s=request_time_s, response_bytes_max=24 * _MIB, memory_bytes_max=64 * _MIB)

    @property
    def here(self) -> ClientLimits:
        """Limits for the caller: lower for what is fetched ahead of its use, or beside much else."""
        room = room_here()
        if room is None:
            return self
        return replace(
            self,
            response_bytes_max=min(self.response_bytes_max, room.response_bytes_max),
            memory_bytes_max=min(self.memory_bytes_max, room.memory_bytes_max),
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """``headers`` by their names in lower case; ``retry_after_s``: when the server wants to be asked again."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def retry_after_s(self) -> float | None:
        """Seconds; None: it does not say."""
        return _retry_after(self.headers.get("retry-after"))


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: True if it may be sent again when a kept connection breaks: the server may have seen it.
    is_repeatable: bool = True


class ExchangeTimes:
    """Number of exchanges with each server, the time they took, and how many failed.  Usable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[str, list[float]] = {}

    def add(self, server: str, seconds: float, *, has_failed: bool) -> None:
        with self._lock:
            if server not in self._servers and len(self._servers) >= _SERVERS_COUNTED_MAX:
                server = OTHER_SERVERS
            sums = self._servers.setdefault(server, [0, 0.0, 0])
            sums[0] += 1
            sums[1] += seconds
            sums[2] += has_failed

    def by_server(self) -> dict[str, tuple[int, float, int]]:
        """Exchanges, seconds of them all, and failed ones, by ``host:port``; redirects can add a few servers."""
        with self._lock:
            return {server: (int(sums[0]), sums[1], int(sums[2])) for server, sums in self._servers.items()}


class Network:
    """Usable from any thread.  Every exchange raises UpstreamUnavailable when there is no complete answer in time, and
    UpstreamFault when the answer is too large or no HTTP."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By scheme and server: the credentials of a URL go with each request.
        self._idle: defaultdict[tuple[str, str], list[http.client.HTTPConnection]] = defaultdict(list)
        #: Connections with a request under way, and their sockets once there is one.
        self._busy: dict[http.client.HTTPConnection, socket.socket | None] = {}
        self._tls: ssl.SSLContext | None = None
        self._closed = threading.Event()
        self.times = ExchangeTimes()
        self._setbacks = Setbacks("an exchange with another server makes no sense")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def wait(self, seconds: float) -> None:
        """Wait before a request; UpstreamUnavailable if the network is closed meanwhile."""
        if self._closed.wait(seconds):
            raise UpstreamUnavailable(STOPPING)

    def close(self) -> None:
        """End every exchange that is under way.  May be called from any thread, and more than once."""
        with self._lock:
            self._closed.set()
            busy, idle = tuple(self._busy.values()), [each for kept in self._idle.values() for each in kept]
            self._idle.clear()
        for sock in busy:
            _shut(sock)
        for connection in idle:
            connection.close()

    def forget(self, url: str) -> None:
        """Close the connections to a server that are kept: what comes next may not be the answer to what is asked."""
        parts = urlsplit(url)
        with self._lock:
            kept = self._idle.pop((parts.scheme, _server_of(parts)), [])
        for connection in kept:
            connection.close()

    # ---- exchanges -----------------------------------------------------------------------------

    def post(
        self,
        url: str,
        body: bytes,
        limits: ClientLimits,
        headers: Mapping[str, str] | None = None,
        *,
        is_repeatable: bool = True,
    ) -> Answer:
        """One POST; redirects are answers like any other.

        Unless ``is_repeatable`` it is sent once, also when the server closes a kept connection at that moment.
        """
        deadline = time.monotonic() + limits.request_time_s
        return self._exchange(_Request("POST", url, body, headers or {}, is_repeatable), limits, deadline)

    def get(
        self,
        url: str,
        limits: ClientLimits,
        headers: Mapping[str, str] | None = None,
        *,
        redirects_max: int = _REDIRECTS_MAX,
    ) -> Answer:
        """One GET, with the redirects that it meets; those that lead to another server are an UpstreamFault.

        With headers that are secrets, allow none.
        """
        deadline = time.monotonic() + limits.request_time_s
        for count in range(redirects_max + 1):
            answer = self._exchange(_Request("GET", url, None, headers or {}), limits, deadline)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or location is None or redirects_max == 0:
                return answer
            if count == redirects_max:
                break
            url = _redirected(url, location)
        raise UpstreamFault(f"it redirects more than {redirects_max} times")

    def _exchange(self, request: _Request, limits: ClientLimits, deadline: float) -> Answer:
        begun, answer = time.monotonic(), None
        try:
            answer = self._answer(request, limits, deadline)
            return answer
        finally:
            self.times.add(_server_of(urlsplit(request.url)), time.monotonic() - begun, has_failed=answer is None)

    @contextmanager
    def streamed(
        self, url: str, limits: ClientLimits, headers: Mapping[str, str]
    ) -> Iterator[tuple[Answer, Iterator[bytes]]]:
        """The answer to one GET, and its body part by part: ``request_time_s`` is how long nothing may come.

        A server that stores a file in gzip sends it so, whatever was asked for: it is not decompressed here.  Redirects
        as for ``get``.
        """
        request = _Request("GET", url, headers={"Accept-Encoding": "identity", **headers})
        for _ in range(_REDIRECTS_MAX + 1):
            parts = urlsplit(request.url)
            connection = self._new(parts, limits)
            try:
                with self._explained(limits):
                    response = self._asked(connection, parts, request, limits, lambda: limits.request_time_s)
                answer = Answer(response.status, b"", _headers_of(response))
                location = answer.headers.get("location")
                if answer.status not in _REDIRECTS or location is None:
                    with response:
                        yield answer, self._parts(response, limits)
                    return
            finally:
                self._put_back(connection, parts, is_reusable=False)
            request = replace(request, url=_redirected(request.url, location))
        raise UpstreamFault(f"it redirects more than {_REDIRECTS_MAX} times")

    def _parts(self, response: http.client.HTTPResponse, limits: ClientLimits) -> Iterator[bytes]:
        """The body as it comes, which must have no coding but gzip."""
        coding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if coding not in ("identity", "gzip", "x-gzip"):
            raise UpstreamFault(f"its answer has the coding {coding[:20]!r}, which was not asked for")
        with self._explained(limits):
            while chunk := response.read1(_READ_BYTES):
                yield chunk
            if response.length:
                raise http.client.IncompleteRead(b"", response.length)

    def _answer(self, request: _Request, limits: ClientLimits, deadline: float) -> Answer:
        with self._explained(limits):
            return self._on_kept_or_new(request, limits, deadline)

    @contextmanager
    def _explained(self, limits: ClientLimits) -> Iterator[None]:
        """UpstreamUnavailable or UpstreamFault for all that may go wrong in an exchange."""
        try:
            yield
        except TimeoutError:
            raise UpstreamUnavailable(f"no complete answer within {limits.request_time_s:g} s") from None
        except OSError as error:
            reason = _describe("the connection broke", error)
            raise UpstreamUnavailable(STOPPING if self.is_closed else reason) from error
        except http.client.IncompleteRead as error:
            raise UpstreamUnavailable(STOPPING if self.is_closed else "the connection broke") from error
        except http.client.HTTPException as error:
            if self.is_closed:
                raise UpstreamUnavailable(STOPPING) from error
            raise UpstreamFault(f"its answer is no HTTP ({type(error).__name__})") from error
        except FastnodeError:
            raise
        except Exception as error:  # the callers' loops expect two kinds of errors; ``times`` counts it as failed
            self._setbacks.note(error)
            raise UpstreamFault(f"its answer makes no sense ({type(error).__name__})") from error

    def _on_kept_or_new(self, request: _Request, limits: ClientLimits, deadline: float) -> Answer:
        parts = urlsplit(request.url)
        kept = self._take(parts)
        if kept is not None:
            try:
                return self._talk(kept, parts, request, limits, deadline)
            except (http.client.RemoteDisconnected, ConnectionError):
                # The server has closed the idle connection meanwhile.
                if self.is_closed or not request.is_repeatable:
                    raise
        return self._talk(self._new(parts, limits), parts, request, limits, deadline)

    def _talk(
        self,
        connection: http.client.HTTPConnection,
        parts: SplitResult,
        request: _Request,
        limits: ClientLimits,
        deadline: float,
    ) -> Answer:
        is_reusable = False
        try:
            with self._asked(connection, parts, request, limits, lambda: _left(deadline)) as response:
                body = _read(response, limits.response_bytes_max)
                is_reusable = not response.will_close and response.status >= _SUCCESS
            return Answer(response.status, body, _headers_of(response))
        finally:
            self._put_back(connection, parts, is_reusable=is_reusable)

    def _asked(
        self,
        connection: http.client.HTTPConnection,
        parts: SplitResult,
        request: _Request,
        limits: ClientLimits,
        left: Callable[[], float],
    ) -> http.client.HTTPResponse:
        """The head of the answer; its body is not read yet.  ``left``: seconds for what comes next."""
        sock = self._connected(connection, limits, left)
        sock.settimeout(left())
        connection.response_class = _response_class(left)
        headers = {"User-Agent": f"fastnode/{__version__}", "Accept-Encoding": "gzip", **credentials_of(parts)}
        connection.request(request.method, _target(connection, parts), request.body, {**headers, **request.headers})
        return connection.getresponse()

    def _connected(
        self, connection: http.client.HTTPConnection, limits: ClientLimits, left: Callable[[], float]
    ) -> socket.socket:
        self._note_busy(connection, connection.sock)
        if connection.sock is None:
            connection.timeout = min(limits.connect_time_s, left())
            try:
                connection.connect()
            except TimeoutError:
                raise UpstreamUnavailable(f"no connection within {connection.timeout:g} s") from None
            except OSError as error:
                if getattr(error, "reason", None) in _NO_TLS:
                    raise UpstreamFault("it does not speak TLS: use http://") from error
                raise UpstreamUnavailable(_describe("cannot connect", error)) from error
            self._note_busy(connection, connection.sock)
        sock: socket.socket = connection.sock
        return sock

    def _note_busy(self, connection: http.client.HTTPConnection, sock: socket.socket | None) -> None:
        with self._lock:
            if self.is_closed:
                raise UpstreamUnavailable(STOPPING)
            self._busy[connection] = sock

    # ---- connections ---------------------------------------------------------------------------

    def _take(self, parts: SplitResult) -> http.client.HTTPConnection | None:
        while True:
            with self._lock:
                kept = self._idle[parts.scheme, _server_of(parts)]
                connection = kept.pop() if kept else None
            if connection is None or not _is_ended(connection):
                return connection
            connection.close()

    def _put_back(self, connection: http.client.HTTPConnection, parts: SplitResult, *, is_reusable: bool) -> None:
        with self._lock:
            self._busy.pop(connection, None)
            kept = self._idle[parts.scheme, _server_of(parts)]
            if is_reusable and not self.is_closed and len(kept) < _IDLE_PER_SERVER_MAX:
                kept.append(connection)
                return
        connection.close()

    def _new(self, parts: SplitResult, limits: ClientLimits) -> http.client.HTTPConnection:
        proxy = _proxy_of(parts)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            port = port or http.client.HTTPS_PORT
            via = (proxy.hostname or "", proxy.port) if proxy is not None else (host, port)
            secure = http.client.HTTPSConnection(*via, timeout=limits.connect_time_s, context=self._tls_context())
            if proxy is not None:
                secure.set_tunnel(host, port)
            return secure
        if proxy is not None:
            return _ThroughProxy(proxy.hostname or "", proxy.port, timeout=limits.connect_time_s)
        return http.client.HTTPConnection(host, port, timeout=limits.connect_time_s)

    def _tls_context(self) -> ssl.SSLContext:
        # On demand: most nodes talk to others over plain HTTP, and reading the certificates takes a while.
        if self._tls is None:
            import ssl

            self._tls = ssl.create_default_context()
        return self._tls


class _ThroughProxy(http.client.HTTPConnection):
    """Plain HTTP through a proxy, which is given the whole URL."""


class _Response(http.client.HTTPResponse):
    """The answer itself, behind those that only say that one will come (RFC 9110, 15.2), with a whole head."""

    def begin(self) -> None:
        source: Any = self.fp.raw
        super().begin()
        if source.is_ended:  # in the middle of the head, which the library takes for whole
            raise http.client.IncompleteRead(b"")

    def _read_status(self) -> tuple[str, int, str]:
        for _ in range(_INTERIM_MAX + 1):
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if not _CONTINUE <= status < _SUCCESS or status == _SWITCHING:
                return version, status, reason
            http.client.parse_headers(self.fp)
        raise UpstreamFault(f"it answers more than {_INTERIM_MAX} times that an answer will come")


def _response_class(left: Callable[[], float]) -> Any:
    """The response, of which each read may take the seconds that are ``left`` then."""
    return lambda sock, *rest, **more: _Response(_Source(sock, left), *rest, **more)  # type: ignore[arg-type]


class _Source:
    """Part of a socket that an ``HTTPResponse`` needs."""

    def __init__(self, sock: socket.socket, left: Callable[[], float]) -> None:
        self._sock = sock
        self._left = left

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_InTime(self._sock, self._left))


class _InTime(io.RawIOBase):
    def __init__(self, sock: socket.socket, left: Callable[[], float]) -> None:
        self._sock = sock
        # It keeps the socket open when the connection, which is done with it, closes it.
        self._file = sock.makefile("rb", buffering=0)
        self._left = left
        self.is_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._left())
        count = self._file.readinto(buffer)
        self.is_ended = self.is_ended or count == 0
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _left(deadline: float) -> float:
    """Seconds; TimeoutError when there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _is_ended(connection: http.client.HTTPConnection) -> bool:
    """True if the server has closed a connection that is idle: there is something to read, its end."""
    readable = select.poll()
    readable.register(connection.sock, select.POLLIN)
    return bool(readable.poll(0))


def _shut(sock: socket.socket | None) -> None:
    """Wake the thread that reads from it."""
    if sock is None:
        return
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is gone already
        return


def credentials_of(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode("ascii")}


def _server_of(parts: SplitResult) -> str:
    """``host:port``, without the name and password that a URL may have."""
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def _target(connection: http.client.HTTPConnection, parts: SplitResult) -> str:
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return (
        f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}" if isinstance(connection, _ThroughProxy) else path
    )


def _headers_of(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _read(response: http.client.HTTPResponse, bytes_max: int) -> bytes:
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip", "deflate"):
        raise UpstreamFault(f"its answer has the unknown coding {coding[:20]!r}")
    inflater = None if coding == "identity" else zlib.decompressobj(_ANY_HEAD)
    body = bytearray()
    while chunk := response.read1(_READ_BYTES):
        try:
            body += chunk if inflater is None else inflater.decompress(chunk, bytes_max + 1 - len(body))
        except zlib.error:
            raise UpstreamFault("its compressed answer is damaged") from None
        if len(body) > bytes_max:
            raise AnswerTooLarge(f"its answer exceeds {bytes_max} bytes")
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    if inflater is not None and not inflater.eof:
        raise UpstreamFault("its compressed answer is damaged")
    return bytes(body)


def _redirected(url: str, location: str) -> str:
    """UpstreamFault for what is no URL, has a host that no server can have, or leads to another server.

    Who names a server trusts that one; where it leads may be a service that only this machine reaches.
    """
    try:
        target = urljoin(url, location)
        (urlsplit(target).hostname or "").encode("idna")
    except ValueError:
        target = ""
    if not target.isascii() or not is_http_url(target):
        raise UpstreamFault("it redirects to what is no http:// or https:// URL")
    if not _is_same_server(urlsplit(url), urlsplit(target)):
        raise UpstreamFault(f"it redirects to another server, {_server_of(urlsplit(target))}: name that one instead")
    return target


def _is_same_server(old: SplitResult, new: SplitResult) -> bool:
    """The same host and port, or from http:// to https:// on their usual ports."""
    if (old.scheme, _server_of(old)) == (new.scheme, _server_of(new)):
        return True
    usual = (old.scheme, old.port or 80, new.scheme, new.port or 443) == ("http", 80, "https", 443)
    return usual and old.hostname == new.hostname


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait, from seconds or from a date."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError, OSError):  # no date, or one that no clock has
        return None


def _proxy_of(parts: SplitResult) -> SplitResult | None:
    """The proxy that the environment names for a URL (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)."""
    host = parts.hostname or ""
    if host.startswith(_THIS_MACHINE) or not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    import urllib.request

    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy is None or urllib.request.proxy_bypass(host):
        return None
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")


def _describe(what: str, error: OSError) -> str:
    """Without the address: the text may be seen by clients."""
    if isinstance(error, socket.gaierror):
        return "its name cannot be resolved"
    reason = getattr(error, "reason", None)  # of TLS
    if not isinstance(reason, str):
        reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return f"{what}: {reason}"
