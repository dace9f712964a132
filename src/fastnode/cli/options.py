"""Turns the settings table into click options, and what they bring into effective settings."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fastnode.cli.output import write_failures_as_json
from fastnode.config.everyday import EVERYDAY
from fastnode.config.needs import is_missing
from fastnode.config.release_record import know_record
from fastnode.config.resolve import CONFIG_ENVIRONMENT, Resolved, resolve
from fastnode.config.settings import Setting, Settings, rows
from fastnode.values.refusal import Reject

__all__ = ["LoggingCommand", "SettingsCommand", "with_settings"]

#: The setting that makes the lines of the log JSON.
_LOG_JSON: Final = next(row for row in rows(Settings) if row.name == "log-json")

_NONE_FIXED: Final[Mapping[str, str]] = {}

Command = TypeVar("Command", bound=Callable[..., Any])


#: In ``Context.meta`` while help is written: the group that is asked for, or all of them.
_WANTED: Final = "fastnode.help.wanted"
_ALL: Final = "all"


class _SettingOption(click.Option):
    """An option that knows its group of the settings, and whether the first help shows it."""

    def __init__(self, *arguments: Any, group: str, is_everyday: bool, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.group = group
        self.is_everyday = is_everyday


class LoggingCommand(click.Command):
    """Says why it fails in the form of its log, also where its words or settings are wrong."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Before anything is refused: the settings may be what is wrong, so only this one is looked for.
        if _wants_json(args, os.environ):
            write_failures_as_json()
        return super().parse_args(ctx, args)


class SettingsCommand(LoggingCommand):
    """Shows settings by group in its help, after the command's own options.

    ``--help`` has the settings that people use, ``--help-all`` every one, ``--help-group`` those of one group.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.params += [
            _help_option(["--help-all"], _show_all, is_flag=True, help="Show every setting."),
            _help_option(
                ["--help-group"],
                _show_group,
                metavar="GROUP",
                help="Show the settings of one group, such as l1.",
                shell_complete=lambda context, _parameter, begun: [
                    name for name in map(_short_name, _groups(context)) if name.startswith(begun)
                ],
            ),
        ]

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        return _help_option(["-h", "--help"], _show_help, is_flag=True, help="Show this message.")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        wanted = ctx.meta.get(_WANTED)
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if not isinstance(parameter, _SettingOption):
                if wanted in (None, _ALL):
                    sections.setdefault("Options", []).append(record)
            elif wanted in (_ALL, parameter.group) or (wanted is None and parameter.is_everyday):
                sections.setdefault(parameter.group, []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)
        if wanted is None:
            _write_more(ctx, formatter)


def _wants_json(words: list[str], environment: Mapping[str, str]) -> bool:
    """True if the flags, or else the environment, ask for a log of JSON."""
    for word in reversed(words):
        if word in (_LOG_JSON.flag, f"--no-{_LOG_JSON.name}"):
            return word == _LOG_JSON.flag
    given = [environment[name] for name in _LOG_JSON.environment if environment.get(name)]
    try:
        return bool(given) and bool(_LOG_JSON.kind.from_text(given[0]))
    except Reject:
        return False


def _write_more(context: click.Context, formatter: click.HelpFormatter) -> None:
    groups = _groups(context)
    counts = [f"{_short_name(group)} ({count})" for group, count in groups.items()]
    formatter.write_paragraph()
    formatter.write_text(
        f"These are the settings that people use, of {sum(groups.values())}. --help-all shows every one, "
        f"--help-group GROUP those of one group:"
    )
    lines = textwrap.wrap(", ".join(counts), formatter.width - 4, break_on_hyphens=False)
    formatter.write("".join(f"  {line}\n" for line in lines))


def _help_option(names: list[str], show: Callable[..., None], **more: Any) -> click.Option:
    return click.Option(names, is_eager=True, expose_value=False, callback=show, **more)


def _show_help(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        click.echo(context.get_help(), color=context.color)
        context.exit()


def _show_all(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.meta[_WANTED] = _ALL
        _show_help(context, parameter, value)


def _show_group(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
    if name is None or context.resilient_parsing:
        return
    wanted = _short_name(name)
    found = [group for group in _groups(context) if _short_name(group) == wanted]
    found = found or [group for group in _groups(context) if wanted and wanted in _short_name(group)]
    if len(found) != 1:
        groups = ", ".join(_short_name(group) for group in found or _groups(context))
        raise click.BadParameter(f"{name!r} is {'several' if found else 'none'} of {groups}", context, parameter)
    context.meta[_WANTED] = found[0]
    _show_help(context, parameter, True)


def _groups(context: click.Context) -> dict[str, int]:
    """Groups of the command's settings, with how many each has."""
    return dict(Counter(option.group for option in context.command.params if isinstance(option, _SettingOption)))


def _short_name(group: str) -> str:
    return group.strip().lower().replace(" ", "-")


def with_settings(
    *commands: str,
    environment: Mapping[str, str] = os.environ,
    fixed: Mapping[str, str] = _NONE_FIXED,
    everyday: Collection[str] = EVERYDAY,
) -> Callable[[Command], Command]:
    """Gives a click command the options of the settings that any of ``commands`` takes.

    The command receives them as its first argument, a ``Resolved[Settings]``.  ``fixed`` settings have the value that
    is given here, as if it were that of their flag, and no option.  The first help shows the ``everyday`` ones.
    """

    def decorate(function: Command) -> Command:
        known = [setting for setting in rows(Settings) if setting.name not in fixed]
        taken = [setting for setting in known if set(setting.commands) & set(commands)]

        @wraps(function)
        def with_resolved_settings(config: str | None, **arguments: Any) -> Any:
            flags = dict(fixed)
            for setting in taken:
                value = arguments.pop(setting.attribute)
                if isinstance(value, tuple):  # a flag that may be repeated
                    value = ",".join(value) if value else None
                if value is not None:
                    flags[setting.name] = str(value)
            return function(_resolve(flags, config, environment), **arguments)

        decorated: Any = with_resolved_settings
        decorated = click.option(
            "--config",
            type=click.Path(readable=False),
            metavar="FILE",
            help=f"Settings file (TOML).  [env: {CONFIG_ENVIRONMENT}]",
        )(decorated)
        for setting in reversed(taken):
            decorated = _option(setting, setting.name in everyday)(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def _resolve(flags: dict[str, str], config: str | None, environment: Mapping[str, str]) -> Resolved[Settings]:
    file = config or environment.get(CONFIG_ENVIRONMENT)
    resolved = resolve(Settings, flags=flags, environment=environment, config_file=Path(file) if file else None)
    settings = resolved.values
    if settings.log_json:
        write_failures_as_json()
    if settings.release_record is not None:
        know_record(settings.release_record)
    return resolved


def _option(setting: Setting, is_everyday: bool) -> Callable[[Any], Any]:
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
            group=setting.section,
            is_everyday=is_everyday,
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
        group=setting.section,
        is_everyday=is_everyday,
        type=click.Path(readable=False) if kind.is_path else str,
        default=None,
        multiple=kind.is_list,
        metavar=kind.metavar,
        help=help_text,
        shell_complete=_completions(kind.words) if kind.words else None,
    )


def _completions(words: Iterable[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    return lambda _context, _parameter, begun: [word for word in words if word.startswith(begun)]
