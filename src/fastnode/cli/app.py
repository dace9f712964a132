"""The root of the command line: its commands, and the one place where errors become exit codes.

Exit codes: 0 done; 1 a command failed for a reason that its one line on standard error tells;
2 the command line itself is wrong; 70 a bug; 78 a setting is bad; 130 interrupted.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Final, NoReturn, TextIO, cast

import click

from fastnode import __version__
from fastnode.cli.advice import advice_for_command, advice_for_extra_word, advice_for_option, similar_options
from fastnode.cli.output import fail, say
from fastnode.errors import FastnodeError, StartError

__all__ = ["main", "root"]

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_BUG = 70  # EX_SOFTWARE of sysexits.h
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells count

#: Environment name of --debug, for places where the command line is out of reach.
_DEBUG_ENVIRONMENT = "FASTNODE_DEBUG"

#: In ``Context.meta``: the words of the command line.
_WORDS: Final = "fastnode.words"

#: Dashes that text programs make of two hyphens: an en dash, an em dash.
_DASHES: Final = "\u2013\u2014"
#: In click's message about an argument too many, or several.
_EXTRA_WORD: Final = re.compile(r"unexpected extra arguments? \((\S+?)[ )]")
_SWITCH_VALUES: Final = frozenset({"true", "false", "yes", "no", "on", "off", "0", "1"})

#: Module of each command in this package, and its name there.  Only the command that is called is imported.
_PLACES: Final = {
    "start": ("start", "start"),
    "local-network": ("start", "local_network"),
    "import": ("chain", "import_chain"),
    "export": ("chain", "export_chain"),
    "status": ("status", "status"),
    "rpc": ("rpc", "rpc"),
    "trace": ("trace", "trace"),
    "artifact": ("artifact", "artifact"),
    "openrpc": ("openrpc", "openrpc"),
    "db": ("chain", "database"),
    "snapshot": ("snapshot", "snapshot"),
    "proofs": ("proofs", "proofs"),
    "fleet": ("fleet", "fleet"),
    "migrate-ha-db": ("ha", "migrate_ha_database"),
    "config": ("config", "config"),
    "completion": ("completion", "completion"),
}


class _Commands(Mapping[str, click.Command]):
    """The commands of the table, each imported when it is looked up."""

    def __getitem__(self, name: str) -> click.Command:
        module, attribute = _PLACES[name]
        command: click.Command = getattr(import_module(f"fastnode.cli.{module}"), attribute)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from fastnode import kernels

    python = ".".join(map(str, sys.version_info[:3]))
    say(f"fastnode {__version__} (kernel {kernels.poseidon2.kernel_name()}, Python {python})")
    context.exit()


class _Root(click.Group):
    """Keeps the words that it was called with, for advice where they are no good."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_WORDS] = tuple(args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        advice = None if not args or args[0] in self.commands else advice_for_command(args[0])
        if advice is not None:
            raise click.UsageError(f"No such command {args[0]!r}: {advice}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version, the hashing kernel and the Python in use.",
)
@click.option("--debug", is_flag=True, help=f"Show a traceback when something fails.  [env: {_DEBUG_ENVIRONMENT}]")
def root(debug: bool) -> None:
    """A fast node for the Aztec network."""
    if debug:
        os.environ[_DEBUG_ENVIRONMENT] = "1"


root.commands = cast(MutableMapping[str, click.Command], _Commands())


def main() -> NoReturn:
    """Runs the command line and ends the process."""
    _occupy_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what no locale of this machine can write is no reason to end
            stream.reconfigure(errors="backslashreplace")
    try:
        result = root.main(prog_name="fastnode", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        # A group without its command: the help, in full, is the answer.
        say(error.format_message(), err=True)
        sys.exit(EXIT_USAGE)
    except click.UsageError as error:
        fail(_usage_message(error), EXIT_USAGE)
    except click.ClickException as error:
        fail(error.format_message(), EXIT_FAILED)
    except (click.Abort, KeyboardInterrupt):
        fail("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away (`fastnode ... | head`): leave without a word, and keep
        # the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
    except FastnodeError as error:
        _show_traceback_if_wanted()
        fail(str(error), error.exit_code if isinstance(error, StartError) else EXIT_FAILED)
    except Exception as error:  # noqa: BLE001 - the last line of defence: a bug, reported as one
        wanted = _show_traceback_if_wanted()
        from fastnode.extras import advice_for

        known = advice_for(error) or _database_failure(error) or _full_disk(error) or _denied(error)
        if known is not None:
            fail(known, EXIT_FAILED)
        if not wanted:
            fail(f"internal error: {_shown(error)} (a bug; --debug shows where)", EXIT_BUG)
        sys.exit(EXIT_BUG)
    sys.exit(result if isinstance(result, int) else 0)


def _occupy_closed_streams() -> None:
    """A standard stream that was closed (``>&-``): no socket or database may get its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    errors: TextIO | None = sys.stderr
    if errors is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _usage_message(error: click.UsageError) -> str:
    """Click's sentence on one line, and where to read more."""
    if isinstance(error, click.NoSuchOption):
        from fastnode.config.former_names import advice_for_flag

        advice = advice_for_flag(error.option_name)
        if advice is not None:
            return f"{error.option_name} is not a setting any more; {advice}"
        message = f"no such option {error.option_name}"
        meant = similar_options(error.option_name, error.possibilities or ())
        advice = advice_for_option(error.option_name, error.ctx)
        if advice is not None:
            message += f": {advice}"
        elif meant:
            message += f"; did you mean {' or '.join(meant)}?"
    else:
        message = error.format_message().rstrip(".")
        message += _advice_for_words(message, error.ctx)
    command = error.ctx.command_path if error.ctx is not None else "fastnode"
    return f"{message} (see {command} --help)"


def _advice_for_words(message: str, context: click.Context | None) -> str:
    """Advice for words that were meant as options or their values; empty if there is none."""
    words: tuple[str, ...] = context.meta.get(_WORDS, ()) if context else ()
    for word in words:
        if word[:1] in _DASHES:
            return f"; {word} begins with a dash, not with hyphens: write --{word.lstrip(_DASHES + '-')}"
    options = [option for option in context.command.params if isinstance(option, click.Option)] if context else []
    switches = {name for option in options if option.is_flag for name in (*option.opts, *option.secondary_opts)}
    for name, word in pairwise(words):
        if name in switches and word.lower() in _SWITCH_VALUES:
            return f"; {name} is a switch: it takes no value"
    extra = _EXTRA_WORD.search(message)
    return "" if extra is None else advice_for_extra_word(extra[1], context)


def _shown(error: Exception) -> str:
    """Without what it was about to write, which may be a key."""
    return (
        f"{type(error).__name__}({error.reason!r})"
        if isinstance(error, UnicodeEncodeError | UnicodeDecodeError)
        else repr(error)
    )


def _database_failure(error: Exception) -> str | None:
    """Message for an error of LevelDB that no reader expected; None for other errors."""
    plyvel = sys.modules.get("plyvel")  # there can be no such error before it is imported
    if plyvel is None or not isinstance(error, plyvel.Error):
        return None
    from fastnode.storage.database import reason_of

    return f"a database cannot be read: {reason_of(error)}; fastnode db check tells whether it is damaged, and which"


def _full_disk(error: Exception) -> str | None:
    """Message for a disk or a quota that is full; None for other errors."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"what this command writes has no room: {error.strerror}"
    return None


def _denied(error: Exception) -> str | None:
    """Message for a file that this user may not use, and whose it is; None for other errors."""
    if not isinstance(error, PermissionError) or not isinstance(error.filename, str):
        return None
    from fastnode.files import system_reason

    return f"{error.filename} cannot be used: {system_reason(Path(error.filename), error)}"


def _show_traceback_if_wanted() -> bool:
    wanted = os.environ.get(_DEBUG_ENVIRONMENT) == "1"
    if wanted:
        import traceback

        traceback.print_exc()
    return wanted
