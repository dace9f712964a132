"""``fastnode start`` and ``fastnode local-network``: run a node until it is told to stop."""

from __future__ import annotations

import gc
import logging
import textwrap
from collections.abc import Callable
from typing import Final

import click

from fastnode.cli.options import SettingsCommand, with_settings
from fastnode.config.everyday import EVERYDAY_OF_LOCAL_NETWORK
from fastnode.config.idle_settings import without_effect
from fastnode.config.resolve import Resolved
from fastnode.config.settings import START, Settings, rows
from fastnode.errors import ChainFileError, SettingError

__all__ = ["local_network", "start"]

logger = logging.getLogger(__name__)

#: Layers in which the operator has given a value to this node.
_GIVEN: Final = frozenset({"flag", "environment", "file"})
#: Letters of names in one line: less than the log cuts off.
_NAMES_MAX: Final = 400


@click.command(cls=SettingsCommand)
@click.option("--node", is_flag=True, help="Run a node; needed unless it is a local network.")
@with_settings(START)
def start(resolved: Resolved[Settings], node: bool) -> None:
    """Start a node: follow the chain, verify it, serve it.

    SIGTERM and SIGINT (Ctrl-C) stop it after the running requests; a second one stops it at once.
    """
    if not node and not resolved.values.local_network:
        message = "nothing to start: add --node, or --local-network for a chain of your own"
        raise click.UsageError(message, click.get_current_context())
    _run(resolved)


@click.command("local-network", cls=SettingsCommand, short_help="Run a local network: a chain of your own.")
@with_settings(START, fixed={"local-network": "true"}, everyday=EVERYDAY_OF_LOCAL_NETWORK)
def local_network(resolved: Resolved[Settings]) -> None:
    """Run a local network: a chain of your own, without L1 and without proofs, with funded test accounts.

    The same as fastnode start --local-network.  SIGTERM and SIGINT (Ctrl-C) stop it after the running requests.

    \b
    fastnode local-network --block-time 5
    fastnode local-network --state chain.jsonl.gz
    fastnode local-network --fork-url http://127.0.0.1:8080
    """
    _run(resolved)


def _run(resolved: Resolved[Settings]) -> None:
    run = _import_node()
    from fastnode import log as logs

    settings = resolved.values
    logs.configure(level="error" if settings.silent else settings.log_level, as_json=settings.log_json)
    for warning in resolved.warnings:
        logger.warning(warning)
    _tell_of_what_has_no_effect(resolved)
    try:
        run(settings)
    except ChainFileError as error:
        raise _as_setting(error, settings) from error


def _tell_of_what_has_no_effect(resolved: Resolved[Settings]) -> None:
    from fastnode.log import log_facts

    layers = {name: origin.layer for name, origin in resolved.origins.items()}
    given = [name for name, layer in layers.items() if layer in _GIVEN]
    for need, names in without_effect(resolved.values, given).items():
        for part in textwrap.wrap(" ".join(names), _NAMES_MAX, break_on_hyphens=False):
            logger.warning("settings without effect here", extra=log_facts(names=part, need=need))
    # The network's operators give them to nodes of every kind.
    of_network = [name for name, layer in layers.items() if layer == "network"]
    for need, names in without_effect(resolved.values, of_network).items():
        extra = log_facts(names=" ".join(names), need=need)
        logger.info("what the network's configuration gives has no effect here", extra=extra)


def _as_setting(error: ChainFileError, settings: Settings) -> SettingError:
    """A start reads no chain file but those of its settings."""
    flags = [row.flag for row in rows(Settings) if str(getattr(settings, row.attribute)) == error.path]
    return SettingError(" ".join([*flags[:1], str(error)]))


def _import_node() -> Callable[[Settings], None]:
    """Imports without garbage collection: modules stay, so the collector would only lose time."""
    gc.disable()
    from fastnode.app.process.process import run

    gc.enable()
    return run
