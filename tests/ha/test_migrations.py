"""migrate-ha-db: what it makes, what it says, and that it may be repeated, refused and raced."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastnode.errors import HaDatabaseError
from fastnode.ha import migrations
from fastnode.ha.connection import connect
from fastnode.ha.migrations import Migration, migrate_down, migrate_up

TIMEOUT_S = 120.0
INITIAL = "1_initial-schema"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return subprocess.run(
        [sys.executable, "-m", "fastnode", "migrate-ha-db", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=inherited | environment,
    )


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    with connect(url) as connection:
        return connection.execute(statement.encode()).fetchall()


def tables(url: str) -> set[str]:
    return {str(name) for (name,) in rows(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}


# ---- the command -----------------------------------------------------------------------------------


def test_up_and_down_say_what_they_did_and_may_be_repeated(empty_database: str) -> None:
    expected = [
        ("up", f"Applied migrations: {INITIAL}\n"),
        ("up", "No migrations to apply - schema is up to date\n"),
        ("down", f"Rolled back migrations: {INITIAL}\n"),
        ("down", "No migrations to rollback\n"),
        ("up", f"Applied migrations: {INITIAL}\n"),
    ]
    for direction, output in expected:
        done = run(direction, "--database-url", empty_database)
        assert (done.returncode, done.stdout, done.stderr) == (0, output, "")


def test_the_url_may_come_from_the_environment_and_verbose_shows_the_statements(empty_database: str) -> None:
    done = run("up", "--verbose", DATABASE_URL=empty_database)
    assert done.returncode == 0
    assert done.stdout == f"Applied migrations: {INITIAL}\n"
    assert "CREATE TABLE validator_duties (" in done.stderr
    assert "idx_validator_duties_node" in done.stderr


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (None, "no database: add --database-url URL or set DATABASE_URL"),
        ("mysql://user:hunter2@localhost/duties", "must begin with postgresql://"),
        ("postgresql://user:hunter2@localhost/duties?colour=blue", "is not one that PostgreSQL understands"),
        ("postgresql://user:hunter2@127.0.0.1:1/duties", "cannot use the database: connection"),
        ("postgresql:///duties?host=/nowhere&password=hunter2", "cannot use the database: connection"),
    ],
)
def test_a_useless_url_is_one_line_that_does_not_repeat_the_password(url: str | None, message: str) -> None:
    done = run("up", *([] if url is None else ["--database-url", url]))
    assert done.returncode == (78 if url is None else 1)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "hunter2" not in done.stderr + done.stdout


# ---- the schema ------------------------------------------------------------------------------------


def test_the_tables_have_the_columns_of_the_network(database: str) -> None:
    found = rows(
        database,
        "SELECT column_name, data_type, character_maximum_length, is_nullable, column_default IS NOT NULL"
        " FROM information_schema.columns WHERE table_name = 'validator_duties' ORDER BY ordinal_position",
    )
    text, number, time = "character varying", "bigint", "timestamp without time zone"
    assert found == [
        ("rollup_address", text, 42, "NO", False),
        ("validator_address", text, 42, "NO", False),
        ("slot", number, None, "NO", False),
        ("block_number", number, None, "NO", False),
        ("block_index_within_checkpoint", "integer", None, "NO", True),
        ("duty_type", text, 30, "NO", False),
        ("status", text, 20, "NO", False),
        ("message_hash", text, 66, "NO", False),
        ("signature", text, 132, "YES", False),
        ("node_id", text, 255, "NO", False),
        ("lock_token", text, 64, "NO", False),
        ("started_at", time, None, "NO", True),
        ("completed_at", time, None, "YES", False),
        ("error_message", "text", None, "YES", False),
    ]
    assert rows(database, "SELECT version FROM schema_version") == [(1,)]
    assert rows(database, "SELECT name, run_on IS NOT NULL FROM pgmigrations") == [(INITIAL, True)]


def test_the_indexes_are_those_of_the_network(database: str) -> None:
    found = rows(database, "SELECT indexdef FROM pg_indexes WHERE tablename = 'validator_duties'")
    columns = sorted(str(definition).split("USING btree ")[1] for (definition,) in found)
    assert columns == [
        "(node_id, started_at)",
        "(rollup_address, validator_address, slot, duty_type, block_index_within_checkpoint)",
        "(status, started_at)",
    ]


@pytest.mark.parametrize(
    "change",
    ["duty_type = 'NAP'", "status = 'done'", "completed_at = started_at - interval '1 second'", "slot = NULL"],
)
def test_a_row_that_makes_no_sense_is_refused_by_the_database(database: str, change: str) -> None:
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO validator_duties (rollup_address, validator_address, slot, block_number, duty_type, status,"
            " message_hash, node_id, lock_token) VALUES ('0x', '0x', 1, 1, 'ATTESTATION', 'signing', '0x', 'n', 't')"
        )
        import psycopg

        with pytest.raises(psycopg.IntegrityError):
            connection.execute(f"UPDATE validator_duties SET {change}".encode())


def test_down_leaves_the_bookkeeping_alone(database: str) -> None:
    assert tables(database) == {"pgmigrations", "schema_version", "validator_duties"}
    with connect(database) as connection:
        assert migrate_down(connection) == [INITIAL]
    assert tables(database) == {"pgmigrations"}
    assert rows(database, "SELECT name FROM pgmigrations") == []


# ---- what goes wrong ---------------------------------------------------------------------------------


def test_nodes_that_migrate_at_the_same_time_wait_for_each_other(empty_database: str) -> None:
    def migrate(_: int) -> list[str]:
        with connect(empty_database) as connection:
            return migrate_up(connection)

    with ThreadPoolExecutor(8) as threads:
        applied = list(threads.map(migrate, range(8)))
    assert sorted(applied) == [[]] * 7 + [[INITIAL]]


def test_a_migration_that_fails_leaves_nothing_behind(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Migration("2_broken", up=("CREATE TABLE extra (id int)", "SELECT no_such_function()"), down=())
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, broken))
    with connect(empty_database) as connection, pytest.raises(HaDatabaseError, match="no_such_function"):
        migrate_up(connection)
    assert tables(empty_database) == set()


def test_only_the_newest_migration_is_taken_back(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    second = Migration("2_second", up=("CREATE TABLE extra (id int)",), down=("DROP TABLE extra",))
    with connect(empty_database) as connection:
        migrate_up(connection)
        monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, second))
        assert migrate_up(connection) == ["2_second"]
        assert migrate_down(connection) == ["2_second"]
        assert migrate_down(connection) == [INITIAL]
        assert migrate_down(connection) == []


def test_a_database_of_a_newer_release_is_left_alone(database: str) -> None:
    with connect(database) as connection:
        connection.execute("INSERT INTO pgmigrations (name, run_on) VALUES ('2_later', now())")
        for migrate in (migrate_up, migrate_down):
            with pytest.raises(HaDatabaseError, match='the migration "2_later"'):
                migrate(connection)
    assert "validator_duties" in tables(database)
