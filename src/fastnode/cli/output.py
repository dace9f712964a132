"""What commands print.  Everything goes through :func:`say`."""

from __future__ import annotations

import click

from fastnode.log import printable

__all__ = ["say"]


def say(text: object, *, err: bool = False) -> None:
    """Print a text on stdout or stderr.

    Names, paths and answers may come from another node, an archive or a file: their control characters reach no
    terminal.
    """
    click.echo(printable(str(text)), err=err)
