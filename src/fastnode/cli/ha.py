"""``fastnode migrate-ha-db``: the database that nodes with the same validator keys share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from fastnode.cli.output import say
from fastnode.errors import SettingError

__all__ = ["migrate_ha_database"]


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    decorated = click.option("--verbose", is_flag=True, help="Show every statement on standard error.")(function)
    # The value is never shown: it holds a password.
    return click.option(
        "--database-url", envvar="DATABASE_URL", metavar="URL", help="postgresql://...  [env: DATABASE_URL]"
    )(decorated)


@click.group("migrate-ha-db", short_help="Prepare the database that redundant nodes share.")
def migrate_ha_database() -> None:
    """Prepare the PostgreSQL database in which redundant nodes agree on who signs."""


@migrate_ha_database.command()
@_options
def up(database_url: str | None, verbose: bool) -> None:
    """Bring the schema to this release's version."""
    from fastnode.ha.connection import connect
    from fastnode.ha.migrations import migrate_up

    with connect(_required(database_url)) as connection:
        names = migrate_up(connection, on_statement=_show if verbose else None)
    if names:
        say(f"Applied migrations: {', '.join(names)}")
    else:
        say("No migrations to apply - schema is up to date")


@migrate_ha_database.command(short_help="Take the newest version of the schema back.")
@_options
def down(database_url: str | None, verbose: bool) -> None:
    """Take the newest version of the schema back, with the data that is in it."""
    from fastnode.ha.connection import connect
    from fastnode.ha.migrations import migrate_down

    with connect(_required(database_url)) as connection:
        names = migrate_down(connection, on_statement=_show if verbose else None)
    if names:
        say(f"Rolled back migrations: {', '.join(names)}")
    else:
        say("No migrations to rollback")


def _required(database_url: str | None) -> str:
    if not database_url:
        raise SettingError("no database: add --database-url URL or set DATABASE_URL")
    return database_url


def _show(statement: str) -> None:
    say(statement, err=True)
