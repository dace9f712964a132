"""``fastnode config show``: the effective settings and where each came from."""

from __future__ import annotations

import click

from fastnode.cli.options import SettingsCommand, with_settings
from fastnode.config.resolve import Resolved
from fastnode.config.settings import START, Settings, rows

__all__ = ["config"]


@click.group()
def config() -> None:
    """Look at the settings."""


@config.command(cls=SettingsCommand)
@with_settings(START)
def show(resolved: Resolved[Settings]) -> None:
    """Print every setting with its value and where the value came from."""
    lines = []
    for setting in rows(Settings):
        value = setting.show(getattr(resolved.values, setting.attribute))
        lines.append(
            (setting.name, "(not set)" if value is None else value or "(empty)", str(resolved.origins[setting.name]))
        )
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    for name, value, origin in lines:
        click.echo(f"{name:{widths[0]}}  {value:{widths[1]}}  {origin}")
    for warning in resolved.warnings:
        click.echo(warning, err=True)
