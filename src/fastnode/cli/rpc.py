"""``fastnode rpc METHOD [PARAMS...]``: one call to a running node, printed for people."""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastnode.cli.node_calls import (
    ADMIN_KEY_ENVIRONMENT,
    ADMIN_URL_ENVIRONMENT,
    DEFAULT_ADMIN_URL,
    DEFAULT_URL,
    KEY_ENVIRONMENT,
    URL_ENVIRONMENT,
    call,
    reason_of,
    url_of,
)
from fastnode.cli.output import say
from fastnode.errors import ServerError, StartError
from fastnode.log import printable

if TYPE_CHECKING:
    from rich.syntax import Syntax

__all__ = ["rpc"]

#: In the error of the admin port that wants a key.
UNAUTHORIZED = "Unauthorized"

#: In front of a file's name, as with curl.  No JSON begins with it.
FROM_FILE = "@"

PUBLIC_PREFIX = "node_"
ADMIN_PREFIX = "nodeAdmin_"
#: Others of the admin port.
ADMIN_METHODS = frozenset({"fastnode_registerArtifact"})

_METHOD_NOT_FOUND = -32601
#: In the error of a call with too few of them.
_LACKS_PARAMETERS = ") is required"
_SUGGESTIONS_MAX = 3
#: As difflib counts it: 1 is the same.
_LIKENESS_MIN = 0.75

#: An option that this command does not have; other parameters that begin with a hyphen are numbers.
_OPTION = re.compile(r"(--?[A-Za-z][\w.-]*)(=.*)?", re.DOTALL)
#: Hex digits that are too few for a hash of a block, so that they may be meant for its number.
_HEX_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,8}", re.ASCII)
_BLOCK_PARAMETER = "BlockParam"
#: Prefixes of methods, here and on other nodes.
_NAMESPACES = frozenset({"node", "nodeAdmin", "aztec", "aztecAdmin", "fastnode", "eth", "rpc"})


def _method_names() -> list[str]:
    from fastnode.app.ground.method_documentation import all_methods

    return sorted(method.name for method in all_methods())


def _complete_method(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Completes names of methods; those of ``node_`` methods also without the prefix."""
    names = _method_names()
    bare = [name.removeprefix(PUBLIC_PREFIX) for name in names if name.startswith(PUBLIC_PREFIX)]
    return [name for name in (*names, *bare) if name.startswith(begun)]


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--url",
    metavar="URL",
    help="Where the node is; http:// may be left out.  "
    f"[env: {URL_ENVIRONMENT}, for nodeAdmin_ {ADMIN_URL_ENVIRONMENT}, else SVC_HOST and SVC_PORT; "
    f"default: {DEFAULT_URL}, for nodeAdmin_ {DEFAULT_ADMIN_URL}]",
)
@click.option(
    "--api-key",
    metavar="KEY",
    help=f"Key of a client, or of the admin port.  [env: {KEY_ENVIRONMENT}, for nodeAdmin_ {ADMIN_KEY_ENVIRONMENT}, "
    "which other users of the machine do not see]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    metavar="SECONDS",
    help="How long to wait.  [default: 30]",
)
@click.argument("method", shell_complete=_complete_method)
@click.argument("parameters", metavar="[PARAMS]...", nargs=-1)
@click.pass_context
def rpc(
    context: click.Context,
    method: str,
    parameters: tuple[str, ...],
    url: str | None,
    api_key: str | None,
    timeout: float,
) -> int:
    """Call METHOD of a running node and print the result.

    A parameter is read as JSON if it is JSON and as a string otherwise; @FILE is the JSON in a
    file, @- for that of standard input.  A METHOD without a prefix is one of the node_ methods.

    A string that begins with a hyphen is written as JSON: '"--x"'.

    An error goes to standard error, with exit code 1; so does "nothing found", with exit code 0.

    \b
    fastnode rpc getBlock 42
    fastnode rpc getBlockHeader latest
    fastnode rpc getCheckpointsData '{"from": 1, "limit": 3}'
    fastnode rpc isValidTx @tx.json
    """
    for text in (method, *parameters):
        option = _OPTION.fullmatch(text)
        if option is not None:
            raise click.NoSuchOption(option[1], ctx=context)
    if "_" not in method and "." not in method:
        method = PUBLIC_PREFIX + method
    is_admin = method.startswith(ADMIN_PREFIX) or method in ADMIN_METHODS
    key_name = ADMIN_KEY_ENVIRONMENT if is_admin else KEY_ENVIRONMENT
    key = api_key or os.environ.get(key_name)
    headers = {"x-api-key": key} if key else {}
    answer = call(url_of(url, admin=is_admin), method, [_parameter(text) for text in parameters], headers, timeout)
    if "error" in answer:
        _print_json(answer["error"], error=True)
        if UNAUTHORIZED in str(answer["error"]) and not (key and is_admin):
            is_elsewhere = "" if is_admin else "; is this an admin port? other methods are answered at the public port"
            say(f"the key is taken from --api-key or {key_name}{is_elsewhere}", err=True)
        code = answer["error"].get("code") if isinstance(answer["error"], dict) else None
        if code == _METHOD_NOT_FOUND:
            _suggest(method)
        if len(parameters) == 1 and parameters[0].startswith("[") and _LACKS_PARAMETERS in str(answer["error"]):
            say("parameters are words of their own: leave the brackets around them out", err=True)
        if code == ServerError.code:
            _explain_hex(method, parameters)
        return 1
    if answer.get("result") is None and _explain_hex(method, parameters):
        return 1
    if "result" in answer:
        _print_json(answer["result"])
    else:
        say("nothing found", err=True)
    return 0


def _explain_hex(method: str, parameters: tuple[str, ...]) -> bool:
    """Print what a block with few hex digits means, if a parameter of ``method`` has some; False if none has."""
    for position, text in enumerate(parameters):
        if _HEX_NUMBER.fullmatch(text) and _takes_block(method, position):
            number = int(text, 16)
            say(
                f"{text} is read as the hash of a block, and no block has it; numbers are decimal: for block {number} "
                f"give {number}",
                err=True,
            )
            return True
    return False


def _takes_block(method: str, position: int) -> bool:
    """True if a parameter of a method names a block, by its number among others."""
    from fastnode.app.ground.method_documentation import all_methods

    for known in all_methods():
        if known.name == method:
            signature = known.development or known.release
            kinds = [parameter.type.name for parameter in signature.parameters] if signature else []
            return position < len(kinds) and kinds[position] == _BLOCK_PARAMETER
    return False


def _suggest(method: str) -> None:
    """Suggest methods of the same name in another namespace or spelling, or with a similar name."""
    names = {_plain(name): name for name in _method_names()}
    wanted = _plain(method)
    close = [wanted] if wanted in names else difflib.get_close_matches(wanted, names, _SUGGESTIONS_MAX, _LIKENESS_MIN)
    meant = [names[name] for name in close]
    if meant and method not in meant:
        say(f"did you mean {' or '.join(meant)}?", err=True)


def _plain(method: str) -> str:
    """Name of a method without its namespace, in the same form for getBlock, get_block and GETBLOCK."""
    name = method.replace(".", "_")
    namespace, _, bare = name.partition("_")
    return (bare if bare and namespace in _NAMESPACES else name).replace("_", "").lower()


def _parameter(text: str) -> Any:
    if text.startswith(FROM_FILE):
        return _read_json(text.removeprefix(FROM_FILE))
    try:
        return json.loads(text)
    except ValueError as error:
        if text.startswith(("{", "[")):  # no method takes such a string
            raise click.UsageError(
                f"the parameter {text!r} begins like JSON and is not: {error}", click.get_current_context(silent=True)
            ) from None
        return text


def _read_json(name: str) -> Any:
    """Read JSON from a file; ``-`` is standard input."""
    try:
        return json.loads(sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes())
    except OSError as error:
        raise StartError(f"cannot read {FROM_FILE}{name}: {reason_of(error)}") from error
    except ValueError as error:
        raise StartError(f"{FROM_FILE}{name} holds no JSON: {error}") from error


def _print_json(value: Any, *, error: bool = False) -> None:
    text = printable(json.dumps(value, indent=2, ensure_ascii=False))
    stream = sys.stderr if error else sys.stdout
    if not stream.isatty() or find_spec("rich") is None:
        say(text, err=error)
        return
    from rich.console import Console

    Console(file=stream).print(coloured(text))


def coloured(text: str) -> Syntax:
    """JSON in the terminal's own colours, and of those only the ones that are readable on light and on dark."""
    from pygments.token import Keyword, Name, Number, String
    from rich.style import Style
    from rich.syntax import ANSISyntaxTheme, Syntax

    theme = ANSISyntaxTheme(
        {
            Name.Tag: Style(bold=True),
            String: Style(color="green"),
            Number: Style(color="magenta"),
            Keyword: Style(color="magenta", bold=True),
        }
    )
    return Syntax(text, "json", theme=theme, word_wrap=True)
