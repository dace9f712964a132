"""``fastnode artifact FILE``: give a running node the names of a contract."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from fastnode.cli.node_calls import ADMIN_KEY_ENVIRONMENT, ADMIN_URL_ENVIRONMENT, DEFAULT_ADMIN_URL, call, url_of
from fastnode.cli.output import say
from fastnode.errors import DecodeError, StartError
from fastnode.files import system_reason

__all__ = ["artifact"]


@click.command(short_help="Give a running node the names of a contract.")
@click.option(
    "--url",
    metavar="URL",
    help=f"Where its admin port is; http:// may be left out.  [env: {ADMIN_URL_ENVIRONMENT}; "
    f"default: {DEFAULT_ADMIN_URL}]",
)
@click.option(
    "--api-key",
    metavar="KEY",
    help=f"Key of the admin port.  [env: {ADMIN_KEY_ENVIRONMENT}, which other users do not see]",
)
@click.option("--class-id", metavar="ID", help="Class that the contract must have; also one that is not published.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
def artifact(files: tuple[str, ...], url: str | None, api_key: str | None, class_id: str | None) -> int:
    """Register the artifacts in FILE..., as the compiler writes them: names of functions, events and storage
    in traces, logs and the explorer.

    What is large in them, bytecode and debug symbols, stays here: hashes are sent in its place.

    \b
    fastnode artifact target/token_contract-Token.json
    """
    key = api_key or os.environ.get(ADMIN_KEY_ENVIRONMENT)
    headers = {"x-api-key": key} if key else {}
    for path in files:
        params = [_read(path), *([] if class_id is None else [class_id])]
        answer = call(url_of(url, admin=True), "fastnode_registerArtifact", params, headers, 60.0)
        if "error" in answer:
            error = answer["error"]
            raise StartError(f"{path}: {error.get('message', error) if isinstance(error, dict) else error}")
        found = answer["result"]
        say(
            f"{found['name']}: class {found['classId']}, {found['functions']} functions, {found['events']} events, "
            f"{found['slots']} places of storage, {found['assertions']} texts of assertions"
        )
    return 0


def _read(path: str) -> dict[str, Any]:
    import orjson

    from fastnode.protocol.artifacts import compact_artifact

    try:
        return compact_artifact(orjson.loads(Path(path).read_bytes()))
    except OSError as error:
        raise StartError(f"{path}: {system_reason(Path(path), error)}") from None
    except orjson.JSONDecodeError as error:
        raise StartError(f"{path} is no JSON: {error}") from None
    except DecodeError as error:
        raise StartError(f"{path} is no artifact: {error}") from None
