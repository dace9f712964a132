"""Turns the settings table into click options, and what they bring into effective settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fastnode.config.needs import is_missing
from fastnode.config.release_record import know_record
from fastnode.config.resolve import CONFIG_ENVIRONMENT, Resolved, resolve
from fastnode.config.settings import Setting, Settings, rows

__all__ = ["SettingsCommand", "with_settings"]

Command = TypeVar("Command", bound=Callable[..., Any])


#: In ``Context.meta`` while the short form of the help is written.
_IS_SHORT: Final = "fastnode.help.is-short"


class _SettingOption(click.Option):
    """An option that knows its section of the settings, and whether it does anything."""

    def __init__(self, *arguments: Any, section: str, is_kept: bool, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.section = section
        self.is_kept = is_kept


def _show_short_help(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        context.meta[_IS_SHORT] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


class SettingsCommand(click.Command):
    """Shows the settings by section in its help, after the command's own options.

    The short form, ``-h``, leaves out those without effect.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.params.append(
            click.Option(
                ["-h"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_short_help,
                help="Show this message without the settings that have no effect.",
            )
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        is_short = ctx.meta.get(_IS_SHORT, False)
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        left_out = 0
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            section = "Options"
            if isinstance(parameter, _SettingOption):
                section = parameter.section
                if is_short and parameter.is_kept:
                    left_out += 1
                    continue
            sections.setdefault(section, []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)
        if left_out:
            formatter.write_paragraph()
            formatter.write_text(f"{left_out} settings without effect are not shown; --help has them too.")


def with_settings(*commands: str, environment: Mapping[str, str] = os.environ) -> Callable[[Command], Command]:
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
            return function(_resolve(flags, config, environment), **arguments)

        decorated: Any = with_resolved_settings
        decorated = click.option(
            "--config", type=click.Path(), metavar="FILE", help=f"Settings file (TOML).  [env: {CONFIG_ENVIRONMENT}]"
        )(decorated)
        for setting in reversed(taken):
            decorated = _option(setting)(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def _resolve(flags: dict[str, str], config: str | None, environment: Mapping[str, str]) -> Resolved[Settings]:
    file = config or environment.get(CONFIG_ENVIRONMENT)
    resolved = resolve(Settings, flags=flags, environment=environment, config_file=Path(file) if file else None)
    settings = resolved.values
    if settings.release_record is not None:
        know_record(settings.release_record)
    return resolved


def _option(setting: Setting) -> Callable[[Any], Any]:
    is_kept = is_missing(setting.needs)
    facts = [] if setting.needs is None else [f"{'no effect: ' if is_kept else ''}needs {setting.needs.text}"]
    facts.append(f"env: {', '.join(setting.environment)}")
    default = setting.show(setting.default)
    if default:
        facts.append(f"default: {default}")
    help_text = f"{setting.help}  [{'; '.join(facts)}]"
    if setting.kind.is_switch:
        switch = f"{setting.flag}/--no-{setting.name}"
        return click.option(
            switch,
            *setting.other_flags,
            setting.attribute,
            cls=_SettingOption,
            section=setting.section,
            is_kept=is_kept,
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
        is_kept=is_kept,
        type=click.Path() if kind.is_path else str,
        default=None,
        multiple=kind.is_list,
        metavar=kind.metavar,
        help=help_text,
        shell_complete=_completions(kind.words) if kind.words else None,
    )


def _completions(words: Iterable[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    return lambda _context, _parameter, begun: [word for word in words if word.startswith(begun)]
