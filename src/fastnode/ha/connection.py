"""Connections to the database of duties.

Every session uses UTC, because the tables hold times without a zone, and waits for its commits to be durable: a lock
that a crash of the server takes back would let a second node sign.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg

from fastnode.errors import HaDatabaseError

__all__ = ["Connection", "connect", "one_line"]

Connection = psycopg.Connection[tuple[Any, ...]]

_SCHEMES: Final = ("postgresql://", "postgres://")

CONNECT_TIMEOUT_S: Final = 10

_SESSION: Final = "SET TIME ZONE 'UTC'; SET synchronous_commit = on"


def connect(url: str) -> Connection:
    """A session in autocommit mode.

    HaDatabaseError: not a URL of PostgreSQL, no server there, or it refuses.  The URL holds a password, so no
    message repeats it.
    """
    if not url.startswith(_SCHEMES):
        raise HaDatabaseError("the database URL must begin with postgresql:// or postgres://")
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise HaDatabaseError("the database URL is not one that PostgreSQL understands") from None
    try:
        connection = psycopg.connect(
            url, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S, application_name="fastnode"
        )
    except psycopg.Error as error:
        raise HaDatabaseError(f"cannot use the database: {one_line(error)}") from None
    try:
        connection.execute(_SESSION)
    except psycopg.Error as error:
        connection.close()
        raise HaDatabaseError(f"cannot use the database: {one_line(error)}") from None
    return connection


def one_line(error: psycopg.Error) -> str:
    """Words of the server or the driver, on one line."""
    return " ".join(str(error).split()) or type(error).__name__
