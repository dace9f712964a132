"""``fastnode config show``: the effective settings and where each came from."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from fastnode.cli.options import SettingsCommand, with_settings
from fastnode.cli.output import say
from fastnode.config.resolve import Resolved
from fastnode.config.settings import START, Settings, rows

__all__ = ["config"]


def _readable(value: str | None) -> str:
    return "(not set)" if value is None else value or "(empty)"


def _print_table(lines: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as they have to be, but for the last one."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:-1]
    for line in lines:
        say("".join(f"{cell:{width}}  " for cell, width in zip(line, widths, strict=False)) + line[-1])


@click.group()
def config() -> None:
    """Look at the settings."""


@config.command(cls=SettingsCommand)
@click.option("--changed", is_flag=True, help="Leave out settings that have their default.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: by name, `value` and `origin`.")
@with_settings(START)
def show(resolved: Resolved[Settings], changed: bool, as_json: bool) -> None:
    """Print every setting with its value and where the value came from.

    Ends with an error, as a start would, if a value is not allowed.
    """
    shown = [
        (setting.name, setting.show(getattr(resolved.values, setting.attribute)), resolved.origins[setting.name])
        for setting in rows(Settings)
        if not changed or resolved.origins[setting.name].layer != "default"
    ]
    if as_json:
        found = {name: {"value": value, "origin": str(origin)} for name, value, origin in shown}
        say(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _print_table([(name, _readable(value), str(origin)) for name, value, origin in shown])
    for warning in resolved.warnings:
        say(warning, err=True)
    from fastnode.app.process.value_checks import check_values  # on demand: it imports parts of the node

    check_values(resolved.values)
