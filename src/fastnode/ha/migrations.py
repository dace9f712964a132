"""Versions of the schema, and how a database gets from one to the next and back.

Applied migrations are kept in the table ``pgmigrations``, newest last, with the names, the layout and the lock that the
network's other nodes use: whichever node migrates a database first, all of them understand it.

    pgmigrations       id, name, run_on
    schema_version     version (the primary key), applied_at
    validator_duties   one row per duty that some node has begun to sign, see ``duties.py``
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from fastnode.errors import HaDatabaseError
from fastnode.ha.connection import Connection, one_line
from fastnode.records import dataclass

__all__ = ["MIGRATIONS", "Migration", "migrate_down", "migrate_up"]

#: Key of the advisory lock that all migrating programs of this bookkeeping take.
_LOCK_KEY: Final = 7_241_865_325_823_964

_BOOKKEEPING: Final = """
    CREATE TABLE IF NOT EXISTS pgmigrations (
        id serial PRIMARY KEY,
        name varchar(255) NOT NULL,
        run_on timestamp NOT NULL
    )"""


@dataclass(frozen=True, slots=True)
class Migration:
    """A step of the schema: statements that make it, and statements that take it back."""

    name: str
    up: tuple[str, ...]
    down: tuple[str, ...]


MIGRATIONS: Final = (
    Migration(
        "1_initial-schema",
        up=(
            """
            CREATE TABLE schema_version (
                version integer PRIMARY KEY,
                applied_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP
            )""",
            """
            CREATE TABLE validator_duties (
                rollup_address varchar(42) NOT NULL,
                validator_address varchar(42) NOT NULL,
                slot bigint NOT NULL,
                block_number bigint NOT NULL,
                block_index_within_checkpoint integer NOT NULL DEFAULT 0,
                duty_type varchar(30) NOT NULL CHECK (duty_type IN (
                    'BLOCK_PROPOSAL', 'CHECKPOINT_PROPOSAL', 'ATTESTATION',
                    'ATTESTATIONS_AND_SIGNERS', 'GOVERNANCE_VOTE', 'SLASHING_VOTE')),
                status varchar(20) NOT NULL CHECK (status IN ('signing', 'signed')),
                message_hash varchar(66) NOT NULL,
                signature varchar(132),
                node_id varchar(255) NOT NULL,
                lock_token varchar(64) NOT NULL,
                started_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
                completed_at timestamp,
                error_message text,
                PRIMARY KEY (rollup_address, validator_address, slot, duty_type, block_index_within_checkpoint),
                CHECK (completed_at IS NULL OR completed_at >= started_at)
            )""",
            "CREATE INDEX idx_validator_duties_status ON validator_duties (status, started_at)",
            "CREATE INDEX idx_validator_duties_node ON validator_duties (node_id, started_at)",
            "INSERT INTO schema_version (version) VALUES (1)",
        ),
        down=("DROP TABLE validator_duties", "DROP TABLE schema_version"),
    ),
)

OnStatement = Callable[[str], None]


def migrate_up(connection: Connection, *, on_statement: OnStatement | None = None) -> list[str]:
    """Apply every migration that is missing; their names, oldest first.

    All of them are applied or none.  HaDatabaseError: the server refuses, or the database has a migration that
    this release does not know.
    """
    with _alone(connection):
        _run(connection, _BOOKKEEPING, on_statement)
        missing = MIGRATIONS[_count_applied(connection) :]
        for migration in missing:
            for statement in migration.up:
                _run(connection, statement, on_statement)
            record = "INSERT INTO pgmigrations (name, run_on) VALUES (%s, clock_timestamp())"
            connection.execute(record, (migration.name,))
    return [migration.name for migration in missing]


def migrate_down(connection: Connection, *, on_statement: OnStatement | None = None) -> list[str]:
    """Take the newest migration back, with everything in its tables; its name, or nothing."""
    with _alone(connection):
        _run(connection, _BOOKKEEPING, on_statement)
        count = _count_applied(connection)
        newest = MIGRATIONS[count - 1 : count] if count else ()
        for migration in newest:
            for statement in migration.down:
                _run(connection, statement, on_statement)
            connection.execute("DELETE FROM pgmigrations WHERE name = %s", (migration.name,))
    return [migration.name for migration in newest]


@contextmanager
def _alone(connection: Connection) -> Iterator[None]:
    """One transaction that no other migration runs beside; waits for one that does."""
    try:
        with connection.transaction():
            connection.execute("SET LOCAL TIME ZONE 'UTC'")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
            yield
    except psycopg.Error as error:
        raise HaDatabaseError(f"the database refuses: {one_line(error)}") from error


def _run(connection: Connection, statement: str, on_statement: OnStatement | None) -> None:
    if on_statement is not None:
        on_statement(" ".join(statement.split()))
    connection.execute(statement.encode())


def _count_applied(connection: Connection) -> int:
    """Number of MIGRATIONS that are applied; HaDatabaseError if the database has any other."""
    rows = connection.execute("SELECT name FROM pgmigrations ORDER BY run_on, id").fetchall()
    for position, (name,) in enumerate(rows):
        if position >= len(MIGRATIONS) or name != MIGRATIONS[position].name:
            raise HaDatabaseError(
                f'the database has the migration "{name}", which this release does not have in that place; '
                f"use the release that made it"
            )
    return len(rows)
