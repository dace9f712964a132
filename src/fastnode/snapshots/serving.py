"""A node's snapshots of leaves for other nodes: index, lists and parts of one folder, read over HTTP.

    GET /<folder of the network>/leaves.json                   as at other locations: snapshots/leaf_index.py
    GET /<folder of the network>/leaves-<time>-<hash>.json
    GET /<folder of the network>/parts/<SHA-256>               with or without "Range: bytes=N-" or "bytes=N-M"

Other files are not there, whatever the folder has.  Each reader has a thread, in which the kernel copies from the file
to the socket.  Readers, and those of one network address, are limited: where all places are taken, the address with
the most readers loses its latest to an address with fewer.  A request takes no place before its head has come.  All
readers share so many bytes a second; a reader that takes less than a trickle is disconnected.
"""

from __future__ import annotations

import os
import re
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, BinaryIO, Final

from fastnode.errors import SnapshotError
from fastnode.snapshots.index import Network
from fastnode.snapshots.leaf_index import LEAF_INDEX_FILE, LeafIndex, LeafSnapshot
from fastnode.values.client_network import most_crowded, network_of

__all__ = ["LeafServer"]

_READERS_MAX: Final = 8
_READERS_OF_ADDRESS_MAX: Final = 4
#: Connections whose request has not come yet.
_HEADS_MAX: Final = 64
_HEADS_OF_ADDRESS_MAX: Final = 8
#: Bytes that are copied at a time.
_CHUNK_BYTES: Final = 256 << 10
#: Time for a request to come whole, its bytes, and the time for anything to leave, in seconds.
_REQUEST_BYTES_MAX: Final = 8 << 10
_REQUEST_S: Final = 10.0
_SEND_S: Final = 30.0
#: The least that a reader takes in a second, once the first moments have passed.
_TRICKLE_BYTES: Final = 8 << 10

_FILE: Final = re.compile(
    r"/(fastnode-[0-9]{1,20}-[0-9]{1,20}-0x[0-9a-f]{40}/"
    r"(?:leaves\.json|leaves-[0-9]{14}-0x[0-9a-f]{64}\.json|parts/[0-9a-f]{64}))",
    re.ASCII,
)
_NO_PLACE: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)
_RANGE: Final = re.compile(r"bytes=([0-9]{1,15})-([0-9]{1,15})?", re.ASCII)


class LeafServer:
    """``start`` it once; OSError for a port that cannot be had.  ``bytes_per_s`` is for all readers together."""

    def __init__(self, folder: Path, *, host: str, port: int, bytes_per_s: float) -> None:
        self.folder = folder
        self._address = host, port
        self._pace = _Pace(bytes_per_s)
        self._server: _Server | None = None
        self._lock = threading.Lock()
        self._heads = _Places(_HEADS_MAX, _HEADS_OF_ADDRESS_MAX)
        self._readers = _Places(_READERS_MAX, _READERS_OF_ADDRESS_MAX)
        self._is_closed = threading.Event()
        #: ``requests``, ``bytes``, ``refused`` (too many readers): since the start.
        self.counts: Counter[str] = Counter()
        self._newest: tuple[tuple[int, int], LeafSnapshot | None] | None = None

    def start(self) -> None:
        self._server = _Server(self._address, self)
        threading.Thread(target=self._server.serve_forever, name="fastnode-leaves", daemon=True).start()

    def close(self) -> None:
        """End all transfers.  May be called more than once, and where nothing was started."""
        self._is_closed.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @property
    def is_closed(self) -> bool:
        return self._is_closed.is_set()

    @property
    def port(self) -> int:
        """0 where it does not listen."""
        return 0 if self._server is None else int(self._server.server_address[1])

    @property
    def reader_count(self) -> int:
        with self._lock:
            return len(self._readers)

    def newest(self, network: Network) -> LeafSnapshot | None:
        """The newest snapshot that is served; None: there is none.  SnapshotError for an index that makes no sense."""
        file = self.folder / network.folder / LEAF_INDEX_FILE
        try:
            found = file.stat()
            key = found.st_mtime_ns, found.st_size
            if self._newest is None or self._newest[0] != key:
                snapshots = LeafIndex.from_bytes(file.read_bytes(), network).snapshots
                self._newest = key, snapshots[0] if snapshots else None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SnapshotError(f"{file} cannot be read: {error.strerror or error}") from error
        return self._newest[1]

    # ---- readers ---------------------------------------------------------------------------------

    def admit(self, connection: socket.socket, network: bytes | None) -> bool:
        """Let a connection send its request; False: there is no place for this network."""
        with self._lock:
            return self._count(self._heads.enter(connection, network))

    def begin(self, connection: socket.socket, network: bytes | None) -> bool:
        """The request has come: take the place of a reader; False: there is none for this network."""
        with self._lock:
            self._heads.leave(connection)
            return self._count(self._readers.enter(connection, network))

    def _count(self, is_admitted: bool) -> bool:
        self.counts["refused"] += not is_admitted
        return is_admitted

    def leave(self, connection: socket.socket) -> None:
        with self._lock:
            self._heads.leave(connection)
            self._readers.leave(connection)

    def note(self, name: str, count: int = 1) -> None:
        with self._lock:
            self.counts[name] += count

    def wait_for_turn(self, count: int) -> None:
        self._pace.wait(count, self._is_closed)


class _Places:
    """Connections by network, up to ``places_max``, and ``of_network_max`` of each.  Not for several threads."""

    def __init__(self, places_max: int, of_network_max: int) -> None:
        self._places_max = places_max
        self._of_network_max = of_network_max
        self._networks: dict[socket.socket, bytes | None] = {}  # by connection, in the order of their arrival

    def __len__(self) -> int:
        return len(self._networks)

    def enter(self, connection: socket.socket, network: bytes | None) -> bool:
        """Take a place; one of the most crowded network is taken away if that leaves it no fewer than this one has."""
        counts = Counter(self._networks.values())
        if counts[network] >= self._of_network_max:
            return False
        if len(self._networks) >= self._places_max:
            crowded = most_crowded(counts, network)
            if crowded is None:
                return False
            latest = next(each for each in reversed(self._networks) if self._networks[each] == crowded)
            del self._networks[latest]
            with suppress(OSError):
                latest.shutdown(socket.SHUT_RDWR)  # its thread ends
        self._networks[connection] = network
        return True

    def leave(self, connection: socket.socket) -> None:
        self._networks.pop(connection, None)


class _Pace:
    """So many bytes a second, for all threads together."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._lock = threading.Lock()
        self._free_at = 0.0

    def wait(self, count: int, ended: threading.Event) -> None:
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._free_at)
            self._free_at = begin + count / self._bytes_per_s
        if begin > now:
            ended.wait(begin - now)


def _head_of(connection: socket.socket) -> bytes:
    """The head of a request.  TimeoutError when it does not come in time, however often a byte does."""
    head, give_up_at = bytearray(), time.monotonic() + _REQUEST_S
    while b"\r\n\r\n" not in head and len(head) < _REQUEST_BYTES_MAX:
        connection.settimeout(max(0.001, give_up_at - time.monotonic()))
        some = connection.recv(_REQUEST_BYTES_MAX - len(head))
        if not some:
            break
        head += some
    return bytes(head)


def _turn_away(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.setblocking(False)
        connection.send(_NO_PLACE)


class _Server(ThreadingMixIn, TCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 16

    def __init__(self, address: tuple[str, int], owner: LeafServer) -> None:
        self.owner = owner
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.owner.admit(request, network_of(client_address)):
            super().process_request(request, client_address)
            return
        _turn_away(request)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.owner.leave(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that has gone is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "fastnode"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        head = _head_of(self.connection)
        if not self.server.owner.begin(self.connection, network_of(self.client_address)):
            _turn_away(self.connection)
            head = b""
        self.rfile = BytesIO(head)

    def do_GET(self) -> None:
        self._answer(self._send_file)

    def do_HEAD(self) -> None:
        self._answer(lambda file, first, count: None)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are counted."""

    def _answer(self, send: Callable[[BinaryIO, int, int], None]) -> None:
        self.server.owner.note("requests")
        found = _FILE.fullmatch(self.path)
        try:
            if found is None:
                raise FileNotFoundError
            file = (self.server.owner.folder / found[1]).open("rb")
        except OSError:
            self._head(HTTPStatus.NOT_FOUND, 0)
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            wanted = _RANGE.fullmatch(self.headers.get("Range", ""))
            if wanted is None:
                self._head(HTTPStatus.OK, size)
                send(file, 0, size)
                return
            first, last = int(wanted[1]), min(size - 1, int(wanted[2] or size))
            if first > last:
                self._head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, 0, f"bytes */{size}")
                return
            self._head(HTTPStatus.PARTIAL_CONTENT, last + 1 - first, f"bytes {first}-{last}/{size}")
            send(file, first, last + 1 - first)

    def _head(self, status: HTTPStatus, count: int, content_range: str | None = None) -> None:
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(count))
        self.send_header("Accept-Ranges", "bytes")
        if content_range is not None:
            self.send_header("Content-Range", content_range)
        self.send_header("Connection", "close")
        self.end_headers()

    def _send_file(self, file: BinaryIO, first: int, count: int) -> None:
        owner, begun, done = self.server.owner, time.monotonic(), 0
        writable = select.poll()
        writable.register(self.connection, select.POLLOUT)
        self.connection.setblocking(False)
        while done < count and not owner.is_closed:
            chunk = min(_CHUNK_BYTES, count - done)
            owner.wait_for_turn(chunk)
            end = done + chunk
            while done < end:
                is_trickle = done < _TRICKLE_BYTES * (time.monotonic() - begun - _SEND_S)
                if is_trickle or not writable.poll(1000 * _SEND_S):
                    return
                sent = os.sendfile(self.connection.fileno(), file.fileno(), first + done, end - done)
                if sent == 0:  # the file has become shorter
                    return
                done += sent
                owner.note("bytes", sent)
