"""``fastnode start --node``: runs the node until it is told to stop."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Final

import click

from fastnode.cli.options import SettingsCommand, with_settings
from fastnode.config.kept import without_effect
from fastnode.config.resolve import Resolved
from fastnode.config.settings import START, Settings

__all__ = ["start"]

#: Layers in which the operator has given a value to this node.
_GIVEN: Final = frozenset({"flag", "environment", "file"})


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
    run = _import_node()
    from fastnode import log as logs

    settings = resolved.values
    logs.configure(level=settings.log_level, as_json=settings.log_json)
    for warning in resolved.warnings:
        logging.getLogger(__name__).warning(warning)
    given = [name for name, origin in resolved.origins.items() if origin.layer in _GIVEN]
    for need, names in without_effect(settings, given).items():
        logging.getLogger(__name__).warning(
            "settings without effect here", extra=logs.log_facts(names=" ".join(names), need=need)
        )
    run(settings)


def _import_node() -> Callable[[Settings], None]:
    """Imports without garbage collection: modules stay, so the collector would only lose time."""
    gc.disable()
    from fastnode.app.process import run

    gc.enable()
    return run
