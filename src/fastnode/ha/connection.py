"""Connections to the database of duties.

A connection keeps no state on the server: poolers such as PgBouncer may run each transaction on another server
connection, and hand that one to other clients in between.  Nothing is prepared, no session setting is changed; a
statement that depends on a setting brings it along (``DURABLE``) or names what it means (``NOW``).
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg

from fastnode.errors import HaDatabaseError, HaDatabaseUnreachable

__all__ = ["DURABLE", "NOW", "Connection", "connect", "disconnect_after", "is_unavailable", "one_line"]

Connection = psycopg.Connection[tuple[Any, ...]]

_SCHEMES: Final = ("postgresql://", "postgres://")

CONNECT_TIMEOUT_S: Final = 5

#: The tables hold times without a zone, in UTC.
NOW: Final = "(CURRENT_TIMESTAMP AT TIME ZONE 'UTC')"

#: A common table expression with one row: the transaction of the statement that reads it is on disk when its commit is
#: acknowledged, on synchronous standbys too.  A lock that a crash of the server takes back would let a second node
#: sign.  Stronger settings stay.
DURABLE: Final = """durable AS (
        SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
            WHEN 'off' THEN 'on' WHEN 'local' THEN 'on' ELSE current_setting('synchronous_commit') END, true)
    )"""

#: SQLSTATE classes and codes of a server that cannot answer now, but may after a failover: lost connections, no
#: resources, an operator intervened (shutdown, starting up), a server that has become a standby.
_UNAVAILABLE: Final = ("08", "53", "57P", "25006")


def connect(url: str) -> Connection:
    """A connection in autocommit mode.

    HaDatabaseError: not a URL of PostgreSQL.  HaDatabaseUnreachable: no server there, or it refuses.  The URL holds a
    password, so no message repeats it.
    """
    if not url.startswith(_SCHEMES):
        raise HaDatabaseError("the database URL must begin with postgresql:// or postgres://")
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise HaDatabaseError("the database URL is not one that PostgreSQL understands") from None
    try:
        return psycopg.connect(
            url,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name="fastnode",
        )
    except psycopg.Error as error:
        raise HaDatabaseUnreachable(f"cannot use the database: {one_line(error)}") from None


@contextmanager
def disconnect_after(connection: Connection, timeout_s: float) -> Iterator[None]:
    """Disconnect if the block takes longer: the driver waits for an answer without end, and a pooler whose server is
    gone may keep a statement for minutes."""
    # A second descriptor, because the driver may close its own at any moment.
    own = socket.socket(fileno=os.dup(connection.fileno()))

    def disconnect() -> None:
        with suppress(OSError):
            own.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(timeout_s, disconnect)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        own.close()


def is_unavailable(connection: Connection, error: psycopg.Error) -> bool:
    """True if the same statement may succeed over a new connection."""
    return connection.broken or (error.sqlstate or "").startswith(_UNAVAILABLE)


def one_line(error: psycopg.Error) -> str:
    """Words of the server or the driver, on one line."""
    return " ".join(str(error).split()) or type(error).__name__
