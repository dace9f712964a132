"""``fastnode rpc METHOD [PARAMS...]``: one call to a running node, printed for people."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from fastnode.errors import StartError

__all__ = ["rpc"]

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_ADMIN_URL = "http://127.0.0.1:8880"

#: A key on the command line is seen by everybody who lists the processes; in the environment it is not.
KEY_ENVIRONMENT = "FASTNODE_ADMIN_API_KEY"

_THIS_MACHINE = ("127.0.0.1", "localhost")

#: In the error of the admin port that wants a key.
UNAUTHORIZED = "Unauthorized"

#: In front of a file's name, as with curl.  No JSON begins with it.
FROM_FILE = "@"

PUBLIC_PREFIX = "node_"
ADMIN_PREFIX = "nodeAdmin_"


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--url", metavar="URL", help=f"Where the node is.  [default: {DEFAULT_URL}, {DEFAULT_ADMIN_URL} for nodeAdmin_]"
)
@click.option(
    "--api-key",
    envvar=KEY_ENVIRONMENT,
    metavar="KEY",
    help=f"Key of the admin port, sent with nodeAdmin_ methods only.  [env: {KEY_ENVIRONMENT}, which other users "
    "of the machine do not see]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    metavar="SECONDS",
    help="How long to wait.  [default: 30]",
)
@click.argument("method")
@click.argument("parameters", metavar="[PARAMS]...", nargs=-1)
def rpc(method: str, parameters: tuple[str, ...], url: str | None, api_key: str | None, timeout: float) -> int:
    """Call METHOD of a running node and print the result.

    A parameter is read as JSON if it is JSON and as a string otherwise; @FILE stands for the JSON in a
    file, @- for that of standard input.  A METHOD without a prefix is one of the node_ methods.

    An error goes to standard error, with exit code 1; so does "nothing found", with exit code 0.

    \b
    fastnode rpc getBlock 42
    fastnode rpc getBlockHeader latest
    fastnode rpc getCheckpointsData '{"from": 1, "limit": 3}'
    fastnode rpc isValidTx @tx.json
    """
    if "_" not in method:
        method = PUBLIC_PREFIX + method
    is_admin = method.startswith(ADMIN_PREFIX)
    if url is None:
        url = DEFAULT_ADMIN_URL if is_admin else DEFAULT_URL
    headers = {"x-api-key": api_key} if is_admin and api_key else {}
    answer = _call(url, method, [_parameter(text) for text in parameters], headers, timeout)
    if "error" in answer:
        _print_json(answer["error"], error=True)
        if is_admin and not api_key and UNAUTHORIZED in str(answer["error"]):
            click.echo(f"the key of the admin port is taken from --api-key or {KEY_ENVIRONMENT}", err=True)
        return 1
    if "result" in answer:
        _print_json(answer["result"])
    else:
        click.echo("nothing found", err=True)
    return 0


def _parameter(text: str) -> Any:
    if text.startswith(FROM_FILE):
        return _read_json(text.removeprefix(FROM_FILE))
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_json(name: str) -> Any:
    """What a file holds; ``-`` is standard input."""
    try:
        return json.loads(sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes())
    except OSError as error:
        raise StartError(f"cannot read {FROM_FILE}{name}: {_reason(error)}") from error
    except ValueError as error:
        raise StartError(f"{FROM_FILE}{name} holds no JSON: {error}") from error


def _call(url: str, method: str, parameters: list[Any], headers: dict[str, str], timeout: float) -> dict[str, Any]:
    import http.client
    from urllib.error import HTTPError, URLError
    from urllib.request import ProxyHandler, Request, build_opener

    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode()
    try:
        request = Request(url, data=body, headers={"Content-Type": "application/json", **headers})
        if request.type not in ("http", "https"):
            raise StartError(f"--url {url} is not an http or https address")
        # This machine is called directly: a proxy set up for the outside world does not know it.
        proxies = ProxyHandler({} if request.host.partition(":")[0] in _THIS_MACHINE else None)
        with build_opener(proxies).open(request, timeout=timeout) as response:
            content, status = response.read(), response.status
    except HTTPError as error:
        with error:
            content, status = error.read(), error.code
    except URLError as error:
        raise StartError(f"no answer from {url}: {_reason(error.reason)}; is the node running?") from error
    except (OSError, http.client.HTTPException) as error:
        raise StartError(f"no answer from {url}: {_reason(error)}") from error
    except ValueError as error:
        raise StartError(f"--url {url} is not an address: {error}") from error
    return _json_rpc_answer(url, content, status)


def _reason(error: object) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _json_rpc_answer(url: str, content: bytes, status: int) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or answer.get("jsonrpc") != "2.0":
        raise StartError(f"{url} is no JSON-RPC server: it answered HTTP {status}")
    return answer


def _print_json(value: Any, *, error: bool = False) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    stream = sys.stderr if error else sys.stdout
    if not stream.isatty():
        click.echo(text, err=error)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    Console(file=stream).print(Syntax(text, "json", background_color="default", word_wrap=True))
