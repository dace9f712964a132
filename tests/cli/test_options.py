"""The options of the command line are those of the settings table, under every name."""

from __future__ import annotations

import click
import pytest
from tests.config.examples import examples

from fastnode.cli.app import root
from fastnode.cli.options import with_settings
from fastnode.config.kinds import Boolean
from fastnode.config.resolve import Resolved
from fastnode.config.settings import START, Setting, Settings, rows


def resolved_from(*arguments: str) -> Resolved[Settings]:
    """What a command with the options of ``start`` receives."""
    received: list[Resolved[Settings]] = []

    @click.command()
    @with_settings(START)
    def command(resolved: Resolved[Settings]) -> None:
        received.append(resolved)

    command.main(list(arguments), standalone_mode=False)
    return received[0]


START_ROWS = [setting for setting in rows(Settings) if START in setting.commands]


@pytest.mark.parametrize("setting", START_ROWS, ids=lambda setting: setting.name)
def test_every_setting_can_be_given_by_each_of_its_flags(setting: Setting) -> None:
    for flag in (setting.flag, *setting.other_flags):
        if isinstance(setting.kind, Boolean):
            resolved = resolved_from(flag)
            assert getattr(resolved.values, setting.attribute) is True
        else:
            value = examples(setting)[0]
            resolved = resolved_from(f"{flag}={value}")
            assert getattr(resolved.values, setting.attribute) == setting.kind.read(value)
        assert resolved.origins[setting.name].layer == "flag"


@pytest.mark.parametrize(
    "setting", [row for row in START_ROWS if isinstance(row.kind, Boolean)], ids=lambda setting: setting.name
)
def test_every_switch_can_be_turned_off(setting: Setting) -> None:
    resolved = resolved_from(f"--no-{setting.name}")
    assert getattr(resolved.values, setting.attribute) is False
    assert resolved.origins[setting.name].layer == "flag"


def test_what_is_not_given_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in rows(Settings):
        for name in setting.environment:
            monkeypatch.delenv(name, raising=False)
    assert resolved_from().values == Settings()


def test_no_two_settings_share_a_name() -> None:
    flags = [flag for setting in rows(Settings) for flag in (setting.flag, *setting.other_flags)]
    names = [name for setting in rows(Settings) for name in setting.environment]
    assert len(flags) == len(set(flags))
    assert len(names) == len(set(names))


def test_every_setting_is_taken_by_a_command() -> None:
    def all_options(command: click.Command) -> set[str]:
        own = {name for parameter in command.params for name in parameter.opts}
        return own.union(*(all_options(sub) for sub in getattr(command, "commands", {}).values()))

    known = all_options(root)
    for setting in rows(Settings):
        assert {setting.flag, *setting.other_flags} <= known
