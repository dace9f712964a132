"""The ``fastnode`` command.

Modules here import click and the settings table only; everything heavy is imported inside the
command that needs it, so that ``fastnode --help`` and shell completion answer at once.
"""

from fastnode.cli.app import main

__all__ = ["main"]
