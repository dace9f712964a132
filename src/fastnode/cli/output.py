"""What commands print.  Everything goes through :func:`say`."""

from __future__ import annotations

import sys

import click

from fastnode.log import printable, wants_colours

__all__ = ["say"]


def say(text: object, *, err: bool = False, colour: str | None = None) -> None:
    """Print a text on stdout or stderr; ``colour``: a name that :func:`click.style` knows, for a terminal.

    Names, paths and answers may come from another node, an archive or a file: their control characters reach no
    terminal.
    """
    plain = printable(str(text))
    is_coloured = colour is not None and wants_colours(sys.stderr if err else sys.stdout)
    click.echo(click.style(plain, fg=colour) if is_coloured else plain, err=err, color=True if is_coloured else None)
