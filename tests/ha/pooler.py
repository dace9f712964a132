"""PgBouncer in front of a server of PostgreSQL, and a proxy that cuts connections in the middle of a statement."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from tests.programs import POOLERS

#: Longest wait in a test that is in order.
SOON_S = 60.0

_CONFIGURATION = """
[databases]
* = {server}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {pool_size}
server_login_retry = 1
ignore_startup_parameters = extra_float_digits
"""


def find_pgbouncer() -> str | None:
    return os.environ.get("FASTNODE_TEST_PGBOUNCER") or next(filter(None, map(shutil.which, POOLERS)), None)


@dataclass(frozen=True)
class Address:
    """Where a server of PostgreSQL listens, and as whom clients log in."""

    host: str
    port: int
    user: str
    password: str | None = None

    @classmethod
    def of(cls, url: str) -> Address:
        parts: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(url)
        return cls(
            str(parts.get("host") or "127.0.0.1"),
            int(parts.get("port") or 5432),
            str(parts.get("user") or "postgres"),
            parts.get("password"),
        )

    def connect(self) -> socket.socket:
        if self.host.startswith("/"):
            made = socket.socket(socket.AF_UNIX)
            made.connect(f"{self.host}/.s.PGSQL.{self.port}")
            return made
        return socket.create_connection((self.host, self.port))

    def url(self, database_url: str) -> str:
        """The URL of the same database at this address."""
        login = quote(self.user) + ("" if self.password is None else f":{quote(self.password)}")
        split = urlsplit(database_url)
        return urlunsplit(split._replace(netloc=f"{login}@{self.host}:{self.port}", query="sslmode=disable"))


class Pooler:
    """A PgBouncer of one mode."""

    def __init__(self, program: str, server: Address, mode: str, *, pool_size: int) -> None:
        self.mode = mode
        self._pool_size = pool_size
        self._directory = Path(tempfile.mkdtemp(prefix="fastnode-pgbouncer-"))
        self._directory.chmod(0o755)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = Address("127.0.0.1", free.getsockname()[1], server.user)
        self._program = program
        # PgBouncer does not run as root; the owner of the server's socket may connect to it.
        self._user = Path(server.host).owner() if server.host.startswith("/") else "nobody"
        password = "" if server.password is None else f" password={server.password}"
        self._server = f"host={server.host} port={server.port} user={server.user}{password}"

    def __enter__(self) -> Self:
        path = self._directory / "pgbouncer.ini"
        path.write_text(
            _CONFIGURATION.format(
                server=self._server, port=self.address.port, mode=self.mode, pool_size=self._pool_size
            )
        )
        user = ("-u", self._user) if os.geteuid() == 0 else ()
        with (self._directory / "log").open("wb") as log:
            self._process = subprocess.Popen([self._program, *user, str(path)], stdout=log, stderr=log)
        deadline = time.monotonic() + SOON_S
        while True:
            try:
                self.address.connect().close()
                return self
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError((self._directory / "log").read_text()) from None
                time.sleep(0.02)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(SOON_S)
        shutil.rmtree(self._directory, ignore_errors=True)

    def url(self, database_url: str) -> str:
        return self.address.url(database_url)


class CuttingProxy:
    """Forwards connections to a server.  ``cut(n, after=...)``: the connection on which the n-th request from now is
    sent is closed, before the request reaches the server, or before the answer reaches the client."""

    def __init__(self, server: Address) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1], server.user, server.password)
        self._lock = threading.Lock()
        self._left: int | None = None
        self._after = False
        self.requests = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def cut(self, number: int, *, after: bool) -> None:
        with self._lock:
            self._left, self._after, self.requests = number, after, 0

    @property
    def has_cut(self) -> bool:
        return self._left is None

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _is_cut(self) -> bool:
        with self._lock:
            self.requests += 1
            if self._left is None:
                return False
            self._left -= 1
            if self._left >= 0:
                return False
            self._left = None
            return True

    def _serve(self, client: socket.socket) -> None:
        is_silent = threading.Event()
        with client, suppress(OSError), self._server.connect() as server:
            answers = threading.Thread(target=_forward, args=(server, client, is_silent), daemon=True)
            answers.start()
            while request := client.recv(1 << 16):
                if not self._is_cut():
                    server.sendall(request)
                    continue
                if self._after:
                    is_silent.set()
                    server.sendall(request)
                    answers.join(SOON_S)
                break
            client.shutdown(socket.SHUT_RDWR)
            server.shutdown(socket.SHUT_RDWR)
            answers.join(SOON_S)


def _forward(server: socket.socket, client: socket.socket, is_silent: threading.Event) -> None:
    """Answers, up to the first that is kept back."""
    with suppress(OSError):
        while (answer := server.recv(1 << 16)) and not is_silent.is_set():
            client.sendall(answer)
        client.shutdown(socket.SHUT_RDWR)
