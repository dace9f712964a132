"""The root of the command line: its commands, and the one place where errors become exit codes.

Exit codes: 0 done; 1 a command failed for a reason that its one line on standard error tells;
2 the command line itself is wrong; 70 a bug; 78 a setting is bad; 130 interrupted.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from itertools import pairwise
from typing import Final, NoReturn, TextIO, cast

import click

from fastnode import __version__
from fastnode.cli.output import say
from fastnode.errors import ChainFileError, FastnodeError, SettingError

__all__ = ["main", "root"]

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_BUG = 70  # EX_SOFTWARE of sysexits.h
EXIT_SETTINGS = 78  # EX_CONFIG of sysexits.h: trying again changes nothing
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells count

#: Environment name of --debug, for places where the command line is out of reach.
_DEBUG_ENVIRONMENT = "FASTNODE_DEBUG"

#: Commands that log, and the names of the environment that make their lines JSON.
_LOGGING: Final = (["start"], ["import"], ["export"], ["db"])
_LOG_JSON: Final = ("SVC_LOG_JSON", "LOG_JSON")

#: What text programs make of two hyphens: an en dash, an em dash.
_DASHES: Final = "\u2013\u2014"
_SWITCH_VALUES: Final = frozenset({"true", "false", "yes", "no", "on", "off", "0", "1"})

#: Where each command is: its module in this package, and its name there.  Only the command that is called is imported.
_PLACES: Final = {
    "start": ("start", "start"),
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


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
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
        _fail(_usage_message(error), EXIT_USAGE)
    except click.ClickException as error:
        _fail(error.format_message(), EXIT_FAILED)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away (`fastnode ... | head`): leave without a word, and keep
        # the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
    except FastnodeError as error:
        _show_traceback_if_wanted()
        _fail(str(error), _code_of(error))
    except Exception as error:  # noqa: BLE001 - the last line of defence: a bug, reported as one
        wanted = _show_traceback_if_wanted()
        from fastnode.extras import advice_for

        known = advice_for(error) or _database_failure(error) or _full_disk(error)
        if known is not None:
            _fail(known, EXIT_FAILED)
        if not wanted:
            _fail(f"internal error: {_shown(error)} (a bug; --debug shows where)", EXIT_BUG)
        sys.exit(EXIT_BUG)
    sys.exit(result if isinstance(result, int) else 0)


def _code_of(error: FastnodeError) -> int:
    """A file that a start was told to read is a setting, whatever is wrong with it."""
    is_of_settings = isinstance(error, SettingError) or (isinstance(error, ChainFileError) and "start" in sys.argv[1:2])
    return EXIT_SETTINGS if is_of_settings else EXIT_FAILED


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
        from fastnode.config.renamed import advice_for_flag

        advice = advice_for_flag(error.option_name)
        if advice is not None:
            return f"{error.option_name} is not a setting any more; {advice}"
        message = f"no such option {error.option_name}"
        if error.possibilities:
            message += f"; did you mean {' or '.join(sorted(error.possibilities))}?"
    else:
        message = error.format_message().rstrip(".") + _advice_for_words(error.ctx)
    command = error.ctx.command_path if error.ctx is not None else "fastnode"
    return f"{message} (see {command} --help)"


def _advice_for_words(context: click.Context | None) -> str:
    """What to write instead of words that were meant as options or their values."""
    for word in sys.argv[1:]:
        if word[:1] in _DASHES:
            return f"; {word} begins with a dash, not with hyphens: write --{word.lstrip(_DASHES + '-')}"
    options = [option for option in context.command.params if isinstance(option, click.Option)] if context else []
    switches = {name for option in options if option.is_flag for name in (*option.opts, *option.secondary_opts)}
    for name, word in pairwise(sys.argv):
        if name in switches and word.lower() in _SWITCH_VALUES:
            return f"; {name} is a switch: it takes no value"
    return ""


def _shown(error: Exception) -> str:
    """Without what it was about to write, which may be a key."""
    return (
        f"{type(error).__name__}({error.reason!r})"
        if isinstance(error, UnicodeEncodeError | UnicodeDecodeError)
        else repr(error)
    )


def _database_failure(error: Exception) -> str | None:
    """What to say of an error of LevelDB that no reader expected; None for other errors."""
    plyvel = sys.modules.get("plyvel")  # there can be no such error before it is imported
    if plyvel is None or not isinstance(error, plyvel.Error):
        return None
    from fastnode.storage.database import reason_of

    return f"a database cannot be read: {reason_of(error)}; fastnode db check tells whether it is damaged, and which"


def _full_disk(error: Exception) -> str | None:
    """What to say where nothing more can be written; None for other errors."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"what this command writes has no room: {error.strerror}"
    return None


def _show_traceback_if_wanted() -> bool:
    wanted = os.environ.get(_DEBUG_ENVIRONMENT) == "1"
    if wanted:
        import traceback

        traceback.print_exc()
    return wanted


def _fail(message: str, code: int) -> NoReturn:
    one_line = " ".join(message.split())
    if _logs_json():
        from fastnode.log import json_event

        say(json_event(one_line, level="error", logger="fastnode.cli", exit_code=code), err=True)
    else:
        say(f"fastnode: error: {one_line}", err=True)
    sys.exit(code)


def _logs_json() -> bool:
    """Whether who reads the log reads JSON.  The settings may be what is wrong, so only this one is looked for."""
    if sys.argv[1:2] not in _LOGGING or "--no-log-json" in sys.argv:
        return False
    return "--log-json" in sys.argv or any(os.environ.get(name) in ("1", "true") for name in _LOG_JSON)
