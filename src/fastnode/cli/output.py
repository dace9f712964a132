"""Output of commands.  Everything goes through :func:`say`, and the last line of a failure through :func:`fail`."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from fastnode.log import json_event, printable, wants_colours

__all__ = ["duration", "fail", "say", "write_failures_as_json"]

#: True if failures are written to standard error as JSON; for the process, as its log is.
_failures_are_json = False


def say(text: object, *, err: bool = False, colour: str | None = None) -> None:
    """Print a text on stdout or stderr; ``colour``: a name that :func:`click.style` knows, for a terminal.

    Names, paths and answers may come from another node, an archive or a file: their control characters reach no
    terminal.
    """
    plain = printable(str(text))
    is_coloured = colour is not None and wants_colours(sys.stderr if err else sys.stdout)
    click.echo(click.style(plain, fg=colour) if is_coloured else plain, err=err, color=True if is_coloured else None)


def write_failures_as_json() -> None:
    """From here on the last line of a failure is a JSON object, as the lines of the log are."""
    global _failures_are_json
    _failures_are_json = True


def fail(message: str, code: int) -> NoReturn:
    """End the process with ``code`` and one line on standard error."""
    one_line = " ".join(message.split())
    if _failures_are_json:
        say(json_event(one_line, level="error", logger="fastnode.cli", exit_code=code), err=True)
    else:
        say(f"fastnode: error: {one_line}", err=True)
    sys.exit(code)


def duration(seconds: float) -> str:
    """``4:05`` (minutes and seconds), or ``3 h 5 min``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes}:{rest:02}"
