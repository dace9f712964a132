"""Turns the settings table into click options, and what they bring into effective settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from fastnode.config.kinds import Boolean, Choice, FilePath, HexTextList, TextList
from fastnode.config.resolve import CONFIG_ENVIRONMENT, Resolved, resolve
from fastnode.config.settings import Setting, Settings, rows

__all__ = ["SettingsCommand", "with_settings"]

Command = TypeVar("Command", bound=Callable[..., Any])


class _SettingOption(click.Option):
    """An option that knows its section of the settings."""

    def __init__(self, *arguments: Any, section: str, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.section = section


class SettingsCommand(click.Command):
    """Shows the settings by section in its help, after the command's own options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                section = parameter.section if isinstance(parameter, _SettingOption) else "Options"
                sections.setdefault(section, []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def with_settings(*commands: str) -> Callable[[Command], Command]:
    """Gives a click command the options of the settings that any of ``commands`` takes.

    The command receives them as its first argument, a ``Resolved[Settings]``.
    """

    def decorate(function: Command) -> Command:
        taken = [setting for setting in rows(Settings) if set(setting.commands) & set(commands)]

        @wraps(function)
        def with_resolved_settings(config: str | None, **arguments: Any) -> Any:
            flags: dict[str, str] = {}
            for setting in taken:
                value = arguments.pop(setting.attribute)
                if isinstance(value, tuple):  # a flag that may be repeated
                    value = ",".join(value) if value else None
                if value is not None:
                    flags[setting.name] = str(value)
            return function(_resolve(flags, config), **arguments)

        decorated: Any = with_resolved_settings
        decorated = click.option(
            "--config", type=click.Path(), metavar="FILE", help=f"Settings file (TOML).  [env: {CONFIG_ENVIRONMENT}]"
        )(decorated)
        for setting in reversed(taken):
            decorated = _option(setting)(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def _resolve(flags: dict[str, str], config: str | None) -> Resolved[Settings]:
    file = config or os.environ.get(CONFIG_ENVIRONMENT)
    return resolve(Settings, flags=flags, environment=os.environ, config_file=Path(file) if file else None)


def _option(setting: Setting) -> Callable[[Any], Any]:
    facts = [f"env: {', '.join(setting.environment)}"]
    default = setting.show(setting.default)
    if default:
        facts.append(f"default: {default}")
    help_text = f"{setting.help}  [{'; '.join(facts)}]"
    if isinstance(setting.kind, Boolean):
        switch = f"{setting.flag}/--no-{setting.name}"
        return click.option(
            switch,
            *setting.other_flags,
            setting.attribute,
            cls=_SettingOption,
            section=setting.section,
            default=None,
            help=help_text,
        )
    # Text for click: the settings table reads and checks the value, wherever it comes from.  What click is told
    # of the kind is for shell completion only.
    kind = setting.kind
    names = (setting.flag, *setting.other_flags, setting.attribute)
    return click.option(
        *names,
        cls=_SettingOption,
        section=setting.section,
        type=click.Path() if isinstance(kind, FilePath) else str,
        default=None,
        multiple=isinstance(kind, TextList | HexTextList),
        metavar=kind.metavar,
        help=help_text,
        shell_complete=_completions(kind.choices) if isinstance(kind, Choice) else None,
    )


def _completions(words: Iterable[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    return lambda _context, _parameter, begun: [word for word in words if word.startswith(begun)]
